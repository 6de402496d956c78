"""Which era the wrapped server is of: asked once, before the first session, and told once.

Only a server behind a URL is asked (`legacy.discovery`), and only if the operator did not say what is spoken there: one
that speaks 2026-07-28, perhaps besides an older revision, is served through as it is (`bridge.passthrough`). One that
turns out to know no handshake is found later, when a session with it is refused (`legacy.errors.ModernServer`).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TypeGuard

import anyio

from bridge.settings import Server
from bridge.version import CLIENT_INFO
from legacy.discovery import discover
from legacy.errors import ModernServer
from legacy.targets import AppTarget, HttpTarget, Limits, Target

log = logging.getLogger("mrtr.bridge")

ASK_AGAIN = 5.0
"""Seconds until a server that could not be asked is asked once more."""


def can_be_modern(target: Target) -> TypeGuard[HttpTarget]:
    """Whether the server could be served through. One in this process is there to be wrapped."""
    return isinstance(target, HttpTarget) and not isinstance(target, AppTarget)


class Era:
    """What is known of it.

    Invariant: once ``modern``, always; `decide` asks only while nothing is known.
    """

    def __init__(self, server: Server, target: Target, sessions: Callable[[], bool]) -> None:
        self.modern = False
        self._sessions = sessions
        """Whether there are any: then it is too late, since calls may be suspended in them."""
        self._server = server
        self._target = target
        self._known = not (can_be_modern(target) and target.transport == "auto")
        self._asked_at = float("-inf")
        self._lock = anyio.Lock()

    async def decide(self) -> bool:
        """Whether the server is modern, as far as can be told now."""
        if not self._known:
            async with self._lock:
                await self._ask()
        return self.modern

    def found(self, error: ModernServer) -> None:
        """A session was refused because the server is modern."""
        if can_be_modern(self._target):
            self._served_through(error.supported)
        else:
            log.error("%s", error)

    def _served_through(self, versions: tuple[str, ...]) -> None:
        if not self.modern:
            self.modern = self._known = True
            log.info(
                "the server %s speaks %s itself: it is served through as it is",
                self._server.target.name,
                ", ".join(versions),
            )

    async def _ask(self) -> None:
        target = self._target
        if not can_be_modern(target) or time.monotonic() - self._asked_at < ASK_AGAIN:
            return
        self._known = self._known or self._sessions()
        if self._known:
            return
        limits = Limits(start=self._server.limits.start)
        versions = await discover(
            target, CLIENT_INFO, limits, logging.getLogger(f"mrtr.server.{self._server.target.name}")
        )
        self._asked_at = time.monotonic()
        if versions:
            self._served_through(versions)
        self._known = versions is not None
