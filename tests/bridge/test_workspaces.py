"""``--roots per-call``: two workspaces of one principal are told apart by what their clients say, and kept apart."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import anyio
import pytest

from bridge.settings import Server, Target
from bridge.workspaces import workspace_of
from tests.bridge.harness import EVERYTHING, Client, Journal, Result, bridged, named, text, value

pytestmark = pytest.mark.anyio

HOME: dict[str, Any] = {"roots": [{"uri": "file:///home", "name": "home"}]}
WORK: dict[str, Any] = {"roots": [{"uri": "file:///work"}]}


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    journal = Journal(tmp_path)
    journal.env["ASKER_ROOTS_AT_START"] = "1"
    return journal


async def call(client: Client, roots: dict[str, Any], tool: str, /, **arguments: Any) -> Result:
    """Call; the first round asks for roots and for nothing else."""
    asked = await client.call(tool, **arguments)
    assert asked["inputRequests"] == {"roots-1": {"method": "roots/list"}}
    return await client.retry(tool, asked["requestState"], {"roots-1": roots}, **arguments)


async def test_each_call_asks_for_roots_first_and_runs_where_they_are_known(journal: Journal) -> None:
    async with bridged(env=journal.env, roots="per-call") as bridge:
        for roots in (HOME, WORK, HOME, WORK):
            assert value(await call(Client(bridge), roots, "roots_seen")) == roots["roots"]
        assert len(journal.pids()) == 2
        assert journal.messages("notifications/roots/list_changed") == []


async def test_two_clients_interleaved_never_see_the_others(journal: Journal) -> None:
    rng = random.Random(3)
    async with bridged(env=journal.env, roots="per-call") as bridge:
        seen: list[bool] = []

        async def work(roots: dict[str, Any]) -> None:
            for _ in range(6):
                await anyio.sleep(rng.uniform(0, 0.02))
                client = Client(bridge)
                tool = rng.choice(["roots_seen", "roots_seen", "ask_roots"])
                done = await client.answered(tool, lambda method, params: roots)
                found = value(done)
                seen.append((found["roots"] if isinstance(found, dict) else found) == roots["roots"])

        async with anyio.create_task_group() as tasks:
            for roots in (HOME, WORK, HOME, WORK):
                tasks.start_soon(work, roots)
        assert seen == [True] * 24


async def test_in_the_middle_of_a_call_nobody_is_asked_again(journal: Journal) -> None:
    async with bridged(env=journal.env, roots="per-call") as bridge:
        done = await call(Client(bridge), HOME, "ask_roots")
        assert value(done) == HOME


async def test_other_questions_come_in_rounds_of_their_own(journal: Journal) -> None:
    async with bridged(env=journal.env, roots="per-call") as bridge:
        home, work = Client(bridge), Client(bridge)
        first, second = await call(home, HOME, "ask_once"), await call(work, WORK, "ask_once")
        for client, asked, name in ((work, second, "Bob"), (home, first, "Ada")):
            answers = dict.fromkeys(asked["inputRequests"], named(name))
            assert value(await client.retry("ask_once", asked["requestState"], answers)) == named(name)


async def test_the_server_hears_of_no_call_before_the_roots_are_known(journal: Journal) -> None:
    async with bridged(env=journal.env, roots="per-call") as bridge:
        client = Client(bridge)
        asked = await client.call("echo", text="x")
        assert journal.pids() == []  # not even started: it would not be known for whom
        assert text(await client.retry("echo", asked["requestState"], {"roots-1": HOME}, text="x")) == "x"


async def test_lists_are_complete_and_see_no_workspace(journal: Journal) -> None:
    async with bridged(env=journal.env, roots="per-call") as bridge:
        await call(Client(bridge), HOME, "echo", text="x")
        for method in ("server/discover", "tools/list", "prompts/list", "resources/list"):
            assert (await Client(bridge).send(method))["resultType"] == "complete"
        answered = [answer for answer in journal.answers() if "result" in answer]
        assert len(answered) == 1  # that of the session of HOME; the lists' session was told nothing


async def test_a_client_without_roots_is_not_asked(journal: Journal) -> None:
    async with bridged(env=journal.env, roots="per-call") as bridge:
        client = Client(bridge, capabilities={"elicitation": {}})
        assert text(await client.call("echo", text="at once")) == "at once"


async def test_a_client_that_has_no_roots_after_all_is_served_without(journal: Journal) -> None:
    async with bridged(env=journal.env, roots="per-call") as bridge:
        client = Client(bridge)
        asked = await client.call("echo", text="x")
        client.capabilities = {name: value for name, value in EVERYTHING.items() if name != "roots"}
        answers = {"requestState": asked["requestState"], "inputResponses": {}}
        done = await client.send("tools/call", {"name": "echo", "arguments": {"text": "x"}, **answers})
        assert text(done) == "x"


async def test_principals_with_the_same_roots_share_nothing(journal: Journal) -> None:
    async with bridged(env=journal.env, roots="per-call") as bridge:
        for principal in ("ada", "bob"):
            await call(Client(bridge, principal), HOME, "echo", text="x")
        assert len(journal.pids()) == 2


async def test_roots_without_end_do_not_start_processes_without_end(journal: Journal) -> None:
    async with bridged(env=journal.env, roots="per-call", max_sessions_per_principal=3) as bridge:
        for number in range(6):
            roots = {"roots": [{"uri": f"file:///{number}"}]}
            assert value(await call(Client(bridge), roots, "roots_seen")) == roots["roots"]
        assert sum(len(group.channels) for group in bridge.pool.groups.values()) <= 3


def test_the_order_of_roots_makes_no_workspace() -> None:
    a, b = {"uri": "file:///a"}, {"uri": "file:///b"}
    assert workspace_of({"roots": [a, b]}) == workspace_of({"roots": [b, a]})
    assert workspace_of({"roots": [a]}) != workspace_of({"roots": [a, b]})
    assert len(workspace_of({"roots": [a] * 1000})) == 32


def test_a_single_session_cannot_tell_workspaces_apart() -> None:
    with pytest.raises(ValueError, match="roots have to be shared"):
        Server(target=Target(command=("x",)), roots="per-call", single_session=True)
