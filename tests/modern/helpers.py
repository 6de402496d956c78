"""Requests as clients write them, and handlers that do one thing."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from modern.envelope import Request
from modern.serving import Leg

VERSION = "2026-07-28"
META: dict[str, Any] = {
    "io.modelcontextprotocol/protocolVersion": VERSION,
    "io.modelcontextprotocol/clientCapabilities": {},
}
CALL: dict[str, Any] = {"name": "echo", "arguments": {"text": "hi"}}
DONE: dict[str, Any] = {"resultType": "complete", "content": []}


def message(method: str = "tools/call", id: Any = 1, meta: Mapping[str, Any] = META, **params: Any) -> dict[str, Any]:
    """A request; ``tools/call`` without params calls ``echo``."""
    if method == "tools/call" and not params:
        params = CALL
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": {**params, "_meta": dict(meta)}}


def headers(body: Mapping[str, Any]) -> dict[str, str]:
    """The headers that a correct client sends with ``body``."""
    made = {
        "host": "localhost",
        "content-type": "application/json",
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": VERSION,
        "mcp-method": str(body.get("method")),
    }
    params = body.get("params") or {}
    name = params.get("name", params.get("uri", params.get("taskId")))
    if isinstance(name, str):
        made["mcp-name"] = name
    return made


Serve = Callable[[Request, Leg], Awaitable[dict[str, Any]]]


class Acting:
    """A handler that acts as it is told and remembers what happened."""

    def __init__(self, serve: Serve | None = None, schema: Mapping[str, Any] | None = None) -> None:
        self._serve = serve
        self.schema: Mapping[str, Any] | None = {} if schema is None else schema
        self.learned: Mapping[str, Any] | None = None
        self.served: list[Request] = []
        self.cancelled = asyncio.Event()

    async def serve(self, request: Request, leg: Leg) -> dict[str, Any]:
        self.served.append(request)
        if self._serve is None:
            return DONE
        try:
            return await self._serve(request, leg)
        except asyncio.CancelledError:
            self.cancelled.set()
            raise

    def mirrored_parameters(self, request: Request) -> Mapping[str, Any] | None:
        return self.schema

    async def learn_tools(self, request: Request) -> None:
        self.schema = self.learned


async def for_ever(request: Request, leg: Leg) -> dict[str, Any]:
    await asyncio.Event().wait()
    return DONE
