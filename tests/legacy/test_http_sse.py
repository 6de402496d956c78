"""HTTP+SSE against a scripted server (2024-11-05 basic/transports, and what servers do instead)."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from typing import Any

import anyio
import pytest

from legacy.errors import CannotStart
from legacy.messages import Failure, Lost, Result
from legacy.session import Session
from legacy.targets import HttpTarget
from tests.legacy.http_server import Exchange, here, serving
from tests.legacy.sse_server import OLD, SseServer
from tests.legacy.support import Ears, cause, connected, eventually, start

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> object:
    """The loop that the bridge runs on, where there is one; the reading of streams is tested on both elsewhere."""
    return "asyncio", {"use_uvloop": True}


def sse(server: SseServer) -> HttpTarget:
    return replace(server.target, transport="http-sse")


async def refused(server: SseServer, **limits: Any) -> str:
    """Why no session can be opened."""
    async with here(server):
        with pytest.raises((CannotStart, BaseExceptionGroup)) as caught:
            async with connected(sse(server), **limits):
                pass
    error = cause(caught.value)
    assert isinstance(error, CannotStart)
    return str(error)


async def test_messages_go_to_the_endpoint_and_answers_come_by_the_stream() -> None:
    async with serving(SseServer()) as server:
        async with connected(sse(server)) as session:
            assert session.protocol_version == "2024-11-05"
            assert session.unlabelled
            assert session.transport == "http-sse"
            assert await session.request("tools/list", timeout=5) == Result({})
        first, *others = server.seen
        assert (first.verb, first.path) == ("GET", "/sse")
        assert [(x.verb, x.path, x.method) for x in others] == [
            ("POST", "/messages", "initialize"),
            ("POST", "/messages", "notifications/initialized"),
            ("POST", "/messages", "tools/list"),
        ]
        assert {x.headers["x-extra"] for x in server.seen} == {"1"}
        assert first.headers["accept"] == "text/event-stream"
        assert "mcp-session-id" not in others[-1].headers


@pytest.mark.parametrize(
    "named",
    [
        "/messages?session=1",
        "messages?session=1",
        "./messages?session=1",
        "//127.0.0.1:{port}/messages?session=1",
        "http://127.0.0.1:{port}/messages?session=1",
        "HTTP://127.0.0.1:{port}/messages?session=1",
        " /messages?session=1 ",
    ],
)
async def test_the_endpoint_may_be_relative_or_absolute(named: str) -> None:
    server = SseServer()
    async with here(server):
        server.endpoint = named.format(port=server.port)
        async with connected(sse(server)) as session:
            assert await session.request("tools/list", timeout=5) == Result({})


@pytest.mark.parametrize(
    ("named", "words"),
    [
        ("http://127.0.0.1:1/messages", "wants messages at another origin, http://127.0.0.1:1/messages,"),
        ("https://127.0.0.1:{port}/messages?token=hush", "wants messages at another origin, https://127.0.0.1:"),
        ("//example.org/messages", "wants messages at another origin, http://example.org/messages,"),
        ("javascript:alert(1)", "named an endpoint for messages that is no URL"),
        ("http://127.0.0.1:port/", "named an endpoint for messages that is no URL"),
    ],
)
async def test_messages_go_to_no_other_origin(named: str, words: str) -> None:
    server = SseServer()

    async def stream(x: Exchange) -> None:
        server.endpoint = named.format(port=server.port)
        await server.stream(x)

    server.on_get = stream
    said = await refused(server)
    assert words in said
    assert "hush" not in said
    assert [x.verb for x in server.seen] == ["GET"]


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (405, "answered GET with HTTP 405 Method Not Allowed"),
        (401, "answered GET with HTTP 401 Unauthorized; give the bridge credentials that the server takes"),
        (200, "answered GET with text/plain instead of an event stream"),
    ],
)
async def test_a_get_that_opens_no_stream_says_why(status: int, words: str) -> None:
    server = SseServer()

    async def get(x: Exchange) -> None:
        await x.answer(status, b"no")

    server.on_get = get
    assert words in await refused(server)


async def test_a_stream_that_names_no_endpoint_is_given_up_in_bounded_time() -> None:
    server = SseServer()

    async def get(x: Exchange) -> None:
        await x.stream()
        await server.raw("event: hello\ndata: /messages\n\n: still here\n\n", x)
        await server.hold(x)

    server.on_get = get
    with anyio.fail_after(10):
        assert "named no endpoint for messages within 0.3 s" in await refused(server, endpoint_wait=0.3)


async def test_a_stream_that_ends_before_it_names_an_endpoint_says_so() -> None:
    server = SseServer()

    async def get(x: Exchange) -> None:
        await x.stream()
        await x.end()

    server.on_get = get
    assert "named no endpoint for messages before its stream was closed by the server" in await refused(server)


async def test_an_endpoint_that_does_not_exist_says_where_it_was_looked_for() -> None:
    server = SseServer()

    async def nowhere(x: Exchange) -> None:
        await x.answer(404, b"Not Found")

    server.on_initialize = nowhere
    said = await refused(server)
    assert f"at http://127.0.0.1:{server.port}/messages, which its stream named, answered initialize with" in said


async def test_no_server_is_an_error_that_says_where_none_is() -> None:
    target = HttpTarget("http://127.0.0.1:1/sse", transport="http-sse")
    with pytest.raises((CannotStart, BaseExceptionGroup)) as caught:
        async with connected(target):
            pass
    assert "could not be reached: no connection to http://127.0.0.1:1/sse" in str(cause(caught.value))


async def test_everything_that_the_server_asks_is_unlabelled_and_answered_at_the_endpoint() -> None:
    server, ears = SseServer(), Ears(on_ask=lambda session, ask: session.answer(ask, {"action": "accept"}))

    async def call(x: Exchange) -> None:
        await x.answer(202)
        await server.say({"id": 7, "method": "elicitation/create", "params": {"message": "?"}})
        await eventually(lambda: server.pushed())
        await server.say({"id": x.id, "result": {}})

    server.on_call = call
    async with here(server), connected(sse(server), ears) as session:
        assert await session.request("tools/call", timeout=5) == Result({})
        assert [ask.request_id for ask in ears.asks] == [None]
        assert server.pushed() == [{"jsonrpc": "2.0", "id": 7, "result": {"action": "accept"}}]


async def test_a_stream_is_read_as_the_standard_says() -> None:
    """CRLF, CR, lines of data, comments, a byte order mark, unknown fields, no ``event``, pieces of any size."""
    server, ears = SseServer(), Ears()

    async def stream(x: Exchange) -> None:
        await x._start(200, {"content-type": "text/event-stream; charset=utf-8"})
        server.streams.append(x)
        for byte in b"\xef\xbb\xbf:\r\nevent: endpoint\r\ndata: /messages\r\nretry: 5\r\n\r\n":
            await server.raw(bytes([byte]), x)
        await server.hold(x)

    async def call(x: Exchange) -> None:
        await x.answer(202)
        note = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"data": "snow ☃ \u2028 line"}}
        data = json.dumps(note, ensure_ascii=False).encode()
        cut = data.index("☃".encode()) + 1
        await server.raw(b": comment\n\ndata: " + data[:cut])  # no `event`; cut in a character
        await anyio.sleep(0.01)
        await server.raw(data[cut:] + b"\n\n")
        await server.raw('event: ping\ndata: {"jsonrpc": "2.0", "method": "no"}\n\nevent: endpoint\ndata: /no\n\n')
        await server.raw("event: message\rdata: not JSON\r\rdata\rfoo: bar\r\r")
        answer = json.dumps({"jsonrpc": "2.0", "id": x.id, "result": {"a": 1}}, indent=1)
        await server.raw("".join(f"data: {line}\r\n" for line in answer.splitlines()) + "\r\n")

    server.on_get, server.on_call = stream, call
    async with here(server), connected(sse(server), ears) as session:
        assert await session.request("tools/call", timeout=5) == Result({"a": 1})
        assert ears.notifications == [("notifications/message", {"data": "snow ☃ \u2028 line"}, None)]
        assert await session.request("tools/list", timeout=5)
        assert {x.path for x in server.verbs("POST")} == {"/messages"}


async def test_a_big_message_arrives_whole_and_one_beyond_the_limit_is_skipped() -> None:
    server = SseServer()

    async def call(x: Exchange) -> None:
        text = "x" * (5_000_000 if x.method == "tools/call" else 9_000_000)
        await server.reply(x, {"text": text})

    server.on_call = call
    async with serving(server), connected(sse(server), max_message=8_000_000) as session:
        reply = await session.request("tools/call", {"big": "y" * 3_000_000}, timeout=20)
        assert isinstance(reply, Result)
        assert len(reply.value["text"]) == 5_000_000
        _, replies = start(session, "tools/list")
        await eventually(lambda: server.seen[-1].method == "tools/list")
        server.on_call = server.answered
        assert await session.request("prompts/list", timeout=10) == Result({})
        assert not replies


async def test_a_refused_post_fails_its_request_and_no_other() -> None:
    server = SseServer()

    async def call(x: Exchange) -> None:
        match x.method:
            case "tools/call":
                await x.answer(413, b"too large")
            case "prompts/get":
                await x.error(400, -32602, "bad params")
            case "resources/read":
                await x.answer(500, b"oops")
            case _:
                await server.answered(x)

    server.on_call = call
    async with here(server), connected(sse(server)) as session:
        lost = await session.request("tools/call", timeout=5)
        assert isinstance(lost, Lost)
        assert lost.processed
        assert "answered tools/call with HTTP 413" in lost.reason
        assert await session.request("prompts/get", timeout=5) == Failure(-32602, "bad params")
        lost = await session.request("resources/read", timeout=5)
        assert isinstance(lost, Lost)
        assert lost.processed
        assert await session.request("tools/list", timeout=5) == Result({})
        assert not session.closed


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (404, b"Could not find session"),
        (404, b"<html>Cannot POST /messages</html>"),
        (410, b""),
        (400, b"Invalid session ID"),
        (400, b'{"jsonrpc":"2.0","id":null,"error":{"code":-32602,"message":"Invalid session ID"}}'),
    ],
)
async def test_a_post_that_is_refused_because_the_session_is_gone_may_be_sent_elsewhere(
    status: int, body: bytes
) -> None:
    server, ears = SseServer(), Ears()

    async def call(x: Exchange) -> None:
        await x.answer(status, body)

    server.on_call = call
    async with here(server), connected(sse(server), ears) as session:
        replies = [replies for _, replies in (start(session, "tools/call"), start(session, "tools/list"))]
        await eventually(lambda: session.closed)
        assert [(type(reply), reply.processed) for [reply] in replies] == [(Lost, False)] * 2  # type: ignore[union-attr]
        assert ears.losses == ["The server 'srv' does not know the session any more."]
        assert len([x for x in server.seen if x.method in ("tools/call", "tools/list")]) == 2


@pytest.mark.parametrize("answer", [504, 524, None])
async def test_an_answer_may_come_although_the_post_was_given_up(answer: int | None) -> None:
    """By a gateway that does not wait; or never acknowledged at all."""
    server = SseServer()

    async def call(x: Exchange) -> None:
        if answer is not None:
            await x.answer(answer, b"Gateway Timeout")
        await anyio.sleep(0.05)
        await server.say({"id": x.id, "result": {"late": True}})
        if answer is None:
            await x.gone()

    server.on_call = call
    async with serving(server), connected(sse(server)) as session:
        assert await session.request("tools/call", timeout=5) == Result({"late": True})
        await eventually(lambda: not session._transport._posts.open)  # type: ignore[attr-defined]


async def test_what_a_post_is_answered_with_is_no_answer_to_the_request() -> None:
    """Servers acknowledge with JSON that looks like one; official clients of the time did not read it."""
    server = SseServer()

    async def call(x: Exchange) -> None:
        await x.result({"status": "accepted"})
        await server.say({"id": x.id, "result": {"real": True}})

    server.on_call = call
    async with here(server), connected(sse(server)) as session:
        assert await session.request("tools/call", timeout=5) == Result({"real": True})


async def test_when_the_stream_ends_the_session_is_lost_and_nothing_is_sent_again() -> None:
    server, ears = SseServer(), Ears()

    async def call(x: Exchange) -> None:
        await x.answer(202)
        server.closing.set()

    server.on_call = call
    async with serving(server), connected(sse(server), ears) as session:
        reply = await session.request("tools/call", timeout=5)
        assert isinstance(reply, Lost)
        assert reply.processed
        [reason] = ears.losses
        assert reply.reason == reason == session.ended_because
        assert "event stream of the server 'srv' was closed by the server" in reason
        assert [x.method for x in server.verbs("POST")].count("tools/call") == 1
        assert len(server.verbs("GET")) == 1


async def test_a_server_that_ends_its_stream_at_once_is_no_session() -> None:
    server = SseServer()

    async def stream(x: Exchange) -> None:
        await server.open(x)
        await x.end()

    server.on_get = stream
    with anyio.fail_after(10):
        assert "its session ends with it" in await refused(server)


async def test_a_server_that_never_answers_initialize_is_given_up() -> None:
    server = SseServer()

    async def silent(x: Exchange) -> None:
        await x.answer(202)

    server.on_initialize = silent
    assert "was not ready within 0.4 s" in await refused(server, start=0.4)


async def test_a_closed_session_closes_its_stream_after_what_was_said_last() -> None:
    server = SseServer()

    async def call(x: Exchange) -> None:
        await x.answer(202)

    async def push(x: Exchange) -> None:
        await anyio.sleep(0.05)
        await x.answer(202)

    server.on_call, server.on_push = call, push
    async with serving(server):
        async with connected(sse(server)) as session:
            request_id, _ = start(session, "tools/call")
            session.cancel(request_id, "over")
        assert [m["params"]["requestId"] for m in server.pushed("notifications/cancelled")] == [request_id]
        await eventually(lambda: len(server.verbs("GET")) == 1)


async def test_a_redirect_of_the_stream_moves_the_endpoint_with_it() -> None:
    server = SseServer("messages?session={}")

    async def get(x: Exchange) -> None:
        if x.path == "/sse":
            await x.answer(307, location="/deep/er/sse")
        else:
            await server.stream(x)

    server.on_get = get
    async with serving(server), connected(sse(server)) as session:
        assert await session.request("tools/list", timeout=5) == Result({})
        assert server.seen[-1].path == "/deep/er/messages"
        assert session._transport.url == f"http://127.0.0.1:{server.port}/deep/er/sse"


async def test_many_calls_at_once_each_get_their_own_answer() -> None:
    server = SseServer()
    calls: list[Exchange] = []

    async def call(x: Exchange) -> None:
        calls.append(x)
        await x.answer(202)
        if len(calls) == 100:
            for one in reversed(calls):
                await server.say({"id": one.id, "result": {"n": one.id}})

    server.on_call = call
    async with serving(server), connected(sse(server)) as session:
        started = [start(session, "tools/call") for _ in range(100)]
        await eventually(lambda: all(replies for _, replies in started), 10)
        assert all(replies == [Result({"n": request_id})] for request_id, replies in started)


async def test_arguments_answers_and_the_session_reach_no_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "mrtr")
    server = SseServer("/messages?session=hush{}")

    async def call(x: Exchange) -> None:
        await x.answer(202)
        await server.raw('event: odd\ndata: hush\n\ndata: hush\n\ndata: {"hush": 1}\n\n')
        await server.say({"id": 1, "method": "elicitation/create", "params": {"message": "hush"}})

    async def push(x: Exchange) -> None:
        await x.answer(500, b"hush")

    def answer(session: Session, ask: Any) -> None:
        session.answer(ask, {"content": {"password": "hush"}})

    server.on_call = call
    async with here(server), connected(sse(server), Ears(on_ask=answer)) as session:
        server.on_push = push
        start(session, "tools/call", {"arguments": {"key": "hush"}})
        await eventually(lambda: "HTTP 500" in caplog.text)
        server.closing.set()
        await eventually(lambda: session.closed)
    assert "hush" not in caplog.text


async def test_the_version_goes_with_messages_once_it_is_negotiated() -> None:
    server = SseServer()

    async def initialize(x: Exchange) -> None:
        await server.reply(x, {**OLD, "protocolVersion": "2025-06-18"})

    server.on_initialize = initialize
    async with here(server), connected(sse(server)) as session:
        await session.request("tools/list", timeout=5)
    stream, first, *others = server.seen
    assert "mcp-protocol-version" not in {**stream.headers, **first.headers}
    assert {x.headers["mcp-protocol-version"] for x in others} == {"2025-06-18"}


async def test_a_silent_stream_is_kept_from_being_cut_by_pings() -> None:
    server, ears = SseServer(), Ears()
    async with here(server), connected(sse(server), ears, stream_silence=0.1) as session:
        await eventually(lambda: len([x for x in server.seen if x.method == "ping"]) >= 2)
        server.on_ping = server.not_allowed  # a server that cannot take one is left in peace
        await eventually(lambda: len([x for x in server.seen if x.method == "ping"]) >= 4)
        assert not session.closed
        assert not ears.notifications


async def test_a_stream_that_says_something_is_not_pinged() -> None:
    server = SseServer()
    async with here(server), connected(sse(server), stream_silence=0.3):
        for _ in range(10):
            await server.raw(": still here\n\n")
            await anyio.sleep(0.05)
        assert "ping" not in [x.method for x in server.seen]


async def test_cookies_of_the_stream_go_with_its_messages() -> None:
    """A balancer in front of several servers tells by them which one has the stream."""
    server = SseServer()

    async def get(x: Exchange) -> None:
        await x._start(200, {"content-type": "text/event-stream", "set-cookie": "node=7; Path=/; HttpOnly"})
        server.streams.append(x)
        await server.raw("event: endpoint\ndata: /messages\n\n", x)
        await server.hold(x)

    server.on_get = get
    async with here(server), connected(sse(server)) as session:
        await session.request("tools/list", timeout=5)
        assert {x.headers.get("cookie") for x in server.verbs("POST")} == {"node=7"}


@pytest.mark.parametrize(("location", "fine"), [("/messages/?session=1", True), ("http://example.org/messages", False)])
async def test_a_message_follows_a_redirect_within_the_origin_only(location: str, fine: bool) -> None:
    server = SseServer()

    async def call(x: Exchange) -> None:
        if x.path == "/messages":
            await x.answer(307, location=location)
        else:
            await server.answered(x)

    server.on_call = call
    async with here(server), connected(sse(server)) as session:
        reply = await session.request("tools/list", timeout=5)
        if fine:
            assert reply == Result({})
            assert server.seen[-1].path == "/messages/"
        else:
            assert isinstance(reply, Lost)
            assert not reply.processed
            assert "redirects to another origin" in reply.reason


@pytest.mark.parametrize(
    ("stream", "named", "found"),
    [
        ("/tools/sse", "/messages?session=1", "/tools/messages"),
        ("/a/b/sse", "/b/messages/?session=1", "/a/b/messages/"),
        ("/a/b/c/sse", "/messages", "/a/b/c/messages"),
    ],
)
@pytest.mark.parametrize("status", [404, 405])
async def test_an_endpoint_is_looked_for_under_the_path_of_a_proxy_too(
    stream: str, named: str, found: str, status: int
) -> None:
    server = SseServer(named)
    server.path = stream

    async def initialize(x: Exchange) -> None:
        await (server.initialized(x) if x.path == found else x.answer(status, b"not here"))

    server.on_initialize = initialize
    async with here(server), connected(sse(server)) as session:
        assert await session.request("tools/list", timeout=5) == Result({})
        assert [x.path for x in server.verbs("POST")][1:] == [found] * 3


@pytest.mark.parametrize(
    ("stream", "named"), [("/sse", "/messages"), ("/a/sse", "/a/messages"), ("/a/b/sse", "/a/b/c/messages")]
)
async def test_an_endpoint_is_looked_for_nowhere_else(stream: str, named: str) -> None:
    server = SseServer(named)
    server.path = stream

    async def nowhere(x: Exchange) -> None:
        await x.answer(404, b"Not Found")

    server.on_initialize = nowhere
    assert f"at http://127.0.0.1:8000{named}, which its stream named," in await refused(server)
    assert len(server.verbs("POST")) == 1


async def test_an_endpoint_that_is_not_there_either_is_called_by_the_name_it_was_given() -> None:
    server = SseServer("/messages")
    server.path = "/a/sse"

    async def nowhere(x: Exchange) -> None:
        await x.answer(404, b"Not Found")

    server.on_initialize = nowhere
    assert "at http://127.0.0.1:8000/messages, which its stream named," in await refused(server)
    assert [x.path for x in server.verbs("POST")] == ["/messages", "/a/messages"]


async def test_what_comes_with_the_endpoint_is_answered() -> None:
    server = SseServer()

    async def stream(x: Exchange) -> None:
        await x.stream()
        server.streams.append(x)
        ping = 'data: {"jsonrpc": "2.0", "id": "early", "method": "ping"}\n\n'
        await server.raw(f"{ping}event: endpoint\ndata: /messages\n\n{ping}", x)
        await server.hold(x)

    server.on_get = stream
    async with here(server), connected(sse(server)):
        await eventually(server.pushed)
        assert server.pushed() == [{"jsonrpc": "2.0", "id": "early", "result": {}}]


async def test_closing_is_bounded_while_nothing_is_acknowledged() -> None:
    server = SseServer()

    async def never(x: Exchange) -> None:
        await x.gone()

    async with serving(server):
        async with connected(sse(server), delete_wait=0.2) as session:
            server.on_call = server.on_push = never
            request_id, _ = start(session, "tools/call")
            start(session, "tools/list")
            session.cancel(request_id, "over")
            await eventually(lambda: server.pushed("notifications/cancelled"))
            with anyio.fail_after(3):
                await session.close()
        assert len(server.verbs("GET")) == 1


async def test_a_start_that_is_cancelled_closes_its_stream() -> None:
    server, left = SseServer(), anyio.Event()

    async def silent(x: Exchange) -> None:
        await x.stream()
        await x.gone()
        left.set()

    server.on_get = silent
    async with serving(server):
        with anyio.move_on_after(0.3) as waited:
            async with connected(sse(server)):
                raise AssertionError("not reached")
        assert waited.cancelled_caught
        with anyio.fail_after(3):
            await left.wait()


async def test_a_server_that_takes_no_messages_loses_its_session_before_it_takes_our_memory() -> None:
    server, ears = SseServer(), Ears()

    async def never(x: Exchange) -> None:
        await x.gone()

    async with here(server), connected(sse(server), ears, max_unsent=1000, order_wait=5) as session:
        server.on_push = never
        for _ in range(40):
            session.notify("notifications/roots/list_changed", {"pad": "x" * 40})
        await eventually(lambda: ears.losses)
        assert "takes no messages" in ears.losses[0]
