"""Servers that can have one session only, as the TypeScript SDK makes them, and what only looks like them."""

from __future__ import annotations

import pytest

from legacy.errors import CannotStart, OneSessionOnly
from legacy.messages import Result
from legacy.targets import HttpTarget
from tests.legacy.http_server import Exchange, HttpServer, serving
from tests.legacy.support import connected
from tests.peers.talking import ROOT, node, node_modules, server_process

pytestmark = pytest.mark.anyio
SERVER = ROOT / "tests" / "node" / "one_session_server.mjs"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def refused(target: HttpTarget) -> CannotStart:
    """The error that a session with this server ends with before it begins."""
    with pytest.raises(BaseExceptionGroup) as caught:
        async with connected(target):
            pass
    found: BaseException = caught.value
    while isinstance(found, BaseExceptionGroup):
        found = found.exceptions[0]
    assert isinstance(found, CannotStart)
    return found


@pytest.mark.parametrize("mode", ["transport", "shown", "hidden", "sse"])
async def test_to_be_asked_whether_it_is_modern_costs_such_a_server_nothing(mode: str) -> None:
    """Some connect their only server object to whatever comes first without a session id."""
    env = {"MRTR_TEST_NODE_MODULES": str(node_modules())}
    with server_process([node(), str(SERVER), mode], r"listening on port (\d+)", env=env) as match:
        target = HttpTarget(f"http://127.0.0.1:{match[1]}/{'sse' if mode == 'sse' else 'mcp'}")
        async with connected(target, look=True) as session:
            assert session.server_info["name"] == "one-session"
            assert isinstance(await session.request("tools/list", timeout=10), Result)


@pytest.mark.parametrize(("mode", "certain"), [("transport", True), ("shown", True), ("hidden", False), ("sse", True)])
async def test_a_second_session_that_the_server_cannot_have_is_recognised(mode: str, certain: bool) -> None:
    env = {"MRTR_TEST_NODE_MODULES": str(node_modules())}
    with server_process([node(), str(SERVER), mode], r"listening on port (\d+)", env=env) as match:
        target = HttpTarget(f"http://127.0.0.1:{match[1]}/{'sse' if mode == 'sse' else 'mcp'}")
        async with connected(target) as session:
            assert session.server_info["name"] == "one-session"
            error = await refused(target)
            assert isinstance(error, OneSessionOnly)
            assert error.certain is certain
            assert ("one session only" in str(error)) is certain


@pytest.mark.parametrize(
    ("status", "code", "text"),
    [
        (400, -32600, "Bad Request: Mcp-Session-Id header is required"),
        (400, -32602, "Unsupported protocol version"),
        (404, -32001, "Session not found"),
        (401, None, "already connected elsewhere? log in"),
        (429, None, "Too many sessions"),
        (502, None, "Bad gateway"),
        (503, -32600, "Server not initialized"),
    ],
)
async def test_other_refusals_of_a_session_are_not_taken_for_that(status: int, code: int | None, text: str) -> None:
    server = HttpServer()

    async def refuse(x: Exchange) -> None:
        if code is None:
            await x.answer(status, text.encode())
        else:
            await x.error(status, code, text)

    server.on_initialize = refuse
    async with serving(server):
        assert not isinstance(await refused(server.target), OneSessionOnly)
