"""What an old server has been asked to watch: ``resources/subscribe``, counted [2025-11-25 server/resources].

A URI is subscribed for the first stream that wants it and unsubscribed after the last, on the session that the streams
listen to. Old servers handle requests side by side (over HTTP each is a POST of its own), so an order on our side is
none on theirs: there is at most one request about a URI under way, and when it is answered the next is whatever brings
the server to what is wanted by then.

Not here: the streams (`bridge.listening`).
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from enum import Enum

import anyio

from legacy.errors import SessionClosed
from legacy.messages import Lost, Reply, Result
from legacy.session import Session

log = logging.getLogger("mrtr.listening")

PATIENCE = 5.0
"""Seconds that the server gets to take up, or to give up, a subscription."""
AT_ONCE = 16
"""Requests about subscriptions that a server has before it at a time."""


class _At(Enum):
    """What the server does about a URI, as far as we know."""

    NOT = "not watched"
    WATCHED = "watched"
    UNSURE = "asked to watch it, without an answer"


class Watch:
    """One URI. Invariant: it is in its `Watching` while a stream wants it or the server may watch it."""

    __slots__ = ("_heard", "at", "busy", "lapsed", "refused", "uri", "wanted")

    def __init__(self, uri: str) -> None:
        self.uri = uri
        self.wanted = 0
        """Streams that want it."""
        self.at = _At.NOT
        self.refused = False
        """The server would not, or did not say that it does; until somebody wants it anew."""
        self.busy = False
        """A request about it is under way, or about to be."""
        self.lapsed = False
        """Streams rely on it, and the session on which it was watched is gone."""
        self._heard = anyio.Event()

    @property
    def taken(self) -> bool:
        """Whether the server has said that it watches it."""
        return self.at is _At.WATCHED

    async def settled(self) -> None:
        """Until the server has answered, one way or the other."""
        while not self.taken and not self.refused:
            await self._heard.wait()

    def heard(self) -> None:
        """Let those who wait look again."""
        heard, self._heard = self._heard, anyio.Event()
        heard.set()


class Watching:
    """The watches of one group, on one session at a time.

    Invariant: a watch whose server does not do what is wanted is ``busy``, or ``refused``, or there is no session.
    """

    def __init__(
        self, spawn: Callable[..., None], restored: Callable[[str], None], refused: Callable[[str], None]
    ) -> None:
        self._spawn = spawn
        self._restored = restored
        """Called with a URI that was watched on a lost session, when it is watched again."""
        self._refused = refused
        """Called with such a URI when the server will not watch it again."""
        self._watches: dict[str, Watch] = {}
        self._session: Session | None = None
        self._queue: deque[Watch] = deque()
        self._workers = 0

    def __len__(self) -> int:
        return len(self._watches)

    def add(self, uri: str) -> Watch:
        """Count one more stream that wants ``uri``; `Watch.settled` tells when the server has answered."""
        watch = self._watches.get(uri)
        if watch is None:
            watch = self._watches[uri] = Watch(uri)
        watch.wanted += 1
        watch.refused = False
        self._look_at(watch)
        return watch

    def release(self, watch: Watch) -> None:
        """One stream less."""
        watch.wanted -= 1
        if not watch.wanted:
            watch.lapsed = False
            self._look_at(watch)

    def move(self, session: Session | None) -> None:
        """From now on the server is reached by this session, where nothing is watched yet; None: there is none."""
        self._session = session
        for watch in list(self._watches.values()):
            watch.lapsed = watch.lapsed or (watch.taken and watch.wanted > 0)
            watch.at = _At.NOT
            self._look_at(watch)

    def taken(self) -> list[str]:
        """What the server watches."""
        return [watch.uri for watch in self._watches.values() if watch.taken]

    def _look_at(self, watch: Watch) -> None:
        if watch.busy:
            return  # it is looked at again when that is over
        if self._session is not None and not self._session.closed and self._next(watch) is not None:
            watch.busy = True
            self._queue.append(watch)
            if self._workers < AT_ONCE:
                self._workers += 1
                self._spawn(self._work)
        elif not watch.wanted:
            self._watches.pop(watch.uri, None)

    @staticmethod
    def _next(watch: Watch) -> str | None:
        """What the server has to be told about it, if anything."""
        if watch.wanted:
            return None if watch.taken or watch.refused else "resources/subscribe"
        return None if watch.at is _At.NOT else "resources/unsubscribe"

    async def _work(self) -> None:
        """Bring the server to what is wanted, watch after watch; raises nothing."""
        try:
            while self._queue:
                watch = self._queue.popleft()
                try:
                    await self._bring(watch)
                except Exception as error:  # one fault must not end what all sessions run in
                    log.error("a resource is not watched for a fault of the bridge", exc_info=error)
                    watch.refused = True
                    watch.heard()
                finally:
                    watch.busy = False
                self._look_at(watch)
        finally:
            self._workers -= 1

    async def _bring(self, watch: Watch) -> None:
        while (session := self._session) is not None and (method := self._next(watch)) is not None:
            try:
                reply: Reply = await session.request(method, {"uri": watch.uri}, timeout=PATIENCE)
            except SessionClosed:
                return  # `move` comes, unless everything ends
            if session is not self._session:
                continue
            if method == "resources/unsubscribe":
                watch.at = _At.NOT
                continue
            if isinstance(reply, Result):
                watch.at = _At.WATCHED
            else:
                watch.at = _At.UNSURE if isinstance(reply, Lost) else _At.NOT
                watch.refused = watch.wanted > 0
                how = "did not answer" if isinstance(reply, Lost) else "refused"
                log.warning("a resource is not watched: the server %s resources/subscribe", how)
            watch.heard()
            lapsed, watch.lapsed = watch.lapsed, False
            if lapsed and watch.wanted:
                (self._restored if watch.taken else self._refused)(watch.uri)
