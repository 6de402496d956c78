"""An HTTP+SSE server whose every answer a test can script; run as those of `tests.legacy.http_server` are."""

from __future__ import annotations

import json
from typing import Any

import anyio

from tests.legacy.http_server import Exchange, Handler, HttpServer

OLD = {"protocolVersion": "2024-11-05", "capabilities": {}, "serverInfo": {"name": "old", "version": "1"}}


class SseServer(HttpServer):
    """What it does unless a test says otherwise: one stream at ``/sse``, whose session is number 1, 2, 3 …; 202 to what
    is POSTed to the endpoint that it named, and what there is to say on the stream; 405 to a POST to ``/sse``."""

    def __init__(self, endpoint: str = "/messages?session={}") -> None:
        super().__init__()
        self.endpoint = endpoint
        self.streams: list[Exchange] = []
        self.closing = anyio.Event()
        self.on_get = self.stream
        self.on_call = self.answered
        self.on_ping = self.answered
        self.on_initialize = self.initialized
        self.on_wrong_post: Handler = self.not_allowed

    path = "/sse"

    async def _handle(self, x: Exchange) -> None:
        if x.verb == "POST" and x.path == self.path:
            await self.on_wrong_post(x)
        else:
            await super()._handle(x)

    async def stream(self, x: Exchange) -> None:
        """Open a stream, name the endpoint, keep it open."""
        await self.open(x)
        await self.hold(x)

    async def open(self, x: Exchange) -> None:
        await x.stream()
        self.streams.append(x)
        await self.raw(f"event: endpoint\ndata: {self.endpoint.format(len(self.streams))}\n\n", x)

    async def hold(self, x: Exchange) -> None:
        """Until the client leaves, or `closing` is set: then the stream ends."""
        async with anyio.create_task_group() as tasks:

            async def end() -> None:
                await self.closing.wait()
                await x.end()
                tasks.cancel_scope.cancel()

            tasks.start_soon(end)
            await x.gone()
            tasks.cancel_scope.cancel()

    async def raw(self, text: str | bytes, x: Exchange | None = None) -> None:
        """Bytes on the latest stream, or on this one."""
        data = text.encode() if isinstance(text, str) else text
        await (x or self.streams[-1])._send({"type": "http.response.body", "body": data, "more_body": True})

    async def say(self, message: dict[str, Any]) -> None:
        """One message on the latest stream."""
        data = json.dumps({"jsonrpc": "2.0", **message}, ensure_ascii=False)
        await self.raw(f"event: message\ndata: {data}\n\n")

    async def reply(self, x: Exchange, result: dict[str, Any]) -> None:
        """Accept a request, and answer it on the stream."""
        await x.answer(202, b"Accepted")
        await self.say({"id": x.id, "result": result})

    async def answered(self, x: Exchange) -> None:
        await self.reply(x, {})

    async def initialized(self, x: Exchange) -> None:
        await self.reply(x, OLD)

    async def result_of_initialize(self, x: Exchange) -> None:
        """As Streamable HTTP would."""
        if x.method == "initialize":
            await x.result(OLD)
        else:
            await x.answer(202)

    async def not_allowed(self, x: Exchange) -> None:
        await x.answer(405, b"Method Not Allowed", allow="GET")
