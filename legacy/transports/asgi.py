"""An ASGI application in this process at the other end of an HTTP client: no socket, and streams that stream.

(httpx has an ASGI transport of its own, which hands a response over only when it is complete: an event stream never
is.) What a web server would do for the application is done here: a client that leaves is a disconnect, a fault before
the response is a 500, one after that a broken connection, and an application that runs ahead of a slow reader waits.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any
from urllib.parse import unquote

import anyio
import anyio.lowlevel
import httpx

from legacy.errors import CannotStart
from legacy.wire import blame

Message = MutableMapping[str, Any]
Asgi = Callable[[Message, Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]], Awaitable[None]]

log = logging.getLogger("mrtr.asgi")

_AHEAD = 64
"""Pieces of a response that wait for a slow reader."""
_VERSIONS = {"version": "3.0", "spec_version": "2.3"}
LIFESPAN_WAIT = 30.0
"""Seconds that an application may take to start, or to stop."""


def asgi_transport(app: Asgi, library: Any = httpx) -> Any:
    """A transport for ``AsyncClient(transport=...)`` of httpx, or of a library that is httpx under another name."""

    class Body(library.AsyncByteStream):  # type: ignore[misc]
        def __init__(self, exchange: _Exchange) -> None:
            self._exchange = exchange

        async def __aiter__(self) -> AsyncIterator[bytes]:
            async for chunk in self._exchange.chunks:
                yield chunk
            if not self._exchange.complete:
                raise library.RemoteProtocolError("The application ended before its response did.")

        async def aclose(self) -> None:
            self._exchange.leave()

    class AsgiTransport(library.AsyncBaseTransport):  # type: ignore[misc]
        """Invariant: the application's tasks live in ``_tasks``, and end with the client."""

        async def __aenter__(self) -> AsgiTransport:
            self._tasks = anyio.create_task_group()
            await self._tasks.__aenter__()
            return self

        async def __aexit__(
            self,
            kind: type[BaseException] | None = None,
            error: BaseException | None = None,
            trace: TracebackType | None = None,
        ) -> None:
            self._tasks.cancel_scope.cancel()
            await self._tasks.__aexit__(None, None, None)

        async def handle_async_request(self, request: Any) -> Any:
            exchange = _Exchange(request, await request.aread())
            self._tasks.start_soon(exchange.run, app)
            timeout = request.extensions.get("timeout", {}).get("read")
            try:
                with anyio.fail_after(timeout):
                    await exchange.begun.wait()
            except TimeoutError:
                exchange.leave()
                raise library.ReadTimeout("The application has not answered.", request=request) from None
            except BaseException:
                exchange.leave()
                raise
            return library.Response(exchange.status, headers=exchange.headers, stream=Body(exchange), request=request)

    return AsgiTransport()


class _Exchange:
    """One request and its response.

    Invariant: once ``begun``, ``status`` and ``headers`` stay; ``chunks`` ends when the application has, or was left.
    """

    def __init__(self, request: Any, body: bytes) -> None:
        self.begun = anyio.Event()
        self.complete = False
        self.status = 500
        self.headers: list[tuple[bytes, bytes]] = []
        self._said, self.chunks = anyio.create_memory_object_stream[bytes](_AHEAD)
        self._left = anyio.Event()
        self._body: bytes | None = body
        url = request.url
        self._scope = {
            "type": "http",
            "asgi": _VERSIONS,
            "http_version": "1.1",
            "method": request.method,
            "scheme": url.scheme,
            "path": unquote(url.path),
            "raw_path": url.raw_path.partition(b"?")[0],
            "query_string": url.query,
            "root_path": "",
            "headers": [(name.lower(), value) for name, value in request.headers.raw],
            "client": ("127.0.0.1", 0),
            "server": (url.host, url.port or {"http": 80, "https": 443}.get(url.scheme)),
        }

    def leave(self) -> None:
        """The client has gone, or has all it wants."""
        self._left.set()
        self.chunks.close()

    async def run(self, app: Asgi) -> None:
        try:
            await app(self._scope, self._receive, self._send)
        except Exception as error:
            log.error("the application failed at %s: %s", self._scope["method"], blame(error))
        finally:
            self.complete = self.complete or not self.begun.is_set()  # a bare 500 then
            self.begun.set()
            self._said.close()

    async def _receive(self) -> Message:
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        await self._left.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        await anyio.lowlevel.checkpoint()  # an application that goes on sending to nobody must not keep the loop
        if message["type"] == "http.response.start":
            self.status, self.headers = message["status"], list(message.get("headers", ()))
            self.begun.set()
        elif message["type"] == "http.response.body" and not self._left.is_set():
            try:
                if message.get("body"):
                    await self._said.send(bytes(message["body"]))
            except anyio.BrokenResourceError:
                return
            if not message.get("more_body"):
                self.complete = True
                self._said.close()
                self._left.set()


@asynccontextmanager
async def lifespan(app: Asgi) -> AsyncIterator[Asgi]:
    """Start an application, and stop it at the end; one that knows no lifespan is left alone. Yields the application
    with the state that it made when it started.

    Raises:
        CannotStart: it said that it cannot, or nothing for `LIFESPAN_WAIT`.
    """
    to_app, from_host = anyio.create_memory_object_stream[Message](2)
    told = anyio.Event()
    answers: list[str] = []
    state: dict[str, Any] = {}
    failure = ""

    async def send(message: Message) -> None:
        nonlocal failure
        answers.append(message["type"])
        if message["type"].endswith(".failed"):
            failure = message.get("message") or "it did not say why"
        told.set()

    async def run() -> None:
        try:
            await app({"type": "lifespan", "asgi": _VERSIONS, "state": state}, from_host.receive, send)
        except Exception as error:
            log.debug("the application has no lifespan, or failed in it: %s", blame(error))
        finally:
            told.set()

    async def started(scope: Message, receive: Callable[[], Awaitable[Message]], send: Any) -> None:
        await app({**scope, "state": dict(state)}, receive, send)

    async with anyio.create_task_group() as tasks:
        with to_app, from_host:
            to_app.send_nowait({"type": "lifespan.startup"})
            tasks.start_soon(run)
            with anyio.move_on_after(LIFESPAN_WAIT) as waited:
                await told.wait()
            if waited.cancelled_caught:
                failure = f"it was not ready within {LIFESPAN_WAIT:g} s"
            told = anyio.Event()
            try:
                if not failure:
                    yield started
            finally:
                if answers == ["lifespan.startup.complete"]:
                    with anyio.move_on_after(LIFESPAN_WAIT, shield=True):
                        to_app.send_nowait({"type": "lifespan.shutdown"})
                        await told.wait()
                tasks.cancel_scope.cancel()
    if answers[:1] != ["lifespan.startup.complete"] and failure:
        raise CannotStart(f"The application could not start: {failure}.")
