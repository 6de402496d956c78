"""The plainest HTTP hop that the benchmark compares with: POST of JSON, parsed, answered with JSON. No MCP at all.

uvicorn with uvloop and httptools, without access log, in its own process. Prints its port when it listens.
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import uvicorn
import uvloop
from pydantic_core import from_json, to_json

Message = MutableMapping[str, Any]


async def app(
    scope: Message, receive: Callable[[], Awaitable[Message]], send: Callable[[Message], Awaitable[None]]
) -> None:
    """Answer with the text that came in."""
    body = b""
    more = True
    while more:
        part = await receive()
        body += part.get("body", b"")
        more = part.get("more_body", False)
    request = from_json(body)
    content = [{"type": "text", "text": request["params"]["arguments"]["text"]}]
    result = {"content": content, "resultType": "complete"}
    answer = to_json({"jsonrpc": "2.0", "id": request["id"], "result": result})
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(answer))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": answer})


def main() -> None:
    config = uvicorn.Config(app, http="httptools", ws="none", lifespan="off", access_log=False, log_level="warning")
    listening = socket.create_server(("127.0.0.1", 0))
    print(f"http://127.0.0.1:{listening.getsockname()[1]}/mcp", file=sys.stderr, flush=True)
    uvloop.run(uvicorn.Server(config).serve(sockets=[listening]))


if __name__ == "__main__":
    main()
