"""A legacy server in the way most are written: FastMCP of the official Python SDK before its second version.

``python tests/servers/greeter.py PORT`` serves HTTP+SSE, and has its URL on stderr when it is ready.
"""

from __future__ import annotations

import sys

from mcp.server.fastmcp import Context, FastMCP
from mcp.types import SamplingMessage, TextContent
from pydantic import BaseModel

server = FastMCP("greeter", log_level="WARNING")


class Name(BaseModel):
    name: str


@server.tool()
async def greet(ctx: Context, key: str = "") -> str:  # type: ignore[type-arg]
    """Ask for a name, then have a greeting written."""
    await ctx.report_progress(1, 2)
    answer = await ctx.elicit(f"Who are you{key}?", Name)
    assert answer.action == "accept"
    said = SamplingMessage(role="user", content=TextContent(type="text", text=f"Greet {answer.data.name}{key}."))
    written = await ctx.session.create_message([said], max_tokens=10)
    return str(written.content.text)  # type: ignore[union-attr]


@server.tool()
async def echo(text: str) -> str:
    """Say it again."""
    return text


if __name__ == "__main__":
    server.settings.port, server.settings.log_level = int(sys.argv[1]), "INFO"
    server.run("sse")
