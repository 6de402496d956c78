"""Streamable HTTP against a scripted server (2025-11-25 basic/transports, and what servers do instead)."""

from __future__ import annotations

import logging
import time
from typing import Any

import anyio
import pytest
from anyio.abc import SocketAttribute, SocketStream

from legacy.errors import CannotStart
from legacy.messages import Failure, Lost, Result
from legacy.session import Session
from legacy.targets import HttpTarget
from tests.legacy.http_server import Exchange, HttpServer, serving
from tests.legacy.support import Ears, cause, connected, eventually, start

pytestmark = pytest.mark.anyio
ASK = {"method": "elicitation/create", "params": {"message": "?"}}


async def hold(x: Exchange) -> None:
    """A GET stream that stays open."""
    await x.stream()
    await x.gone()


async def test_the_session_version_and_extra_headers_go_with_every_request() -> None:
    async with serving(HttpServer()) as server:
        async with connected(server.target) as session:
            assert await session.request("tools/list", timeout=5) == Result({})
            assert not session.unlabelled
        first, *others = server.seen
        assert "mcp-session-id" not in first.headers
        assert "mcp-protocol-version" not in first.headers
        assert [x.verb for x in others] == ["POST", "GET", "POST", "DELETE"]
        assert {x.headers["mcp-session-id"] for x in others} == {"s1"}
        assert {x.headers["mcp-protocol-version"] for x in others} == {"2025-11-25"}
        assert {x.headers["x-extra"] for x in server.seen} == {"1"}
        assert first.headers["accept"] == "application/json, text/event-stream"


async def test_an_ask_on_a_posts_stream_carries_its_label_and_is_answered() -> None:
    server = HttpServer()

    async def call(x: Exchange) -> None:
        log = {"level": "info", "data": "a\u2028b"}
        await x.event(message={"method": "notifications/message", "params": log})
        await ask(x, 7)
        await eventually(lambda: server.pushed())
        await respond(x, {"said": server.pushed()[0]["result"]})
        await x.end()

    server.on_call = call
    server.on_get = hold
    ears = Ears(on_ask=lambda session, ask: session.answer(ask, {"action": "accept"}))
    async with serving(server), connected(server.target, ears) as session:
        assert session.unlabelled
        request_id, replies = start(session, "tools/call", {"name": "x"})
        await eventually(lambda: replies)
        assert replies == [Result({"said": {"action": "accept"}})]
        assert [(a.server_id, a.request_id, a.open) for a in ears.asks] == [(7, request_id, False)]
        assert ears.notifications == [("notifications/message", {"level": "info", "data": "a\u2028b"}, request_id)]


async def ask(x: Exchange, server_id: Any, event_id: str | None = None) -> None:
    await x.event(message={"id": server_id, **ASK}, id=event_id)


async def respond(x: Exchange, result: dict[str, Any], request_id: Any = None, event_id: str | None = None) -> None:
    await x.event(message={"id": x.id if request_id is None else request_id, "result": result}, id=event_id)


async def test_an_ask_by_get_has_no_label_and_the_get_is_open_before_the_session_is() -> None:
    server = HttpServer()

    async def get(x: Exchange) -> None:
        await anyio.sleep(0.1)
        await ask(x, "a")
        await x.gone()

    server.on_get = get
    ears = Ears()
    async with serving(server), connected(server.target, ears) as session:
        assert [x.verb for x in server.seen[:3]] == ["POST", "POST", "GET"]
        await eventually(lambda: ears.asks)
        assert ears.asks[0].request_id is None
        session.refuse(ears.asks[0], -1, "no")
        await eventually(lambda: server.pushed())
        assert server.pushed() == [{"jsonrpc": "2.0", "id": "a", "error": {"code": -1, "message": "no"}}]


async def test_a_get_that_is_slow_to_open_holds_nothing_up_and_is_used_later() -> None:
    server = HttpServer()

    async def get(x: Exchange) -> None:
        await anyio.sleep(0.6)
        await ask(x, 1)
        await x.gone()

    server.on_get = get
    ears = Ears()
    async with serving(server), connected(server.target, ears, get_wait=0.1) as session:
        assert session.unlabelled
        assert not ears.asks
        await eventually(lambda: ears.asks)


async def test_a_cut_get_is_reopened_and_a_repeated_ask_is_heard_once() -> None:
    server = HttpServer()

    async def get(x: Exchange) -> None:
        match len(server.verbs("GET")):
            case 1:
                await ask(x, 1, "e1")
                await x.end()
            case 2 | 3:
                await x.answer(409)
            case _:
                await ask(x, 1, "e1")
                await ask(x, 2, "e2")
                await x.gone()

    server.on_get = get
    ears = Ears(on_ask=lambda session, ask: session.answer(ask, {"action": "cancel"}))
    async with serving(server), connected(server.target, ears):
        await eventually(lambda: len(server.pushed()) == 2)
        assert [a.server_id for a in ears.asks] == [1, 2]
        assert [x.headers.get("last-event-id") for x in server.verbs("GET")] == [None, "e1", "e1", "e1"]
        assert ears.interruptions == 0  # what was sent meanwhile is sent again


async def test_a_cut_get_whose_server_sends_nothing_again_is_told_to_whoever_listens() -> None:
    server = HttpServer()

    async def get(x: Exchange) -> None:
        await x.stream()
        if len(server.verbs("GET")) < 3:
            await x.end()
        await x.gone()

    server.on_get = get
    ears = Ears()
    async with serving(server), connected(server.target, ears):
        await eventually(lambda: ears.interruptions == 2)
        assert not ears.losses


async def test_a_stream_closed_early_is_resumed_after_the_servers_time() -> None:
    server = HttpServer()
    closed = 0.0
    waited: list[float] = []

    async def call(x: Exchange) -> None:
        nonlocal closed
        server.call_id = x.id  # type: ignore[attr-defined]
        await x.event(id="p1", retry=150)
        await x.end()
        closed = time.monotonic()

    async def get(x: Exchange) -> None:
        nonlocal closed
        if "last-event-id" not in x.headers:
            return await hold(x)
        waited.append(time.monotonic() - closed)
        if len(waited) == 1:
            await ask(x, 5, "p2")
            await x.end()
            closed = time.monotonic()
        else:
            await respond(x, {"done": True}, server.call_id)  # type: ignore[attr-defined]
            await x.end()
        return None

    server.on_call, server.on_get = call, get
    ears = Ears()
    async with serving(server), connected(server.target, ears) as session:
        request_id, replies = start(session, "tools/call")
        await eventually(lambda: replies)
        assert replies == [Result({"done": True})]
        assert [a.request_id for a in ears.asks] == [request_id]
        assert min(waited) >= 0.14
        resumed = [x.headers["last-event-id"] for x in server.verbs("GET") if "last-event-id" in x.headers]
        assert resumed == ["p1", "p2"]


@pytest.mark.parametrize("event_id", [None, "e"])
async def test_a_stream_that_cannot_be_resumed_is_an_unknown_outcome(event_id: str | None) -> None:
    server = HttpServer()

    async def call(x: Exchange) -> None:
        await x.event(message={"method": "notifications/x"}, id=event_id)
        await x.end()

    server.on_call = call
    async with serving(server), connected(server.target) as session:
        reply = await session.request("tools/call", timeout=5)
        assert isinstance(reply, Lost)
        assert reply.processed
        assert "unknown" in reply.reason
        assert len([x for x in server.seen if x.method == "tools/call"]) == 1
        assert not session.closed


@pytest.mark.parametrize(
    ("status", "code", "text"),
    [
        (404, None, ""),
        (404, -32001, "Session not found"),
        (404, -32603, "oops"),
        (400, -32600, "Bad Request: No valid session ID provided"),
        (400, -32000, "Bad Request: Server not initialized"),
        (400, None, "Session terminated"),
    ],
)
async def test_a_refused_session_leaves_the_request_unprocessed(status: int, code: int | None, text: str) -> None:
    server = HttpServer()

    async def call(x: Exchange) -> None:
        if x.message["params"].get("name") == "running":
            await x.stream()
            await x.gone()
        elif code is None:
            await x.answer(status, text.encode())
        else:
            await x.error(status, code, text)

    server.on_call = call
    ears = Ears()
    async with serving(server), connected(server.target, ears) as session:
        _, running = start(session, "tools/call", {"name": "running"})
        await eventually(lambda: any(x.method == "tools/call" for x in server.seen))
        refused = [start(session, "tools/call", {"name": "new"})[1] for _ in range(3)]
        await eventually(lambda: ears.losses)
        assert [reply.processed for [reply] in refused if isinstance(reply, Lost)] == [False] * 3
        assert isinstance(running[0], Lost)
        assert running[0].processed
        assert session.closed
    assert not server.verbs("DELETE")


async def test_an_error_in_an_http_error_belongs_to_the_request() -> None:
    server = HttpServer()

    async def call(x: Exchange) -> None:
        await x.error(400, -32602, "session_name is missing")

    server.on_call = call
    async with serving(server), connected(server.target) as session:
        assert await session.request("tools/call", timeout=5) == Failure(-32602, "session_name is missing")
        assert not session.closed


@pytest.mark.parametrize("status", [401, 403, 500, 502])
async def test_a_refusal_by_http_is_named(status: int) -> None:
    server = HttpServer()

    async def refuse(x: Exchange) -> None:
        await x.answer(status, b"<html>")

    server.on_call = refuse
    async with serving(server):
        async with connected(server.target) as session:
            reply = await session.request("tools/call", timeout=5)
            assert isinstance(reply, Lost)
            assert f"HTTP {status}" in reply.reason
        server.on_initialize = refuse
        with pytest.raises((CannotStart, BaseExceptionGroup)) as caught:
            async with connected(server.target):
                pass
        assert f"HTTP {status}" in str(cause(caught.value))


async def test_no_connection_means_unprocessed() -> None:
    server = HttpServer()
    async with anyio.create_task_group() as tasks:
        up, down, over = anyio.Event(), anyio.Event(), anyio.Event()

        async def run() -> None:
            async with serving(server):
                up.set()
                await down.wait()
            over.set()

        tasks.start_soon(run)
        await up.wait()
        async with connected(server.target) as session:
            down.set()
            await over.wait()
            reply = await session.request("tools/call", timeout=5)
            assert isinstance(reply, Lost)
            assert not reply.processed
    with pytest.raises((CannotStart, BaseExceptionGroup)) as caught:
        async with connected(server.target):
            pass
    assert "could not be reached" in str(cause(caught.value))


async def test_a_server_of_one_request_at_a_time_goes_without_get(caplog: pytest.LogCaptureFixture) -> None:
    server = HttpServer()
    server.slots = anyio.Semaphore(1)
    server.on_get = hold
    async with serving(server), connected(server.target) as session:
        assert not session.unlabelled
        assert await session.request("tools/call", timeout=5) == Result({})
    assert sum("one request at a time" in record.getMessage() for record in caplog.records) == 1


async def test_a_server_that_never_answers_a_ping_keeps_its_get() -> None:
    server = HttpServer()
    server.on_get = hold
    server.on_ping = Exchange.gone
    async with serving(server), connected(server.target) as session:
        assert session.unlabelled
        assert await session.request("tools/call", timeout=5) == Result({})
        assert not server.pushed("notifications/cancelled")


async def test_a_redirect_is_followed_on_the_same_origin_only() -> None:
    server = HttpServer()
    initialize = server.on_initialize

    async def redirect(x: Exchange) -> None:
        if x.path == "/mcp":
            await x.answer(307, location="/mcp/")
        else:
            await initialize(x)

    server.on_initialize = redirect
    async with serving(server):
        async with connected(server.target) as session:
            assert await session.request("tools/call", timeout=5) == Result({})
        assert server.seen[-1].path == "/mcp/"

        async def away(x: Exchange) -> None:
            await x.answer(307, location="http://127.0.0.2:1/mcp?secret=1")

        server.on_initialize = away
        with pytest.raises((CannotStart, BaseExceptionGroup)) as caught:
            async with connected(server.target):
                pass
        assert "another origin" in str(cause(caught.value))
        assert "secret" not in str(cause(caught.value))


async def test_a_cancelled_call_is_told_and_its_stream_is_read_on_until_it_is_forgotten() -> None:
    server = HttpServer()
    closed = anyio.Event()

    async def call(x: Exchange) -> None:
        await x.stream()
        await eventually(lambda: server.pushed("notifications/cancelled"))
        await ask(x, 1)
        await x.gone()
        closed.set()

    server.on_call = call
    ears = Ears()
    async with serving(server), connected(server.target, ears) as session:
        request_id, replies = start(session, "tools/call")
        await eventually(lambda: any(x.method == "tools/call" for x in server.seen))
        session.cancel(request_id, "gone")
        await eventually(lambda: ears.asks)
        assert ears.asks[0].request_id == request_id
        session.forget(request_id)
        with anyio.fail_after(2):
            await closed.wait()
        assert replies == []


async def test_a_hundred_calls_run_at_once() -> None:
    server = HttpServer()
    together = anyio.Event()

    async def call(x: Exchange) -> None:
        if sum(y.method == "tools/call" for y in server.seen) == 120:
            together.set()
        await together.wait()
        await x.event()
        await respond(x, {"id": x.id})
        await x.end()

    server.on_call = call
    server.on_get = hold
    async with serving(server), connected(server.target) as session:
        calls = [start(session, "tools/call") for _ in range(120)]
        await eventually(lambda: all(replies for _, replies in calls), 10)
        assert all(replies == [Result({"id": request_id})] for request_id, replies in calls)


async def test_answers_and_arguments_reach_no_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "mrtr")
    server = HttpServer()

    async def call(x: Exchange) -> None:
        await x.stream()
        await x.event(message={"id": 1, "method": "elicitation/create", "params": {"message": "hush"}}, id="e")
        await x.end()

    async def push(x: Exchange) -> None:
        await x.answer(500, b"hush")

    def answer(session: Session, ask: Any) -> None:
        session.answer(ask, {"content": {"password": "hush"}})

    server.on_call = call
    async with serving(server), connected(server.target, Ears(on_ask=answer)) as session:
        server.on_push = push
        reply = await session.request("tools/call", {"arguments": {"key": "hush"}}, timeout=5)
        assert isinstance(reply, Lost)
        await eventually(lambda: "HTTP 500" in caplog.text)
    assert "hush" not in caplog.text


async def test_what_is_no_url_is_refused() -> None:
    with pytest.raises((CannotStart, BaseExceptionGroup)) as caught:
        async with connected(HttpTarget("ftp://example.org")):
            pass
    assert "http://" in str(cause(caught.value))


async def test_a_connection_that_breaks_after_the_request_was_written_is_not_tried_again() -> None:
    server = HttpServer()
    taken: list[bytes] = []

    async def cut(stream: SocketStream) -> None:
        async with stream:
            taken.append(await stream.receive())

    async with serving(server), connected(server.target) as session:
        listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(listener.serve, cut)
            port = listener.extra(SocketAttribute.local_port)

            async def elsewhere(x: Exchange) -> None:
                raise AssertionError("not reached")

            server.on_call = elsewhere
            endpoint = session._transport._endpoint  # type: ignore[attr-defined]
            endpoint.url = endpoint.url.copy_with(port=port)
            reply = await session.request("tools/call", timeout=5)
            tasks.cancel_scope.cancel()
        assert isinstance(reply, Lost)
        assert reply.processed
        assert len(taken) == 1
        endpoint.url = endpoint.url.copy_with(port=server.port)


async def test_a_slow_acknowledgement_holds_no_later_answer_up() -> None:
    server = HttpServer()

    async def push(x: Exchange) -> None:
        if x.message.get("id") == 1:
            await eventually(lambda: len(server.pushed()) == 2)
        await x.answer(202)

    async def call(x: Exchange) -> None:
        await ask(x, 1)
        await ask(x, 2)
        await eventually(lambda: len(server.pushed()) == 2)
        await respond(x, {})
        await x.end()

    server.on_call, server.on_push = call, push
    ears = Ears(on_ask=lambda session, ask: session.answer(ask, {"action": "accept"}))
    async with serving(server), connected(server.target, ears) as session:
        assert await session.request("tools/call", timeout=5) == Result({})
        assert [message["id"] for message in server.pushed()] == [1, 2]


async def test_cancelling_the_owner_closes_the_streams_and_deletes_the_session() -> None:
    server = HttpServer()
    closed = 0

    async def held(x: Exchange) -> None:
        nonlocal closed
        await hold(x)
        closed += 1

    server.on_get = server.on_call = held
    async with serving(server):
        with anyio.CancelScope() as scope:
            async with connected(server.target) as session:
                _, replies = start(session, "tools/call")
                await eventually(lambda: any(x.method == "tools/call" for x in server.seen))
                scope.cancel()
                await anyio.sleep(10)
        assert isinstance(replies[0], Lost)
        assert len(server.verbs("DELETE")) == 1
        await eventually(lambda: closed == 2)
