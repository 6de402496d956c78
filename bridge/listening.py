"""Subscription streams of 2026-07-28 over what an old server announces on its own [basic/patterns/subscriptions].

A stream is a `subscriptions/listen` request that stays open; list changes and resource updates of the group's sessions
go to every stream that asked for them. A resource is subscribed at the old server for the first stream that wants it,
unsubscribed after the last, and subscribed again when a lost session has been replaced.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import anyio

from legacy.errors import SessionClosed
from legacy.messages import Reply, Result
from legacy.session import Session
from modern import listen
from modern.envelope import Request
from modern.errors import ProtocolError
from modern.serving import Leg

if TYPE_CHECKING:
    from bridge.group import Group

CHANGES = tuple(f"notifications/{what}/list_changed" for what in ("tools", "prompts", "resources"))
PATIENCE = 10.0
"""Seconds that the server gets to take up a subscription."""


class Listening:
    """The open streams of one group.

    Invariant: ``_wanted`` counts, for each URI, the open streams that were acknowledged for it; the server of
    ``_holder`` has been told of each.
    """

    def __init__(self, group: Group, spawn: Callable[..., None]) -> None:
        self._group = group
        self._spawn = spawn
        self._streams: dict[object, tuple[listen.Filter, str | int, Leg]] = {}
        self._wanted: Counter[str] = Counter()
        self._holder: Session | None = None
        self._one_by_one = anyio.Lock()
        """Two streams that want the same URI subscribe it once, and in order with its unsubscription."""
        self._restoring = False

    def __bool__(self) -> bool:
        return bool(self._streams)

    async def serve(self, request: Request, leg: Leg, closing: anyio.Event) -> dict[str, Any]:
        """Keep a stream open until its client or, by ``closing``, this side ends it; the closing result."""
        wanted = listen.Filter.read(request.params)
        session = await self._group.ready()
        honoured, taken = wanted.supported(session.capabilities), []
        key = object()
        try:
            for uri in honoured.resources:
                if await self._take(uri):
                    taken.append(uri)
            honoured = honoured.only(taken)
            leg.notify(listen.ACKNOWLEDGED, listen.acknowledgement(request.id, honoured))
            self._streams[key] = honoured, request.id, leg
            await closing.wait()
            return listen.closing(request.id)
        finally:
            self._streams.pop(key, None)
            for uri in taken:
                self._wanted[uri] -= 1
                if not self._wanted[uri]:
                    del self._wanted[uri]
                    self._send("resources/unsubscribe", uri)

    def publish(self, method: str, params: dict[str, Any]) -> None:
        """Bring a notification of the server's to the streams that asked for it."""
        for filter_, stream, leg in list(self._streams.values()):
            if filter_.admits(method, params):
                leg.notify(method, listen.stamped(stream, params))

    # -- sessions that come and go ------------------------------------------------------------------------------------

    def session_opened(self, session: Session) -> None:
        """The session takes over what one that was lost had subscribed."""
        if self._holder is None:
            self._hand_over(session)

    def session_gone(self, session: Session) -> None:
        """The session has ended; nothing may be missed for that while a stream is open."""
        if session is not self._holder:
            return
        self._holder = None
        if (other := self._group.primary) is not None:
            self._hand_over(other)
        elif self and not self._restoring:
            self._restoring = True
            self._spawn(self._restore)

    def _hand_over(self, session: Session) -> None:
        self._holder = session
        for uri in self._wanted:
            self._send("resources/subscribe", uri)
        # Whatever changed meanwhile nobody has told us: let every client look for itself.
        for method in CHANGES:
            self.publish(method, {})
        for uri in self._wanted:
            self.publish(listen.UPDATED, {"uri": uri})

    async def _restore(self) -> None:
        """Have a session again, as long as anybody listens."""
        pause = 1.0
        try:
            while self:
                try:
                    await self._group.ready()
                    return
                except ProtocolError:
                    await anyio.sleep(pause)
                    pause = min(2 * pause, 30.0)
        finally:
            self._restoring = False

    # -- resources ----------------------------------------------------------------------------------------------------

    async def _take(self, uri: str) -> bool:
        """Count one more stream for a URI, after the server was told of it; whether the server took it."""
        async with self._one_by_one:
            if not self._wanted[uri]:
                session = self._holder or await self._group.ready()
                self._holder = session
                reply = await session.request("resources/subscribe", {"uri": uri}, timeout=PATIENCE)
                if not isinstance(reply, Result):
                    return False
            self._wanted[uri] += 1
            return True

    def _send(self, method: str, uri: str) -> None:
        if self._holder is None:
            return
        try:
            self._holder.send(method, {"uri": uri}, _unheard)
        except SessionClosed:
            return  # `session_gone` sees to it


def _unheard(reply: Reply) -> None:
    """What becomes of an unsubscription changes nothing for anybody."""
