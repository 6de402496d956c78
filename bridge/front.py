"""What the faces talk to: the bridge for a legacy server, the way through for a modern one.

Which one it is turns out when the first session is opened (`legacy.handshake`), with the first request: that one, and
all that follow, are served accordingly. Nothing but a session that is going to be used is begun for it, since some
old servers can have just one.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from bridge.group import Moved
from bridge.passthrough import PassThrough
from bridge.pool import Pool
from bridge.reach import can_be_modern
from bridge.serving import Bridge
from legacy.errors import ModernServer
from modern.envelope import Request, judge
from modern.errors import ProtocolError
from modern.serving import Handler, Leg
from modern.tasks import METHODS

log = logging.getLogger("mrtr.bridge")


class Front:
    """A `modern.serving.Handler`.

    Invariant: once ``modern``, always.
    """

    def __init__(self, bridge: Bridge) -> None:
        target = bridge.pool.target
        self.modern = False
        self._bridge = bridge
        self._through = PassThrough(bridge.server, target) if can_be_modern(target) else None
        bridge.pool.found_modern = self._found

    # -- modern.serving.Handler ---------------------------------------------------------------------------------------

    async def serve(self, request: Request, leg: Leg) -> dict[str, Any]:
        await self._find_out(request)
        return await self._handler.serve(request, leg)

    def mirrored_parameters(self, request: Request) -> Mapping[str, Any] | None:
        return self._handler.mirrored_parameters(request)

    async def learn_tools(self, request: Request) -> None:
        await self._find_out(request)
        await self._handler.learn_tools(request)

    @property
    def judged(self) -> Callable[[Request], Awaitable[bool]] | None:
        """For the faces: what says whether a request is judged there; None: it always is."""
        return None if self._through is None else self._is_judged

    async def _is_judged(self, request: Request) -> bool:
        try:
            await self._find_out(request)
        except ProtocolError:
            judge(request)  # what is wrong with the request is said first
            raise
        return not self.modern

    async def _find_out(self, request: Request) -> None:
        if self._through is None or self.modern or self._bridge.pool.found.legacy:
            return
        try:
            await self._bridge.open_session(request)
        except Moved:
            return
        except ProtocolError:
            if not self.modern and _needs_session(request):
                raise  # rather than start the server once more

    def _found(self, error: ModernServer) -> None:
        if self._through is None:
            log.error("%s", error)
        elif not self.modern:
            self.modern = True
            log.info(
                "the server %s speaks %s itself: it is served through as it is",
                self._bridge.server.target.name,
                ", ".join(error.supported),
            )

    @property
    def _handler(self) -> Handler:
        return self._through if self._through is not None and self.modern else self._bridge

    @property
    def pool(self) -> Pool:
        """The sessions with a legacy server."""
        return self._bridge.pool

    # -- for `bridge.app` ---------------------------------------------------------------------------------------------

    async def sweep(self) -> None:
        """Look after deadlines, until cancelled."""
        await self._bridge.sweep()

    async def ready(self) -> str | None:
        """See `Bridge.ready`."""
        return None if self.modern else await self._bridge.ready()

    def trouble(self) -> str | None:
        """See `Bridge.trouble`."""
        return None if self.modern else self._bridge.trouble()

    def stop_listening(self) -> None:
        """End the subscription streams gracefully."""
        self._bridge.stop_listening()
        if self._through is not None:
            self._through.stop_listening()

    def give_up(self) -> None:
        """Fail what still runs."""
        self._bridge.give_up()
        if self._through is not None:
            self._through.give_up()

    async def close(self) -> None:
        """End everything, in bounded time."""
        if self._through is not None:
            await self._through.close()
        await self._bridge.close()


def _needs_session(request: Request) -> bool:
    """Whether the bridge could not serve it without one; calls that go on and tasks have theirs, or are over."""
    return request.params.get("requestState") is None and request.method not in METHODS
