"""Progress and log messages of an old server on Streamable HTTP, where a stream may say whose they are."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import anyio
import pytest

from tests.bridge.harness import Client, bridged, only_group, until
from tests.bridge.listeners import announcer
from tests.bridge.test_restart import old_server

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    with old_server(port, announcer("--http", str(port))):
        yield f"http://127.0.0.1:{port}/mcp"


async def quiet(client: Client, *tools: str) -> None:
    """Let it be learned that these tools ask nothing, so that their calls run side by side on one session."""
    for tool in tools:
        for _ in range(5):
            await client.call(tool, n=1, seconds=0)


async def test_progress_of_calls_side_by_side_never_crosses(url: str) -> None:
    async with bridged(url=url) as bridge:
        await quiet(Client(bridge), "report")
        told: dict[Any, list[Any]] = {}

        async def run(token: str | int, count: int) -> None:
            client = Client(bridge)
            params = {"name": "report", "arguments": {"n": count}}
            await client.send("tools/call", params, progress_token=token)
            told[token] = [(p["progressToken"], p["progress"], p["total"]) for _, p in client.leg.notifications]

        counts = {"one": 40, 2: 50, "2": 60, 0: 70}
        async with anyio.create_task_group() as tasks:
            for token, count in counts.items():
                tasks.start_soon(run, token, count)
        assert len(only_group(bridge).channels) == 1
        for token, count in counts.items():
            assert told[token] == [(token, step + 1, count) for step in range(count)]


async def chat(bridge: Any, level: str | None, **arguments: Any) -> list[str]:
    client = Client(bridge)
    await client.send("tools/call", {"name": "chat", "arguments": arguments}, log_level=level)
    return [params["data"] for method, params in client.leg.notifications if method == "notifications/message"]


async def test_a_log_line_on_a_calls_own_stream_is_that_calls_whatever_else_is_open(url: str) -> None:
    async with bridged(url=url) as bridge:
        client = Client(bridge)
        await quiet(client, "quiet", "chat")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: client.send("tools/call", {"name": "quiet", "arguments": {"seconds": 1}}))
            await until(lambda: only_group(bridge)._runs)
            assert await chat(bridge, "info", n=2) == ["line 0", "line 1"]
            assert await chat(bridge, None, n=2) == []
            assert await chat(bridge, "error", n=2) == []
            assert client.leg.notifications == []
            tasks.cancel_scope.cancel()


async def test_a_log_line_on_the_get_stream_is_nobodys_while_several_calls_are_open(url: str) -> None:
    async with bridged(url=url) as bridge:
        client = Client(bridge)
        await quiet(client, "quiet", "chat")
        unclaimed = only_group(bridge).unclaimed.by_level
        unclaimed.clear()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: client.send("tools/call", {"name": "quiet", "arguments": {"seconds": 1}}))
            await until(lambda: only_group(bridge)._runs)
            assert await chat(bridge, "info", n=2, related=False) == []
            await until(lambda: unclaimed["info"] == 2)
            tasks.cancel_scope.cancel()
