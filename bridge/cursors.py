"""Pagination cursors of an old server, sealed before a client gets them [server/utilities/pagination].

A cursor means something only to the session that made it. So it is bound, as a ``requestState`` is, to that session,
to the principal and to the list; one of another, or of a session that is gone, is an error and not somebody else's
page.
"""

from __future__ import annotations

from typing import Final

from bridge.keyring import Box, BoxError, KeyRing
from modern.errors import INVALID_PARAMS, ProtocolError

LISTS: Final = frozenset({"prompts/list", "resources/list", "resources/templates/list", "tools/list"})
LONGEST: Final = 64 * 1024
"""Characters of a sealed cursor."""


class Cursors:
    """Seals and opens cursors under a key ring, for one process."""

    __slots__ = ("_box", "_instance")

    def __init__(self, ring: KeyRing, instance: bytes) -> None:
        self._box = Box(ring, "cursor")
        self._instance = instance

    def seal(self, cursor: str, *, session: str, principal: str, method: str) -> str:
        """What the client gets in the place of the server's ``cursor``."""
        return self._box.seal(cursor.encode("utf-8", "surrogatepass"), self._bound(session, principal, method))

    def open(self, sealed: str, *, session: str, principal: str, method: str) -> str:
        """The server's own cursor.

        Raises:
            ProtocolError: -32602, whatever is wrong with it.
        """
        try:
            content, _ = self._box.open(sealed, self._bound(session, principal, method), longest=LONGEST)
        except BoxError:
            why = "Invalid params: this cursor is not, or no longer, valid; start the list again without one."
            raise ProtocolError(INVALID_PARAMS, why) from None
        return content.decode("utf-8", "surrogatepass")

    def _bound(self, session: str, principal: str, method: str) -> bytes:
        words = (session, principal, method)
        return self._instance + b"".join(b"%d:%b" % (len(w.encode()), w.encode()) for w in words)
