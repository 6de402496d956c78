"""The smallest ASGI application around faces: each at its path, and 404 for the rest."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any, Final

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Asgi = Callable[[Message, Receive, Send], Awaitable[None]]

PATH: Final = "/mcp"


class Endpoint:
    """Applications (faces, health, metrics, a page) by their paths."""

    def __init__(self, routes: Mapping[str, Asgi]) -> None:
        self._routes = dict(routes)
        self.ending = False
        """Set when the process is about to end: the web server then cancels what has not ended by itself, such as a
        body that never comes, and that is no fault to report."""

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        match scope["type"]:
            case "http":
                path = scope["path"]
                app = self._routes.get(path) or self._routes.get(path.rstrip("/") or "/")
                try:
                    await (app or _not_found)(scope, receive, send)
                except asyncio.CancelledError:
                    if not self.ending:
                        raise
                    await _ending(send)
            case "lifespan":
                await _lifespan(receive, send)
            case "websocket":
                await send({"type": "websocket.close", "code": 1008})


async def _not_found(scope: Message, receive: Receive, send: Send) -> None:
    body = b"Not found.\n"
    headers = [(b"content-type", b"text/plain"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 404, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def _ending(send: Send) -> None:
    """The last word to a client whose request was cut off before it had an answer."""
    start = {"type": "http.response.start", "status": 503, "headers": [(b"content-length", b"0")]}
    try:
        await send(start)
        await send({"type": "http.response.body", "body": b""})
    except RuntimeError:
        return  # an answer had begun already


async def _lifespan(receive: Receive, send: Send) -> None:
    """Nothing starts or stops with the application: the handler's life is its owner's business."""
    while True:
        kind = (await receive())["type"]
        await send({"type": f"{kind}.complete"})
        if kind == "lifespan.shutdown":
            return
