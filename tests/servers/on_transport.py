"""Runs a server of the official Python SDK before its second version on the transport that the command line names."""

from __future__ import annotations

import argparse
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server


async def run_stdio(server: Server[Any, Any]) -> None:
    async with stdio_server() as (reader, writer):
        await server.run(reader, writer, server.create_initialization_options())


async def run_http(server: Server[Any, Any], port: int) -> None:
    import uvicorn
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
    from starlette.applications import Starlette
    from starlette.routing import Mount

    manager = StreamableHTTPSessionManager(app=server)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with manager.run():
            yield

    listener = socket.create_server(("127.0.0.1", port))
    app = Starlette(routes=[Mount("/mcp", app=manager.handle_request)], lifespan=lifespan)
    print(f"http://127.0.0.1:{listener.getsockname()[1]}/mcp", file=sys.stderr, flush=True)
    await uvicorn.Server(uvicorn.Config(app, log_level="warning")).serve(sockets=[listener])


async def run_sse(server: Server[Any, Any], port: int) -> None:
    import uvicorn
    from mcp.server.sse import SseServerTransport
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Mount, Route

    transport = SseServerTransport("/messages/")

    async def connect(request: Request) -> Response:
        async with transport.connect_sse(request.scope, request.receive, request._send) as (reader, writer):
            await server.run(reader, writer, server.create_initialization_options())
        return Response()

    listener = socket.create_server(("127.0.0.1", port))
    app = Starlette(routes=[Route("/sse", connect), Mount("/messages/", app=transport.handle_post_message)])
    print(f"http://127.0.0.1:{listener.getsockname()[1]}/sse", file=sys.stderr, flush=True)
    await uvicorn.Server(uvicorn.Config(app, log_level="warning")).serve(sockets=[listener])


def main(server: Server[Any, Any], description: str) -> None:
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--http", type=int, metavar="PORT", help="serve Streamable HTTP there instead of stdio")
    parser.add_argument("--sse", type=int, metavar="PORT", help="serve HTTP+SSE there instead")
    given = parser.parse_args()
    if given.http is not None:
        anyio.run(run_http, server, given.http)
    elif given.sse is not None:
        anyio.run(run_sse, server, given.sse)
    else:
        anyio.run(run_stdio, server)
