"""A modern server, written with the official Python SDK of 2026-07-28 (``mcp>=2``), as it comes: it also speaks the
older revisions. For the tests of what is served through.

Run it as ``python tests/servers/modern_server.py``; it prints its URL. Tools: ``echo(text)``, ``seen`` (the headers of
its request), ``regional(region)`` (whose argument a header mirrors), ``confirm(what)`` (asks by ``input_required`` and
resumes from its own ``requestState``), ``work(n)`` (progress and log messages), ``slow(seconds)``, ``ended_calls`` (how
many slow calls were cancelled), ``edit(note, text)`` (tells those who listen), ``fail``. Resource ``note://{name}``.
"""

from __future__ import annotations

import json
import socket
from typing import Annotated

import anyio
import mcp_types as types
import uvicorn
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import Field

server = MCPServer("modern", instructions="Ask me anything.")
notes = {"todo": "buy milk"}
ended = 0

CONFIRM: types.ElicitRequestedSchema = {
    "type": "object",
    "properties": {"sure": {"type": "boolean"}},
    "required": ["sure"],
}


@server.tool()
def echo(text: str) -> str:
    return text


@server.tool()
def seen(ctx: Context) -> str:
    return json.dumps(dict(ctx.headers or {}))


@server.tool()
def regional(region: Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})], ctx: Context) -> str:
    return json.dumps({"argument": region, "header": (ctx.headers or {}).get("mcp-param-region")})


@server.tool()
async def confirm(what: str, ctx: Context) -> str | types.InputRequiredResult:
    answer = (ctx.input_responses or {}).get("sure")
    if answer is None:
        params = types.ElicitRequestFormParams(message=f"Really {what}?", requested_schema=CONFIRM)
        ask = types.ElicitRequest(params=params)
        return types.InputRequiredResult(input_requests={"sure": ask}, request_state=f"asked about {what}")
    assert isinstance(answer, types.ElicitResult)
    return json.dumps({"state": ctx.request_state, "action": answer.action, "content": answer.content})


@server.tool()
async def work(n: int, ctx: Context) -> str:
    for done in range(1, n + 1):
        await ctx.report_progress(done, n, f"step {done}")
        await ctx.log("info", f"line {done}")
    return "worked"


@server.tool()
async def slow(seconds: float) -> str:
    global ended
    try:
        await anyio.sleep(seconds)
    except BaseException:
        ended += 1
        raise
    return "slow"


@server.tool()
def ended_calls() -> int:
    return ended


@server.tool()
async def edit(note: str, text: str, ctx: Context) -> str:
    notes[note] = text
    await ctx.notify_resource_updated(f"note://{note}")
    return "saved"


@server.tool()
def fail() -> str:
    raise ToolError("it does not work")


@server.resource("note://{name}")
def note(name: str) -> str:
    return notes[name]


if __name__ == "__main__":
    listener = socket.create_server(("127.0.0.1", 0))
    print(f"http://127.0.0.1:{listener.getsockname()[1]}/mcp", flush=True)
    config = uvicorn.Config(server.streamable_http_app(), log_level="warning", timeout_graceful_shutdown=1)
    uvicorn.Server(config).run(sockets=[listener])
