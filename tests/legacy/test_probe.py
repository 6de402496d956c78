"""What is at the other end is found out without hurting it (2026-07-28 basic/versioning, Backward Compatibility)."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

import anyio
import pytest

from legacy.errors import CannotStart, ModernServer
from legacy.handshake import handshake
from legacy.messages import Result
from legacy.probe import Found
from legacy.targets import HttpTarget
from tests.legacy.http_server import Exchange, HttpServer, here, serving
from tests.legacy.playbook import Playbook
from tests.legacy.sse_server import SseServer
from tests.legacy.support import CLIENT, cause, connected, eventually

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> object:
    """The loop that the bridge runs on, where there is one."""
    return "asyncio", {"use_uvloop": True}


MODERN = {"supported": ["2026-07-28"], "requested": "2025-11-25"}


async def start_of(play: Playbook, *answers: dict[str, Any]) -> tuple[CannotStart | None, list[str]]:
    """A handshake in which the server says these things, one for each request; how it failed, and what was sent."""
    failures: list[CannotStart] = []
    sent: list[str] = []

    async def shake() -> None:
        try:
            await handshake(play.session, play.transport, client_info=CLIENT, capabilities={})
        except CannotStart as error:
            failures.append(error)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(shake)
        for answer in answers:
            await eventually(lambda: play.transport.sent)
            request = play.transport.sent.pop(0)
            sent.append(request["method"])
            play >> {"id": request["id"], **answer}
    return (failures or [None])[0], sent


@pytest.mark.parametrize("code", [-32022, -32601, -32020, -32000])
async def test_a_server_that_names_modern_versions_only_is_told_apart(code: int) -> None:
    refusal = {"code": code, "message": "no", "data": MODERN}
    error, sent = await start_of(Playbook(), {"error": refusal})
    assert isinstance(error, ModernServer)
    assert error.supported == ("2026-07-28",)
    assert "'srv' speaks 2026-07-28 itself" in str(error)
    assert sent == ["initialize"]


@pytest.mark.parametrize("code", [-32601, -32602, -32020, -32021, -32022])
@pytest.mark.parametrize(
    "discovered",
    [
        {"result": {"supportedVersions": ["2026-07-28", "2027-01-01"]}},
        {"error": {"code": -32022, "message": "no", "data": {"supported": ["2026-07-28", "2027-01-01"]}}},
    ],
)
async def test_a_server_that_may_be_modern_is_asked(code: int, discovered: dict[str, Any]) -> None:
    error, sent = await start_of(Playbook(), {"error": {"code": code, "message": "no"}}, discovered)
    assert isinstance(error, ModernServer)
    assert error.supported == ("2026-07-28", "2027-01-01")
    assert sent == ["initialize", "server/discover"]


@pytest.mark.parametrize(
    "discovered",
    [
        {"error": {"code": -32601, "message": "Method not found"}},
        {"result": {"supportedVersions": "2026-07-28"}},
        {"result": {"supportedVersions": ["2024-11-05", "newest", 3]}},
    ],
)
async def test_an_old_server_that_refuses_keeps_its_own_refusal(discovered: dict[str, Any]) -> None:
    error, sent = await start_of(Playbook(), {"error": {"code": -32602, "message": "bad params"}}, discovered)
    assert type(error) is CannotStart
    assert str(error) == "The server 'srv' refused to initialize: bad params (-32602)."
    assert sent == ["initialize", "server/discover"]


async def test_another_refusal_is_no_reason_to_look_for_a_modern_server() -> None:
    error, sent = await start_of(Playbook(), {"error": {"code": -32005, "message": "busy"}})
    assert type(error) is CannotStart
    assert sent == ["initialize"]


async def test_a_server_of_both_eras_is_served_as_a_legacy_one() -> None:
    both = {"supported": ["2026-07-28", "2025-06-18"]}
    info = {"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": {"name": "s", "version": "1"}}
    play = Playbook()
    error, sent = await start_of(play, {"error": {"code": -32022, "message": "no", "data": both}}, {"result": info})
    assert error is None
    assert sent == ["initialize", "initialize"]
    assert play.session.protocol_version == "2025-06-18"


async def test_over_http_the_question_carries_the_headers_of_a_modern_request() -> None:
    async def initialize(x: Exchange) -> None:
        await x.error(404, -32601, "Method not found")

    async def discover(x: Exchange) -> None:
        await x.result({"supportedVersions": ["2026-07-28"]})

    async with here(HttpServer()) as server:
        server.on_initialize, server.on_call = initialize, discover
        with pytest.raises((ModernServer, BaseExceptionGroup)) as caught:
            async with connected(server.target):
                pass
        error = cause(caught.value)
        assert isinstance(error, ModernServer)
        assert (error.url, error.supported) == (server.target.url, ("2026-07-28",))
        asked = server.seen[1]
        assert asked.method == "server/discover"
        assert asked.headers["mcp-protocol-version"] == "2026-07-28"
        assert asked.headers["mcp-method"] == "server/discover"
        assert asked.message["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] == "2026-07-28"
        assert [x.verb for x in server.seen] == ["POST", "POST"]


# --- what is at a URL -------------------------------------------------------------------------------------------------


async def failure(target: HttpTarget, found: Found | None = None, **limits: Any) -> CannotStart:
    """Why no session can be opened."""
    with pytest.raises((CannotStart, BaseExceptionGroup)) as caught:
        async with connected(target, found=found, **limits):
            pass
    error = cause(caught.value)
    assert isinstance(error, CannotStart)
    return error


async def test_streamable_http_gets_one_initialize_and_no_other_question(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "mrtr.server")
    async with serving(HttpServer()) as server, connected(server.target) as session:
        assert session.transport == "streamable-http"
        assert [(x.verb, x.method) for x in server.seen] == [
            ("POST", "initialize"),
            ("POST", "notifications/initialized"),
            ("GET", None),
        ]
    assert ("mrtr.server.srv", logging.INFO, "speaks Streamable HTTP") in caplog.record_tuples


@pytest.mark.parametrize("status", [400, 403, 404, 405, 406, 415, 422, 501])
async def test_a_url_that_refuses_the_post_may_be_http_sse(status: int, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "mrtr.server")
    server = SseServer()

    async def wrong(x: Exchange) -> None:
        await x.answer(status, b"no")

    server.on_wrong_post = wrong
    async with here(server), connected(server.target) as session:
        assert session.transport == "http-sse"
        assert await session.request("tools/list", timeout=5) == Result({})
        assert [(x.verb, x.path, x.method) for x in server.seen][:3] == [
            ("POST", "/sse", "initialize"),
            ("GET", "/sse", None),
            ("POST", "/messages", "initialize"),
        ]
    assert ("mrtr.server.srv", logging.INFO, "speaks HTTP+SSE of 2024-11-05") in caplog.record_tuples


async def test_a_json_rpc_refusal_of_the_post_may_come_from_http_sse_too() -> None:
    server = SseServer()

    async def wrong(x: Exchange) -> None:
        await x.error(405, -32000, "Method not allowed.")

    server.on_wrong_post = wrong
    async with here(server), connected(server.target) as session:
        assert session.transport == "http-sse"


async def test_a_stream_that_names_an_endpoint_may_also_answer_the_post() -> None:
    """Some servers mount their GET for every method; the POST has to be given up, not waited for."""
    server = SseServer()
    server.on_wrong_post = server.stream
    async with here(server):
        with anyio.fail_after(4):
            async with connected(server.target) as session:
                assert session.transport == "http-sse"
                assert await session.request("tools/list", timeout=5) == Result({})


@pytest.mark.parametrize("status", [401, 408, 429, 500, 503])
async def test_another_refusal_is_no_reason_for_a_get(status: int) -> None:
    server = SseServer()

    async def wrong(x: Exchange) -> None:
        await x.answer(status, b"no")

    server.on_wrong_post = wrong
    async with here(server):
        assert f"answered initialize with HTTP {status}" in str(await failure(server.target))
        assert [x.verb for x in server.seen] == ["POST"]


async def test_where_neither_is_spoken_the_error_says_both() -> None:
    async def nothing(x: Exchange) -> None:
        await x.answer(404, b"Not Found")

    server = HttpServer()
    server.on_initialize = server.on_get = nothing
    async with here(server):
        said = str(await failure(server.target))
        assert "answered initialize with HTTP 404 Not Found" in said
        assert "answered GET with HTTP 404 Not Found" in said
        assert [x.verb for x in server.seen] == ["POST", "GET"]


async def test_a_modern_server_gets_no_get() -> None:
    async def initialize(x: Exchange) -> None:
        error = {"code": -32601, "message": "Method not found", "data": MODERN}
        await x.answer(404, {"jsonrpc": "2.0", "id": x.id, "error": error})

    server = HttpServer()
    server.on_initialize = initialize
    async with here(server):
        assert isinstance(await failure(server.target), ModernServer)
        assert [x.verb for x in server.seen] == ["POST"]


async def test_a_silent_get_stream_of_another_kind_is_given_up_in_bounded_time() -> None:
    async def initialize(x: Exchange) -> None:
        await x.answer(400, b"Bad Request")

    async def get(x: Exchange) -> None:
        await x.stream()
        await x.gone()

    server = HttpServer()
    server.on_initialize, server.on_get = initialize, get
    async with here(server):
        with anyio.fail_after(5):
            said = str(await failure(server.target, endpoint_wait=0.3))
        assert "answered initialize with HTTP 400" in said
        assert "named no endpoint for messages within 0.3 s" in said


async def test_the_operators_word_goes_before_what_could_be_found_out() -> None:
    async with here(SseServer()) as server:
        error = await failure(replace(server.target, transport="streamable-http"))
        assert "answered initialize with HTTP 405" in str(error)
        async with connected(replace(server.target, transport="http-sse")):
            pass
        assert [(x.verb, x.path) for x in server.seen][:3] == [("POST", "/sse"), ("GET", "/sse"), ("POST", "/messages")]


async def test_what_was_found_is_tried_first_and_the_other_where_it_is_no_more(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "mrtr.server")
    server, found = SseServer(), Found()
    async with serving(server):
        for _ in range(2):
            async with connected(server.target, found=found) as session:
                assert session.transport == "http-sse"
        assert [x.path for x in server.verbs("POST")].count("/sse") == 1
        assert caplog.messages == ["speaks HTTP+SSE of 2024-11-05"]
        server.on_get, server.on_wrong_post = server.not_allowed, server.result_of_initialize
        async with connected(server.target, found=found) as session:
            assert session.transport == "streamable-http"
        assert caplog.messages[1:] == ["speaks Streamable HTTP"]
        server.on_wrong_post = server.not_allowed
        said = str(await failure(server.target, found))
        assert "answered initialize with HTTP 405" in said
        assert found.transport is None
