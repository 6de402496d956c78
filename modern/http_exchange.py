"""One request of the HTTP face while it is served: who watches for its client's leaving, and its event stream.

The handler runs in the server's own task for the request, so an answer that comes at once costs no task. Two tasks
may join it: a *watcher* that waits for the client's disconnect, begun after a moment, and a *pump* that writes the
event stream, begun by the first notification or by silence. This module uses asyncio's tasks directly, on the hot
path; both are owned by the exchange and joined before it ends. Rules: [basic/transports/streamable-http, Receiving
Messages, Cancellation].
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, MutableMapping
from types import TracebackType
from typing import Any, Final, Protocol

from modern.backlog import Backlog, Verdict
from modern.faults import log
from modern.wire import encode, notification_message

_STREAM_HEADERS: Final = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
]
_KEPT_ALIVE: Final = {"type": "http.response.body", "body": b":\r\n\r\n", "more_body": True}
"""A comment."""
_LARGEST_WRITE: Final = 256 * 1024


class Gone(Exception):
    """The client has left; nothing more may be written."""


class _Times(Protocol):
    @property
    def keep_alive(self) -> float: ...
    @property
    def silence_before_sse(self) -> float: ...
    @property
    def watch_after(self) -> float: ...
    @property
    def max_queued(self) -> int: ...


class Exchange:
    """A leg over HTTP; an async context manager around all that is done for it.

    Invariants: ``_gone`` is set before our own task is cancelled by us, and only while the body of the ``async with``
    runs, so on the way out a cancellation is ours exactly if it is set and nobody else has asked for one. ``send`` is
    used by the pump alone once there is one.
    """

    __slots__ = (
        "_backlog",
        "_cors",
        "_ended",
        "_final",
        "_gone",
        "_loop",
        "_may_stream_since",
        "_method",
        "_open",
        "_pump",
        "_queue",
        "_receive",
        "_send",
        "_silence",
        "_task",
        "_tick",
        "_times",
        "_wake",
        "_watcher",
    )

    def __init__(
        self,
        times: _Times,
        receive: Callable[[], Awaitable[MutableMapping[str, Any]]],
        send: Callable[[MutableMapping[str, Any]], Awaitable[None]],
        cors: list[tuple[bytes, bytes]],
        method: str,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._loop = loop
        self._times, self._receive, self._send, self._cors, self._method = times, receive, send, cors, method
        self._gone = self._ended = self._open = False
        self._may_stream_since: float | None = None
        self._final: bytes | None = None
        self._watcher: asyncio.Task[None] | None = None
        self._pump: asyncio.Task[None] | None = None
        self._silence: asyncio.TimerHandle | None = None
        self._backlog: Backlog | None = None

    @property
    def streaming(self) -> bool:
        return self._pump is not None

    @property
    def dropped(self) -> int:
        return 0 if self._backlog is None else self._backlog.dropped

    # -- what the face does --------------------------------------------------------------------------------------

    async def __aenter__(self) -> Exchange:
        task = asyncio.current_task(self._loop)
        assert task is not None, "an ASGI application runs in a task"
        self._task = task
        self._tick = self._loop.call_later(self._times.watch_after, self._begin_watching)
        self._open = True
        return self

    def may_stream(self) -> None:
        """From now on no error can come up that needs an HTTP status, so silence may begin a stream."""
        self._may_stream_since = self._loop.time()
        if self._watcher is not None:
            self._await_silence()

    def end(self) -> None:
        """The handler is done: nothing but its answer goes out from here on.

        Raises:
            Gone: the client left, and the handler answered in spite of the cancellation.
        """
        self._ended = True
        if self._gone:
            raise Gone

    async def finish(self, data: bytes) -> None:
        """Send the response as the stream's last event, after everything that is queued."""
        assert self._pump is not None
        self._final = data
        self._wake.set()
        await asyncio.shield(self._pump)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open, self._ended = False, True
        self._tick.cancel()
        if self._silence is not None:
            self._silence.cancel()
        if self._watcher is not None or self._pump is not None:
            await self._join()
        if self._gone:
            # Ours, unless the server is shutting down as well: then its cancellation stays and goes on.
            if self._task.uncancel() > 0:
                raise asyncio.CancelledError
            raise Gone from error

    # -- what the handler does -----------------------------------------------------------------------------------

    def notify(self, method: str, params: dict[str, Any]) -> None:
        if self._ended:
            return
        try:
            data = encode(notification_message(method, params))
        except ValueError:
            log.error("a %s for %s has no form in JSON and was dropped", method, self._method)
            return
        if self._pump is None:
            self._begin_stream()
        assert self._backlog is not None
        match self._backlog.judge(method, data):
            case Verdict.QUEUE:
                self._queue.append(data)
                self._wake.set()
            case Verdict.END:
                log.warning("the client of a %s stream does not read; the stream is ended", self._method)
                self._leave()

    # -- the tasks that may join ---------------------------------------------------------------------------------

    def _begin_watching(self) -> None:
        self._watcher = self._loop.create_task(self._watch())
        if self._may_stream_since is not None:
            self._await_silence()

    def _await_silence(self) -> None:
        assert self._may_stream_since is not None
        self._silence = self._loop.call_at(self._may_stream_since + self._times.silence_before_sse, self._begin_stream)

    def _begin_stream(self) -> None:
        if self._pump is None and self._open:
            self._backlog = Backlog(self._times.max_queued)
            self._queue: deque[bytes] = deque()
            self._wake = asyncio.Event()
            self._pump = self._loop.create_task(self._stream())

    async def _watch(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self._leave()

    def _leave(self) -> None:
        """The client has left, or is to be treated so: stop what runs for it."""
        if self._open and not self._gone:
            self._gone = self._ended = True
            self._task.cancel()

    async def _stream(self) -> None:
        try:
            start = {"type": "http.response.start", "status": 200, "headers": [*_STREAM_HEADERS, *self._cors]}
            await self._send(start)
            if not self._queue and self._final is None:  # some servers and proxies send no headers before a body
                await self._send(_KEPT_ALIVE)
            while True:
                if self._queue:
                    await self._send({"type": "http.response.body", "body": self._next_events(), "more_body": True})
                elif self._final is not None:
                    await self._send({"type": "http.response.body", "body": _event(self._final)})
                    return
                else:
                    await self._quiet()
        except OSError:  # how some servers say that the client is gone
            self._leave()

    def _next_events(self) -> bytes:
        assert self._backlog is not None
        events, size = [], 0
        while self._queue and size < _LARGEST_WRITE:
            data = self._queue.popleft()
            self._backlog.left(data)
            events.append(_event(data))
            size += len(data)
        return b"".join(events)

    async def _quiet(self) -> None:
        """Wait for something to send; keep the connection from looking dead."""
        self._wake.clear()
        try:
            async with asyncio.timeout(self._times.keep_alive):
                await self._wake.wait()
        except TimeoutError:
            await self._send(_KEPT_ALIVE)

    async def _join(self) -> None:
        """End the helpers and wait for them; a fault in one of them is ours to show, not to lose."""
        helpers = [task for task in (self._watcher, self._pump) if task is not None]
        for task in helpers:
            task.cancel()
        await asyncio.wait(helpers)
        for task in helpers:
            if not task.cancelled() and (fault := task.exception()) is not None and not self._gone:
                raise fault


def _event(data: bytes) -> bytes:
    return b"event: message\r\ndata: " + data + b"\r\n\r\n"
