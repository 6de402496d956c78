"""The HTTP face behind a real uvicorn on a free port."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
import uvicorn

from modern.envelope import Request
from modern.http import HttpFace, HttpSettings
from modern.http_app import PATH, Endpoint
from modern.serving import Leg
from tests.modern.helpers import DONE, Acting, for_ever, headers, message

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def serving(handler: Acting, settings: HttpSettings | None = None) -> AsyncIterator[int]:
    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(Endpoint({PATH: HttpFace(handler, settings)}), log_config=None, access_log=False)
    server = uvicorn.Server(config)
    running = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        yield listener.getsockname()[1]
    finally:
        server.should_exit = True
        await asyncio.wait_for(running, 2)


def sent(body: dict[str, Any]) -> dict[str, str]:
    return {name: value for name, value in headers(body).items() if name != "host"}


async def test_calls_side_by_side_and_one_after_the_other_on_one_connection() -> None:
    body = message()
    async with serving(Acting()) as port, httpx.AsyncClient() as client:
        for _ in range(3):
            answers = await asyncio.gather(
                *(client.post(f"http://127.0.0.1:{port}/mcp", json=body, headers=sent(body)) for _ in range(8))
            )
            assert [answer.json()["result"] for answer in answers] == [DONE] * 8


async def test_a_stream_arrives_piece_by_piece() -> None:
    step = asyncio.Event()

    async def serve(request: Request, leg: Leg) -> dict[str, Any]:
        leg.notify("notifications/progress", {"progressToken": 1, "progress": 1})
        await step.wait()
        return DONE

    body = message()
    async with serving(Acting(serve)) as port, httpx.AsyncClient() as client:
        stream = client.stream("POST", f"http://127.0.0.1:{port}/mcp", json=body, headers=sent(body))
        async with stream as answer:
            assert answer.headers["content-type"] == "text/event-stream"
            data = [line async for line in _lines_until_first(answer, step) if line.startswith("data: ")]
    assert [json.loads(line[6:]).get("method") for line in data] == ["notifications/progress", None]


async def _lines_until_first(answer: httpx.Response, step: asyncio.Event) -> AsyncIterator[str]:
    async for line in answer.aiter_lines():
        yield line
        if line.startswith("data: "):
            step.set()


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_closed_connection_cancels_the_handler(streamed: bool) -> None:
    async def serve(request: Request, leg: Leg) -> dict[str, Any]:
        if streamed:
            leg.notify("notifications/progress", {})
        return await for_ever(request, leg)

    handler = Acting(serve)
    async with serving(handler, HttpSettings(watch_after=0.01)) as port:
        writer = await post_raw(port, json.dumps(message()).encode())
        await asyncio.sleep(0.03)
        assert handler.served
        writer.close()
        await asyncio.wait_for(handler.cancelled.wait(), 1)


async def test_a_body_without_length_that_is_too_large_is_413() -> None:
    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(64):
            yield b" " * 1024

    async with serving(Acting(), HttpSettings(max_body=4096)) as port, httpx.AsyncClient() as client:
        url = f"http://127.0.0.1:{port}/mcp"
        assert (await client.post(url, content=chunks(), headers=sent(message()))).status_code == 413
        assert (await client.post(url, content=b" " * 5000, headers=sent(message()))).status_code == 413
        body = message()
        assert (await client.post(url, json=body, headers=sent(body))).status_code == 200


async def test_a_body_that_trickles_in_is_served() -> None:
    data = json.dumps(message()).encode()

    async def trickle() -> AsyncIterator[bytes]:
        for at in range(0, len(data), 50):
            yield data[at : at + 50]
            await asyncio.sleep(0.005)

    async with serving(Acting()) as port, httpx.AsyncClient() as client:
        answer = await client.post(f"http://127.0.0.1:{port}/mcp", content=trickle(), headers=sent(message()))
        assert answer.json()["result"] == DONE


async def test_a_client_that_stops_reading_and_leaves_frees_everything() -> None:
    async def serve(request: Request, leg: Leg) -> dict[str, Any]:
        while True:
            leg.notify("notifications/message", {"data": "x" * 10_000})
            await asyncio.sleep(0)

    handler = Acting(serve)
    async with serving(handler, HttpSettings(watch_after=0.01, max_queued=50)) as port:
        writer = await post_raw(port, json.dumps(message()).encode())
        await asyncio.sleep(0.2)
        writer.transport.abort()
        await asyncio.wait_for(handler.cancelled.wait(), 1)


async def post_raw(port: int, body: bytes) -> asyncio.StreamWriter:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1)
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers(message()).items())
    writer.write(f"POST /mcp HTTP/1.1\r\n{lines}content-length: {len(body)}\r\n\r\n".encode() + body)
    await writer.drain()
    del reader
    return writer
