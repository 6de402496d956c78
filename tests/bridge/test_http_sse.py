"""Servers of HTTP+SSE behind the bridge: found out by their URL, questions, and streams that end."""

from __future__ import annotations

import logging
import os
import socket
from pathlib import Path
from typing import Any

import anyio
import pytest

from bridge.deprecation import Feature
from bridge.testing import AppTarget, bridge_for
from modern.errors import INTERNAL_ERROR
from tests.bridge.harness import Client, bridged, only_group, refused, text, until
from tests.bridge.listeners import listening
from tests.bridge.test_restart import old_server
from tests.legacy.http_server import Exchange
from tests.legacy.sse_server import SseServer

pytestmark = pytest.mark.anyio
GREETER = Path(__file__).parents[1] / "servers" / "greeter.py"


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def greeter(port: int) -> tuple[str, ...]:
    """The command of a FastMCP server; its Python, with the old SDK, is MRTR_TEST_LEGACY_PYTHON."""
    return os.environ["MRTR_TEST_LEGACY_PYTHON"], str(GREETER), str(port)


async def test_each_of_several_calls_is_asked_its_own_questions(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "mrtr")
    port = free_port()
    with old_server(port, greeter(port)):
        async with bridged(url=f"http://127.0.0.1:{port}/sse") as bridge:
            client, said = Client(bridge), {}

            async def greet(key: str) -> None:
                def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
                    if method == "elicitation/create":
                        assert params["message"] == f"Who are you{key}?"
                        return {"action": "accept", "content": {"name": f"Ada{key}"}}
                    content = params["messages"][0]["content"]
                    asked = (content[0] if isinstance(content, list) else content)["text"]
                    return {"role": "assistant", "model": "m", "content": {"type": "text", "text": f"{asked} Hi."}}

                said[key] = text(await client.answered("greet", answer, key=key))

            async with anyio.create_task_group() as tasks:
                for number in range(4):
                    tasks.start_soon(greet, f" {number}")
            assert said == {f" {n}": f"Greet Ada {n} {n}. Hi." for n in range(4)}
            assert {session.transport for session in only_group(bridge).channels} == {"http-sse"}
            assert caplog.messages.count("speaks HTTP+SSE of 2024-11-05") == 1
            [warned] = [one for one in bridge.pool.deprecations.report() if one["feature"] == Feature.HTTP_SSE]
            assert warned["negotiated"] == len(only_group(bridge).channels)
            said_in_full = "deprecated since 2025-03-26, earliest removal: three months after SEP-2596 reaches Final."
            assert caplog.text.count(said_in_full) == 1


async def test_case_12_a_call_ends_with_its_servers_stream_and_the_next_works_after_a_restart() -> None:
    port = free_port()
    async with bridged(url=f"http://127.0.0.1:{port}/sse") as bridge:
        client = Client(bridge)
        with old_server(port, greeter(port)):
            asked = await client.call("greet")
            assert list(asked["inputRequests"]) == ["elicit-1"]
        answers = {"elicit-1": {"action": "accept", "content": {"name": "Ada"}}}
        error = await refused(client.retry("greet", asked["requestState"], answers))
        assert error.code == INTERNAL_ERROR
        assert "over HTTP+SSE its session ends with it" in error.message
        with old_server(port, greeter(port)):
            assert text(await client.call("echo", text="again")) == "again"


async def test_a_stream_that_always_ends_at_once_is_not_opened_in_a_tight_loop() -> None:
    server = SseServer()

    async def initialize(x: Exchange) -> None:
        capabilities = {"tools": {"listChanged": True}}
        await server.reply(x, {"protocolVersion": "2024-11-05", "capabilities": capabilities, "serverInfo": {}})

    async def stream(x: Exchange) -> None:
        await server.open(x)
        await until(lambda: any(y.method == "notifications/initialized" for y in server.seen[server.seen.index(x) :]))
        await anyio.sleep(0.05)
        await x.end()

    server.on_initialize, server.on_get = initialize, stream
    async with (
        bridge_for(AppTarget("http://127.0.0.1:8000/sse", app=server)) as bridge,
        listening(bridge, acknowledged=False, toolsListChanged=True),
    ):
        await until(lambda: len(server.verbs("GET")) >= 2)
        await anyio.sleep(1)
        assert len(server.verbs("GET")) < 8
