"""The library API for tests: a bridge and what it wraps in one process (`bridge.testing`)."""

from __future__ import annotations

import json
import os
import subprocess
import sysconfig
from pathlib import Path
from typing import Any

import anyio
import httpx
import httpx2
import pytest
from mcp import Client, types
from mcp.client.streamable_http import streamable_http_client
from mcp.server.mcpserver import Context, MCPServer
from pydantic import BaseModel, ValidationError

from bridge.serving import Bridge
from bridge.settings import Target
from bridge.testing import URL, AppTarget, bridge_for, http_face, in_process
from legacy.targets import HttpTarget
from tests.bridge.harness import Client as Harness
from tests.bridge.harness import text
from tests.legacy.http_server import HttpServer

pytestmark = pytest.mark.anyio
SCRIPT = Path(__file__).parents[1] / "servers" / "in_process.py"


@pytest.mark.parametrize(("kind", "count"), [("memory", 3), ("streamable-http", 1), ("http-sse", 3)])
async def test_the_old_official_sdk_is_served_in_the_same_process(kind: str, count: int) -> None:
    """In a Python of its own, since the official SDKs of the two eras cannot be installed together."""
    python, site = os.environ["MRTR_TEST_LEGACY_PYTHON"], sysconfig.get_path("purelib")
    done = await anyio.run_process([python, str(SCRIPT), site, kind, str(count)], check=False, stderr=subprocess.PIPE)
    assert done.returncode == 0, done.stderr.decode()
    said = json.loads(done.stdout)
    assert said["transports"] == [kind]
    assert len(said["calls"]) == count
    for rounds in said["calls"]:
        asked = [one["method"] for result in rounds[:-1] for one in result["inputRequests"].values()]
        assert asked == ["elicitation/create", "sampling/createMessage"]
        assert rounds[-1]["content"] == [{"type": "text", "text": "Greet Ada. Hello."}]


class Name(BaseModel):
    name: str


def greeter() -> MCPServer:
    """A server of both eras: to the bridge, which shakes hands, one of the old one."""
    server = MCPServer("greeter")

    @server.tool()
    async def greet(ctx: Context) -> str:
        """Ask for a name."""
        await ctx.report_progress(1, 2)
        answer = await ctx.elicit("Who are you?", Name)
        return f"Hello {answer.data.name}" if answer.action == "accept" else answer.action

    return server


@pytest.mark.parametrize("kind", ["memory", "streamable-http", "http-sse"])
async def test_the_official_modern_client_calls_it_in_process(kind: str) -> None:
    server: Any = {"memory": greeter, "streamable-http": greeter().streamable_http_app, "http-sse": greeter().sse_app}
    url = "http://127.0.0.1:8000/sse" if kind == "http-sse" else URL
    asked: list[str] = []
    progress: list[float] = []

    async def answer(context: Any, params: Any) -> types.ElicitResult:
        asked.append(params.message)
        return types.ElicitResult(action="accept", content={"name": "Ada"})

    async def progressed(done: float, total: float | None, message: str | None) -> None:
        progress.append(done)

    with anyio.fail_after(20):
        async with (
            bridge_for(server[kind](), url=url) as bridge,
            httpx2.AsyncClient(transport=in_process(http_face(bridge), httpx2)) as http,
            Client(
                streamable_http_client(URL, http_client=http), mode="2026-07-28", elicitation_callback=answer
            ) as client,
        ):
            result = await client.call_tool("greet", {}, progress_callback=progressed)
            assert [block.text for block in result.content if isinstance(block, types.TextContent)] == ["Hello Ada"]
            assert asked == ["Who are you?"]
            assert progress == [1]
            [group] = bridge.pool.groups.values()
            assert [session.transport for session in group.channels] == [kind]


async def test_the_handler_itself_can_be_asked() -> None:
    async with bridge_for(greeter(), name="greeter") as bridge:
        client = Harness(bridge)
        assert text(await client.answered("greet", lambda *_: {"action": "decline"})) == "decline"


async def test_what_fails_inside_is_raised_as_it_is_and_nothing_is_left() -> None:
    bridges: list[Bridge] = []

    async def fail() -> None:
        async with bridge_for(greeter()) as bridge:
            bridges.append(bridge)
            await Harness(bridge).send("tools/list")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()
    sessions = [session for group in bridges[0].pool.groups.values() for session in group.channels]
    assert [session.closed for session in sessions] == [True]


async def test_the_face_says_what_keeps_the_server_from_starting() -> None:
    app = HttpServer()

    async def broken(x: Any) -> None:
        await x.answer(503, b"")

    app.on_initialize = broken
    async with (
        bridge_for(AppTarget("http://127.0.0.1/mcp", app=app), name="ill") as bridge,
        httpx.AsyncClient(transport=in_process(http_face(bridge))) as http,
    ):
        meta = {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        }
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": meta}}
        headers = {
            "accept": "application/json, text/event-stream",
            "mcp-protocol-version": "2026-07-28",
            "mcp-method": "tools/list",
        }
        said = (await http.post(URL, json=message, headers=headers)).json()["error"]["message"]
        assert "The server 'ill#1' at http://127.0.0.1/mcp answered initialize with HTTP 503" in said


def test_a_target_is_in_one_place_only() -> None:
    inside = AppTarget("http://127.0.0.1/mcp", app=HttpServer())
    assert Target(inside=inside).inside is inside
    with pytest.raises(ValidationError):
        Target(inside=inside, url="http://127.0.0.1/mcp")
    with pytest.raises(ValidationError):
        Target(inside=HttpTarget("http://127.0.0.1/mcp"))  # type: ignore[arg-type]
