"""The tasks extension: what a client that takes tasks sees of old tasks, and of old calls that only take long."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from bridge import tasks_serving
from bridge.call import Call
from bridge.serving import Bridge
from modern.tasks import Status, Task
from tests.bridge.harness import (
    ASKER,
    EVERYTHING,
    Client,
    Journal,
    Leg,
    bridged,
    forget_ghosts_soon,
    named,
    nothing_is_left,
    only_group,
    refused,
    text,
    until,
    usual_answer,
    value,
)

pytestmark = pytest.mark.anyio

EXTENSION = "io.modelcontextprotocol/tasks"
TAKES_TASKS: dict[str, Any] = {**EVERYTHING, "extensions": {EXTENSION: {}}}
TASKER = str(ASKER.with_name("tasker.py"))

Json = dict[str, Any]


def tasked(*command: str, **options: Any) -> Any:
    return bridged(*(command or (sys.executable, TASKER)), **options)


class Taker(Client):
    """A client that declares the extension."""

    def __init__(self, bridge: Bridge, principal: str = "anonymous", capabilities: Json | None = None) -> None:
        super().__init__(bridge, principal, TAKES_TASKS if capabilities is None else capabilities)

    async def task(self, tool: str, /, **arguments: Any) -> str:
        """Call; the id of the task that the call has become."""
        created = await self.call(tool, **arguments)
        assert created["resultType"] == "task", created
        return str(created["taskId"])

    async def get(self, task_id: str) -> Json:
        return await self.send("tasks/get", {"taskId": task_id})

    async def update(self, task_id: str, responses: Json) -> Json:
        return await self.send("tasks/update", {"taskId": task_id, "inputResponses": responses})

    async def cancel(self, task_id: str) -> Json:
        return await self.send("tasks/cancel", {"taskId": task_id})

    async def when(self, task_id: str, condition: Callable[[Json], Any]) -> Json:
        with anyio.fail_after(8):
            while not condition(shown := await self.get(task_id)):  # noqa: ASYNC110 - it is polling that is tested
                await anyio.sleep(0.01)
        return shown

    async def asked(self, task_id: str, count: int = 1) -> dict[str, Json]:
        """What the task asks, once it asks so many things."""
        shown = await self.when(task_id, lambda task: len(task.get("inputRequests", {})) >= count or ended(task))
        assert shown["status"] == "input_required", shown
        requests: dict[str, Json] = shown["inputRequests"]
        return requests

    async def ended(self, task_id: str) -> Json:
        return await self.when(task_id, ended)


def ended(task: Json) -> bool:
    return task["status"] in ("completed", "failed", "cancelled")


@pytest.fixture(autouse=True)
def shortcut(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """How long a leg waits for a quick end of what is a task already: hardly, unless a test wants it."""

    def set_to(seconds: float) -> None:
        monkeypatch.setattr("bridge.timing.SHORTCUT", seconds)

    set_to(0.01)
    monkeypatch.setattr("bridge.serving.SWEEP", 0.05)
    return set_to


# -- old tasks ---------------------------------------------------------------------------------------------------------


async def test_what_the_old_server_runs_as_a_task_is_a_task_for_a_client_that_takes_them() -> None:
    async with tasked(task_ttl=100) as bridge:
        client = Taker(bridge)
        created = await client.call("job", seconds=0.4)
        assert created["resultType"] == "task"
        assert created["status"] == "working"
        assert created["statusMessage"] == "half done"
        assert (created["ttlMs"], created["pollIntervalMs"]) == (100_000, 1500)  # the server's own interval
        assert created["_meta"]["said"] == "beside the task"
        assert not {"task", "ttl", "pollInterval", "result", "inputRequests", "requestState"} & created.keys()
        shown = await client.get(created["taskId"])
        assert shown["resultType"] == "complete"
        assert {name: shown[name] for name in created if name not in ("resultType", "_meta")} == {
            name: created[name] for name in created if name not in ("resultType", "_meta")
        }
        last = await client.ended(created["taskId"])
        assert last["status"] == "completed"
        assert text(last["result"]) == "the job is done"
        assert "io.modelcontextprotocol/related-task" not in last["result"].get("_meta", {})
        assert last["createdAt"] == created["createdAt"] < last["lastUpdatedAt"]


async def test_for_a_client_without_the_extension_the_same_tool_is_a_call(tmp_path: Path) -> None:
    async with tasked() as bridge:
        client = Client(bridge)
        result = await client.answered("asks", usual_answer)
        assert (result["resultType"], value(result)["content"]) == ("complete", {"name": "Ada"})
        assert "io.modelcontextprotocol/related-task" not in result["_meta"]
        assert text(await client.call("quick")) == "quick, not as a task"


async def test_with_strict_tasks_a_client_without_the_extension_is_refused() -> None:
    async with tasked(strict_tasks=True) as bridge:
        error = await refused(Client(bridge).call("job"))
        assert (error.code, error.status) == (-32021, 400)
        assert error.data == {"requiredCapabilities": {"extensions": {EXTENSION: {}}}}
        assert text(await Client(bridge).call("quick")) == "quick, not as a task"
        await Taker(bridge).task("job")


async def test_the_extension_counts_on_the_request_that_declares_it_and_no_other() -> None:
    async with tasked() as bridge:
        await Taker(bridge).task("job")
        assert (await Client(bridge).call("job", seconds=0))["resultType"] == "complete"


async def test_a_tool_that_may_be_a_task_is_one_unless_it_is_quick(shortcut: Callable[[float], None]) -> None:
    shortcut(0.3)
    async with tasked() as bridge:
        client = Taker(bridge)
        assert text(await client.call("quick")) == "quick"
        task_id = await client.task("maybe", seconds=0.6)
        assert text((await client.ended(task_id))["result"]) == "the job is done"


async def test_a_server_that_does_not_say_that_it_runs_tasks_is_not_asked_for_any(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    async with tasked(env={**journal.env, "TASKER_NO_TASKS": "1"}) as bridge:
        assert text(await Taker(bridge).call("quick")) == "quick, not as a task"
        assert "task" not in journal.calls("quick")[0]["params"]


async def test_the_clients_own_wish_for_a_task_is_ignored(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    async with tasked(env=journal.env) as bridge:
        result = await Taker(bridge).send(
            "tools/call", {"name": "echo", "arguments": {"text": "x"}, "task": {"ttl": 1}}
        )
        assert text(result) == "x"
        [call] = journal.calls("echo")
        assert "task" not in call["params"]


# -- questions ---------------------------------------------------------------------------------------------------------


async def test_questions_of_a_task_are_its_input_and_answers_come_by_update() -> None:
    async with tasked() as bridge:
        client = Taker(bridge)
        task_id = await client.task("asks", message="Who goes there?")
        [(key, asked)] = (await client.asked(task_id)).items()
        assert asked["method"] == "elicitation/create"
        assert asked["params"]["message"] == "Who goes there?"
        assert "_meta" not in asked["params"]
        assert await client.asked(task_id) == {key: asked}  # as often as one looks
        acknowledged = await client.update(task_id, {key: named("Ada"), "unknown": 1})
        assert acknowledged.keys() == {"resultType", "_meta"}
        last = await client.ended(task_id)
        assert value(last["result"])["content"] == {"name": "Ada"}


async def test_some_answers_leave_the_others_asked_and_their_keys_as_they_are() -> None:
    async with tasked() as bridge:
        client = Taker(bridge)
        task_id = await client.task("asks_both")
        asked = await client.asked(task_id, 2)
        first, second = sorted(asked, key=lambda key: str(asked[key]["params"]["message"]))
        await client.update(task_id, {first: named("Ada")})
        shown = await client.get(task_id)
        assert (shown["status"], list(shown["inputRequests"])) == ("input_required", [second])
        await client.update(task_id, {first: named("Eve"), second: named("Bob")})  # the first is answered already
        answers = value((await client.ended(task_id))["result"])
        assert {message: answer["content"]["name"] for message, answer in answers.items()} == {
            "first": "Ada",
            "second": "Bob",
        }


async def test_no_key_is_used_again_and_rounds_are_not_counted() -> None:
    async with tasked() as bridge:
        client = Taker(bridge)
        task_id = await client.task("asks_many", n=15)
        seen: set[str] = set()
        for number in range(15):
            shown = await client.when(task_id, lambda task: set(task.get("inputRequests", {})) - seen or ended(task))
            [key] = set(shown["inputRequests"]) - seen
            seen.add(key)
            await client.update(task_id, {key: named(str(number))})
        assert text((await client.ended(task_id))["result"]) == ", ".join(map(str, range(15)))
        assert len(seen) == 15


async def test_an_answer_of_the_wrong_shape_takes_nothing_and_one_that_breaks_the_form_is_asked_again() -> None:
    async with tasked() as bridge:
        client = Taker(bridge)
        task_id = await client.task("asks")
        [key] = await client.asked(task_id)
        error = await refused(client.update(task_id, {key: {"action": "perhaps"}}))
        assert error.code == -32602
        assert list(await client.asked(task_id)) == [key]
        await client.update(task_id, {key: {"action": "accept", "content": {"name": 7}}})
        [again] = await client.asked(task_id)
        assert again != key
        await client.update(task_id, {key: named("late"), again: named("Ada")})
        assert value((await client.ended(task_id))["result"])["content"] == {"name": "Ada"}


async def test_what_the_server_asks_before_it_makes_a_task_is_asked_by_rounds() -> None:
    async with tasked() as bridge:
        client = Taker(bridge)
        first = await client.call("asks_first", seconds=0.4)
        assert first["resultType"] == "input_required"
        assert "taskId" not in first
        [key] = first["inputRequests"]
        created = await client.retry("asks_first", first["requestState"], {key: named("Ada")}, seconds=0.4)
        assert created["resultType"] == "task"
        assert "requestState" not in created
        again = await client.retry("asks_first", first["requestState"], {key: named("Ada")}, seconds=0.4)
        assert again["taskId"] == created["taskId"]  # the same retry sent again is the same leg
        error = await refused(client.retry("asks_first", first["requestState"], {key: named("Eve")}, seconds=0.4))
        assert error.data == {"reason": "invalid_request_state"}
        assert (await client.ended(created["taskId"]))["status"] == "completed"


# -- what a task comes to ----------------------------------------------------------------------------------------------


async def test_a_tool_that_fails_has_completed_whatever_the_old_status_says() -> None:
    async with tasked() as bridge:
        client = Taker(bridge)
        last = await client.ended(await client.task("fails"))
        assert (last["status"], last["result"]["isError"]) == ("completed", True)
        assert text(last["result"]) == "The tool failed."


async def test_an_error_of_the_protocol_is_a_failed_task_with_the_error_as_any_client_gets_it() -> None:
    async with tasked() as bridge:
        client = Taker(bridge)
        last = await client.ended(await client.task("breaks"))
        assert last["status"] == "failed"
        assert last["error"] == {"code": -32603, "message": "Something broke.", "data": {"originalCode": -32050}}
        assert last["statusMessage"] == "Something broke."
        assert "result" not in last


async def test_a_task_that_failed_without_a_result_fails_with_what_the_server_said_of_it() -> None:
    async with tasked() as bridge:
        client = Taker(bridge)
        last = await client.ended(await client.task("breaks_empty"))
        assert (last["status"], last["error"]) == ("failed", {"code": -32603, "message": "The disk is full."})
        error = await refused(Client(bridge).call("breaks_empty"))
        assert (error.code, error.message) == (-32603, "The disk is full.")


async def test_a_task_that_the_server_cancels_itself_is_cancelled() -> None:
    async with tasked() as bridge:
        client = Taker(bridge)
        last = await client.ended(await client.task("gives_up"))
        assert (last["status"], last["statusMessage"]) == ("cancelled", "Superseded.")
        error = await refused(Client(bridge).call("gives_up"))
        assert (error.code, error.message) == (-32603, "The server cancelled its task.")


async def test_a_task_that_the_server_has_forgotten_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bridge.tasks.POLL_BOUNDS", (0.15, 0.15))
    async with tasked() as bridge:
        client = Taker(bridge)
        last = await client.ended(await client.task("forgets"))
        assert last["status"] == "failed"
        assert "not found" in last["error"]["message"]


async def test_a_server_that_dies_fails_its_tasks() -> None:
    async with tasked() as bridge:
        client = Taker(bridge)
        task_id = await client.task("dies", seconds=0.4)
        last = await client.ended(task_id)
        assert (last["status"], last["error"]["code"]) == ("failed", -32603)
        assert "exited" in last["error"]["message"]
        await client.task("job")  # on a new one


# -- cancelling --------------------------------------------------------------------------------------------------------


async def test_cancelling_a_task_cancels_the_old_one_and_says_nothing_else(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    async with tasked(env=journal.env) as bridge:
        client = Taker(bridge)
        task_id = await client.task("asks")
        [key] = await client.asked(task_id)
        assert (await client.cancel(task_id)).keys() == {"resultType", "_meta"}
        shown = await client.get(task_id)
        assert shown["status"] == "cancelled"
        assert not {"result", "error", "inputRequests"} & shown.keys()
        await until(lambda: journal.answers())
        assert [m["params"] for m in journal.messages("tasks/cancel")] == [{"taskId": "task-1"}]
        assert journal.messages("notifications/cancelled") == []  # 2025-11-25: not for tasks
        [answer] = journal.answers()
        assert answer["result"] == {"action": "cancel"}
        await client.cancel(task_id)  # again: the same
        await client.update(task_id, {key: named("late")})  # ignored
        assert (await client.get(task_id)) == shown
        await until(lambda: only_group(bridge).attribution.is_idle)  # the old server said that it has stopped


async def test_where_the_server_cannot_cancel_tasks_nobody_waits_for_it(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    async with tasked(env={**journal.env, "TASKER_NO_CANCEL": "1"}) as bridge:
        client = Taker(bridge)
        task_id = await client.task("job", seconds=0.5)
        await client.cancel(task_id)
        assert (await client.get(task_id))["status"] == "cancelled"
        await until(lambda: journal.messages("notifications/cancelled"))
        assert journal.messages("tasks/cancel") == []


async def test_a_question_of_a_cancelled_task_reaches_nobody_else() -> None:
    async with tasked(env={"TASKER_NO_CANCEL": "1"}, max_sessions=1) as bridge:
        client = Taker(bridge)
        task_id = await client.task("ghost", seconds=0.4)
        forget_ghosts_soon(bridge, 0.1)
        await client.cancel(task_id)
        other = await client.task("job", seconds=0.8)  # runs on the same session when the question comes
        last = await client.when(other, lambda task: ended(task) or "inputRequests" in task)
        assert last["status"] == "completed"
        heard = await client.heard()
        assert [ask["outcome"] for ask in heard if "ask" in ask] == ["error -32603"]


async def test_a_client_that_leaves_while_its_task_is_created_cancels_it(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    async with tasked(env=journal.env) as bridge:
        client = Taker(bridge)
        async with anyio.create_task_group() as group:
            group.start_soon(client.call, "slow_start")
            await until(lambda: journal.calls("slow_start"))
            group.cancel_scope.cancel()
        await until(lambda: journal.messages("tasks/cancel"))
        assert not any(live.task for live in bridge._calls.values())


async def test_a_client_that_leaves_before_it_hears_of_its_task_cancels_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = Journal(tmp_path)
    become_task = Call._become_task
    async with tasked(env=journal.env) as bridge, anyio.create_task_group() as group:

        def and_leave(call: Call) -> None:
            become_task(call)
            group.cancel_scope.cancel()

        monkeypatch.setattr(Call, "_become_task", and_leave)
        group.start_soon(Taker(bridge).call, "asks")
        await anyio.sleep(5)
    assert journal.messages("tasks/cancel")


# -- who may -----------------------------------------------------------------------------------------------------------


async def test_tasks_are_for_clients_that_declare_the_extension() -> None:
    async with tasked() as bridge:
        task_id = await Taker(bridge).task("job")
        for method in ("tasks/get", "tasks/update", "tasks/cancel"):
            error = await refused(Client(bridge).send(method, {"taskId": task_id, "inputResponses": {}}))
            assert (error.code, error.status) == (-32021, 400)
            assert error.data == {"requiredCapabilities": {"extensions": {EXTENSION: {}}}}


async def test_an_id_names_a_task_for_its_own_principal_only_and_as_it_was_given() -> None:
    async with tasked() as bridge:
        ada, eve = Taker(bridge, "ada"), Taker(bridge, "eve")
        mine, other = await ada.task("job", seconds=30), await ada.task("job", seconds=30)
        foreign = await refused(eve.get(mine))
        assert (foreign.code, foreign.message) == (-32602, "Failed to retrieve task: Task not found")
        forged = [mine[:-1], mine + "A", mine[:40] + other[40:], mine.swapcase(), "x", "", "0" * 10_000]
        forged += [mine[:at] + ("A" if mine[at] != "A" else "B") + mine[at + 1 :] for at in range(len(mine))]
        state = (await ada.call("ask_once"))["requestState"]
        for wrong in [*forged, state]:
            error = await refused(ada.get(wrong))
            assert (error.code, error.message) == (foreign.code, foreign.message)
        for method, verb in {"tasks/update": "update", "tasks/cancel": "cancel"}.items():
            error = await refused(eve.send(method, {"taskId": mine, "inputResponses": {}}))
            assert (error.code, error.message) == (-32602, f"Failed to {verb} task: Task not found")
        assert (await ada.get(mine))["status"] == "working"
        error = await refused(ada.retry("job", mine, {}, seconds=30))
        assert error.data == {"reason": "invalid_request_state"}  # nor is it a requestState


async def test_after_a_restart_an_id_names_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    async with tasked() as before:
        ring = before._sealer.ring
        task_id = await Taker(before).task("job")
    monkeypatch.setattr("tests.bridge.harness.KeyRing.random", lambda: ring)
    async with tasked() as after:
        assert after._sealer.ring is ring
        error = await refused(Taker(after).get(task_id))
        assert (error.code, error.message) == (-32602, "Failed to retrieve task: Task not found")


async def test_one_principal_has_so_many_tasks_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks_serving, "MOST", 2)
    async with tasked() as bridge:
        client = Taker(bridge, "ada")
        for _ in range(2):
            await client.task("job", seconds=5)
        assert (await client.call("job"))["resultType"] == "complete"  # a call, as for clients without the extension
        await Taker(bridge, "eve").task("job", seconds=5)


# -- time --------------------------------------------------------------------------------------------------------------


async def test_a_task_that_has_not_ended_in_its_time_is_cancelled_fails_and_is_forgotten(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    async with tasked(env=journal.env, task_ttl=0.4, remember=0.2) as bridge:
        client = Taker(bridge)
        task_id = await client.task("asks")
        await client.asked(task_id)
        last = await client.ended(task_id)
        assert (last["status"], last["error"]["code"]) == ("failed", -32603)
        assert "--task-ttl" in last["error"]["message"]
        await until(lambda: journal.messages("tasks/cancel") and journal.answers())
        await nothing_is_left(bridge)
        error = await refused(client.get(task_id))
        assert error.code == -32602
        assert error.message in ("Failed to retrieve task: Task not found", "Failed to retrieve task: Task has expired")


async def test_a_result_is_kept_as_long_as_the_task_may_last() -> None:
    async with tasked(task_ttl=0.8, remember=0.01) as bridge:
        client = Taker(bridge)
        task_id = await client.task("job", seconds=0.1)
        await client.ended(task_id)
        await anyio.sleep(0.2)  # longer than a sweep
        assert (await client.get(task_id))["status"] == "completed"
        await nothing_is_left(bridge)


async def test_the_status_is_that_of_the_old_server_where_it_sends_no_notifications(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("bridge.tasks.POLL_BOUNDS", (0.05, 0.05))
    monkeypatch.setattr("bridge.translate.notifications.ROUTES", {})
    async with tasked() as bridge:
        client = Taker(bridge)
        task_id = await client.task("job", seconds=0.6)
        assert (await client.when(task_id, lambda task: "statusMessage" in task))["statusMessage"] == "half done"


# -- old calls that take long ------------------------------------------------------------------------------------------


def asker(**options: Any) -> Any:
    return bridged(task_after=0.2, **options)


async def test_an_old_call_that_takes_long_becomes_a_task_without_the_server_knowing(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    async with asker(env=journal.env, task_poll=0.7) as bridge:
        client = Taker(bridge)
        created = await client.call("slow", seconds=0.5)
        assert (created["resultType"], created["status"], created["pollIntervalMs"]) == ("task", "working", 700)
        last = await client.ended(created["taskId"])
        assert (last["status"], "content" in last["result"]) == ("completed", True)
        assert len(journal.calls("slow")) == 1
        assert not any("task" in message.get("method", "") for message in journal.messages())
        assert (await Client(bridge).call("slow", seconds=0.3))["resultType"] == "complete"
        assert (await client.call("echo", text="x"))["resultType"] == "complete"


async def test_where_running_again_is_harmless_a_late_answer_counts(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    async with asker(env=journal.env, replay={"gives_up": True}) as bridge:
        client = Taker(bridge)
        first = await client.call("gives_up", seconds=0.4)
        [key] = first["inputRequests"]
        await anyio.sleep(0.25)
        created = await client.retry("gives_up", first["requestState"], {}, seconds=0.4)
        assert created["resultType"] == "task"
        task_id = created["taskId"]
        await until(lambda: not bridge._calls[next(iter(bridge._calls))].call.attempting)  # the server has given up
        assert list(await client.asked(task_id)) == [key]
        await client.update(task_id, {key: named("Ada")})
        last = await client.ended(task_id)
        assert value(last["result"])["content"] == {"name": "Ada"}
        assert len(journal.calls("gives_up")) == 2


async def test_without_the_option_no_call_becomes_a_task() -> None:
    async with bridged() as bridge:
        assert (await Taker(bridge).call("slow", seconds=0.2))["resultType"] == "complete"


async def test_only_tool_calls_become_tasks() -> None:
    async with asker() as bridge:
        client = Taker(bridge)
        asked = await client.send("resources/read", {"uri": "asker://question"})
        assert asked["resultType"] == "input_required"


async def test_its_questions_are_asked_by_rounds_before_and_as_input_after() -> None:
    async with asker() as bridge:
        client = Taker(bridge)
        first = await client.call("ask_many", n=12)
        assert first["resultType"] == "input_required"
        [key] = first["inputRequests"]
        await anyio.sleep(0.25)
        created = await client.retry("ask_many", first["requestState"], {key: named("0")}, n=12)
        assert created["resultType"] == "task"
        seen = {key}
        for number in range(1, 12):
            shown = await client.when(
                created["taskId"], lambda task: set(task.get("inputRequests", {})) - seen or ended(task)
            )
            [key] = set(shown["inputRequests"]) - seen
            seen.add(key)
            await client.update(created["taskId"], {key: named(str(number))})
        last = await client.ended(created["taskId"])
        assert [answer["content"]["name"] for answer in value(last["result"])] == [str(n) for n in range(12)]


async def test_a_call_of_many_quick_rounds_becomes_a_task_before_its_client_gives_up() -> None:
    async with bridged(task_after=60) as bridge:
        client = Taker(bridge)
        result = await client.call("ask_many", n=14)
        rounds = 0
        while result["resultType"] == "input_required":
            rounds += 1
            answers = {key: named(str(rounds)) for key in result["inputRequests"]}
            result = await client.retry("ask_many", result["requestState"], answers, n=14)
        assert (result["resultType"], rounds) == ("task", 8)
        seen: set[str] = set()
        while not ended(shown := await client.get(result["taskId"])):
            asked = set(shown.get("inputRequests", {})) - seen
            seen |= asked
            if asked:
                await client.update(result["taskId"], dict.fromkeys(asked, named("later")))
            await anyio.sleep(0.01)
        assert len(value(shown["result"])) == 14


async def test_a_task_is_not_ended_by_what_ends_a_call() -> None:
    limits = {"silence": 0.3, "call_ttl": 0.4, "elicitation_ttl": 0.2}
    async with asker(**limits) as bridge:
        client = Taker(bridge)
        task_id = await client.task("slow_ask", seconds=0.7)
        [key] = await client.asked(task_id)
        await anyio.sleep(0.3)
        await client.update(task_id, {key: named("Ada")})
        assert (await client.ended(task_id))["status"] == "completed"


async def test_cancelling_it_cancels_the_call(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    async with asker(env=journal.env) as bridge:
        client = Taker(bridge)
        task_id = await client.task("slow", seconds=30)
        await client.cancel(task_id)
        await until(lambda: journal.messages("notifications/cancelled"))
        assert (await client.get(task_id))["status"] == "cancelled"


async def test_its_progress_is_its_status_message() -> None:
    async with asker() as bridge:
        client = Taker(bridge)
        task_id = await client.task("progress", n=3, pause=0.2)
        shown = await client.when(task_id, lambda task: "statusMessage" in task)
        assert shown["statusMessage"]


async def test_a_client_that_cannot_be_asked_fails_with_what_it_lacks() -> None:
    async with asker() as bridge:
        client = Taker(bridge, capabilities={"extensions": {EXTENSION: {}}})
        task_id = await client.task("slow_ask", seconds=0.5)
        last = await client.ended(task_id)
        assert last["error"]["code"] == -32021
        assert "elicitation" in last["error"]["data"]["requiredCapabilities"]


# -- listening ---------------------------------------------------------------------------------------------------------


class Stream:
    """An open `subscriptions/listen`."""

    def __init__(self, client: Client, filter: Json) -> None:
        self.leg = Leg()
        self.request = client.request("subscriptions/listen", {"notifications": filter})
        self.bridge = client.bridge

    async def run(self) -> None:
        await self.bridge.serve(self.request, self.leg)

    @property
    def acknowledged(self) -> Json:
        method, params = self.leg.notifications[0]
        assert method == "notifications/subscriptions/acknowledged"
        return dict(params["notifications"])

    @property
    def tasks(self) -> list[Json]:
        return [params for method, params in self.leg.notifications if method == "notifications/tasks"]


async def test_a_stream_is_told_of_the_tasks_that_it_asks_for_and_of_no_others() -> None:
    async with tasked() as bridge, anyio.create_task_group() as group:
        ada, eve = Taker(bridge, "ada"), Taker(bridge, "eve")
        mine, other = await ada.task("asks"), await ada.task("job", seconds=0.3)
        foreign = await eve.task("job", seconds=5)
        stream = Stream(ada, {"taskIds": [mine, foreign, "x", mine]})
        group.start_soon(stream.run)
        await until(lambda: stream.tasks)
        assert stream.acknowledged == {"taskIds": [mine]}
        [key] = await ada.asked(mine)
        await ada.update(mine, {key: named("Ada")})
        last = await ada.ended(mine)
        await ada.ended(other)
        await until(lambda: stream.tasks[-1]["status"] == "completed")
        assert {told["taskId"] for told in stream.tasks} == {mine}
        statuses = [told["status"] for told in stream.tasks]
        assert "input_required" in statuses
        told = stream.tasks[-1]
        assert told.pop("_meta") == {"io.modelcontextprotocol/subscriptionId": stream.request.id}
        assert told == {name: last[name] for name in last if name not in ("_meta", "resultType")}
        group.cancel_scope.cancel()


async def test_a_stream_that_comes_late_is_told_what_the_task_has_come_to() -> None:
    async with tasked() as bridge, anyio.create_task_group() as group:
        client = Taker(bridge)
        task_id = await client.task("job", seconds=0.2)
        await client.ended(task_id)
        stream = Stream(client, {"taskIds": [task_id]})
        group.start_soon(stream.run)
        await until(lambda: stream.tasks)
        assert stream.tasks[0]["status"] == "completed"
        group.cancel_scope.cancel()


async def test_a_stream_of_a_client_without_the_extension_may_not_ask_for_tasks() -> None:
    async with tasked() as bridge:
        error = await refused(Client(bridge).send("subscriptions/listen", {"notifications": {"taskIds": []}}))
        assert (error.code, error.status) == (-32021, 400)


async def test_nobody_is_told_after_a_stream_has_ended() -> None:
    async with tasked() as bridge:
        client = Taker(bridge)
        task_id = await client.task("job", seconds=0.4)
        stream = Stream(client, {"taskIds": [task_id]})
        async with anyio.create_task_group() as group:
            group.start_soon(stream.run)
            await until(lambda: stream.tasks)
            group.cancel_scope.cancel()
        told = len(stream.tasks)
        await client.ended(task_id)
        assert len(stream.tasks) == told


async def test_discover_declares_the_extension_and_not_the_old_capability() -> None:
    async with tasked() as bridge:
        capabilities = (await Client(bridge).send("server/discover"))["capabilities"]
        assert capabilities["extensions"] == {EXTENSION: {}}
        assert "tasks" not in capabilities


async def test_what_still_runs_at_the_end_fails_and_the_old_server_hears_of_it(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    async with tasked(env=journal.env) as bridge:
        client = Taker(bridge)
        task_id = await client.task("asks")
        await client.asked(task_id)
        bridge.give_up()
        shown = await client.get(task_id)
        assert (shown["status"], "shutting down" in shown["error"]["message"]) == ("failed", True)
        await until(lambda: journal.messages("tasks/cancel"))


def test_times_are_written_in_utc_with_milliseconds() -> None:
    task = Task("t", Status.WORKING, None, 0.0, 0.5, 1, 2)
    assert task.plain()["createdAt"] == "1970-01-01T00:00:00.000Z"
    assert task.plain()["lastUpdatedAt"] == "1970-01-01T00:00:00.500Z"
