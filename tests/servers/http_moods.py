"""A legacy server on Streamable HTTP in the moods that the official Python SDK before its second version can be in.

    python tests/servers/http_moods.py PORT [--stateless] [--json] [--events]

Has its URL on stderr when it is ready. ``--stateless``: no sessions. ``--json``: answers without streams. ``--events``:
streams can be resumed, and the server says that it wants them to be after 50 ms.

Tools: ``echo(text)``; ``ask`` (on the stream of its call); ``ask_by_get`` (where the SDK puts what is tied to no
request); ``ask_briefly(seconds)`` (gives up by itself); ``ask_and_stall`` (never answers); ``ask_late`` (closes its
call's stream first, then asks, then closes it again before it answers); ``poll(seconds)`` (closes its call's stream and
answers later); ``asked`` (how many answers each question had, by its message).
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from datetime import timedelta

import anyio
import uvicorn
from mcp import types
from mcp.server.fastmcp import Context, FastMCP
from mcp.server.streamable_http import EventCallback, EventId, EventMessage, EventStore, StreamId
from mcp.shared.message import ServerMessageMetadata
from pydantic import BaseModel

FLAGS = set(sys.argv[2:])
FORM = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
answers: Counter[str] = Counter()


class Name(BaseModel):
    name: str


class Events(EventStore):
    """Keeps everything."""

    def __init__(self) -> None:
        self.kept: list[tuple[StreamId, types.JSONRPCMessage | None]] = []

    async def store_event(self, stream_id: StreamId, message: types.JSONRPCMessage | None) -> EventId:
        self.kept.append((stream_id, message))
        return str(len(self.kept))

    async def replay_events_after(self, last_event_id: EventId, send_callback: EventCallback) -> StreamId | None:
        last = int(last_event_id)
        stream = self.kept[last - 1][0]
        for number, (belongs, message) in enumerate(self.kept[last:], last + 1):
            if belongs == stream and message is not None:
                await send_callback(EventMessage(message, str(number)))
        return stream


server = FastMCP(
    "moods",
    host="127.0.0.1",
    stateless_http="--stateless" in FLAGS,
    json_response="--json" in FLAGS,
    event_store=Events() if "--events" in FLAGS else None,
    retry_interval=50 if "--events" in FLAGS else None,
    log_level="ERROR",
)


@server.tool()
async def echo(text: str) -> str:
    return text


@server.tool()
async def ask(ctx: Context) -> str:  # type: ignore[type-arg]
    answer = await ctx.elicit("Who?", Name)
    answers["Who?"] += 1
    return answer.data.name if answer.action == "accept" else answer.action


@server.tool()
async def ask_by_get(ctx: Context, message: str = "By GET?") -> str:  # type: ignore[type-arg]
    answer = await ctx.session.elicit(message, FORM)
    answers[message] += 1
    return str((answer.content or {}).get("name"))


@server.tool()
async def ask_briefly(ctx: Context, seconds: float) -> str:  # type: ignore[type-arg]
    params = types.ElicitRequestFormParams(message="Quick?", requestedSchema=FORM)
    request = types.ServerRequest(types.ElicitRequest(method="elicitation/create", params=params))
    await ctx.session.send_request(
        request,
        types.ElicitResult,
        request_read_timeout_seconds=timedelta(seconds=seconds),
        metadata=ServerMessageMetadata(related_request_id=ctx.request_id),
    )
    return "answered"


@server.tool()
async def ask_and_stall(ctx: Context) -> str:  # type: ignore[type-arg]
    await ctx.elicit("Who?", Name)
    await anyio.sleep(60)
    return "late"


@server.tool()
async def ask_late(ctx: Context) -> str:  # type: ignore[type-arg]
    await ctx.close_sse_stream()
    answer = await ctx.elicit("Late?", Name)
    await ctx.close_sse_stream()
    await anyio.sleep(0.1)
    return answer.data.name if answer.action == "accept" else answer.action


@server.tool()
async def poll(ctx: Context, seconds: float) -> str:  # type: ignore[type-arg]
    await ctx.close_sse_stream()
    await anyio.sleep(seconds)
    return "polled"


@server.tool()
async def asked() -> str:
    return json.dumps(answers)


async def main() -> None:
    config = uvicorn.Config(server.streamable_http_app(), port=int(sys.argv[1]), log_level="error")
    web = uvicorn.Server(config)

    async def tell() -> None:
        while not web.started:  # noqa: ASYNC110
            await anyio.sleep(0.01)
        print(f"http://127.0.0.1:{sys.argv[1]}/mcp", file=sys.stderr, flush=True)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(tell)
        await web.serve()


anyio.run(main)
