"""Roots that a server asks for at its start: the first call carries the question and sees the answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest

from bridge import startup
from bridge.knowledge import Kind
from tests.bridge.harness import Client, Clock, Journal, Result, bridged, only_group, refused, text, until, value

pytestmark = pytest.mark.anyio

HOME: dict[str, Any] = {"roots": [{"uri": "file:///home", "name": "home"}]}
WORK: dict[str, Any] = {"roots": [{"uri": "file:///work"}]}


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    journal = Journal(tmp_path)
    journal.env["ASKER_ROOTS_AT_START"] = "1"
    return journal


async def with_roots(client: Client, tool: str, roots: dict[str, Any], /, **arguments: Any) -> Result:
    """Call; the client is asked for its roots and for nothing else."""
    asked = await client.call(tool, **arguments)
    assert asked["resultType"] == "input_required"
    assert asked["inputRequests"] == {"roots-1": {"method": "roots/list"}}
    return await client.retry(tool, asked["requestState"], {"roots-1": roots}, **arguments)


async def test_the_first_call_carries_the_ask_and_sees_the_roots(journal: Journal) -> None:
    async with bridged(env=journal.env) as bridge:
        client = Client(bridge)
        assert value(await with_roots(client, "roots_seen", HOME)) == HOME["roots"]
        assert value(await client.call("roots_seen")) == HOME["roots"]  # and the next is not asked
        assert [answer["result"] for answer in journal.answers()] == [HOME]


async def test_the_server_hears_of_the_call_only_after_the_roots(journal: Journal) -> None:
    async with bridged(env=journal.env) as bridge:
        client = Client(bridge)
        asked = await client.call("echo", text="late")
        await anyio.sleep(0.2)
        assert journal.calls("echo") == []
        done = await client.retry("echo", asked["requestState"], {"roots-1": HOME}, text="late")
        assert text(done) == "late"
        order = journal.order()
        assert order.index("result") < order.index("tools/call")


@pytest.mark.parametrize(
    ("method", "params"), [("prompts/get", {"name": "greeting"}), ("resources/read", {"uri": "asker://plain"})]
)
async def test_prompts_and_resources_carry_it_too(journal: Journal, method: str, params: dict[str, Any]) -> None:
    async with bridged(env=journal.env) as bridge:
        client = Client(bridge)
        asked = await client.send(method, params)
        assert list(asked["inputRequests"]) == ["roots-1"]
        sealed = {"requestState": asked["requestState"], "inputResponses": {"roots-1": HOME}}
        assert (await client.send(method, {**params, **sealed}))["resultType"] == "complete"
        assert value(await client.call("roots_seen")) == HOME["roots"]


async def test_two_first_calls_at_once_both_see_the_roots(journal: Journal) -> None:
    async with bridged(env=journal.env) as bridge:
        seen: list[Any] = []

        async def first() -> None:
            seen.append(value(await Client(bridge).answered("roots_seen", lambda method, params: HOME)))

        async with anyio.create_task_group() as tasks:
            for _ in range(2):
                tasks.start_soon(first)
        assert seen == [HOME["roots"]] * 2


async def test_one_of_two_first_calls_answers_and_the_other_never_comes_back(journal: Journal) -> None:
    async with bridged(env=journal.env, roots_ttl=0.4) as bridge:
        one, other = Client(bridge), Client(bridge)
        asked = await one.call("roots_seen")
        assert (await other.call("roots_seen"))["resultType"] == "input_required"
        done = await one.retry("roots_seen", asked["requestState"], {"roots-1": HOME})
        assert value(done) == HOME["roots"]
        await until(lambda: not bridge._live)
        assert value(await other.call("roots_seen")) == HOME["roots"]
        assert len(journal.answers()) == 1


async def test_a_call_that_also_asks_has_its_question_next(journal: Journal) -> None:
    async with bridged(env=journal.env) as bridge:
        client = Client(bridge)
        asked = await with_roots(client, "ask_once", HOME)
        assert list(asked["inputRequests"]) == ["elicit-2"]
        answer = {"action": "accept", "content": {"name": "Ada"}}
        assert value(await client.retry("ask_once", asked["requestState"], {"elicit-2": answer})) == answer


async def test_lists_are_complete_before_the_roots_are_known(journal: Journal) -> None:
    async with bridged(env=journal.env) as bridge:
        client = Client(bridge)
        for method in ("server/discover", "tools/list", "prompts/list", "resources/list", "resources/templates/list"):
            assert (await client.send(method))["resultType"] == "complete"
        assert journal.answers() == []  # the ask is held, not refused
        assert value(await with_roots(client, "roots_seen", HOME)) == HOME["roots"]


async def test_a_start_up_ask_that_this_client_cannot_answer_is_refused_at_once(journal: Journal) -> None:
    async with bridged(env=journal.env) as bridge:
        client = Client(bridge, capabilities={"elicitation": {}})
        assert text(await client.call("echo", text="at once")) == "at once"
        await until(journal.answers, 2)
        assert journal.answers()[0]["error"]["code"] == -32601  # what an old client without roots answers


async def test_a_client_without_roots_declares_none(journal: Journal) -> None:
    async with bridged(env=journal.env) as bridge:
        client = Client(bridge, capabilities={"elicitation": {}})
        assert text(await client.call("echo", text="at once")) == "at once"
        [initialize] = journal.messages("initialize")
        assert "roots" not in initialize["params"]["capabilities"]


async def test_an_hour_after_the_start_the_call_asks_anew_and_sees_the_roots(journal: Journal, clock: Clock) -> None:
    async with bridged(env=journal.env) as bridge:
        client = Client(bridge)
        await client.send("tools/list")
        clock.skip(3600)
        assert value(await with_roots(client, "roots_seen", HOME)) == HOME["roots"]
        order = journal.order()
        # The lapsed ask is not answered: the server is told, asks anew, has its answer, and then hears of the call.
        assert order[order.index("notifications/roots/list_changed") + 1] == "result"
        assert order.index("notifications/roots/list_changed") < order.index("tools/call")
        assert [answer["result"] for answer in journal.answers()] == [HOME]


async def test_an_hour_after_the_start_lists_are_complete(journal: Journal, clock: Clock) -> None:
    async with bridged(env=journal.env) as bridge:
        client = Client(bridge)
        await client.send("server/discover")
        clock.skip(3600)
        for method in ("server/discover", "tools/list", "prompts/list", "resources/list", "resources/templates/list"):
            assert (await client.send(method))["resultType"] == "complete"


async def test_after_a_lapsed_ask_nobody_is_asked_twice(journal: Journal, clock: Clock) -> None:
    """The lapsed ask is over, though its server never withdrew it: no later call carries it."""
    async with bridged(env=journal.env) as bridge:
        client = Client(bridge)
        await client.send("tools/list")
        clock.skip(60)
        await with_roots(client, "echo", HOME, text="x")
        assert text(await client.call("slow", seconds=0.2)) == "slept 0.2"


async def test_a_server_that_does_not_ask_again_holds_the_call_up_for_no_longer_than_2_s(
    journal: Journal, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert startup.BARRIER == 2.0
    monkeypatch.setattr(startup, "BARRIER", 0.2)
    journal.env["ASKER_ROOTS_AT_START"] = "once"
    async with bridged(env=journal.env) as bridge:
        client = Client(bridge)
        await client.send("tools/list")
        clock.skip(3600)
        assert text(await with_roots(client, "echo", HOME, text="x")) == "x"
        assert len(journal.messages("notifications/roots/list_changed")) == 1


async def test_a_list_that_waits_for_roots_is_complete_when_the_ask_has_lapsed(journal: Journal) -> None:
    """Nobody could carry it; the server goes on without, and learns of the roots with the first call."""
    journal.env["ASKER_LISTS_WAIT"] = "1"
    async with bridged(env=journal.env) as bridge:
        client = Client(bridge)
        await client.send("server/discover")
        only_group(bridge).attribution._verdicts._settle_max = 0.2
        assert (await client.send("tools/list"))["tools"]
        [refusal] = journal.answers()
        assert refusal["error"]["message"] == "Nobody could be asked for roots in time."
        assert value(await with_roots(client, "roots_seen", HOME)) == HOME["roots"]


# -- other questions that no call can carry ---------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["elicitation/create", "sampling/createMessage"])
async def test_what_is_asked_at_the_start_is_refused_at_once(method: str, tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.env["ASKER_ASKS_AT_START"] = method
    async with bridged(env=journal.env) as bridge:
        client = Client(bridge)
        assert (await client.send("tools/list"))["resultType"] == "complete"
        await until(journal.answers, 2)
        [answer] = journal.answers()
        assert answer["error"]["code"] == -32603
        assert answer["error"]["message"] in (
            "No call is open that can have asked it.",
            "Only requests are open that cannot be asked about.",
        )


@pytest.mark.parametrize("method", ["elicitation/create", "sampling/createMessage"])
async def test_what_is_asked_between_calls_is_refused_at_once(method: str, tmp_path: Path, clock: Clock) -> None:
    journal = Journal(tmp_path)
    async with bridged(env=journal.env) as bridge:
        client = Client(bridge)
        assert text(await client.call("ask_afterwards", method=method)) == "later"
        clock.skip(3600)
        await until(journal.answers, 2)
        [answer] = journal.answers()
        assert answer["error"] == {"code": -32603, "message": "No call is open that can have asked it."}
        assert [entry for entry in await client.heard() if "refused" in entry]
        assert only_group(bridge).attribution.knowledge.kind("tools/call:ask_afterwards") is Kind.UNKNOWN


async def test_roots_that_are_asked_for_between_calls_are_the_last_known(journal: Journal) -> None:
    async with bridged(env=journal.env) as bridge:
        client = Client(bridge)
        await with_roots(client, "ask_afterwards", HOME, method="roots/list")
        await until(lambda: len(journal.answers()) == 2)
        assert [answer["result"] for answer in journal.answers()] == [HOME, HOME]


async def test_an_ask_that_is_not_answered_goes_to_the_next_call(journal: Journal) -> None:
    async with bridged(env=journal.env, roots_ttl=0.3) as bridge:
        client = Client(bridge)
        asked = await client.call("roots_seen")
        assert asked["resultType"] == "input_required"
        await until(lambda: not bridge._live)
        assert journal.answers() == []
        assert journal.messages("notifications/cancelled") == []  # the server never heard of that call
        assert value(await with_roots(client, "roots_seen", HOME)) == HOME["roots"]
        assert [answer["result"] for answer in journal.answers()] == [HOME]


async def test_a_client_that_leaves_before_it_is_asked_gives_it_back(journal: Journal) -> None:
    async with bridged(env=journal.env) as bridge:
        client = Client(bridge)
        await client.send("tools/list")
        with anyio.CancelScope() as scope:
            scope.cancel()
            await client.call("roots_seen")
        assert value(await with_roots(client, "roots_seen", HOME)) == HOME["roots"]


async def test_no_roots_at_all_is_an_answer(journal: Journal) -> None:
    async with bridged(env=journal.env) as bridge:
        client = Client(bridge)
        assert value(await with_roots(client, "roots_seen", {"roots": []})) == []
        assert value(await client.call("roots_seen")) == []


async def test_old_roots_are_asked_again_and_changes_are_told(journal: Journal, clock: Clock) -> None:
    async with bridged(env=journal.env, roots_age=300) as bridge:
        client = Client(bridge)
        assert value(await with_roots(client, "roots_seen", HOME)) == HOME["roots"]
        clock.skip(290)
        assert value(await client.call("roots_seen")) == HOME["roots"]
        clock.skip(20)
        assert value(await with_roots(client, "roots_seen", HOME)) == HOME["roots"]
        assert journal.messages("notifications/roots/list_changed") == []
        clock.skip(310)
        assert value(await with_roots(client, "roots_seen", WORK)) == WORK["roots"]
        assert len(journal.messages("notifications/roots/list_changed")) == 1


async def test_further_sessions_get_the_roots_without_a_question(journal: Journal) -> None:
    async with bridged(env=journal.env) as bridge:
        client = Client(bridge)
        await with_roots(client, "echo", HOME, text="x")
        await client.call("ask_once", message="suspended, so that the next asker gets another session")
        assert text(await client.call("slow", seconds=0.3)) == "slept 0.3"
        assert len(only_group(bridge).channels) == 2
        both = [answer.get("result") for answer in journal.answers()]
        assert both == [HOME, HOME]  # the second process had them before its call was over


async def test_a_server_that_waits_for_roots_keeps_no_other_from_its_place(journal: Journal) -> None:
    async with bridged(env=journal.env, max_sessions_per_principal=1) as bridge:
        await Client(bridge).send("tools/list")
        other = Client(bridge, capabilities={"elicitation": {}})
        assert text(await other.call("echo", text="room for me")) == "room for me"
        [first, second] = bridge.pool.groups.values()
        assert not first.channels
        assert not first._asked_on
        assert first.roots.held is None
        assert second.channels


async def test_each_principal_is_asked_for_its_own(journal: Journal) -> None:
    async with bridged(env=journal.env) as bridge:
        ada, bob = Client(bridge, "ada"), Client(bridge, "bob")
        assert value(await with_roots(ada, "roots_seen", HOME)) == HOME["roots"]
        assert value(await with_roots(bob, "roots_seen", WORK)) == WORK["roots"]
        assert value(await ada.call("roots_seen")) == HOME["roots"]


async def test_after_a_restart_the_new_process_has_the_roots_before_its_first_call(journal: Journal) -> None:
    async with bridged(env=journal.env) as bridge:
        client = Client(bridge)
        await with_roots(client, "echo", HOME, text="x")
        group = only_group(bridge)
        assert "exited" in (await refused(client.call("die_now", code=1))).message
        await until(lambda: group.primary is None)
        assert value(await client.call("roots_seen")) == HOME["roots"]
        assert len(journal.pids()) == 2
