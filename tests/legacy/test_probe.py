"""What is at the other end is found out without hurting it (2026-07-28 basic/versioning, Backward Compatibility)."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from legacy.errors import CannotStart, ModernServer
from legacy.handshake import handshake
from tests.legacy.http_server import Exchange, HttpServer, serving
from tests.legacy.playbook import Playbook
from tests.legacy.support import CLIENT, cause, connected, eventually

pytestmark = pytest.mark.anyio
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

    async with serving(HttpServer()) as server:
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
