"""Calls kept apart by their client's roots (``--roots per-call``).

Over HTTP two workspaces of one principal look the same until somebody asks for their roots, and an old server that asks
outside calls knows one set of roots for a whole session. So each call whose client has roots first asks for them, one
round more, and runs on sessions whose server knows these roots and no others. *Not* here: what a server is told of
roots (`bridge.roots`, `bridge.startup`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from hashlib import blake2b
from typing import Any

from pydantic_core import to_json

from bridge.group import Group
from legacy.messages import Ask

Find = Callable[[dict[str, Any] | None], Awaitable[Group]]
"""From a client's roots (None: it has none after all) to the group that serves it."""


class Workspace:
    """What one call asks its client before anybody knows where it will run."""

    __slots__ = ("_find", "_roots", "ask")

    def __init__(self, find: Find, now: float) -> None:
        self.ask = Ask("roots/list", {}, server_id="", request_id=None, at=now)
        """On the bridge's own account: no server waits for it."""
        self._find = find
        self._roots: dict[str, Any] | None = None

    def answered(self, roots: dict[str, Any]) -> None:
        self._roots = roots

    async def group(self) -> Group:
        """Where the call runs, ready for it.

        Raises:
            ProtocolError: no session could be had there.
        """
        return await self._find(self._roots)


def workspace_of(roots: dict[str, Any]) -> str:
    """A name for these roots, as long for one as for a thousand."""
    listed = roots.get("roots")
    entries = sorted(to_json(entry) for entry in listed) if isinstance(listed, list) else []
    return blake2b(b"\n".join(entries), digest_size=16).hexdigest()
