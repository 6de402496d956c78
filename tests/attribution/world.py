"""A whole bridge between scripted clients and scripted old servers, in one process and in virtual time.

Everything of the bridge is real but the bytes: `Bridge`, `Pool`, `Group`, `Attribution`, `Call`, `Session`. The servers
know who really asked what, and the clients who was really asked, so whatever crosses is seen: that is the model. A seed
decides everything: tools, delays, answers, cancellations, time-outs, deaths.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from unittest.mock import patch

import anyio
import anyio.abc

from bridge.keyring import KeyRing
from bridge.serving import Bridge
from bridge.settings import Limits, Server, Target
from legacy.connect import own_session
from legacy.transports.base import Transport
from legacy.transports.one_call import OneCall
from modern.errors import ProtocolError
from tests.attribution.scripted import Asked, Json, ScriptedServer
from tests.bridge.harness import EVERYTHING, Client

TOOLS = {
    "quick": 5, "long": 1, "one": 4, "two": 3, "slow": 2, "maybe": 3, "both": 2, "gappy": 1, "sampling": 2, "roots": 2,
    "leaves": 1, "withdraws": 1, "mute": 1, "ghost": 2, "dies": 1,
}  # fmt: skip
LIMITS: Json = {"elicitation_ttl": 20, "sampling_ttl": 10, "roots_ttl": 10, "call_ttl": 60, "silence": 25}


class World:
    """What there is, and what was seen."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.asked: list[Asked] = []
        self.crossed: list[str] = []
        self.ended: Counter[str] = Counter()
        self.servers: list[ScriptedServer] = []
        self.names = self.random.choice([["ada"], ["ada", "bob"], ["ada", "bob", "cy"]])
        self.unlabelled = self.random.random() < 0.8
        self.labels = self.random.choice([0.0, 0.0, 0.5, 1.0])
        self.roots_at_start = self.random.random() < 0.3
        self.tools: list[Json] = []
        """What servers list: where they say that calls may be repeated, calls that were lost are run again."""
        if self.random.random() < 0.5:
            hints = {"idempotentHint": True}
            self.tools = [{"name": tool, "inputSchema": {}, "annotations": hints} for tool in TOOLS]
        self.ids = itertools.count(1)
        self.options: Json = {
            "attribution": self.random.choice(["infer", "infer", "strict"]),
            "shared_session": self.random.random() < 0.25,
            "roots": self.random.choice(["shared", "shared", "shared", "per-call"]),
        }
        self.limits: Json = {
            **LIMITS,
            "remember": 2,
            "session_idle": 30,
            "max_sessions": self.random.choice([1, 2, 3]),
            "disconnect_grace": self.random.choice([0, 0, 1]),
            "roots_age": self.random.choice([5, 300]),
            "one_call": self.random.choice([None, None, None, 5]),
        }
        if (len(self.names) == 1 or self.options["shared_session"]) and self.options["roots"] == "shared":
            self.options["single_session"] = self.random.random() < 0.3

    def wait(self, longest: float) -> float:
        """How long something takes: mostly little, sometimes as long as it can."""
        return self.random.choice([0.0, 0.001, longest / 100, longest / 10, self.random.uniform(0, longest)])

    @asynccontextmanager
    async def bridged(self) -> AsyncIterator[Bridge]:
        server = Server(target=Target(command=("none",)), limits=Limits(**self.limits), **self.options)
        # Half a second between two looks at deadlines is most of what a world costs.
        with patch("bridge.pool.run_session", self.run_session), patch("bridge.serving.SWEEP", 2.0):
            async with anyio.create_task_group() as tasks:
                bridge = Bridge(server, KeyRing.random(), tasks)
                tasks.start_soon(bridge.sweep)
                yield bridge
                await bridge.close()
                tasks.cancel_scope.cancel()

    async def run_session(
        self, target: Any, *, capabilities: Json, found: Any, task_status: anyio.abc.TaskStatus[Any], **given: Any
    ) -> None:
        """Stands for `legacy.connect.run_session`."""
        server = ScriptedServer(self)
        transport: Transport = OneCall(server) if self.limits["one_call"] is not None else server
        await own_session(transport, capabilities=capabilities, task_status=task_status, **given)

    # -- clients ------------------------------------------------------------------------------------------------------

    async def play(self, bridge: Bridge) -> None:
        """Some calls of everybody, and somebody who ends sessions."""
        async with anyio.create_task_group() as clients:
            for number in range(self.random.randint(3, 8)):
                clients.start_soon(self._client, bridge, self.random.choice(self.names), number)
            for _ in range(self.random.choice([0, 0, 1, 2])):
                clients.start_soon(self._killer)

    async def _killer(self) -> None:
        await anyio.sleep(self.wait(20))
        alive = [server for server in self.servers if not server.gone]
        if alive:
            self.random.choice(alive).die("It was killed.")

    async def _client(self, bridge: Bridge, who: str, number: int) -> None:
        await anyio.sleep(self.wait(10))
        capabilities = self.random.choice([EVERYTHING, EVERYTHING, {"elicitation": {}}, {}])
        client = Client(bridge, who, capabilities)
        if self.random.random() < 0.15:
            await self._outcome("list", bridge.serve(client.request("tools/list"), client.leg))
            return
        [tool] = self.random.choices(list(TOOLS), list(TOOLS.values()))
        params: Json = {"name": tool, "arguments": {"who": who, "call": number}}
        while True:
            leg = bridge.serve(client.request("tools/call", params), client.leg)
            with anyio.move_on_after(self.wait(20) if self.random.random() < 0.15 else 1000) as scope:
                result = await self._outcome("call", leg)
            if scope.cancelled_caught:
                self.ended["left"] += 1
                return
            if result is None:
                return
            if result["resultType"] == "complete":
                if (result["who"], result["call"]) != (who, number):
                    self.crossed.append(f"a result of {result['who']} went to {who}")
                return
            answers = {key: self._answer(who, number, ask) for key, ask in result.get("inputRequests", {}).items()}
            if self.random.random() < 0.1:
                self.ended["never came back"] += 1
                return
            await anyio.sleep(self.wait(25))
            if answers and self.random.random() < 0.1:
                answers.pop(self.random.choice(list(answers)))
            params = {**params, "requestState": result["requestState"], "inputResponses": answers}

    async def _outcome(self, what: str, request: Any) -> Json | None:
        try:
            result: Json = await request
        except ProtocolError as error:
            self.ended[f"{what}: {error.code}"] += 1
            return None
        self.ended[f"{what}: {result['resultType']}"] += 1
        return result

    def _answer(self, who: str, number: int, ask: Json) -> Json:
        me = {"who": who, "call": number}
        match ask["method"]:
            case "roots/list":
                return {"roots": [{"uri": f"file:///{who}"}]}
            case "sampling/createMessage":
                asked = ask["params"]["messages"][0]["content"]["text"]
                answer = {"role": "assistant", "content": {"type": "text", "text": f"{who}/{number}"}, "model": "m"}
            case _:
                asked = ask["params"]["message"]
                answer = {"action": "accept", "content": me}
                if self.random.random() < 0.1:
                    answer = {"action": self.random.choice(["decline", "cancel"])}
        whose, _, which = asked.partition("/")
        if whose != who and (whose or self.options["shared_session"]):  # a list's own question has no name
            self.crossed.append(f"a question of {whose} was shown to {who}")
        elif which != str(number):
            self.ended["another call's question"] += 1
        return answer
