"""Whose ask is it: a question reaches the call that caused it and nobody else, over real old servers."""

from __future__ import annotations

import random
import time
from collections import Counter
from typing import Any

import anyio
import pytest

from bridge.settings import Server, Target
from tests.bridge.harness import (
    Client,
    Journal,
    Leg,
    Result,
    bridged,
    named,
    only_group,
    refused,
    text,
    until,
    value,
)

pytestmark = pytest.mark.anyio


def question(asked: Result) -> str:
    [request] = asked["inputRequests"].values()
    return str(request["params"]["message"])


async def answer(client: Client, tool: str, asked: Result, name: str, /, **arguments: Any) -> Any:
    """Answer everything that was asked with a name; the value that the tool returned."""
    answers = dict.fromkeys(asked["inputRequests"], named(name))
    return value(await client.retry(tool, asked["requestState"], answers, **arguments))


async def make_quiet(client: Client, tool: str, /, **arguments: Any) -> None:
    """Call a tool until it is known not to ask."""
    for _ in range(5):
        await client.call(tool, **arguments)


# -- side by side -----------------------------------------------------------------------------------------------------


async def test_other_calls_run_while_one_is_suspended() -> None:
    async with bridged() as bridge:
        client = Client(bridge)
        asked = await client.call("ask_once")
        for method in ("tools/list", "prompts/list", "resources/list"):
            assert (await client.send(method))["resultType"] == "complete"
        assert text(await client.call("echo", text="beside")) == "beside"
        assert text(await client.call("add", a=2, b=3)) == "5"
        assert await answer(client, "ask_once", asked, "Ada") == named("Ada")


async def test_quiet_tools_run_beside_a_suspended_call_in_the_same_process(journal: Journal) -> None:
    async with bridged(env=journal.env) as bridge:
        client = Client(bridge)
        await make_quiet(client, "echo", text="x")
        asked = await client.call("ask_once")
        began = time.monotonic()
        for _ in range(20):
            assert text(await client.call("echo", text="beside")) == "beside"
        assert time.monotonic() - began < 1
        assert len(journal.pids()) == 1
        assert await answer(client, "ask_once", asked, "Ada") == named("Ada")


async def test_quiet_tools_run_beside_one_that_works_before_it_asks(journal: Journal) -> None:
    async with bridged(env=journal.env) as bridge:
        client, other = Client(bridge), Client(bridge)
        await make_quiet(client, "echo", text="x")
        results: list[Result] = []

        async def ask() -> None:
            results.append(await client.call("slow_ask", seconds=0.3, message="Mine?"))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            await until(lambda: journal.calls("slow_ask"))
            while not results:
                assert text(await other.call("echo", text="beside")) == "beside"
        assert question(results[0]) == "Mine?"
        assert len(journal.pids()) == 1


async def test_two_askers_at_once_go_to_two_sessions_and_each_is_asked_its_own(journal: Journal) -> None:
    async with bridged(env=journal.env) as bridge:
        clients = {name: Client(bridge) for name in ("Ada", "Bob")}
        asked: dict[str, Result] = {}

        async def ask(name: str) -> None:
            asked[name] = await clients[name].call("slow_ask", seconds=0.2, message=f"Are you {name}?")

        async with anyio.create_task_group() as tasks:
            for name in clients:
                tasks.start_soon(ask, name)
        assert {name: question(result) for name, result in asked.items()} == {
            "Ada": "Are you Ada?",
            "Bob": "Are you Bob?",
        }
        assert len(journal.pids()) == 2
        for name, client in clients.items():
            arguments = {"seconds": 0.2, "message": f"Are you {name}?"}
            assert await answer(client, "slow_ask", asked[name], name, **arguments) == named(name)


async def test_calls_one_after_the_other_share_one_session(journal: Journal) -> None:
    async with bridged(env=journal.env) as bridge:
        client = Client(bridge)
        for name in ("Ada", "Bob", "Cy"):
            asked = await client.call("ask_once")
            assert await answer(client, "ask_once", asked, name) == named(name)
            await client.call("slow", seconds=0.01)
        assert len(journal.pids()) == 1


async def test_suspended_calls_are_answered_in_any_order(journal: Journal) -> None:
    names = ["Ada", "Bob", "Cy", "Di", "Eve", "Flo"]
    async with bridged(env=journal.env) as bridge:
        client = Client(bridge)
        asked = {name: await client.call("ask_once", message=f"{name}?") for name in names}
        assert {name: question(result) for name, result in asked.items()} == {name: f"{name}?" for name in names}
        for name in random.Random(5).sample(names, len(names)):
            assert await answer(client, "ask_once", asked[name], name, message=f"{name}?") == named(name)
        assert len(journal.pids()) <= 4


async def test_with_one_session_a_call_that_may_ask_waits_for_its_turn(journal: Journal) -> None:
    async with bridged(env=journal.env, max_sessions=1) as bridge:
        first, second = Client(bridge), Client(bridge)
        asked: dict[str, Result] = {}

        async def ask(client: Client, tool: str, /, **arguments: Any) -> None:
            asked[tool] = await client.call(tool, **arguments)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: ask(first, "slow_ask", seconds=0.4, message="first"))
            await until(lambda: journal.calls("slow_ask"))
            tasks.start_soon(lambda: ask(second, "ask_once", message="second"))
            await anyio.sleep(0.2)
            assert journal.calls("ask_once") == []  # it waits for the turn
        assert (question(asked["slow_ask"]), question(asked["ask_once"])) == ("first", "second")
        assert await answer(second, "ask_once", asked["ask_once"], "Bob", message="second") == named("Bob")
        arguments = {"seconds": 0.4, "message": "first"}
        assert await answer(first, "slow_ask", asked["slow_ask"], "Ada", **arguments) == named("Ada")
        assert len(journal.pids()) == 1


async def test_a_call_that_waits_for_its_turn_can_be_left(journal: Journal) -> None:
    async with bridged(env=journal.env, max_sessions=1) as bridge:
        first, second = Client(bridge), Client(bridge)
        results: list[Result] = []

        async def run() -> None:
            results.append(await first.call("slow", seconds=0.5))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)
            await until(lambda: journal.calls("slow"))
            with anyio.move_on_after(0.1):
                await second.bridge.serve(second.request("tools/call", {"name": "ask_once", "arguments": {}}), Leg())
        assert text(results[0]) == "slept 0.5"
        await anyio.sleep(0.1)
        assert journal.calls("ask_once") == []
        assert journal.messages("notifications/cancelled") == []
        assert only_group(bridge).attribution.is_idle


async def test_an_ask_that_only_could_be_inferred_is_refused_when_that_is_wanted(journal: Journal) -> None:
    async with bridged(env=journal.env, attribution="strict") as bridge:
        client = Client(bridge)
        await make_quiet(client, "slow", seconds=0.25)
        results: dict[str, Result] = {}

        async def run(tool: str, **arguments: Any) -> None:
            results[tool] = await Client(bridge).call(tool, **arguments)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: run("slow", seconds=0.25))
            await until(lambda: len(journal.calls("slow")) == 6)
            tasks.start_soon(lambda: run("ask_once"))
        assert text(results["slow"]) == "slept 0.25"
        assert results["ask_once"]["isError"] is True
        assert text(results["ask_once"]).startswith("Refused")


async def test_the_same_is_inferred_by_default(journal: Journal) -> None:
    async with bridged(env=journal.env) as bridge:
        client = Client(bridge)
        await make_quiet(client, "slow", seconds=0.25)
        results: dict[str, Result] = {}

        async def run(tool: str, **arguments: Any) -> None:
            results[tool] = await Client(bridge).call(tool, **arguments)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: run("slow", seconds=0.25))
            await until(lambda: len(journal.calls("slow")) == 6)
            tasks.start_soon(lambda: run("ask_once", message="Mine?"))
        assert text(results["slow"]) == "slept 0.25"
        assert question(results["ask_once"]) == "Mine?"
        assert only_group(bridge).attribution.counters.inferred == 1


async def test_strict_refuses_where_only_inference_could_tell(journal: Journal) -> None:
    async with bridged(env=journal.env, attribution="strict", silence=5) as bridge:
        client, other = Client(bridge), Client(bridge)
        await make_quiet(client, "slow", seconds=0.25)
        results: dict[str, Result] = {}

        async def run(tool: str, **arguments: Any) -> None:
            results[tool] = await other.call(tool, **arguments)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: run("slow", seconds=0.25))
            await until(lambda: len(journal.calls("slow")) == 6)
            results["asked"] = await client.call("catches_refusal", message="Mine?")
        assert value(results["asked"])["refused"]["message"] == "It can only be inferred which call asked it."
        assert text(results["slow"]) == "slept 0.25"
        assert only_group(bridge).attribution.counters.inferred == 0


async def test_an_operator_may_say_that_a_tool_never_asks(journal: Journal) -> None:
    async with bridged(env=journal.env, asks={"slow": "never"}) as bridge:
        client, other = Client(bridge), Client(bridge)
        asked: list[Result] = []

        async def ask() -> None:
            asked.append(await client.call("slow_ask", seconds=0.3))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            await until(lambda: journal.calls("slow_ask"))
            assert text(await other.call("slow", seconds=0.01)) == "slept 0.01"
        assert len(journal.pids()) == 1
        assert asked[0]["resultType"] == "input_required"


def test_hints_are_for_tools_unless_they_name_another_method() -> None:
    asks: dict[str, Any] = {"deploy": "one", "prompts/get:hello": "never", "resources/read:x:/y": "many"}
    server = Server(target=Target(command=("x",)), asks=asks)
    assert server.hints == {"tools/call:deploy": "one", "prompts/get:hello": "never", "resources/read:x:/y": "many"}


# -- hundreds of calls of several people ------------------------------------------------------------------------------


class Crowd:
    """Calls of several principals at once; what any of them sees that is not its own is a crossing."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.crossed: list[str] = []
        self.ended: Counter[str] = Counter()

    async def run(self, client: Client, me: str) -> None:
        tool = self.random.choice(["ask_once", "ask_once", "ask_twice", "ask_both", "ask_sampling", "slow_ask", "echo"])
        arguments: dict[str, Any] = {"text": me} if tool == "echo" else {"message": me}
        if tool == "slow_ask":
            arguments["seconds"] = self.random.uniform(0, 0.05)
        mine: list[str] = []

        def reply(number: int, method: str, request: Any) -> dict[str, Any]:
            if method == "sampling/createMessage":
                said = request["params"]["messages"][0]["content"]["text"]
            else:
                said = request["params"]["message"]
            if said.split(" ")[0] != me:
                self.crossed.append(f"{me} was asked {said!r}")
            answer = f"{me} answer {number}"
            mine.append(answer)
            if method == "sampling/createMessage":
                return {"role": "assistant", "content": {"type": "text", "text": answer}, "model": "m"}
            return named(answer)

        result = await client.call(tool, **arguments)
        while result["resultType"] == "input_required":
            await anyio.sleep(self.random.choice([0, 0, 0.01, 0.05, 0.1]))
            answers = {
                key: reply(number, request["method"], request)
                for number, (key, request) in enumerate(result["inputRequests"].items(), len(mine))
            }
            result = await client.retry(tool, result["requestState"], answers, **arguments)
        told = str(result)
        if result.get("isError"):
            self.ended["refused"] += 1
        elif tool == "echo":
            self.ended["echo"] += 1
            if text(result) != me:
                self.crossed.append(f"{me} was told {told}")
        else:
            self.ended["answered"] += 1
            if not mine or not all(answer in told for answer in mine) or told.count(" answer ") != len(mine):
                self.crossed.append(f"{me} answered {mine} and was told {told}")


@pytest.mark.parametrize("max_sessions", [1, 3])
async def test_no_question_and_no_answer_ever_crosses(max_sessions: int) -> None:
    crowd = Crowd(seed=max_sessions)
    async with bridged(max_sessions=max_sessions) as bridge:

        async def person(principal: str, first: int, count: int) -> None:
            client = Client(bridge, principal)
            for number in range(first, first + count):
                await crowd.run(client, f"{principal}/{number}")

        async with anyio.create_task_group() as tasks:
            for principal in ("ada", "bob", "cy", "di"):
                for lane in range(5):
                    tasks.start_soon(person, principal, lane * 100, 10)
        assert crowd.crossed == []
        assert crowd.ended.total() == 200
        assert crowd.ended["refused"] <= 10
        assert not bridge._live
        for group in bridge.pool.groups.values():
            assert len(group.channels) <= max_sessions


# -- ghosts -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("max_sessions", [1, 2])
async def test_a_cancelled_call_that_goes_on_to_ask_reaches_nobody(journal: Journal, max_sessions: int) -> None:
    async with bridged(env={**journal.env, "ASKER_GHOST": "1"}, max_sessions=max_sessions) as bridge:
        client, other = Client(bridge), Client(bridge)
        await make_quiet(client, "echo", text="x")
        await make_quiet(client, "slow", seconds=0.25)
        results: list[Result] = []
        async with anyio.create_task_group() as leaving:

            async def leave() -> None:
                params = {"name": "slow_ask", "arguments": {"seconds": 0.3, "message": "A ghost's question"}}
                await client.bridge.serve(client.request("tools/call", params), Leg())

            leaving.start_soon(leave)
            await until(lambda: journal.calls("slow_ask"))
            leaving.cancel_scope.cancel()

        async with anyio.create_task_group() as tasks:

            async def run(tool: str, **arguments: Any) -> None:
                results.append(await other.call(tool, **arguments))

            tasks.start_soon(lambda: run("slow", seconds=0.6))
            tasks.start_soon(lambda: run("ask_once", message="My own question"))
        asked = [result for result in results if result["resultType"] == "input_required"]
        assert [question(result) for result in asked] == ["My own question"]
        await until(lambda: any("error" in answer for answer in journal.answers()))
        assert await answer(other, "ask_once", asked[0], "Ada", message="My own question") == named("Ada")


async def test_a_ghosts_ask_while_nothing_else_runs_is_refused(journal: Journal) -> None:
    async with bridged(env={**journal.env, "ASKER_GHOST": "1"}) as bridge:
        client = Client(bridge)
        await client.call("echo", text="warm")
        with anyio.move_on_after(0.1):
            params = {"name": "slow_ask", "arguments": {"seconds": 0.2}}
            await bridge.serve(client.request("tools/call", params), Leg())
        await until(journal.answers)
        assert "error" in journal.answers()[0]
        await until(lambda: only_group(bridge).attribution.is_idle)


# -- caps -------------------------------------------------------------------------------------------------------------


ELICITATION: dict[str, Any] = {"elicitation": {}}


async def test_a_principals_sessions_are_capped_and_idle_ones_make_room(journal: Journal) -> None:
    async with bridged(env=journal.env, max_sessions_per_principal=1) as bridge:
        plain, asking = Client(bridge, capabilities={}), Client(bridge, capabilities=ELICITATION)
        assert text(await plain.call("echo", text="one")) == "one"
        asked = await asking.call("ask_once")
        assert len(journal.pids()) == 2  # the idle one was ended
        assert sum(len(group.channels) for group in bridge.pool.groups.values()) == 1
        error = await refused(plain.call("echo", text="two"))
        assert error.code == -32603
        assert "1 sessions of this principal" in error.message
        assert text(await Client(bridge, "another").call("echo", text="unharmed")) == "unharmed"
        assert await answer(asking, "ask_once", asked, "Ada") == named("Ada")
        assert text(await plain.call("echo", text="three")) == "three"


async def test_sessions_in_all_are_capped_and_the_idle_one_makes_room() -> None:
    async with bridged(max_sessions_total=2) as bridge:
        ada, bob, cy = (Client(bridge, name) for name in ("ada", "bob", "cy"))
        asked = await ada.call("ask_once")
        assert text(await bob.call("echo", text="bob")) == "bob"
        assert text(await cy.call("echo", text="cy")) == "cy"  # in the place of bob's
        asked_too = await cy.call("ask_once")
        error = await refused(bob.call("echo", text="bob"))
        assert error.code == -32603
        assert "2 sessions in all" in error.message
        assert await answer(ada, "ask_once", asked, "Ada") == named("Ada")
        assert await answer(cy, "ask_once", asked_too, "Cy") == named("Cy")
        assert text(await bob.call("echo", text="bob")) == "bob"


async def test_where_no_more_sessions_may_be_had_askers_share_one(journal: Journal) -> None:
    async with bridged(env=journal.env, max_sessions_per_principal=1) as bridge:
        client = Client(bridge)
        asked = {name: await client.call("ask_once", message=name) for name in ("Ada", "Bob", "Cy")}
        assert len(journal.pids()) == 1
        for name, result in asked.items():
            assert question(result) == name
        for name in ("Bob", "Cy", "Ada"):
            assert await answer(client, "ask_once", asked[name], name, message=name) == named(name)


async def test_further_sessions_are_retired_when_idle_and_the_primary_stays(journal: Journal) -> None:
    async with bridged(env=journal.env, session_idle=0.3) as bridge:
        client = Client(bridge)
        asked = [await client.call("ask_once", message=str(n)) for n in range(3)]
        group = only_group(bridge)
        assert len(group.channels) == 3
        for n, result in enumerate(asked):
            assert await answer(client, "ask_once", result, "Ada", message=str(n)) == named("Ada")
        await until(lambda: len(group.channels) == 1)
        assert text(await client.call("echo", text="primary")) == "primary"
        assert len(journal.pids()) == 3
        assert journal.entries()[-1]["pid"] == journal.pids()[0]
