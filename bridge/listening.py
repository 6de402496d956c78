"""Subscription streams of 2026-07-28 over what an old server announces on its own [basic/patterns/subscriptions].

A stream is a `subscriptions/listen` request that stays open; list changes and resource updates of the group's sessions
go to every stream that asked for them. A resource is subscribed at the old server for the first stream that wants it,
unsubscribed after the last, and subscribed again when a lost session has been replaced.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import anyio

from legacy.errors import SessionClosed
from legacy.messages import Reply, Result
from modern import listen
from modern.envelope import Request
from modern.serving import Leg

if TYPE_CHECKING:
    from bridge.group import Group

PATIENCE = 10.0
"""Seconds that the server gets to take up a subscription."""


class Listening:
    """The open streams of one group.

    Invariant: ``_wanted`` counts, for each URI, the open streams that were acknowledged for it.
    """

    def __init__(self, group: Group) -> None:
        self._group = group
        self._streams: dict[object, tuple[listen.Filter, str | int, Leg]] = {}
        self._wanted: Counter[str] = Counter()

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
                if self._wanted[uri] or await self._subscribe(uri):
                    self._wanted[uri] += 1
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

    def session_opened(self) -> None:
        """A session was opened: the first of a group that lost its only one has to be told what is wanted."""
        if len(self._group.channels) == 1:
            for uri in self._wanted:
                self._send("resources/subscribe", uri)

    async def _subscribe(self, uri: str) -> bool:
        session = await self._group.ready()
        return isinstance(await session.request("resources/subscribe", {"uri": uri}, timeout=PATIENCE), Result)

    def _send(self, method: str, uri: str) -> None:
        session = self._group.primary
        if session is None:
            return
        try:
            session.send(method, {"uri": uri}, _unheard)
        except SessionClosed:
            return  # its replacement is told by `session_opened`


def _unheard(reply: Reply) -> None:
    """What becomes of an unsubscription changes nothing for anybody."""
