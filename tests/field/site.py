"""One old server, `tests.servers.asker`, on every transport that an old server can have.

The program is the same everywhere, one process for each session, and its habits are set by its environment. Over stdio
the bridge starts it. For the others a carrier stands between: an application of Streamable HTTP or of HTTP+SSE, or two
streams of messages in this process. Like the servers of the SDKs, Streamable HTTP puts what belongs to a call on the
stream of that call's POST, and everything else on the GET stream; the other transports have one stream for all.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.abc
import pytest
from anyio.streams.buffered import BufferedByteReceiveStream

from bridge.serving import Bridge
from legacy.targets import AppTarget, MemoryTarget
from modern.http import HttpFace, HttpSettings
from tests.bridge.harness import ASKER, bridged
from tests.legacy.http_server import Exchange, HttpServer
from tests.legacy.sse_server import SseServer
from tests.modern import helpers
from tests.modern.asgi import Client as Post

Json = dict[str, Any]
Headers = dict[str, str | None]
TRANSPORTS = ("stdio", "streamable-http", "http-sse", "in-process")
REMOTE = ("streamable-http", "http-sse")

everywhere = pytest.mark.parametrize("transport", TRANSPORTS)
over_http = pytest.mark.parametrize("transport", REMOTE)

STRAY = b"event: message\ndata: about to speak\n\n"
LONGEST = 64 * 1024 * 1024


class Process:
    """One process of the asker, and what it says, message by message."""

    def __init__(self, process: anyio.abc.Process) -> None:
        self._process = process
        self._turn = anyio.Lock()

    async def tell(self, message: Json) -> None:
        assert self._process.stdin is not None
        async with self._turn:
            try:
                await self._process.stdin.send(json.dumps(message).encode() + b"\n")
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                return  # it has died, which who listens to it hears

    async def messages(self) -> AsyncIterator[Json | Exception]:
        """What it says; a line that is no message as the error that it is."""
        assert self._process.stdout is not None
        lines = BufferedByteReceiveStream(self._process.stdout)
        while True:
            try:
                line = await lines.receive_until(b"\n", LONGEST)
            except (anyio.EndOfStream, anyio.IncompleteRead, anyio.ClosedResourceError):
                return
            try:
                message = json.loads(line)
                if not isinstance(message, dict) or "jsonrpc" not in message:
                    raise ValueError("no message")
            except ValueError as error:
                yield error
            else:
                yield message

    def end(self) -> None:
        if self._process.returncode is None:
            self._process.kill()


@asynccontextmanager
async def process(env: dict[str, str]) -> AsyncIterator[Process]:
    whole = {**os.environ, "ASKER_RELATES": "1", **env}
    async with await anyio.open_process([sys.executable, str(ASKER)], env=whole, stderr=subprocess.DEVNULL) as started:
        asker = Process(started)
        try:
            yield asker
        finally:
            asker.end()


class Carrier:
    """Starts a process for each session; what it says goes where the session says."""

    def __init__(self, env: dict[str, str], tasks: anyio.abc.TaskGroup) -> None:
        self._env = env
        self._tasks = tasks

    async def start(self, say: Callable[[Json | Exception], Awaitable[None]], over: Callable[[], None]) -> Process:
        started: Process = await self._tasks.start(self._run, say, over)
        return started

    async def _run(
        self,
        say: Callable[[Json | Exception], Awaitable[None]],
        over: Callable[[], None],
        *,
        task_status: anyio.abc.TaskStatus[Process],
    ) -> None:
        async with process(self._env) as asker:
            task_status.started(asker)
            async for message in asker.messages():
                await say(message)
            over()


class Session:
    """A session of Streamable HTTP: its process, its open requests and its GET stream."""

    def __init__(self) -> None:
        self.asker: Process
        self.ended = anyio.Event()
        self.open: dict[str, Exchange] = {}
        self.answered: dict[str, anyio.Event] = {}
        self.initialized: Json = {}
        self.heard_by: Exchange | None = None
        self.early: list[Json] = []

    async def say(self, message: Json | Exception) -> None:
        if isinstance(message, Exception):
            stream = self.heard_by or next(iter(self.open.values()), None)
            if stream is not None:
                await stream._send({"type": "http.response.body", "body": STRAY, "more_body": True})
            return
        related = message.pop("related", None)
        key = repr(related if "method" in message else message.get("id"))
        if "method" not in message and "protocolVersion" in message.get("result", {}):
            self.initialized = message
            self.answered[key].set()
        elif key in self.open:
            await self.open[key].event(message)
            if "method" not in message:
                self.answered[key].set()
        elif self.heard_by is not None:
            await self.heard_by.event(message)
        else:
            self.early.append(message)

    def over(self) -> None:
        self.ended.set()
        for answered in self.answered.values():
            answered.set()


class Streamable(HttpServer):
    """The asker on Streamable HTTP."""

    def __init__(self, carrier: Carrier) -> None:
        super().__init__()
        self.carrier = carrier
        self.sessions: dict[str, Session] = {}

    async def _handle(self, x: Exchange) -> None:
        if x.method == "initialize":
            await self._begin(x)
            return
        name = x.headers.get("mcp-session-id")
        session = self.sessions.get(name or "")
        if name is None:
            await x.error(400, -32600, "Bad Request: Missing session ID")
        elif session is None or session.ended.is_set():
            await x.error(404, -32001, "Session not found")
        elif x.verb == "GET":
            await x.stream()
            session.heard_by = x
            for message in session.early:
                await x.event(message)
            session.early.clear()
            await first(x.gone, session.ended.wait)
            await x.end()
        elif x.verb == "DELETE":
            session.asker.end()
            await x.answer(200)
        elif x.method is not None and x.id is not None:
            await self._ask(session, x)
        else:
            await session.asker.tell(x.message)
            await x.answer(202)

    async def _begin(self, x: Exchange) -> None:
        session = Session()
        session.asker = await self.carrier.start(session.say, session.over)
        answered = session.answered[repr(x.id)] = anyio.Event()
        await session.asker.tell(x.message)
        await answered.wait()
        name = f"s{len(self.sessions) + 1}"  # nothing is awaited in between
        self.sessions[name] = session
        await x.answer(200, session.initialized, mcp_session_id=name)

    async def _ask(self, session: Session, x: Exchange) -> None:
        key = repr(x.id)
        await x.stream()
        session.open[key] = x
        answered = session.answered[key] = anyio.Event()
        await session.asker.tell(x.message)
        await answered.wait()
        del session.open[key], session.answered[key]
        await x.end()


class Sse(SseServer):
    """The asker on HTTP+SSE."""

    def __init__(self, carrier: Carrier) -> None:
        super().__init__(endpoint="/messages/{}")
        self.carrier = carrier
        self.sessions: dict[str, Process] = {}

    async def _handle(self, x: Exchange) -> None:
        if x.verb == "GET":
            await self._begin(x)
        elif x.path == self.path:
            await self.not_allowed(x)
        elif (asker := self.sessions.get(x.path)) is None:
            await x.answer(404, b"Could not find session")
        else:
            await asker.tell(x.message)
            await x.answer(202, b"Accepted")

    async def _begin(self, x: Exchange) -> None:
        ended = anyio.Event()

        async def say(message: Json | Exception) -> None:
            if isinstance(message, Exception):
                await self.raw(STRAY, x)
            else:
                message.pop("related", None)
                data = json.dumps(message, ensure_ascii=False)
                await self.raw(f"event: message\ndata: {data}\n\n", x)

        asker = await self.carrier.start(say, ended.set)
        await x.stream()
        self.streams.append(x)
        path = self.endpoint.format(len(self.streams))
        self.sessions[path] = asker
        await self.raw(f"event: endpoint\ndata: {path}\n\n", x)
        await first(x.gone, ended.wait)
        asker.end()
        del self.sessions[path]
        await x.end()


async def first(*waits: Callable[[], Awaitable[Any]]) -> None:
    """Wait for whichever comes first."""
    async with anyio.create_task_group() as tasks:

        async def wait(one: Callable[[], Awaitable[Any]]) -> None:
            await one()
            tasks.cancel_scope.cancel()

        for one in waits:
            tasks.start_soon(wait, one)


class Ear:
    """Where a server in this process hears."""

    def __init__(self, asker: Process) -> None:
        self._asker = asker

    async def send(self, message: Json) -> None:
        await self._asker.tell(message)


def in_process(env: dict[str, str]) -> MemoryTarget:
    @asynccontextmanager
    async def connect() -> AsyncIterator[tuple[Any, Any]]:
        async with process(env) as asker:
            yield without_relations(asker), Ear(asker)

    return MemoryTarget(connect)


async def without_relations(asker: Process) -> AsyncIterator[Json | Exception]:
    async for message in asker.messages():
        if isinstance(message, dict):
            message.pop("related", None)
        yield message


def application(bridge: Bridge) -> Any:
    """What carries the server of this bridge."""
    inside = bridge.server.target.inside
    assert isinstance(inside, AppTarget)
    return inside.app


class Web:
    """The HTTP face of a bridge, and POSTs to it."""

    def __init__(self, bridge: Bridge, **settings: Any) -> None:
        self.face = HttpFace(bridge, HttpSettings(**settings))

    def post(
        self, method: str, id: Any = 1, token: Any = None, *, change: Headers | None = None, **params: Any
    ) -> Post:
        """``change``: of the headers that a correct client sends."""
        body = helpers.message(
            method, id, helpers.META if token is None else {**helpers.META, "progressToken": token}, **params
        )
        named = {name: encoded(value) for name, value in helpers.headers(body).items()}
        return Post(self.face, body, change={**named, **(change or {})})

    def call(
        self,
        tool: str,
        /,
        id: Any = 1,
        token: Any = None,
        *,
        change: Headers | None = None,
        **arguments: Any,
    ) -> Post:
        return self.post("tools/call", id, token, change=change, name=tool, arguments=arguments)

    def preflight(self, **headers: str) -> Post:
        """What a browser sends before a request of another origin."""
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        return Post(self.face, b"", method="OPTIONS", change=names)


def encoded(value: str) -> str:
    """As a client writes a header: what is not plain ASCII, or could be taken for that, in Base64."""
    if value.isascii() and value.isprintable() and value == value.strip() and not value.startswith("=?base64?"):
        return value
    return f"=?base64?{base64.b64encode(value.encode()).decode()}?="


@asynccontextmanager
async def site(transport: str, env: dict[str, str] | None = None, **options: Any) -> AsyncIterator[Bridge]:
    """A bridge in front of the asker on one of the `TRANSPORTS`; ``options`` are those of `bridged`."""
    env = env or {}
    async with anyio.create_task_group() as tasks:
        carrier = Carrier(env, tasks)
        match transport:
            case "stdio":
                target: Json = {"env": env}
            case "streamable-http":
                target = {"inside": AppTarget("http://127.0.0.1:8000/mcp", app=Streamable(carrier))}
            case "http-sse":
                target = {"inside": AppTarget("http://127.0.0.1:8000/sse", app=Sse(carrier))}
            case _:
                target = {"inside": in_process(env)}
        async with bridged(**target, **options) as bridge:
            yield bridge
        tasks.cancel_scope.cancel()
