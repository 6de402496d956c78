"""Which era the wrapped server is of: asked once, before the first session, and told once.

Only a server behind a URL is asked (`legacy.discovery`), and only if the operator did not say what is spoken there: one
that speaks 2026-07-28, perhaps besides an older revision, is served through as it is (`bridge.passthrough`). One that
turns out to know no handshake is found later, when a session with it is refused (`legacy.errors.ModernServer`).
"""

from __future__ import annotations

import logging
import time

import anyio

from bridge.settings import Server
from bridge.version import CLIENT_INFO
from legacy.discovery import discover
from legacy.errors import ModernServer
from legacy.targets import HttpTarget, Limits, Target

log = logging.getLogger("mrtr.bridge")

ASK_AGAIN = 5.0
"""Seconds until a server that could not be asked is asked once more."""


class Era:
    """What is known of it.

    Invariant: once ``modern``, always; `decide` asks only while nothing is known.
    """

    def __init__(self, server: Server, target: Target) -> None:
        self.modern = False
        self._server = server
        self._target = target
        self._known = not isinstance(target, HttpTarget) or target.transport != "auto"
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
        if isinstance(self._target, HttpTarget):
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
        if self._known or not isinstance(target, HttpTarget) or time.monotonic() - self._asked_at < ASK_AGAIN:
            return
        limits = Limits(start=self._server.limits.start)
        versions = await discover(
            target, CLIENT_INFO, limits, logging.getLogger(f"mrtr.server.{self._server.target.name}")
        )
        self._asked_at = time.monotonic()
        if versions:
            self._served_through(versions)
        self._known = versions is not None
