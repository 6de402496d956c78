"""What published servers, and the bridge itself, are found to be."""

from __future__ import annotations

import os

import pytest
from mcp.server.mcpserver import MCPServer

from legacy.errors import CannotStart, ModernServer
from legacy.messages import Result
from legacy.targets import AppTarget, HttpTarget, StdioTarget, Target
from legacy.transports.asgi import lifespan
from tests.legacy.support import cause, connected
from tests.peers.talking import Http, bridge, node_server

pytestmark = pytest.mark.anyio


async def kind_of(target: Target) -> str:
    """The transport of a session that works."""
    async with connected(target) as session:
        assert isinstance(await session.request("tools/list", timeout=10), Result)
        return session.transport


async def refusal(target: Target) -> CannotStart:
    with pytest.raises((CannotStart, BaseExceptionGroup)) as caught:
        await kind_of(target)
    error = cause(caught.value)
    assert isinstance(error, CannotStart)
    return error


async def test_old_servers_of_both_http_transports_are_found_by_their_url(
    everything_url: str, everything_sse_url: str
) -> None:
    assert await kind_of(HttpTarget(everything_url)) == "streamable-http"
    assert await kind_of(HttpTarget(everything_sse_url)) == "http-sse"


async def test_at_a_wrong_path_the_error_says_what_both_were_answered(everything_sse_url: str) -> None:
    said = str(await refusal(HttpTarget(everything_sse_url.replace("/sse", "/mcp"))))
    assert "answered initialize with HTTP 404 Not Found" in said
    assert "answered GET with HTTP 404 Not Found" in said


async def test_a_server_of_both_eras_is_served_as_an_old_one() -> None:
    app = MCPServer("both").streamable_http_app()
    async with lifespan(app) as started:
        assert await kind_of(AppTarget("http://127.0.0.1:8000/mcp", app=started)) == "streamable-http"


async def test_a_modern_server_at_a_url_is_told_apart(everything_over_stdio: Http) -> None:
    error = await refusal(HttpTarget(everything_over_stdio.url))
    assert isinstance(error, ModernServer)
    assert (error.url, error.supported) == (everything_over_stdio.url, ("2026-07-28",))


async def test_a_modern_server_on_stdio_is_told_apart() -> None:
    error = await refusal(StdioTarget(tuple(bridge("stdio", "--", *node_server("server-everything"))), os.environ))
    assert isinstance(error, ModernServer)
    assert (error.url, error.supported) == (None, ("2026-07-28",))
