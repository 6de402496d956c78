"""The stdio face of a 2026-07-28 server [basic/transports/stdio]: one JSON object a line, requests side by side.

A client cancels by ``notifications/cancelled``; nothing more is written for that id. The end of stdin ends everything that
runs, in bounded time. Requests run in the event loop's own tasks, since this is the hot path; the face owns them and has
joined them all when `serve_stdio` returns.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import anyio

from modern.envelope import Notification, Request, read, read_id
from modern.errors import INVALID_REQUEST, ProtocolError
from modern.exchange import fault
from modern.lines import MAX_LINE, Lines
from modern.pipes import Output, read_by_thread, read_pipe, write_pipe
from modern.serving import Handler
from modern.wire import decode, encode, error_message, notification_message, result_message

log = logging.getLogger("mrtr.modern")


@dataclass(frozen=True, slots=True)
class StdioSettings:
    """How much is taken, and what is waited for."""

    max_line: int = MAX_LINE
    """Bytes of one message."""
    max_depth: int = 64
    max_running: int = 4096
    """Requests that may run at once; further ones are refused."""
    ready: Callable[[], Awaitable[None]] | None = None
    """Awaited before ``initialize`` is refused: a client that gave up on a slow probe comes with it next, and probes
    again only after that refusal."""
    end_within: float = 5.0
    """Seconds that running requests get to end after stdin has."""


async def serve_stdio(
    handler: Handler, settings: StdioSettings | None = None, *, stdin: int = 0, stdout: int = 1
) -> None:
    """Serve the client at these file descriptors until it closes stdin, or nobody reads stdout."""
    output = await write_pipe(stdout)
    face = _Face(handler, settings or StdioSettings(), output)
    transport = await read_pipe(stdin, face.received, face.ended.set)
    try:
        if transport is None:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(read_by_thread, stdin, face.received, face.ended.set)
                await face.ended.wait()
                tasks.cancel_scope.cancel()
        else:
            face.pausable = transport
            await face.ended.wait()
            transport.close()
    finally:
        with anyio.CancelScope(shield=True):
            await face.finish()
            await output.close()


class _Leg:
    """A `modern.serving.Leg`: its notifications go out at once, in the order in which they come."""

    __slots__ = ("_face", "open")

    def __init__(self, face: _Face) -> None:
        self._face = face
        self.open = True

    def notify(self, method: str, params: dict[str, Any]) -> None:
        if self.open:
            self._face.notify(method, params)


class _Face:
    """What runs for one client.

    Invariant: a request is in ``_running`` by its id from its arrival until its last message is written.
    """

    def __init__(self, handler: Handler, settings: StdioSettings, output: Output) -> None:
        self.ended = asyncio.Event()
        self.pausable: Any = None
        self._handler = handler
        self._settings = settings
        self._output = output
        self._lines = Lines(settings.max_line)
        self._running: dict[str | int, asyncio.Task[None]] = {}
        self._others: set[asyncio.Task[None]] = set()
        self._dropped = 0

    # -- in -----------------------------------------------------------------------------------------------------------

    def received(self, data: bytes) -> None:
        for line in self._lines.feed(data):
            if line is None:
                self._refuse(None, ProtocolError(INVALID_REQUEST, "Invalid request: the message is too long"))
            elif line.strip():
                self._message(line)
        if self._output.congested and self.pausable is not None:
            self.pausable.pause_reading()
            self._spawn_other(self._resume_reading())

    def _message(self, line: bytes) -> None:
        body: Any = None
        try:
            body = decode(line, self._settings.max_depth)
            message = read(body)
        except ProtocolError as error:
            if isinstance(body, dict) and body.get("method") == "initialize" and self._settings.ready is not None:
                self._spawn_other(self._refuse_when_ready(read_id(body), error, self._settings.ready))
            elif not (isinstance(body, dict) and "id" not in body and "method" in body):
                self._refuse(read_id(body), error)
            return
        if isinstance(message, Notification):
            self._notified(message)
        elif message.id in self._running:
            why = "Invalid request: a request with this id is still running"
            self._refuse(message.id, ProtocolError(INVALID_REQUEST, why))
        elif len(self._running) >= self._settings.max_running:
            self._refuse(message.id, ProtocolError(INVALID_REQUEST, "Invalid request: too many requests are running"))
        else:
            self._running[message.id] = asyncio.get_running_loop().create_task(self._serve(message))

    def _notified(self, notification: Notification) -> None:
        if notification.method != "notifications/cancelled":
            return
        id_ = notification.params.get("requestId")
        if isinstance(id_, str | int) and not isinstance(id_, bool):
            task = self._running.pop(id_, None)
            if task is not None:
                self._others.add(task)
                task.add_done_callback(self._others.discard)
                task.cancel()

    async def _resume_reading(self) -> None:
        await self._output.ready()
        if not self.ended.is_set():
            self.pausable.resume_reading()

    # -- running ------------------------------------------------------------------------------------------------------

    async def _serve(self, request: Request) -> None:
        leg = _Leg(self)
        try:
            response = await self._response(request, leg)
            leg.open = False
            if self._output.congested:
                await self._output.ready()
            self._write(response)
            if request.method == "subscriptions/listen" and "result" in response:
                # The stream was torn down from this side [basic/patterns/cancellation].
                self.notify("notifications/cancelled", {"requestId": request.id})
        finally:
            leg.open = False
            if self._running.get(request.id) is asyncio.current_task():
                del self._running[request.id]

    async def _response(self, request: Request, leg: _Leg) -> dict[str, Any]:
        try:
            return result_message(request.id, await self._handler.serve(request, leg))
        except ProtocolError as error:
            return error_message(request.id, error)
        except Exception as error:
            return error_message(request.id, fault(error))

    async def _refuse_when_ready(
        self, id_: str | int | None, error: ProtocolError, ready: Callable[[], Awaitable[None]]
    ) -> None:
        await ready()
        self._refuse(id_, error)

    def _spawn_other(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._others.add(task)
        task.add_done_callback(self._others.discard)

    async def finish(self) -> None:
        """Cancel what runs, and wait for its end."""
        tasks = [*self._running.values(), *self._others]
        for task in tasks:
            task.cancel()
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=self._settings.end_within)
            if late:
                log.warning("%d requests did not end in time", len(late))
        if self._dropped:
            log.warning("%d notifications were dropped for a client that reads slowly", self._dropped)

    # -- out ----------------------------------------------------------------------------------------------------------

    def notify(self, method: str, params: dict[str, Any]) -> None:
        if self._output.congested:
            self._dropped += 1
            return
        self._write(notification_message(method, params))

    def _refuse(self, id_: str | int | None, error: ProtocolError) -> None:
        self._write(error_message(id_, error))

    def _write(self, message: dict[str, Any]) -> None:
        self._output.write(encode(message) + b"\n")
        if self._output.broken:
            self.ended.set()
