"""What the faces talk to: the bridge for a legacy server, the way through for a modern one.

The choice falls before the first request is served, or when a session is refused by a server that knows none; a
request that met that refusal is served through after all.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bridge.era import Era, can_be_modern
from bridge.passthrough import PassThrough
from bridge.pool import Pool
from bridge.serving import Bridge
from modern.envelope import Request
from modern.errors import ProtocolError
from modern.serving import Handler, Leg


class Front:
    """A `modern.serving.Handler`."""

    def __init__(self, bridge: Bridge) -> None:
        target = bridge.pool.target
        self._bridge = bridge
        self._era = Era(bridge.server, target, lambda: any(group.channels for group in bridge.pool.groups.values()))
        self._through = PassThrough(bridge.server, target) if can_be_modern(target) else None
        bridge.pool.found_modern = self._era.found

    # -- modern.serving.Handler ---------------------------------------------------------------------------------------

    async def serve(self, request: Request, leg: Leg) -> dict[str, Any]:
        if self._through is None:
            return await self._bridge.serve(request, leg)
        if await self._era.decide():
            return await self._through.serve(request, leg)
        try:
            return await self._bridge.serve(request, leg)
        except ProtocolError:
            if not self._era.modern:
                raise
            return await self._through.serve(request, leg)

    def mirrored_parameters(self, request: Request) -> Mapping[str, Any] | None:
        return self._handler.mirrored_parameters(request)

    async def learn_tools(self, request: Request) -> None:
        await self._era.decide()
        await self._handler.learn_tools(request)

    def judged(self) -> bool:
        """Whether versions, methods and parameters are for us to judge."""
        return not self._era.modern

    @property
    def _handler(self) -> Handler:
        return self._through if self._through is not None and self._era.modern else self._bridge

    @property
    def pool(self) -> Pool:
        """The sessions with a legacy server."""
        return self._bridge.pool

    # -- for `bridge.app` ---------------------------------------------------------------------------------------------

    async def sweep(self) -> None:
        await self._bridge.sweep()

    async def look(self) -> None:
        """Find out early what is there."""
        await self._era.decide()

    async def ready(self) -> str | None:
        return None if self._era.modern else await self._bridge.ready()

    def trouble(self) -> str | None:
        return None if self._era.modern else self._bridge.trouble()

    def stop_listening(self) -> None:
        self._bridge.stop_listening()
        if self._through is not None:
            self._through.stop_listening()

    def give_up(self) -> None:
        self._bridge.give_up()
        if self._through is not None:
            self._through.give_up()

    async def close(self) -> None:
        """End everything, in bounded time."""
        if self._through is not None:
            await self._through.close()
        await self._bridge.close()
