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
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any
from unittest.mock import patch

import anyio
import anyio.abc

from bridge.keyring import KeyRing
from bridge.serving import Bridge
from bridge.settings import Limits, Server, Target
from legacy.connect import own_session
from legacy.transports.base import Ping, Receiver, Transport
from legacy.transports.one_call import OneCall
from modern.errors import ProtocolError
from tests.bridge.harness import EVERYTHING, Client

Json = dict[str, Any]

FORM: Json = {"type": "object", "properties": {"who": {"type": "string"}, "call": {"type": "integer"}}}
TOOLS = {
    "quick": 5, "long": 1, "one": 4, "two": 3, "slow": 2, "maybe": 3, "both": 2, "gappy": 1, "sampling": 2, "roots": 2,
    "leaves": 1, "withdraws": 1, "mute": 1, "ghost": 2, "dies": 1,
}  # fmt: skip
LIMITS: Json = {"elicitation_ttl": 20, "sampling_ttl": 10, "roots_ttl": 10, "call_ttl": 60, "silence": 25}


@dataclass(eq=False)
class Asked:
    """An ask of a server's, and whose it really is."""

    who: str
    call: int
    method: str
    labelled: bool
    outcome: str = ""
    answer: anyio.Event = field(default_factory=anyio.Event)


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


class ScriptedServer:
    """One session with an old server: a `Transport`. Each call is a little program in a task of its own."""

    repeats = False
    keeps_session = True
    kind = "stdio"
    url = None

    def __init__(self, world: World) -> None:
        self.unlabelled = world.unlabelled
        self.gone = False
        self._world = world
        self._random = world.random
        self._receiver: Receiver
        self._tasks = anyio.create_task_group()
        self._open: dict[str, Asked] = {}
        self._calls: dict[int, anyio.CancelScope] = {}
        self._inbox = anyio.create_memory_object_stream[Json](10_000)
        self._outbox = anyio.create_memory_object_stream[tuple[Json, int | None]](10_000)

    async def __aenter__(self) -> ScriptedServer:
        await self._tasks.__aenter__()
        self._tasks.start_soon(self._read)
        self._tasks.start_soon(self._write)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.gone = True
        for asked in self._open.values():
            asked.outcome = "session ended"
        self._tasks.cancel_scope.cancel()
        await self._tasks.__aexit__(None, None, None)
        for stream in (*self._inbox, *self._outbox):
            stream.close()

    def attach(self, receiver: Receiver) -> None:
        self._receiver = receiver
        self._world.servers.append(self)

    def send(self, message: Json, request_id: int | None = None) -> None:
        if not self.gone:
            self._inbox[0].send_nowait(message)

    def drop(self, request_id: int) -> None: ...

    async def negotiated(self, version: str) -> None: ...

    async def ready(self, ping: Ping) -> None: ...

    def die(self, why: str) -> None:
        self.gone = True
        self._receiver.lost(why)

    def _say(self, message: Json, request_id: int | None = None) -> None:
        if not self.gone:
            self._outbox[0].send_nowait(({"jsonrpc": "2.0", **message}, request_id))

    async def _write(self) -> None:
        async for message, request_id in self._outbox[1]:
            await anyio.sleep(self._random.choice([0, 0, 0.001, 0.02]))
            if not self.gone:
                self._receiver.received(message, request_id)

    async def _read(self) -> None:
        async for message in self._inbox[1]:
            await anyio.sleep(self._random.choice([0, 0, 0.001, 0.02]))
            self._hear(message)

    def _hear(self, message: Json) -> None:
        method, number = message.get("method"), message.get("id")
        match method:
            case None:
                self._answered(message)
            case "initialize":
                self._say({"id": number, "result": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}}})
            case "tools/call" | "tools/list":
                self._tasks.start_soon(self._serve, method, message)
            case "notifications/cancelled":
                scope = self._calls.get(message["params"]["requestId"])
                if scope is not None:
                    scope.cancel()
            case "notifications/initialized" | "notifications/roots/list_changed" if self._world.roots_at_start:
                self._ask("", -1, "roots/list")
            case _ if number is not None:
                self._say({"id": number, "result": {}})

    def _answered(self, message: Json) -> None:
        asked = self._open.pop(message["id"], None)
        if asked is None:
            return  # withdrawn already
        if "error" in message:
            asked.outcome = "refused"
        else:
            asked.outcome = "answered"
            self._check(asked, message["result"])
        asked.answer.set()

    def _check(self, asked: Asked, result: Json) -> None:
        """The answer has to be the asker's own."""
        if asked.method == "roots/list" and self._world.options["shared_session"]:
            return  # whose roots these are nobody can say
        if asked.method == "roots/list":
            by = result["roots"][0]["uri"].removeprefix("file:///")
        elif asked.method == "sampling/createMessage":
            by = result["content"]["text"].partition("/")[0]
        elif result["action"] == "accept":
            by = result["content"]["who"]
        else:
            return
        if asked.who and by != asked.who:
            self._world.crossed.append(f"an answer of {by} reached {asked.who}")

    # -- what calls do ------------------------------------------------------------------------------------------------

    async def _serve(self, method: str, message: Json) -> None:
        number = message["id"]
        tool = message["params"].get("name", "list")
        scope = self._calls[number] = anyio.CancelScope()
        if tool == "ghost":
            del self._calls[number]
        with scope:
            try:
                if method == "tools/list":
                    await anyio.sleep(self._world.wait(1))
                    if self._random.random() < 0.2:
                        await self._asks(number, "", -1, self._random.choice(["roots/list", "elicitation/create"]))
                    self._say({"id": number, "result": {"tools": self._world.tools}})
                    return
                arguments = message["params"]["arguments"]
                await self._call(number, tool, arguments["who"], arguments["call"])
                result = {"content": [], "who": arguments["who"], "call": arguments["call"]}
                self._say({"id": number, "result": result})
            finally:
                self._calls.pop(number, None)

    async def _call(self, number: int, tool: str, who: str, call: int) -> None:
        async def ask(method: str = "elicitation/create", longest: float = 100) -> None:
            await self._asks(number, who, call, method, longest)

        await anyio.sleep(self._world.wait({"slow": 5.0, "long": 15.0, "ghost": 8.0}.get(tool, 0.05)))
        match tool:
            case "one" | "slow" | "ghost":
                await ask()
            case "two":
                await ask()
                await anyio.sleep(self._world.wait(0.1))
                await ask()
            case "maybe" if self._random.random() < 0.3:
                await ask()
            case "both" | "gappy":
                async with anyio.create_task_group() as two:
                    two.start_soon(ask)
                    await anyio.sleep(0.002 if tool == "both" else 0.3)
                    two.start_soon(ask)
            case "sampling":
                await ask("sampling/createMessage")
            case "roots":
                await ask("roots/list")
            case "leaves":
                self._ask(who, call, "elicitation/create", number)
                await anyio.sleep(self._world.wait(5))
            case "withdraws":
                await ask(longest=self._world.wait(5))
            case "mute":
                await anyio.sleep(10_000)
            case "dies":
                self._ask(who, call, "elicitation/create", number)
                await anyio.sleep(self._world.wait(5))
                self.die("It died.")

    def _ask(self, who: str, call: int, method: str, number: int | None = None) -> tuple[str, Asked]:
        labelled = number is not None and (not self.unlabelled or self._random.random() < self._world.labels)
        asked = Asked(who, call, method, labelled, outcome="session ended" if self.gone else "")
        self._world.asked.append(asked)
        name = f"q{next(self._world.ids)}"
        self._open[name] = asked
        params: Json = {}
        if method == "elicitation/create":
            params = {"message": f"{who}/{call}", "requestedSchema": FORM}
        elif method == "sampling/createMessage":
            said = {"role": "user", "content": {"type": "text", "text": f"{who}/{call}"}}
            params = {"messages": [said], "maxTokens": 1}
        self._say({"id": name, "method": method, "params": params}, number if labelled else None)
        return name, asked

    async def _asks(self, number: int, who: str, call: int, method: str, longest: float = 100) -> None:
        """Ask and wait; past ``longest`` withdraw the ask and go on."""
        name, asked = self._ask(who, call, method, number)
        with anyio.move_on_after(longest):
            await asked.answer.wait()
        if not asked.answer.is_set() and self._open.pop(name, None) is not None:
            asked.outcome = "withdrawn"
            self._say({"method": "notifications/cancelled", "params": {"requestId": name}})
