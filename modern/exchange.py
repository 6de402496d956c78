"""One HTTP request on its way to its response: JSON as long as nothing else is needed, SSE from then on.

A response is one JSON object until there is a reason for a stream: a notification to deliver, or so long a silence that a
proxy might cut the connection [basic/transports/streamable-http, Receiving Messages]. Only until then can an error have an
HTTP status of its own. The client's disconnect cancels the request [ibid., Cancellation].

This is the hot path, so it uses the event loop's own tasks: the handler runs in the task that the HTTP server made for the
request, and the two helpers (one that waits for the disconnect, one that writes the stream) are only started when the
answer does not come at once. Both belong to the exchange and have ended when `Exchange.run` returns.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import Any

from modern.errors import INTERNAL_ERROR, ProtocolError
from modern.wire import encode, error_message, notification_message, result_message

log = logging.getLogger("mrtr.modern")

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]

MOST_QUEUED = 1024
"""Notifications that wait for a slow client; further ones are dropped."""
JSON_TYPE = (b"content-type", b"application/json")
STREAM_HEADERS: Headers = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
]


@dataclass(frozen=True, slots=True)
class Times:
    """In seconds."""

    notice: float = 0.05
    """How long an answer may take before we begin to look whether the client is still there."""
    silence: float = 5.0
    """How long a response may be silent before it becomes a stream."""
    keep_alive: float = 15.0
    """Between two comments on a silent stream."""


class Exchange:
    """A `modern.serving.Leg` over one HTTP response.

    Invariants: the response is started at most once; nothing is sent after the client has gone or `run` has returned.
    """

    __slots__ = (
        "_dropped",
        "_ended",
        "_extra",
        "_gone",
        "_id",
        "_pump",
        "_queue",
        "_receive",
        "_send",
        "_task",
        "_times",
        "_wake",
        "_watch",
        "streaming",
    )

    def __init__(self, id_: str | int, receive: Receive, send: Send, extra: Headers, times: Times) -> None:
        self.streaming = False
        self._id = id_
        self._receive = receive
        self._send = send
        self._extra = extra
        self._times = times
        self._queue: deque[bytes] = deque()
        self._dropped = 0
        self._ended = self._gone = False
        self._wake: asyncio.Event | None = None
        self._task: asyncio.Task[Any] | None = None
        self._pump: asyncio.Task[None] | None = None
        self._watch: asyncio.Task[None] | None = None

    # -- Leg ----------------------------------------------------------------------------------------------------------

    def notify(self, method: str, params: dict[str, Any]) -> None:
        if self._ended or self._gone:
            return
        if len(self._queue) >= MOST_QUEUED:
            self._dropped += 1
            return
        self._queue.append(_event(notification_message(method, params)))
        self._help()
        assert self._wake is not None
        self._wake.set()

    # -- the course of an exchange ------------------------------------------------------------------------------------

    async def run(self, serve: Callable[[], Awaitable[dict[str, Any]]]) -> None:
        """Answer the request with what ``serve`` comes to."""
        self._task = asyncio.current_task()
        notice = asyncio.get_running_loop().call_later(self._times.notice, self._help)
        try:
            status, message = await self._outcome(serve)
            notice.cancel()
            await self._finish(status, message)
        except asyncio.CancelledError:
            if not self._gone or self._task is None:
                raise
            self._task.uncancel()  # it was the client's leaving, which ends here
        finally:
            notice.cancel()
            self._ended = True
            await self._join()

    async def _outcome(self, serve: Callable[[], Awaitable[dict[str, Any]]]) -> tuple[int, dict[str, Any]]:
        try:
            return 200, result_message(self._id, await serve())
        except ProtocolError as error:
            return error.status, error_message(self._id, error)
        except Exception as error:
            return 200, error_message(self._id, fault(error))

    async def _finish(self, status: int, message: dict[str, Any]) -> None:
        self._ended = True
        if self._pump is not None and (self.streaming or self._queue):
            assert self._wake is not None
            self._wake.set()
            await asyncio.wait([self._pump])
        await self._stop_watching()
        if self._dropped:
            log.warning("%d notifications were dropped for a client that reads slowly", self._dropped)
        if self.streaming:
            await self._send({"type": "http.response.body", "body": _event(message)})
        else:
            await respond(self._send, status, encode(message), [JSON_TYPE, *self._extra])

    def _help(self) -> None:
        """Start the helpers, once."""
        if self._watch is not None or self._ended:
            return
        loop = asyncio.get_running_loop()
        self._wake = asyncio.Event()
        self._watch = loop.create_task(self._watch_client())
        self._pump = loop.create_task(self._write_stream())

    async def _watch_client(self) -> None:
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                break
        self._gone = True
        if self._task is not None:
            self._task.cancel()

    async def _write_stream(self) -> None:
        """Write what is queued, comments in between; ends when the exchange has ended and the queue is empty."""
        assert self._wake is not None
        while not self._gone:
            if not self._queue:
                if self._ended:
                    return
                self._wake.clear()
                wait = self._times.keep_alive if self.streaming else self._times.silence
                try:
                    async with asyncio.timeout(wait):
                        await self._wake.wait()
                except TimeoutError:
                    await self._start_stream()
                    await self._chunk(b":\n\n")
                continue
            await self._start_stream()
            batch = b"".join(self._queue)
            self._queue.clear()
            await self._chunk(batch)

    async def _start_stream(self) -> None:
        if not self.streaming:
            self.streaming = True
            headers = [*STREAM_HEADERS, *self._extra]
            await self._send({"type": "http.response.start", "status": 200, "headers": headers})

    async def _chunk(self, body: bytes) -> None:
        await self._send({"type": "http.response.body", "body": body, "more_body": True})

    async def _stop_watching(self) -> None:
        if self._watch is not None and not self._watch.done():
            self._watch.cancel()
            await asyncio.wait([self._watch])

    async def _join(self) -> None:
        helpers = [helper for helper in (self._watch, self._pump) if helper is not None]
        for helper in helpers:
            helper.cancel()
        if helpers:
            await asyncio.wait(helpers)
        for helper in helpers:
            if not helper.cancelled() and (error := helper.exception()) is not None:
                log.warning("a response could not be written: %s", type(error).__name__)


def fault(error: Exception) -> ProtocolError:
    """The error of a request that failed for a fault of ours; what exactly goes to the log, without any value."""
    log.error("a request failed for a fault of ours", exc_info=error)
    return ProtocolError(INTERNAL_ERROR, "The server failed to serve this request; its log says where.")


async def respond(send: Send, status: int, body: bytes, headers: Headers) -> None:
    """One whole response."""
    headers = [*headers, (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _event(message: dict[str, Any]) -> bytes:
    return b"event: message\ndata: " + encode(message) + b"\n\n"
