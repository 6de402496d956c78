"""The smallest application around the HTTP face: one path, and 404 for every other."""

from __future__ import annotations

from modern.exchange import Receive, Scope, Send, respond
from modern.http import HttpFace


class Endpoint:
    """Serves the face at ``path``, with or without a slash at its end."""

    def __init__(self, face: HttpFace, path: str = "/mcp") -> None:
        self._face = face
        self._paths = frozenset({path, f"{path}/"})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] not in self._paths:
            return await respond(send, 404, b"Not found; the endpoint is /mcp.\n", [(b"content-type", b"text/plain")])
        return await self._face(scope, receive, send)
