"""Servers in this process: an ASGI application whose streams stream, and streams of messages."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx
import pytest

from legacy.errors import CannotStart
from legacy.messages import Lost, Result
from legacy.sdk import sdk_target
from legacy.session import Session
from legacy.targets import AppTarget, MemoryTarget
from legacy.transports.asgi import asgi_transport, lifespan
from tests.legacy.http_server import Exchange, HttpServer
from tests.legacy.sse_server import OLD, SseServer
from tests.legacy.support import Ears, cause, connected, eventually

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    """Nothing here depends on the loop."""
    return "asyncio"


def accept(session: Session, ask: Any) -> None:
    session.answer(ask, {"action": "accept"})


# --- an application ---------------------------------------------------------------------------------------------------


async def test_an_application_is_a_streamable_http_server() -> None:
    app, ears = HttpServer(), Ears(on_ask=accept)

    async def call(x: Exchange) -> None:
        await x.event({"id": 1, "method": "elicitation/create", "params": {"message": "?"}})
        await eventually(lambda: app.pushed())
        await x.event({"id": x.id, "result": {"done": True}})
        await x.end()

    async def hold(x: Exchange) -> None:
        await x.stream()
        await x.gone()
        x.left = True  # type: ignore[attr-defined]

    app.on_call, app.on_get = call, hold
    async with connected(AppTarget("http://127.0.0.1:8000/m%20p?a=b", {"x-extra": "1"}, app=app), ears) as session:
        assert session.transport == "streamable-http"
        assert await session.request("tools/call", {"ü": "☃"}, timeout=5) == Result({"done": True})
        assert app.pushed() == [{"jsonrpc": "2.0", "id": 1, "result": {"action": "accept"}}]
    assert {x.path for x in app.seen} == {"/m p"}
    assert {(x.headers["x-extra"], x.headers["host"]) for x in app.seen} == {("1", "127.0.0.1:8000")}
    [get] = app.verbs("GET")
    assert get.left  # type: ignore[attr-defined]
    assert len(app.verbs("DELETE")) == 1


async def test_an_application_is_an_http_sse_server() -> None:
    app, ears = SseServer(), Ears(on_ask=accept)

    async def call(x: Exchange) -> None:
        await x.answer(202)
        await app.say({"id": 1, "method": "elicitation/create", "params": {"message": "?"}})
        await eventually(lambda: app.pushed())
        await app.say({"id": x.id, "result": {"done": True}})

    app.on_call = call
    async with connected(AppTarget("http://127.0.0.1:8000/sse", app=app), ears) as session:
        assert session.transport == "http-sse"
        assert await session.request("tools/call", timeout=5) == Result({"done": True})
        app.closing.set()
        await eventually(lambda: ears.losses)


async def started(send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"a", b"b")]})


async def test_a_fault_before_the_response_is_a_500_and_one_after_it_a_broken_connection() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["path"] == "/late":
            await started(send)
            await send({"type": "http.response.body", "body": b"half", "more_body": True})
        raise RuntimeError("hush")

    async with httpx.AsyncClient(transport=asgi_transport(app)) as client:
        assert (await client.get("http://app/early")).status_code == 500
        with pytest.raises(httpx.RemoteProtocolError):
            await client.get("http://app/late")


async def test_what_an_application_sends_arrives_before_its_response_is_complete() -> None:
    more = anyio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        assert (await receive())["body"] == b"question"
        await started(send)
        await send({"type": "http.response.body", "body": b"first", "more_body": True})
        await more.wait()
        await send({"type": "http.response.body", "body": b"second"})

    async with (
        httpx.AsyncClient(transport=asgi_transport(app)) as client,
        client.stream("POST", "http://app/?q", content=b"question") as response,
    ):
        chunks = response.aiter_bytes()
        assert await anext(chunks) == b"first"
        more.set()
        assert [chunk async for chunk in chunks] == [b"second"]


async def test_an_application_hears_that_its_client_left_and_waits_for_a_slow_one() -> None:
    sent: list[int] = []
    told: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await started(send)

        async def watch() -> None:
            told.append((await receive())["type"])
            tasks.cancel_scope.cancel()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(watch)
            while True:
                await send({"type": "http.response.body", "body": b"x", "more_body": True})
                sent.append(1)

    async with httpx.AsyncClient(transport=asgi_transport(app)) as client:
        async with client.stream("GET", "http://app/"):
            await anyio.wait_all_tasks_blocked()
            assert 0 < len(sent) < 1000
        await eventually(lambda: told == ["http.disconnect"])


async def test_a_silent_application_is_given_up_after_the_clients_own_time() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await anyio.sleep_forever()

    async with httpx.AsyncClient(transport=asgi_transport(app), timeout=0.05) as client:
        with pytest.raises(httpx.ReadTimeout):
            await client.get("http://app/")


async def test_an_application_is_started_and_stopped_once() -> None:
    heard: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": scope["state"]["made"]})
            return
        scope["state"]["made"] = b"at the start"
        for answer in ("startup", "shutdown"):
            heard.append((await receive())["type"])
            await send({"type": f"lifespan.{answer}.complete"})

    async with lifespan(app) as started, httpx.AsyncClient(transport=asgi_transport(started)) as client:
        assert heard == ["lifespan.startup"]
        assert (await client.get("http://app/")).content == b"at the start"
    assert heard == ["lifespan.startup", "lifespan.shutdown"]


async def test_an_application_that_cannot_start_says_why_and_one_without_lifespan_is_left_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def broken(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "lifespan.startup.failed", "message": "no database"})

    async def without(scope: Any, receive: Any, send: Any) -> None:
        assert scope["type"] == "http"

    async def silent(scope: Any, receive: Any, send: Any) -> None:
        await anyio.sleep_forever()

    monkeypatch.setattr("legacy.transports.asgi.LIFESPAN_WAIT", 0.05)
    with pytest.raises(CannotStart, match=r"not ready within 0\.05 s"):
        async with lifespan(silent):
            raise AssertionError("not reached")
    with pytest.raises(CannotStart, match="no database"):
        async with lifespan(broken):
            raise AssertionError("not reached")
    async with lifespan(without):
        pass


# --- streams of messages ----------------------------------------------------------------------------------------------


class Wrapped:
    """As an SDK's stream carries a message."""

    def __init__(self, message: Any) -> None:
        self.message = message


class Server:
    """Answers by ``answer``; what it hears and says is wrapped if ``wrap``."""

    def __init__(self, *, wrap: bool = False) -> None:
        self.heard: list[dict[str, Any]] = []
        self.ended = 0
        self.wrap = wrap

    @property
    def target(self) -> MemoryTarget:
        return MemoryTarget(self.connect, Wrapped) if self.wrap else MemoryTarget(self.connect)

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[tuple[Any, Any]]:
        to_server, from_client = anyio.create_memory_object_stream[Any](0)
        to_client, from_server = anyio.create_memory_object_stream[Any](0)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self.serve, from_client, to_client)
            yield from_server, to_server
            tasks.cancel_scope.cancel()
        self.ended += 1

    async def serve(self, hear: Any, say: Any) -> None:
        with hear, say:
            async for item in hear:
                message = item.message if self.wrap else item
                self.heard.append(message)
                for answer in self.answers(message):
                    whole = {"jsonrpc": "2.0", **answer}
                    await say.send(Wrapped(whole) if self.wrap else whole)
                if message.get("method") == "die":
                    return

    def answers(self, message: dict[str, Any]) -> list[Any]:
        match message.get("method"):
            case "initialize":
                return [{"id": message["id"], "result": OLD}]
            case "tools/call":
                self.waiting = message["id"]
                return [{"id": "a", "method": "elicitation/create", "params": {"message": "?"}}]
            case "die" | "stall":
                return []
            case None:
                return [{"id": self.waiting, "result": {"said": message["result"]}}]
        return [{"id": message["id"], "result": {}}] if "id" in message else []


@pytest.mark.parametrize("wrap", [False, True])
async def test_messages_go_over_the_streams_as_they_are_wrapped(wrap: bool) -> None:
    server, ears = Server(wrap=wrap), Ears(on_ask=accept)
    async with connected(server.target, ears) as session:
        assert session.transport == "memory"
        assert session.unlabelled
        arguments = {"n": [1]}
        assert await session.request("tools/call", arguments, timeout=5) == Result({"said": {"action": "accept"}})
        [called] = [message for message in server.heard if message.get("method") == "tools/call"]
        called["params"]["n"].append(2)
        assert arguments == {"n": [1]}
        assert [ask.request_id for ask in ears.asks] == [None]
    assert server.ended == 1


async def test_each_session_is_a_connection_of_its_own() -> None:
    server = Server()
    async with connected(server.target), connected(server.target):
        assert [message["method"] for message in server.heard].count("initialize") == 2
    assert server.ended == 2


async def test_a_server_that_ends_loses_its_session() -> None:
    server, ears = Server(), Ears()
    async with connected(server.target, ears) as session:
        reply = await session.request("die", timeout=5)
        assert isinstance(reply, Lost)
        assert reply.reason == "The server 'srv' in this process closed its stream."
        assert ears.losses == [reply.reason]


async def test_what_is_no_message_harms_nobody(caplog: pytest.LogCaptureFixture) -> None:
    class Odd(Server):
        def answers(self, message: dict[str, Any]) -> list[Any]:
            return [{"id": object(), "result": {"hush": 1}}, *super().answers(message)]

    caplog.set_level(logging.DEBUG, "mrtr")
    async with connected(Odd().target) as session:
        assert await session.request("tools/list", timeout=5) == Result({})
    assert "is no message" in caplog.text
    assert "hush" not in caplog.text


async def test_a_server_that_cannot_be_connected_to_is_no_session() -> None:
    @asynccontextmanager
    async def connect() -> AsyncIterator[tuple[Any, Any]]:
        raise RuntimeError("hush")
        yield

    with pytest.raises((CannotStart, BaseExceptionGroup)) as caught:
        async with connected(MemoryTarget(connect)):
            pass
    assert "could not be started here: RuntimeError at" in str(cause(caught.value))


async def test_what_is_no_server_of_an_sdk_is_refused() -> None:
    with pytest.raises(CannotStart, match="A dict is no server"):
        sdk_target({})
