"""A Streamable HTTP server whose every answer a test can script: run by uvicorn on a free port, or in this process."""

from __future__ import annotations

import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import uvicorn

from legacy.targets import AppTarget, HttpTarget

Handler = Callable[["Exchange"], Awaitable[None]]


class Exchange:
    """One HTTP request and its answer."""

    def __init__(self, scope: dict[str, Any], receive: Any, send: Any, body: bytes) -> None:
        self.verb: str = scope["method"]
        self.path: str = scope["path"]
        self.headers = {key.decode(): value.decode("latin-1") for key, value in scope["headers"]}
        self._raw = scope["headers"]
        self.message: dict[str, Any] = json.loads(body) if body else {}
        self._receive = receive
        self._send = send
        self._begun = False

    @property
    def method(self) -> str | None:
        return self.message.get("method")

    def sent(self, name: str) -> list[str]:
        """Every value of a header, however often it came."""
        return [value.decode("latin-1") for key, value in self._raw if key.decode() == name]

    @property
    def id(self) -> Any:
        return self.message.get("id")

    async def answer(self, status: int, value: Any = None, **headers: str) -> None:
        """A whole answer: JSON, bytes, or nothing."""
        body = value if isinstance(value, bytes) else b"" if value is None else json.dumps(value).encode()
        kind = "text/plain" if isinstance(value, bytes) else "application/json"
        await self._start(status, {"content-type": kind, **headers})
        await self._send({"type": "http.response.body", "body": body})

    async def result(self, result: dict[str, Any], **headers: str) -> None:
        await self.answer(200, {"jsonrpc": "2.0", "id": self.id, "result": result}, **headers)

    async def error(self, status: int, code: int, message: str) -> None:
        await self.answer(status, {"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": message}})

    async def stream(self) -> None:
        """Open an event stream."""
        self._begun = True
        await self._start(200, {"content-type": "text/event-stream"})
        await self._send({"type": "http.response.body", "body": b": hello\n\n", "more_body": True})

    async def event(
        self, message: dict[str, Any] | None = None, *, id: str | None = None, retry: int | None = None
    ) -> None:
        """One event; without a message a priming one."""
        if not self._begun:
            await self.stream()
        lines = [f"retry: {retry}"] if retry is not None else []
        lines += [f"id: {id}"] if id is not None else []
        lines += ["data: " + (json.dumps({"jsonrpc": "2.0", **message}, ensure_ascii=False) if message else "")]
        data = ("\r\n".join(lines) + "\r\n\r\n").encode()
        await self._send({"type": "http.response.body", "body": data, "more_body": True})

    async def pieces(self, *pieces: bytes, pause: float = 0, **headers: str) -> None:
        """An answer of these bytes, with these headers and no others."""
        await self._start(200, headers)
        for piece in pieces:
            await self._send({"type": "http.response.body", "body": piece, "more_body": True})
            await anyio.sleep(pause)
        await self.end()

    async def end(self) -> None:
        """The stream is over."""
        await self._send({"type": "http.response.body", "body": b""})

    async def gone(self) -> None:
        """Wait until the client has closed the connection."""
        while (await self._receive())["type"] != "http.disconnect":
            pass

    async def _start(self, status: int, headers: dict[str, str]) -> None:
        pairs = [(key.replace("_", "-").encode(), value.encode("latin-1")) for key, value in headers.items()]
        await self._send({"type": "http.response.start", "status": status, "headers": pairs})


class HttpServer:
    """What it does unless a test says otherwise: a session, 405 to GET, 202 to what needs no answer."""

    def __init__(self) -> None:
        self.port = 0
        self.inside = False
        self.seen: list[Exchange] = []
        self.on_call: Handler = self._empty
        self.on_get: Handler = self._no_get
        self.on_initialize: Handler = self._initialize
        self.on_ping: Handler = self._empty
        self.on_push: Handler = self._accept
        self.slots: anyio.Semaphore | None = None

    path = "/mcp"

    @property
    def target(self) -> HttpTarget:
        url, headers = f"http://127.0.0.1:{self.port}{self.path}", {"x-extra": "1"}
        return AppTarget(url, headers, app=self) if self.inside else HttpTarget(url, headers)

    def pushed(self, method: str | None = None) -> list[dict[str, Any]]:
        """The answers (method None) or notifications that came."""
        return [x.message for x in self.seen if x.verb == "POST" and x.method == method]

    def verbs(self, verb: str) -> list[Exchange]:
        return [x for x in self.seen if x.verb == verb]

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        body, more = b"", True
        while more:
            part = await receive()
            body += part.get("body", b"")
            more = part.get("more_body", False)
        exchange = Exchange(scope, receive, send, body)
        self.seen.append(exchange)
        if self.slots is not None:
            async with self.slots:
                await self._handle(exchange)
        else:
            await self._handle(exchange)

    async def _handle(self, x: Exchange) -> None:
        match x.verb, x.method:
            case "GET", _:
                await self.on_get(x)
            case "DELETE", _:
                await x.answer(200)
            case _, "initialize":
                await self.on_initialize(x)
            case _, "ping":
                await self.on_ping(x)
            case _, _ if x.id is not None and x.method is not None:
                await self.on_call(x)
            case _:
                await self.on_push(x)

    async def _initialize(self, x: Exchange) -> None:
        info = {"name": "s", "version": "1"}
        result = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": info}
        await x.result(result, mcp_session_id="s1")

    async def _empty(self, x: Exchange) -> None:
        await x.result({})

    async def _no_get(self, x: Exchange) -> None:
        await x.answer(405)

    async def _accept(self, x: Exchange) -> None:
        await x.answer(202)


@asynccontextmanager
async def here(app: HttpServer) -> AsyncIterator[HttpServer]:
    """The server in this process, without a socket: quick, and its pieces arrive as they were sent."""
    app.port, app.inside = 8000, True
    yield app


@asynccontextmanager
async def serving(app: HttpServer, port: int = 0) -> AsyncIterator[HttpServer]:
    """The server, listening."""
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", port))
        app.port = listener.getsockname()[1]
        config = uvicorn.Config(app, log_level="critical", lifespan="off", timeout_graceful_shutdown=1)  # type: ignore[arg-type]
        server = uvicorn.Server(config)
        server.install_signal_handlers = lambda: None  # type: ignore[method-assign,attr-defined]
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(server.serve, [listener])
            while not server.started:  # noqa: ASYNC110
                await anyio.sleep(0.005)
            yield app
            server.should_exit = True
