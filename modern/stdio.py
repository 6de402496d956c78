"""The stdio face [basic/transports/stdio]: one JSON object a line, requests side by side, one channel for all.

Rules: a client cancels by ``notifications/cancelled``, after which nothing more is written for that id; the end of
stdin, or of whoever reads stdout, ends everything that runs, in bounded time; a subscription that ends from this side,
also for that reason, is told so by its result and then by ``notifications/cancelled`` [basic/patterns/cancellation]; a
client that does not read cannot make memory grow: notifications are bounded as in `modern.backlog`, and nothing is read
while answers pile up.

This is a hot path, so requests run in asyncio's own tasks. The face owns them: they are kept in one set, cancelled at
the end and waited for, at most `StdioSettings.end_within` seconds.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import anyio

from modern.backlog import Backlog, Verdict
from modern.envelope import Notification, Request, judge, read, read_id
from modern.errors import INTERNAL_ERROR, INVALID_REQUEST, ProtocolError
from modern.faults import because, internal_error, log
from modern.lines import MAX_LINE, Lines
from modern.pipes import Sink, Source, as_found, kept_clean, open_sink, open_source
from modern.serving import Handler, Leg
from modern.wire import decode, encode, error_message, notification_message, result_message

LISTEN = "subscriptions/listen"


@dataclass(frozen=True, slots=True)
class StdioSettings:
    """How much is taken, and what is waited for; times in seconds."""

    max_line: int = MAX_LINE
    """Bytes of one message."""
    max_depth: int = 64
    """Levels of nesting in the JSON."""
    max_running: int = 4096
    """Requests that may run at once; further ones are refused."""
    max_queued: int = 1024
    """Notifications of one request that may wait for a client that reads slowly."""
    max_unsent: int = 8 * 1024 * 1024
    """Bytes that may wait for the client before nothing more is read from it."""
    ready: Callable[[], Awaitable[str | None]] | None = None
    """Awaited before ``initialize`` is refused: a client that gave up on a slow probe comes with it next, and probes
    again only after that refusal."""
    closing: Callable[[], None] | None = None
    """Called when the face ends, before what runs is cancelled: the handler ends its subscription streams."""
    judged: Callable[[Request], Awaitable[bool]] | None = None
    """Asked, if given, whether a request's version, method and parameters are judged here; if not, they are the
    handler's business."""
    end_within: float = 5.0
    """What running requests get to end after stdin has."""
    flush_within: float = 1.0
    """What the client gets after that to read what is left."""
    principal: str = "anonymous"


async def serve_stdio(
    handler: Handler, settings: StdioSettings | None = None, *, stdin: int = 0, stdout: int = 1
) -> None:
    """Serve the client at these file descriptors until it closes stdin, or nobody reads stdout."""
    settings = settings or StdioSettings()
    face = _Face(handler, settings)
    with as_found(stdin, stdout), kept_clean(stdout) as out:
        sink = face.sink = await open_sink(out, face.send_waiting, face.broken)
        source: Source | None = None
        try:
            source = face.source = await open_source(stdin, face.received, face.ended.set)
            await face.ended.wait()
        finally:
            if source is not None:
                source.close()
            with anyio.CancelScope(shield=True):
                await face.finish()
                await sink.close(settings.flush_within)


class _Leg:
    """One request of the client."""

    __slots__ = ("_face", "backlog", "cancelled", "ended", "id", "method", "overrun", "task")

    def __init__(self, face: _Face, id: str | int, method: str, limit: int) -> None:
        self._face, self.id, self.method = face, id, method
        self.backlog = Backlog(limit)
        self.ended = False
        """No more notifications."""
        self.cancelled = False
        """By the client: nothing at all any more."""
        self.overrun = False
        """Ended by us: the client reads too slowly for what it subscribed to."""
        self.task: asyncio.Task[None] | None = None

    def notify(self, method: str, params: dict[str, Any]) -> None:
        if not self.ended:
            self._face.notify(self, method, params)


class _Face:
    """What runs for one client.

    Invariants: a request is in ``_running`` by its id (7 and "7" are different ids) until it is answered or cancelled;
    ``_waiting`` holds, in order, what the sink had no room for, and ``_unsent`` is its size.
    """

    sink: Sink
    source: Source | None = None

    def __init__(self, handler: Handler, settings: StdioSettings) -> None:
        self.ended = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._handler, self._settings = handler, settings
        self._lines = Lines(settings.max_line)
        self._running: dict[str | int, _Leg] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._waiting: deque[tuple[bytes, _Leg | None, bool]] = deque()
        self._unsent = 0
        self._stopping = False
        self._drained = asyncio.Event()
        self._drained.set()

    # -- in ------------------------------------------------------------------------------------------------------------

    def received(self, data: bytes) -> None:
        if self._stopping:
            return
        for line in self._lines.feed(data):
            if line is None:
                self._refuse(None, ProtocolError(INVALID_REQUEST, "Invalid request: the message is too long."))
            elif line.strip():
                self._message(line)

    def _message(self, line: bytes) -> None:
        body: Any = None
        try:
            body = decode(line, self._settings.max_depth)
            message = read(body, judged=self._settings.judged is None)
        except ProtocolError as error:
            self._rejected(body, error)
            return
        if isinstance(message, Notification):
            if message.method == "notifications/cancelled":
                self._cancel(message.params.get("requestId"))
            return
        message.principal = self._settings.principal
        leg = _Leg(self, message.id, message.method, self._settings.max_queued)
        judged = self._settings.judged
        serve = self._handler.serve
        self._start(leg, lambda: serve(message, leg) if judged is None else _judged(judged, serve, message, leg))

    def _rejected(self, body: Any, error: ProtocolError) -> None:
        id, ready = read_id(body), self._settings.ready
        if isinstance(body, dict):
            if id is not None and body.get("method") == "initialize" and ready is not None:
                leg = _Leg(self, id, "initialize", 0)
                self._start(leg, lambda: _refuse_when_ready(ready, error))
                return
            if "id" not in body and isinstance(body.get("method"), str):
                return  # a malformed notification; nobody answers a notification
        self._refuse(id, error)

    def _cancel(self, id: Any) -> None:
        leg = self._running.pop(id, None) if type(id) is int or type(id) is str else None
        if leg is not None:
            leg.cancelled = leg.ended = True
            assert leg.task is not None
            leg.task.cancel()

    # -- running -------------------------------------------------------------------------------------------------------

    def _start(self, leg: _Leg, work: Callable[[], Awaitable[dict[str, Any]]]) -> None:
        if leg.id in self._running:
            self._refuse(leg.id, _invalid("a request with this id is still running"))
        elif len(self._running) >= self._settings.max_running:
            self._refuse(leg.id, _invalid("too many requests are running"))
        else:
            self._running[leg.id] = leg
            leg.task = self._loop.create_task(self._serve(leg, work))
            self._tasks.add(leg.task)
            leg.task.add_done_callback(self._tasks.discard)

    async def _serve(self, leg: _Leg, work: Callable[[], Awaitable[dict[str, Any]]]) -> None:
        """Answer with what ``work`` comes to, unless the client has cancelled it."""
        answer: dict[str, Any] | None = None
        try:
            answer = result_message(leg.id, await work())
        except ProtocolError as error:
            answer = error_message(leg.id, error)
        except asyncio.CancelledError:
            if not leg.overrun:
                raise
        except Exception as fault:
            answer = error_message(leg.id, internal_error(leg.method, fault))
        finally:
            leg.ended = True
            if self._running.get(leg.id) is leg:
                del self._running[leg.id]
        if leg.cancelled:
            return
        if leg.overrun or answer is None:
            answer = error_message(leg.id, ProtocolError(INTERNAL_ERROR, "The stream ended: it was read too slowly."))
        try:
            self._write(encode(answer), leg)
        except ValueError as fault:
            self._write(encode(error_message(leg.id, internal_error(leg.method, fault))), leg)
        if leg.method == LISTEN and (leg.overrun or "result" in answer):
            self._write(encode(notification_message("notifications/cancelled", {"requestId": leg.id})), leg)

    async def finish(self) -> None:
        """End the subscriptions gracefully, cancel what else runs, wait, and let the client read what is left."""
        self._stopping = True
        streams = [leg.task for leg in self._running.values() if leg.method == LISTEN and leg.task is not None]
        if streams and self._settings.closing is not None:
            self._settings.closing()
            await asyncio.wait(streams, timeout=self._settings.flush_within)
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=self._settings.end_within)
            if late:
                log.error("%d requests did not end in time", len(late))
        try:
            async with asyncio.timeout(self._settings.flush_within):
                await self._drained.wait()
        except TimeoutError:
            log.warning("the client did not read its last messages")

    # -- out -----------------------------------------------------------------------------------------------------------

    def notify(self, leg: _Leg, method: str, params: dict[str, Any]) -> None:
        try:
            line = encode(notification_message(method, params))
        except ValueError:
            log.error("a %s for %s has no form in JSON and was dropped", method, leg.method)
            return
        if not self._waiting and not self.sink.full:
            self._write(line, leg)
            return
        match leg.backlog.judge(method, line):
            case Verdict.QUEUE:
                self._write(line, leg, counted=True)
            case Verdict.DROP if leg.backlog.dropped == 1:
                log.warning("notifications of a %s are dropped: the client reads slowly", leg.method)
            case Verdict.END:
                leg.overrun = leg.ended = True
                assert leg.task is not None
                leg.task.cancel()

    def _refuse(self, id: str | int | None, error: ProtocolError) -> None:
        self._write(encode(error_message(id, error)), None)

    def _write(self, line: bytes, leg: _Leg | None, *, counted: bool = False) -> None:
        if not self._waiting and not self.sink.full:
            self.sink.write(line + b"\n")
            return
        self._waiting.append((line, leg, counted))
        self._drained.clear()
        self._unsent += len(line)
        if self._unsent > self._settings.max_unsent and self.source is not None:
            self.source.pause()

    def broken(self) -> None:
        """Nobody reads any more."""
        self._waiting.clear()
        self._drained.set()
        self.ended.set()

    def send_waiting(self) -> None:
        """The sink has room again."""
        while self._waiting and not self.sink.full:
            line, leg, counted = self._waiting.popleft()
            self._unsent -= len(line)
            if counted and leg is not None:
                leg.backlog.left(line)
            if leg is None or not leg.cancelled:
                self.sink.write(line + b"\n")
        if not self._waiting:
            self._drained.set()
        if self._unsent <= self._settings.max_unsent // 2 and self.source is not None and not self._stopping:
            self.source.resume()


async def _judged(
    judged: Callable[[Request], Awaitable[bool]],
    serve: Callable[[Request, Leg], Awaitable[dict[str, Any]]],
    request: Request,
    leg: Leg,
) -> dict[str, Any]:
    if await judged(request):
        judge(request)
    return await serve(request, leg)


async def _refuse_when_ready(ready: Callable[[], Awaitable[str | None]], error: ProtocolError) -> dict[str, Any]:
    raise because(error, await ready())


def _invalid(say: str) -> ProtocolError:
    return ProtocolError(INVALID_REQUEST, f"Invalid request: {say}.")
