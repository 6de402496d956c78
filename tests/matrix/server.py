"""An old server in the idiom of its SDK, for the first and the last release of `mcp` 1.x that can ask.

Run it as ``python tests/matrix/server.py stdio|http`` with either. Over HTTP uvicorn says where it listens. It has the
tools of `server.mjs`, and they return the same JSON.
"""

import json
import sys

import anyio
from mcp.server.fastmcp import Context, FastMCP
from mcp.shared.exceptions import McpError
from mcp.types import SamplingMessage, TextContent
from pydantic import BaseModel

server = FastMCP("matrix-python", host="127.0.0.1", port=0)


class Form(BaseModel):
    name: str


async def ask(context: Context, message: str) -> str:
    answer = await context.elicit(message, Form)
    return answer.data.name if answer.action == "accept" else answer.action


@server.tool()
async def two(context: Context, pause: float) -> str:
    first = await ask(context, "First?")
    await anyio.sleep(pause)
    return json.dumps([first, await ask(context, "Second?")])


@server.tool()
async def labelled(context: Context) -> str:
    """This SDK's questions always carry the call they belong to, where the transport can say it."""
    return json.dumps([await ask(context, "First?"), await ask(context, "Second?")])


@server.tool()
async def both(context: Context) -> str:
    answers: dict[str, str] = {}

    async def one(message: str) -> None:
        answers[message] = await ask(context, message)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(one, "First?")
        tasks.start_soon(one, "Second?")
    return json.dumps([answers["First?"], answers["Second?"]])


@server.tool()
async def sample(context: Context) -> str:
    prompt = SamplingMessage(role="user", content=TextContent(type="text", text="Say hello"))
    answer = await context.session.create_message([prompt], max_tokens=10)
    return json.dumps(getattr(answer.content, "text", None))


@server.tool()
async def roots(context: Context) -> str:
    return json.dumps([str(root.uri) for root in (await context.session.list_roots()).roots])


@server.tool()
async def careful(context: Context) -> str:
    try:
        return json.dumps(await ask(context, "May I?"))
    except McpError:
        return json.dumps("went on without")


if __name__ == "__main__":
    server.run("stdio" if sys.argv[1] == "stdio" else "streamable-http")
