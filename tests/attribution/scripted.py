"""Old servers that know who really asked: each call is a little program that a seed decides on."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Any

import anyio

from legacy.transports.base import Ping, Receiver

if TYPE_CHECKING:
    from tests.attribution.world import World

Json = dict[str, Any]

FORM: Json = {"type": "object", "properties": {"who": {"type": "string"}, "call": {"type": "integer"}}}


@dataclass(eq=False)
class Asked:
    """An ask of a server's, and whose it really is."""

    who: str
    call: int
    method: str
    labelled: bool
    outcome: str = ""
    answer: anyio.Event = field(default_factory=anyio.Event)


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
