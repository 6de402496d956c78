"""A bridge in this process in front of a real old server, and a client that plays its part by hand.

No face in between: the harness makes valid requests and takes what the handler returns, so a test sees exactly what
the bridge decided. The faces have tests of their own, and `tests/peers` runs everything through them.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio

from bridge.keyring import KeyRing
from bridge.serving import Bridge
from bridge.settings import Limits, Server, Target
from modern.envelope import SUPPORTED_VERSIONS, Request

ASKER = Path(__file__).parents[1] / "servers" / "asker.py"
EVERYTHING: dict[str, Any] = {"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}}
ACCEPT: dict[str, Any] = {"action": "accept", "content": {"name": "Ada"}}

Result = dict[str, Any]


class Leg:
    """Collects the notifications of one leg."""

    def __init__(self) -> None:
        self.notifications: list[tuple[str, dict[str, Any]]] = []

    def notify(self, method: str, params: dict[str, Any]) -> None:
        self.notifications.append((method, params))


class Client:
    """One client of the bridge: a principal, its capabilities, a count of ids."""

    def __init__(self, bridge: Bridge, principal: str = "anonymous", capabilities: dict[str, Any] | None = None) -> None:
        self.bridge = bridge
        self.principal = principal
        self.capabilities = EVERYTHING if capabilities is None else capabilities
        self.leg = Leg()
        self._ids = itertools.count(1)

    def request(self, method: str, params: dict[str, Any] | None = None, **fields: Any) -> Request:
        return Request(
            id=next(self._ids),
            method=method,
            params=dict(params or {}),
            version=SUPPORTED_VERSIONS[0],
            capabilities=self.capabilities,
            client_info={"name": "harness", "version": "1"},
            principal=self.principal,
            **fields,
        )

    async def send(self, method: str, params: dict[str, Any] | None = None, **fields: Any) -> Result:
        self.leg = Leg()
        with anyio.fail_after(20):
            return await self.bridge.serve(self.request(method, params, **fields), self.leg)

    async def call(self, tool: str, /, **arguments: Any) -> Result:
        return await self.send("tools/call", {"name": tool, "arguments": arguments})

    async def retry(self, tool: str, state: str, responses: Any, /, **arguments: Any) -> Result:
        params = {"name": tool, "arguments": arguments, "requestState": state, "inputResponses": responses}
        return await self.send("tools/call", params)

    async def answered(self, tool: str, answer: Callable[[str, dict[str, Any]], Any], /, **arguments: Any) -> Result:
        """Call, answer whatever is asked, round after round, and return the complete result."""
        result = await self.call(tool, **arguments)
        while result["resultType"] == "input_required":
            asked = result.get("inputRequests", {})
            answers = {key: answer(wanted["method"], wanted.get("params", {})) for key, wanted in asked.items()}
            result = await self.retry(tool, result["requestState"], answers, **arguments)
        return result

    async def heard(self) -> list[dict[str, Any]]:
        """What the old server was told so far."""
        return value(await self.call("heard"))


def usual_answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
    match method:
        case "elicitation/create":
            return ACCEPT
        case "sampling/createMessage":
            return {"role": "assistant", "content": {"type": "text", "text": "sampled"}, "model": "m"}
        case _:
            return {"roots": [{"uri": "file:///workspace"}]}


def text(result: Result) -> str:
    return str(result["content"][0]["text"])


def value(result: Result) -> Any:
    return json.loads(text(result))


@asynccontextmanager
async def bridged(
    *command: str, env: dict[str, str] | None = None, url: str | None = None, **options: Any
) -> AsyncIterator[Bridge]:
    """A bridge, by default in front of the asker; ``options`` are fields of `Server` or of `Limits`."""
    limits = {name: options.pop(name) for name in list(options) if name in Limits.model_fields}
    target = (
        Target(url=url)
        if url is not None
        else Target(command=command or (sys.executable, str(ASKER)), env={**os.environ, **(env or {})})
    )
    async with anyio.create_task_group() as tasks:
        bridge = Bridge(Server(target=target, limits=Limits(**limits), **options), KeyRing.random(), tasks)
        tasks.start_soon(bridge.sweep)
        try:
            yield bridge
        finally:
            with anyio.CancelScope(shield=True):
                await bridge.close()
            tasks.cancel_scope.cancel()
