"""A legacy server of the official Python SDK 1.x whose tools want a person at a URL; run with a Python that has it.

``python signer.py`` speaks stdio, ``python signer.py PORT`` Streamable HTTP. ``needs_sign_in(seconds)`` refuses with
-32042 and announces the completion after so many seconds; called again after that it works. ``asks_url`` asks for the
URL in the middle of the call.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from mcp.server.fastmcp import Context, FastMCP
from mcp.shared.exceptions import UrlElicitationRequiredError
from mcp.types import ElicitRequestURLParams

server = FastMCP("signer", port=int(sys.argv[1]) if len(sys.argv) > 1 else 8000)
signed_in: set[str] = set()
waiting: set[asyncio.Task[None]] = set()


def page(id: str) -> dict[str, Any]:
    return {"url": f"https://sign.in/{id}", "message": "Sign in first."}


@server.tool()
async def needs_sign_in(id: str, seconds: float, context: Context[Any, Any, Any]) -> str:
    if id in signed_in:
        return "signed in"
    session = context.session

    async def visit() -> None:
        await asyncio.sleep(seconds)
        signed_in.add(id)
        await session.send_elicit_complete(id)

    waiting.add(asyncio.create_task(visit()))
    raise UrlElicitationRequiredError([ElicitRequestURLParams(mode="url", elicitationId=id, **page(id))])


@server.tool()
async def asks_url(context: Context[Any, Any, Any]) -> str:
    answer = await context.elicit_url(elicitation_id="mid-call", **page("mid-call"))
    await context.session.send_elicit_complete("mid-call")
    return answer.action


server.run("stdio" if len(sys.argv) == 1 else "streamable-http")
