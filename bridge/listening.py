"""Subscription streams of 2026-07-28 over what an old server announces on its own [basic/patterns/subscriptions].

A stream is a `subscriptions/listen` request that stays open; list changes and resource updates of the group's sessions
go to every stream that asked for them, after its acknowledgement. What a stream was promised holds as long as it is
open: when a session is lost while anybody listens, another is started, its server asked to watch the same resources,
and the clients told that everything may have changed; if the server will not watch one of them again, its streams are
ended rather than left waiting for what cannot come.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING, Any

import anyio

from bridge.watching import PATIENCE, Watch, Watching
from legacy.session import Session
from modern import listen
from modern.envelope import Request
from modern.errors import ProtocolError
from modern.serving import Leg

if TYPE_CHECKING:
    from bridge.group import Group

SELDOM = 30.0
"""Seconds between two times that clients are told to look for themselves because a stream of the server's was cut."""
CHANGES = tuple(f"notifications/{what}/list_changed" for what in ("tools", "prompts", "resources"))


class _Stream:
    """One open `subscriptions/listen`."""

    __slots__ = ("ended", "filter", "id", "leg", "opening", "watches")

    def __init__(self, request: Request, leg: Leg) -> None:
        self.id = request.id
        self.leg = leg
        self.filter: listen.Filter | None = None
        """What was acknowledged; None until then."""
        self.watches: list[Watch] = []
        self.opening = anyio.CancelScope()
        """Around what has to be waited for before the acknowledgement."""
        self.ended = anyio.Event()

    def end(self) -> None:
        self.opening.cancel()
        self.ended.set()


class Listening:
    """The open streams of one group.

    Invariant: each stream counts once in `Watching` for each URI that it waits for or was promised.
    """

    def __init__(self, group: Group, spawn: Callable[..., None]) -> None:
        self._group = group
        self._spawn = spawn
        self._streams: dict[_Stream, None] = {}
        self._watching = Watching(spawn, self._restored, self._refused)
        self._holder: Session | None = None
        """The session that the streams listen to, among all that are open: where resources are watched."""
        self._restoring = False
        self._about_to_tell = False
        self._told_at = -inf
        self._closing = False

    def __bool__(self) -> bool:
        return bool(self._streams)

    async def serve(
        self, request: Request, leg: Leg, task_ids: tuple[str, ...] = (), begin: Callable[[], None] = lambda: None
    ) -> dict[str, Any]:
        """Keep a stream open until its client or this side ends it; the closing result. ``task_ids`` are promised with
        the rest; ``begin`` is called when that was done."""
        asked = listen.Filter.read(request.params)
        session = await self._group.ready()
        stream = _Stream(request, leg)
        self._streams[stream] = None
        try:
            honoured = asked.supported(session.capabilities, pushes=session.unlabelled)
            stream.watches = [self._watching.add(uri) for uri in honoured.resources]
            if self._closing:
                stream.end()
            with stream.opening, anyio.move_on_after(PATIENCE):
                for watch in stream.watches:
                    await watch.settled()
            for watch in stream.watches:
                if not watch.taken:
                    self._watching.release(watch)
            stream.watches = [watch for watch in stream.watches if watch.taken]
            stream.filter = replace(honoured.only(watch.uri for watch in stream.watches), tasks=task_ids)
            leg.notify(listen.ACKNOWLEDGED, listen.acknowledgement(stream.id, stream.filter))
            begin()
            await stream.ended.wait()
            return listen.closing(stream.id)
        finally:
            del self._streams[stream]
            for watch in stream.watches:
                self._watching.release(watch)

    def publish(self, method: str, params: dict[str, Any]) -> None:
        """Bring a notification of the server's to the streams that asked for it."""
        for stream in list(self._streams):
            if stream.filter is not None and stream.filter.admits(method, params):
                stream.leg.notify(method, listen.stamped(stream.id, params))

    def end(self) -> None:
        """End every stream, also those to come: the process is about to [Graceful Closure]."""
        self._closing = True
        self.end_all()

    def end_all(self) -> None:
        """End the streams that there are, whose clients may listen again; they are served elsewhere from now on."""
        for stream in list(self._streams):
            stream.end()

    # -- sessions that come and go ------------------------------------------------------------------------------------

    def session_opened(self, session: Session) -> None:
        """The session takes over what one that was lost had to watch."""
        if self._holder is None:
            self._hand_over(session)

    def session_gone(self, session: Session) -> None:
        """The session has ended; nothing may be missed for that while a stream is open."""
        if session is not self._holder:
            return
        if (other := self._group.primary) is not None:
            self._hand_over(other)
            return
        self._holder = None
        self._watching.move(None)
        if self and not self._restoring:
            self._restoring = True
            self._spawn(self._restore)

    def _hand_over(self, session: Session) -> None:
        self._holder = session
        self._watching.move(session)
        self._look_again()

    def interrupted(self, session: Session) -> None:
        """The session goes on, but what its server announced for a while did not arrive."""
        if session is self._holder and self and not self._about_to_tell:
            self._about_to_tell = True
            self._spawn(self._tell_interruption)

    async def _tell_interruption(self) -> None:
        """At once if it is the first for a while: some servers end a stream as soon as it is open, again and again."""
        await anyio.sleep(max(0.0, self._told_at + SELDOM - anyio.current_time()))
        self._about_to_tell = False
        self._told_at = anyio.current_time()
        self._look_again()
        for uri in self._watching.taken():
            self.publish(listen.UPDATED, {"uri": uri})

    def _look_again(self) -> None:
        """Whatever changed meanwhile nobody has told us: let every client look for itself."""
        for method in CHANGES:
            self.publish(method, {})

    def _restored(self, uri: str) -> None:
        """Told only now, since what changes before the server watches is not announced."""
        self.publish(listen.UPDATED, {"uri": uri})

    def _refused(self, uri: str) -> None:
        for stream in list(self._streams):
            if any(watch.uri == uri for watch in stream.watches):
                stream.end()

    async def _restore(self) -> None:
        """Have a session again, as long as anybody listens."""
        pause = 1.0
        try:
            while self and not self._closing:
                try:
                    await self._group.ready()
                    return
                except ProtocolError:
                    await anyio.sleep(pause)
                    pause = min(2 * pause, 30.0)
        finally:
            self._restoring = False
