"""What `server/discover` says of an old server [server/discover]: what it declared in its handshake, and what it could
not.

A server of 2024-11-05 had no way to declare completions: whether it has them is tried, once in a session. Many servers
log without having declared it, as the Python SDK lets them; whoever logs must say so [server/utilities/logging,
Capabilities], and from the first message on it is said for them.
"""

from __future__ import annotations

from typing import Any, Final
from weakref import WeakKeyDictionary

import anyio

from bridge.deprecation import Feature
from bridge.group import Group
from bridge.plain import PlainRequest
from bridge.translate import capabilities
from bridge.version import NAME, VERSION
from legacy.messages import Failure, Lost
from legacy.session import Session
from modern.envelope import SUPPORTED_VERSIONS
from modern.errors import METHOD_NOT_FOUND, ProtocolError

BRIDGE_KEY: Final = "mrtr-bridge/bridge"
"""Under this key of ``_meta`` stands what is before the server."""
PATIENCE: Final = 3.0
"""Seconds that a server gets to say that it has no completions; one that says nothing counts as having none."""
_EMPTY: Final = {"ref": {"type": "ref/prompt", "name": ""}, "argument": {"name": "", "value": ""}}


class Discovery:
    """Remembers, for each session, what had to be tried."""

    __slots__ = ("_completes", "_trying")

    def __init__(self) -> None:
        self._completes: WeakKeyDictionary[Session, bool] = WeakKeyDictionary()
        self._trying: WeakKeyDictionary[Session, anyio.Lock] = WeakKeyDictionary()

    async def of(self, group: Group) -> dict[str, Any]:
        """The result, but for what every result has.

        Raises:
            ProtocolError: no session could be had.
        """
        session = await group.ready()
        able = capabilities.discover(
            session.capabilities,
            session.protocol_version,
            streams=session.unlabelled,
            completions=await self._has_completions(group, session),
        )
        if group.deprecations.was_used(Feature.LOGGING):
            able.setdefault("logging", {})
        found: dict[str, Any] = {
            "supportedVersions": list(SUPPORTED_VERSIONS),
            "capabilities": able,
            "_meta": {BRIDGE_KEY: {"name": NAME, "version": VERSION}},
        }
        if session.instructions is not None:
            found["instructions"] = session.instructions
        return found

    async def _has_completions(self, group: Group, session: Session) -> bool | None:
        declared = session.capabilities
        if session.protocol_version != "2024-11-05" or not ("prompts" in declared or "resources" in declared):
            return None
        async with self._trying.setdefault(session, anyio.Lock()):
            known = self._completes.get(session)
            if known is None:
                known = self._completes[session] = await _completes(group)
        return known


async def _completes(group: Group) -> bool:
    try:
        reply = await PlainRequest("completion/complete", _EMPTY).ask(group, PATIENCE)
    except ProtocolError:
        return False
    return not isinstance(reply, Lost) and not (isinstance(reply, Failure) and reply.code == METHOD_NOT_FOUND)
