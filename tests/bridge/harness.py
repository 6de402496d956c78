"""A bridge in this process in front of a real old server, and a client that plays its part by hand.

No face in between: the harness makes valid requests and takes what the handler returns, so a test sees exactly what
the bridge decided. The faces have tests of their own, and `tests/peers` runs everything through them.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from bridge.group import Group
from bridge.keyring import KeyRing
from bridge.serving import Bridge
from bridge.settings import Limits, Server, Target
from legacy.targets import AppTarget, MemoryTarget
from modern.envelope import SUPPORTED_VERSIONS, Request
from modern.errors import ProtocolError

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

    def __init__(
        self, bridge: Bridge, principal: str = "anonymous", capabilities: dict[str, Any] | None = None
    ) -> None:
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


class Journal:
    """What every process of the asker received, in order; for the tests that look at the server's side."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "journal"
        self.env = {"ASKER_JOURNAL": str(self._path)}

    def entries(self) -> list[dict[str, Any]]:
        if not self._path.exists():
            return []
        whole = self._path.read_text(encoding="utf-8").rpartition("\n")[0]
        return [json.loads(line) for line in whole.splitlines()]

    def messages(self, method: str | None = None) -> list[dict[str, Any]]:
        """The messages, all or those of one method."""
        found = [entry["message"] for entry in self.entries()]
        return found if method is None else [message for message in found if message.get("method") == method]

    def pids(self) -> list[int]:
        """The processes that there were, oldest first."""
        return list(dict.fromkeys(entry["pid"] for entry in self.entries()))

    def calls(self, tool: str) -> list[dict[str, Any]]:
        return [call for call in self.messages("tools/call") if call["params"]["name"] == tool]

    def answers(self) -> list[dict[str, Any]]:
        """The responses to the server's asks."""
        return [message for message in self.messages() if "method" not in message]

    def order(self) -> list[str]:
        """What was received, in short: methods, and for the answers of asks their action or ``error``."""
        return [
            message["method"]
            if "method" in message
            else "error"
            if "error" in message
            else message["result"].get("action", "result")
            for message in self.messages()
        ]


async def until(condition: Callable[[], Any], seconds: float = 8) -> None:
    """Wait for something to become true, with a deadline."""
    with anyio.fail_after(seconds):
        while not condition():  # noqa: ASYNC110 - conditions are anything, also what another process wrote
            await anyio.sleep(0.01)


async def refused(request: Awaitable[Result]) -> ProtocolError:
    """The error that a request ends with."""
    with pytest.raises(ProtocolError) as caught:
        await request
    return caught.value


def shown(error: ProtocolError) -> tuple[int, str, Any]:
    """What a client sees of an error."""
    return error.code, error.message, error.data


def named(name: str) -> dict[str, Any]:
    """The answer of a person of this name."""
    return {"action": "accept", "content": {"name": name}}


def only_group(bridge: Bridge) -> Group:
    [group] = bridge.pool.groups.values()
    return group


class Clock:
    """The time of this process, which a test can put forward; a server's own goes on as ever."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._ahead = 0.0
        real = time.monotonic
        monkeypatch.setattr(time, "monotonic", lambda: real() + self._ahead)

    def skip(self, seconds: float) -> None:
        self._ahead += seconds


def forget_ghosts_soon(bridge: Bridge, seconds: float = 0.2) -> None:
    """SDK servers never answer what was cancelled, and we wait for that; tests have no time to."""
    for group in bridge.pool.groups.values():
        evidence = group.attribution._evidence
        evidence._ghost_min = evidence._ghost_unknown = seconds


async def nothing_is_left(bridge: Bridge) -> None:
    """Memory returns: no call is remembered, and no group has a run or an ask."""
    groups = bridge.pool.groups.values()
    await until(lambda: not bridge._live and not bridge._calls and not bridge._forget_at)
    await until(lambda: all(g.attribution.is_idle and not g._asked_on and not g._runs for g in groups))


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
    *command: str,
    env: dict[str, str] | None = None,
    url: str | None = None,
    inside: AppTarget | MemoryTarget | None = None,
    **options: Any,
) -> AsyncIterator[Bridge]:
    """A bridge, by default in front of the asker; ``options`` are fields of `Server` or of `Limits`."""
    limits = {name: options.pop(name) for name in list(options) if name in Limits.model_fields}
    if url is not None or inside is not None:
        target = Target(url=url, inside=inside)
    else:
        target = Target(command=command or (sys.executable, str(ASKER)), env={**os.environ, **(env or {})})
    async with anyio.create_task_group() as tasks:
        bridge = Bridge(Server(target=target, limits=Limits(**limits), **options), KeyRing.random(), tasks)
        tasks.start_soon(bridge.sweep)
        try:
            yield bridge
        finally:
            with anyio.CancelScope(shield=True):
                await bridge.close()
            tasks.cancel_scope.cancel()
