"""Pagination cursors of an old server, sealed before a client gets them [server/utilities/pagination].

A cursor means something only to the session that made it. So it is bound, as a ``requestState`` is, to that session,
to the principal and to the list; one of another, or of a session that is gone, is an error and not somebody else's
page. The same cursor is sealed to the same text, so that clients can keep a page under it [server/utilities/caching,
Cache Key], and notice one that comes again.

An empty cursor is a cursor. But some old servers write one on every page, or give one that leads to the same page again
and again, and old clients mostly stopped there; clients of 2026-07-28 must not. So a cursor carries a digest of the
page it came with: if it leads to that page and to itself, the list has ended.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from typing import Any, Final

from pydantic_core import to_json

from bridge.keyring import Box, BoxError, KeyRing
from modern.errors import INVALID_PARAMS, ProtocolError

LISTS: Final = {
    "prompts/list": "prompts",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
    "tools/list": "tools",
}
"""The methods that have pages, and where their results have the items."""
LONGEST: Final = 2 * 1024 * 1024
"""Characters of a sealed cursor; a whole request has at most twice as many."""
_DIGEST: Final = 8


class Cursors:
    """Seals and opens cursors under a key ring, for one process."""

    __slots__ = ("_box", "_instance")

    def __init__(self, ring: KeyRing, instance: bytes) -> None:
        self._box = Box(ring, "cursor")
        self._instance = instance

    def seal(self, cursor: str, page: bytes, *, session: str, principal: str, method: str) -> str:
        """What the client gets in the place of the server's ``cursor``, which came with ``page``, a digest."""
        content = page + cursor.encode("utf-8", "surrogatepass")
        return self._box.seal(content, self._bound(session, principal, method), stable=True)

    def open(self, sealed: str, *, session: str, principal: str, method: str) -> tuple[str, bytes]:
        """The server's own cursor, and the digest of the page that it came with.

        Raises:
            ProtocolError: -32602, whatever is wrong with it.
        """
        try:
            content, _ = self._box.open(sealed, self._bound(session, principal, method), longest=LONGEST)
        except BoxError:
            why = "Invalid params: this cursor is not, or no longer, valid; start the list again without one."
            raise ProtocolError(INVALID_PARAMS, why) from None
        return content[_DIGEST:].decode("utf-8", "surrogatepass"), content[:_DIGEST]

    def _bound(self, session: str, principal: str, method: str) -> bytes:
        words = (session, principal, method)
        return self._instance + b"".join(b"%d:%b" % (len(w.encode()), w.encode()) for w in words)


class Page:
    """One request for a page, whichever session serves it in the end."""

    __slots__ = ("_anywhere", "_cursor", "_cursors", "_digest", "_method", "_principal", "_sealed", "_session")

    def __init__(
        self, cursors: Cursors, principal: str, method: str, sealed: object, *, anywhere: bool = False
    ) -> None:
        self._cursors = cursors
        self._principal = principal
        self._method = method
        self._sealed = sealed
        self._anywhere = anywhere
        """Whether each page goes to whichever session is free: then a cursor of one has to be good for all."""
        self._session = ""
        self._cursor: str | None = None
        self._digest = b""

    def asked_of(self, session: str) -> dict[str, str]:
        """The params that name the page to this session's server.

        Raises:
            ProtocolError: -32602: the cursor is not this session's.
        """
        self._session = "" if self._anywhere else session
        if not isinstance(self._sealed, str):
            return {}
        bound = {"session": self._session, "principal": self._principal, "method": self._method}
        self._cursor, self._digest = self._cursors.open(self._sealed, **bound)
        return {"cursor": self._cursor}

    def turned(self, result: Mapping[str, Any]) -> dict[str, Any]:
        """The server's result with a cursor that is good for the client, or none if the list has ended."""
        made = dict(result)
        cursor = made.get("nextCursor")
        if cursor is None:
            made.pop("nextCursor", None)  # some servers write null, which is no cursor
        if not isinstance(cursor, str):
            return made
        items = LISTS[self._method]
        digest = blake2b(to_json(made.get(items)), digest_size=_DIGEST).digest()
        if (cursor, digest) == (self._cursor, self._digest):
            del made["nextCursor"]
            made[items] = []
            return made
        bound = {"session": self._session, "principal": self._principal, "method": self._method}
        made["nextCursor"] = self._cursors.seal(cursor, digest, **bound)
        return made
