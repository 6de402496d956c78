"""An ASGI server of a few lines: one request through a face, in-process."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.modern.helpers import headers, message


@dataclass
class Answer:
    """What an application sent."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    chunks: list[bytes] = field(default_factory=list)
    whole: bool = False

    @property
    def body(self) -> bytes:
        return b"".join(self.chunks)

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def events(self) -> list[Any]:
        lines = self.body.decode().split("\r\n")
        return [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: ")]


class Client:
    """One request to ``app`` and its client's side of the connection."""

    def __init__(
        self,
        app: Any,
        body: bytes | Mapping[str, Any] | None = None,
        *,
        method: str = "POST",
        change: Mapping[str, str | None] | None = None,
        raw: Iterable[tuple[bytes, bytes]] = (),
        server: tuple[str, int] | None = ("127.0.0.1", 1),
        path: str = "/mcp",
    ) -> None:
        body = message() if body is None else body
        given = {**headers(body if isinstance(body, Mapping) else message()), **(change or {})}
        sent = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in given.items() if value is not None]
        self._scope = {"type": "http", "method": method, "path": path, "headers": [*sent, *raw], "server": server}
        self._app = app
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.incoming: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.incoming.put_nowait({"type": "http.request", "body": data, "more_body": False})
        self.answer = Answer()
        self.stall: asyncio.Event | None = None

    async def run(self) -> Answer:
        await self._app(self._scope, self.incoming.get, self._send)
        return self.answer

    def leave(self) -> None:
        self.incoming.put_nowait({"type": "http.disconnect"})

    async def _send(self, event: Mapping[str, Any]) -> None:
        if event["type"] == "http.response.start":
            assert not self.answer.status
            self.answer.status = event["status"]
            self.answer.headers = {name.decode(): value.decode() for name, value in event["headers"]}
            return
        assert self.answer.status
        assert not self.answer.whole
        if self.stall is not None:
            await self.stall.wait()
        self.answer.chunks.append(event.get("body", b""))
        self.answer.whole = not event.get("more_body", False)
