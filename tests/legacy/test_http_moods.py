"""What HTTP servers do beside the specification, and what may happen to any of them on the way."""

from __future__ import annotations

import gzip
import json
import socket
import zlib
from typing import Any

import anyio
import pytest
from anyio.abc import SocketAttribute, SocketStream

from legacy.messages import Failure, Lost, Reply, Result
from legacy.session import Session
from legacy.targets import HttpTarget
from legacy.transports import http_endpoint
from tests.legacy.http_server import Exchange, HttpServer, here, serving
from tests.legacy.support import Ears, cause, connected, eventually, start

pytestmark = pytest.mark.anyio
SAID: dict[str, Any] = {"method": "notifications/message", "params": {"level": "info", "data": "x"}}
ASK: dict[str, Any] = {"id": 9, "method": "elicitation/create", "params": {"message": "?"}}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def rpc(*messages: dict[str, Any]) -> bytes:
    """One message, or a batch."""
    whole = [{"jsonrpc": "2.0", **message} for message in messages]
    return json.dumps(whole[0] if len(whole) == 1 else whole).encode()


def event(data: bytes) -> bytes:
    return b"data: " + data + b"\n\n"


async def called(server: HttpServer, ears: Ears | None = None, **limits: Any) -> Reply:
    """What one call comes to."""
    async with here(server), connected(server.target, ears, **limits) as session:
        return await session.request("tools/call", {"name": "t"}, timeout=10)


# --- batches and ids --------------------------------------------------------------------------------------------------


async def called_by_socket(server: HttpServer, ears: Ears | None = None, **limits: Any) -> Reply:
    """The same, over the network."""
    async with serving(server), connected(server.target, ears, **limits) as session:
        return await session.request("tools/call", {"name": "t"}, timeout=10)


@pytest.mark.parametrize("stream", [False, True])
async def test_a_batch_is_taken_apart_and_its_ask_belongs_to_the_call(stream: bool) -> None:
    server = HttpServer()

    async def call(x: Exchange) -> None:
        batch = rpc(SAID, ASK, {"id": x.id, "result": {"done": True}})
        if stream:
            await x.pieces(event(batch), content_type="text/event-stream")
        else:
            await x.pieces(batch, content_type="application/json")

    server.on_call = call
    ears = Ears(on_ask=lambda session, ask: session.answer(ask, {"action": "accept"}))
    assert await called(server, ears) == Result({"done": True})
    assert [asked.request_id for asked in ears.asks] == [ears.notifications[0][2]]
    assert server.pushed() == [{"jsonrpc": "2.0", "id": 9, "result": {"action": "accept"}}]


@pytest.mark.parametrize("answer_id", [None, "server-error", ""])
@pytest.mark.parametrize("how", ["json", "stream", "HTTP error"])
async def test_an_error_without_an_id_of_ours_is_that_of_the_request_it_answers(how: str, answer_id: Any) -> None:
    server = HttpServer()
    error = {"code": -32602, "message": "no such thing", "data": [1]}

    async def call(x: Exchange) -> None:
        said = {"id": answer_id, "error": error}
        match how:
            case "json":
                await x.pieces(rpc(said), content_type="application/json")
            case "stream":
                await x.pieces(event(rpc(SAID)), event(rpc(said)), content_type="text/event-stream")
            case _:
                await x.answer(422, {"jsonrpc": "2.0", **said})

    server.on_call = call
    assert await called(server) == Failure(-32602, "no such thing", [1])


async def test_an_error_without_an_id_on_the_get_stream_is_nobodys() -> None:
    server = HttpServer()

    async def get(x: Exchange) -> None:
        await x.event(message={"id": None, "error": {"code": -1, "message": "?"}})
        await x.gone()

    async def call(x: Exchange) -> None:
        await anyio.sleep(0.1)
        await x.result({})

    server.on_get, server.on_call = get, call
    assert await called(server) == Result({})


async def test_a_call_that_is_accepted_without_an_answer_is_answered_by_get() -> None:
    server = HttpServer()
    accepted = anyio.Event()
    ids: list[Any] = []

    async def call(x: Exchange) -> None:
        ids.append(x.id)
        await x.answer(202)
        accepted.set()

    async def get(x: Exchange) -> None:
        await x.stream()
        await accepted.wait()
        await x.event(message={"id": ids[0], "result": {"late": True}})
        await x.gone()

    server.on_call, server.on_get = call, get
    assert await called(server) == Result({"late": True})


async def test_without_a_get_stream_such_a_call_is_lost_at_once() -> None:
    server = HttpServer()

    async def call(x: Exchange) -> None:
        await x.answer(202)

    server.on_call = call
    reply = await called(server)
    assert isinstance(reply, Lost)
    assert reply.processed
    assert "no answer to it (0 bytes" in reply.reason


# --- bodies -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
@pytest.mark.parametrize("stream", [False, True])
async def test_what_is_compressed_unasked_is_read_as_it_arrives(coding: str, stream: bool) -> None:
    server = HttpServer()
    squeeze: Any = gzip.compress if coding == "gzip" else zlib.compress

    async def call(x: Exchange) -> None:
        answer = rpc({"id": x.id, "result": {"text": "ü" * 10_000}})
        if not stream:
            await x.pieces(squeeze(answer), content_type="application/json", content_encoding=coding)
            return
        packer = zlib.compressobj(wbits=31 if coding == "gzip" else 15)
        first = packer.compress(event(rpc(ASK))) + packer.flush(zlib.Z_SYNC_FLUSH)
        await x._start(200, {"content-type": "text/event-stream", "content-encoding": coding})
        await x._send({"type": "http.response.body", "body": first, "more_body": True})
        await eventually(lambda: server.pushed())  # the ask was heard before the stream went on
        await x._send({"type": "http.response.body", "body": packer.compress(event(answer)) + packer.flush()})

    server.on_call = call
    ears = Ears(on_ask=lambda session, ask: session.answer(ask, {}))
    assert await called(server, ears) == Result({"text": "ü" * 10_000})
    assert {x.headers["accept-encoding"] for x in server.seen} == {"identity"}


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("text/html", b"<html>hush</html>"),
        ("application/json", b'{"jsonrpc": "2.0", "id": 3, "resu'),
        ("application/json", b'"hush"'),
        ("application/json", b"[]"),
        ("application/octet-stream", b"\x00\xff"),
    ],
)
async def test_a_body_that_is_no_answer_is_an_unknown_outcome_named_by_type_and_size(kind: str, body: bytes) -> None:
    server = HttpServer()

    async def call(x: Exchange) -> None:
        await x.pieces(body, content_type=kind)

    server.on_call = call
    reply = await called(server)
    assert isinstance(reply, Lost)
    assert reply.processed
    assert f"no answer to it ({len(body)} bytes, {kind})" in reply.reason
    assert "outcome" in reply.reason or "unknown" in reply.reason
    assert "hush" not in reply.reason


@pytest.mark.parametrize(
    "headers",
    [
        {"content_type": "application/json; charset=utf-8"},
        {"content_type": "text/plain"},
        {"content_type": "Application/JSON"},
        {},
    ],
)
async def test_an_answer_is_known_by_what_it_is_whatever_its_type_is_called(headers: dict[str, str]) -> None:
    server = HttpServer()

    async def call(x: Exchange) -> None:
        await x.pieces(rpc({"id": x.id, "result": {"n": 1}}), **headers)

    server.on_call = call
    assert await called(server) == Result({"n": 1})


async def test_a_stream_is_a_stream_with_a_charset_a_bom_and_any_line_ends() -> None:
    server = HttpServer()

    async def call(x: Exchange) -> None:
        answer = rpc({"id": x.id, "result": {"n": 1}})
        pieces = b"\xef\xbb\xbfevent: message\r\r: note\n\ndata:" + answer + b"\r\n\r\n"
        await x.pieces(pieces, content_type="Text/Event-Stream;charset=UTF-8")

    server.on_call = call
    assert await called(server) == Result({"n": 1})


async def test_a_get_that_is_answered_with_a_page_is_no_stream() -> None:
    server = HttpServer()

    async def get(x: Exchange) -> None:
        await x.pieces(b"<html>", content_type="text/html")

    server.on_get = get
    async with here(server), connected(server.target) as session:
        assert not session.unlabelled
        assert await session.request("tools/call", timeout=5) == Result({})
    assert len(server.verbs("GET")) == 1


# --- size and time ----------------------------------------------------------------------------------------------------


async def test_an_event_of_many_megabytes_arrives_whole() -> None:
    server = HttpServer()
    text = "é\u2028" * 1_500_000  # 7.5 MB

    async def call(x: Exchange) -> None:
        await x.event(message={"id": x.id, "result": {"text": text}})
        await x.end()

    server.on_call = call
    reply = await called(server)
    assert isinstance(reply, Result)
    assert reply.value["text"] == text


@pytest.mark.parametrize("stream", [True, False])
async def test_an_answer_above_the_limit_is_lost_and_nothing_else_with_it(stream: bool) -> None:
    server = HttpServer()

    async def call(x: Exchange) -> None:
        large = {"id": x.id, "result": {"text": "x" * 200_000}}
        if x.message["params"].get("name") != "large":
            await x.result({})
        elif stream:
            await x.event(message=large)
            await x.end()
        else:
            await x.pieces(rpc(large), content_type="application/json")

    server.on_call = call
    async with here(server), connected(server.target, max_message=100_000) as session:
        reply = await session.request("tools/call", {"name": "large"}, timeout=5)
        assert isinstance(reply, Lost)
        assert reply.processed
        assert await session.request("tools/call", timeout=5) == Result({})


async def test_headers_and_bodies_may_come_as_slowly_as_they_like() -> None:
    server = HttpServer()

    async def call(x: Exchange) -> None:
        await anyio.sleep(0.5)
        answer = event(rpc({"id": x.id, "result": {"text": "ü😀"}}))
        await x.pieces(*(answer[at : at + 1] for at in range(len(answer))), content_type="text/event-stream")

    server.on_call = call
    # Slower than every bound on the way to the server; only the call's own limit counts.
    reply = await called_by_socket(server, connect=0.2, post_wait=0.2)
    assert reply == Result({"text": "ü😀"})


# --- redirects --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_a_redirect_keeps_method_body_and_headers(status: int) -> None:
    server = HttpServer()

    async def call(x: Exchange) -> None:
        if x.path == "/mcp":
            await x.answer(status, location="../other/mcp?a=1")
        else:
            assert x.headers["x-extra"] == "1"
            assert x.headers["mcp-session-id"] == "s1"
            await x.result({"name": x.message["params"]["name"]})

    server.on_call = call
    assert await called(server) == Result({"name": "t"})


async def test_nothing_at_all_is_sent_to_another_origin() -> None:
    server, other = HttpServer(), HttpServer()

    async def away(x: Exchange) -> None:
        await x.answer(307, location=other.target.url + "?token=hush")

    server.on_call = server.on_get = server.on_push = away
    async with serving(other), serving(server):
        target = HttpTarget(server.target.url, {"Authorization": "Bearer hush"})
        async with connected(target) as session:
            reply = await session.request("tools/call", {"key": "hush"}, timeout=5)
            assert isinstance(reply, Lost)
            assert not reply.processed
            assert f"redirects to another origin, http://127.0.0.1:{other.port}/mcp; " in reply.reason
            assert "hush" not in reply.reason
    assert not other.seen


async def test_a_redirect_that_turns_in_a_circle_ends() -> None:
    server = HttpServer()

    async def circle(x: Exchange) -> None:
        await x.answer(307, location="/mcp")

    server.on_call = circle
    reply = await called(server)
    assert isinstance(reply, Lost)
    assert "redirects again and again" in reply.reason


# --- what is cut ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ids", [True, False])
async def test_case_12_a_get_stream_that_is_reset_is_opened_again_where_it_ended(ids: bool) -> None:
    server = HttpServer()
    reset = anyio.Event()

    async def get(x: Exchange) -> None:
        if len(server.verbs("GET")) == 1:
            await x.event(message=ASK, id="e1" if ids else None)
            await reset.wait()
            raise ConnectionResetError  # uvicorn closes the connection without the last chunk
        await x.event(message={**ASK, "id": 10}, id="e2" if ids else None)
        await x.gone()

    server.on_get = get
    ears = Ears()
    async with serving(server), connected(server.target, ears):
        await eventually(lambda: ears.asks)
        reset.set()
        await eventually(lambda: len(ears.asks) == 2)
        assert [x.headers.get("last-event-id") for x in server.verbs("GET")] == [None, "e1" if ids else None]


async def test_case_12_a_stream_whose_other_end_vanishes_is_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A proxy that drops an idle connection says nothing, and no packet comes any more."""
    server = HttpServer()
    found: list[socket.socket] = []
    keep_alive = http_endpoint.keep_alive

    def watched(response: Any) -> None:
        keep_alive(response)
        found.append(response.extensions["network_stream"].get_extra_info("socket"))

    async def get(x: Exchange) -> None:
        await x.stream()
        await x.gone()

    monkeypatch.setattr("legacy.transports.http_streams.keep_alive", watched)
    server.on_get = get
    async with serving(server), connected(server.target):
        await eventually(lambda: found)
        [connection] = found
        assert connection.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        idle, every, times = (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
        waits = [connection.getsockopt(socket.IPPROTO_TCP, option) for option in (idle, every, times)]
        assert waits[0] + waits[1] * waits[2] <= 120


async def test_an_answer_that_is_cut_in_the_middle_is_an_unknown_outcome_and_is_not_asked_for_again() -> None:
    taken = 0

    async def half(stream: SocketStream) -> None:
        nonlocal taken
        async with stream:
            await stream.receive()
            taken += 1
            await stream.send(b'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 900\r\n\r\n{"json')

    server = HttpServer()
    async with serving(server), connected(server.target) as session, anyio.create_task_group() as tasks:
        listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
        tasks.start_soon(listener.serve, half)
        endpoint = session._transport._endpoint  # type: ignore[attr-defined]
        endpoint.url = endpoint.url.copy_with(port=listener.extra(SocketAttribute.local_port))
        reply = await session.request("tools/call", timeout=5)
        assert isinstance(reply, Lost)
        assert reply.processed
        assert "broke before it answered; whether it was carried out is unknown" in reply.reason
        assert taken == 1
        endpoint.url = endpoint.url.copy_with(port=server.port)
        tasks.cancel_scope.cancel()


async def test_a_stream_is_resumed_from_where_it_was_cut_and_nothing_is_heard_twice() -> None:
    server = HttpServer()
    ids: list[Any] = []

    async def call(x: Exchange) -> None:
        ids.append(x.id)
        await x.event(message=ASK, id="a")
        await x.event(message=SAID, id="b")
        raise ConnectionResetError

    async def get(x: Exchange) -> None:
        match x.headers.get("last-event-id"):
            case None:
                await x.answer(405)
            case "b":  # it repeats an event, too: it is not sure what arrived
                await x.event(message=ASK, id="a")
                await x.event(message={"id": ids[0], "result": {"done": True}}, id="c")
                await x.end()
            case other:
                raise AssertionError(other)

    server.on_call, server.on_get = call, get
    ears = Ears(on_ask=lambda session, ask: session.answer(ask, {"action": "accept"}))
    assert await called_by_socket(server, ears) == Result({"done": True})
    assert len(ears.asks) == len(ears.notifications) == len(server.pushed()) == 1


# --- sessions ---------------------------------------------------------------------------------------------------------


async def test_a_server_without_sessions_is_known_and_its_asks_are_not_sure_of_their_answers() -> None:
    server = HttpServer()

    async def initialize(x: Exchange) -> None:
        info = {"name": "s", "version": "1"}
        await x.result({"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": info})

    async def call(x: Exchange) -> None:
        await x.event(message=ASK)
        await x.event(message={"id": x.id, "result": {}})
        await x.end()

    server.on_initialize, server.on_call = initialize, call
    ears = Ears()
    assert await called(server, ears) == Result({})
    assert [asked.sure for asked in ears.asks] == [False]
    assert not server.verbs("DELETE")
    assert not any("mcp-session-id" in x.headers for x in server.seen)
    server.on_initialize = server._initialize
    assert await called(server, ears) == Result({})
    assert [asked.sure for asked in ears.asks] == [False, True]


@pytest.mark.parametrize("status", [400, 404])
async def test_an_error_that_only_mentions_sessions_ends_none(status: int) -> None:
    server = HttpServer()

    async def call(x: Exchange) -> None:
        await x.error(status, -32602 if status == 400 else -32601, "unknown session_name")

    server.on_call = call
    ears = Ears()
    async with here(server), connected(server.target, ears) as session:
        assert isinstance(await session.request("tools/call", timeout=5), Failure)
        assert isinstance(await session.request("tools/call", timeout=5), Failure)
        assert not session.closed
    assert not ears.losses


async def test_an_answer_that_a_forgotten_session_refuses_ends_the_session() -> None:
    server = HttpServer()

    async def call(x: Exchange) -> None:
        await x.event(message=ASK)
        await x.gone()

    async def push(x: Exchange) -> None:
        if x.method is None:
            await x.error(404, -32001, "Session not found")
        else:
            await x.answer(202)

    server.on_call, server.on_push = call, push

    def answer(session: Session, ask: Any) -> None:
        session.answer(ask, {"action": "accept"})

    ears = Ears(on_ask=answer)
    async with here(server), connected(server.target, ears) as session:
        _, replies = start(session, "tools/call")
        await eventually(lambda: replies)
        assert isinstance(replies[0], Lost)
        assert replies[0].processed
        assert "does not know the session" in replies[0].reason
        assert session.closed


async def test_a_handshake_answered_by_a_stream_and_kept_waiting_works_like_any() -> None:
    server = HttpServer()

    async def initialize(x: Exchange) -> None:
        info = {"name": "s", "version": "1"}
        result = {"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": info}
        await x._start(200, {"content-type": "text/event-stream", "mcp-session-id": "s9"})
        x._begun = True
        await x.event(message=SAID)
        await anyio.sleep(0.3)
        await x.event(message={"id": x.id, "result": result})
        await x.end()

    server.on_initialize = initialize
    assert await called(server) == Result({})
    assert {x.headers["mcp-session-id"] for x in server.seen[1:]} == {"s9"}
    assert {x.headers["mcp-protocol-version"] for x in server.seen[1:]} == {"2025-06-18"}


async def test_a_handshake_answered_with_a_page_says_so() -> None:
    server = HttpServer()

    async def initialize(x: Exchange) -> None:
        await x.pieces(b"<html>", content_type="text/html")

    server.on_initialize = initialize
    async with here(server):
        with pytest.raises(BaseExceptionGroup) as caught:
            async with connected(server.target):
                pass
    assert "no answer to it (6 bytes, text/html)" in str(cause(caught.value))
