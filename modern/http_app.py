"""The smallest ASGI application around a face: its path, other paths by name, and 404 for the rest."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any, Final

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Asgi = Callable[[Message, Receive, Send], Awaitable[None]]

PATH: Final = "/mcp"


class Endpoint:
    """``face`` at ``path``; ``others`` (health, metrics, a page) at theirs."""

    def __init__(self, face: Asgi, path: str = PATH, others: Mapping[str, Asgi] | None = None) -> None:
        self._routes: dict[str, Asgi] = {**(others or {}), path: face}

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        match scope["type"]:
            case "http":
                path = scope["path"]
                app = self._routes.get(path) or self._routes.get(path.rstrip("/") or "/")
                await (app or _not_found)(scope, receive, send)
            case "lifespan":
                await _lifespan(receive, send)
            case "websocket":
                await send({"type": "websocket.close", "code": 1008})


async def _not_found(scope: Message, receive: Receive, send: Send) -> None:
    body = b"Not found.\n"
    headers = [(b"content-type", b"text/plain"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 404, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def _lifespan(receive: Receive, send: Send) -> None:
    """Nothing starts or stops with the application: the handler's life is its owner's business."""
    while True:
        kind = (await receive())["type"]
        await send({"type": f"{kind}.complete"})
        if kind == "lifespan.shutdown":
            return
