"""Cases 4 to 7, 23, 24, 26 to 29 and 31: whose question it is, what is asked, and what the answer does."""

from __future__ import annotations

import logging
from typing import Any

import anyio
import pytest

from bridge.serving import SWEEP
from modern.errors import INVALID_PARAMS
from tests.bridge.harness import (
    ACCEPT,
    Client,
    Clock,
    Journal,
    named,
    nothing_is_left,
    refused,
    shown,
    text,
    until,
    usual_answer,
    value,
)
from tests.field.site import everywhere, site

pytestmark = pytest.mark.anyio


async def ask(client: Client, tool: str, **arguments: Any) -> tuple[str, dict[str, Any]]:
    """Call a tool that asks: the state, and what it asks by key."""
    asked = await client.call(tool, **arguments)
    assert asked["resultType"] == "input_required", asked
    return asked["requestState"], asked["inputRequests"]


@everywhere
async def test_case_04_no_question_of_many_calls_at_once_reaches_another_call(transport: str) -> None:
    async with site(transport, max_sessions=2, remember=0.5) as bridge:
        told: list[tuple[str, str]] = []

        async def call(client: Client, number: int) -> None:
            mine = f"{client.principal} {number}"

            def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
                told.append((mine, params["message"]))
                return named(params["message"])

            result = await client.answered(tools[number % 3], answer, message=mine, seconds=0.01 * (number % 5))
            assert mine in text(result)

        tools = ("ask_once", "ask_both", "slow_ask")
        async with anyio.create_task_group() as tasks:
            for principal in ("ada", "bo", "cy", "di"):
                client = Client(bridge, principal)
                for number in range(30):
                    tasks.start_soon(call, client, number)
        assert len(told) == 4 * (10 + 2 * 10 + 10)
        assert all(message.startswith(mine) for mine, message in told)
        await nothing_is_left(bridge)


@everywhere
async def test_case_05_nobody_waits_for_the_call_that_waits_for_its_user(transport: str) -> None:
    async with site(transport) as bridge:
        client = Client(bridge)
        state, asked = await ask(client, "ask_once")
        with anyio.fail_after(8):
            assert text(await client.call("echo", text="meanwhile")) == "meanwhile"
            assert (await client.send("tools/list"))["tools"]
            assert value(await client.answered("ask_once", usual_answer)) == ACCEPT
            assert text(await Client(bridge, "bo").call("echo", text="too")) == "too"
        assert value(await client.retry("ask_once", state, dict.fromkeys(asked, named("Late")))) == named("Late")


@everywhere
async def test_case_06_an_extra_answer_is_ignored_and_a_missing_one_asked_again_alone(transport: str) -> None:
    async with site(transport) as bridge:
        client = Client(bridge)
        state, asked = await ask(client, "ask_both")
        first, second = asked
        again = await client.retry("ask_both", state, {first: named("Ada"), "nobody-asked": named("Eve")})
        assert again["resultType"] == "input_required"
        assert again["inputRequests"] == {second: asked[second]}
        done = await client.retry("ask_both", again["requestState"], {second: named("Bo")})
        assert value(done) == [named("Ada"), named("Bo")]


@everywhere
async def test_case_07_elicitation_without_a_mode_is_form_mode(transport: str) -> None:
    async with site(transport) as bridge:
        client = Client(bridge, capabilities={"elicitation": {}})
        _, asked = await ask(client, "ask_once")
        [request] = asked.values()
        assert request["method"] == "elicitation/create"
        assert request["params"].get("mode", "form") == "form"
        assert "url" not in (await client.call("whoami"))["content"][0]["text"]
        result = await client.call("catches_refusal", method="elicitation/create")
        assert result["resultType"] == "input_required"


SECRET = "correct horse battery staple"


@everywhere
async def test_case_23_what_a_person_answers_is_in_no_log(transport: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with site(transport) as bridge:
        client = Client(bridge)
        for tool in ("ask_once", "ask_then_fail", "die"):
            arguments = {"seconds": 1} if tool == "die" else {}
            state, asked = await ask(client, tool, **arguments)
            answers = dict.fromkeys(asked, named(SECRET))
            if tool == "die":
                error = await refused(client.retry(tool, state, answers, **arguments))
                assert SECRET not in f"{error!r} {error.body()}"
            else:
                await client.retry(tool, state, answers, **arguments)
        state, asked = await ask(client, "ask_once")
        error = await refused(client.retry("ask_once", state, {key: {"action": SECRET} for key in asked}))
        assert SECRET not in f"{error!r} {error.body()}"
    assert caplog.records
    assert all(SECRET not in f"{record.getMessage()} {record.__dict__}" for record in caplog.records)


@everywhere
async def test_case_24_every_misused_state_gets_the_one_frozen_error(
    transport: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "mrtr")
    clock = Clock(monkeypatch)
    async with site(transport) as bridge:
        client, other = Client(bridge, "ada"), Client(bridge, "eve")
        await other.call("echo", text="she has a session too")

        async def once() -> tuple[str, dict[str, Any]]:
            state, asked = await ask(client, "ask_once", message="Mine")
            return state, dict.fromkeys(asked, ACCEPT)

        state, answers = await once()
        mine = ("ask_once", state, answers)
        middle = len(state) // 2
        changed = state[:middle] + ("A" if state[middle] != "A" else "B") + state[middle + 1 :]
        errors = [
            await refused(other.retry(*mine, message="Mine")),
            await refused(client.retry(*mine, message="Yours")),
            await refused(client.retry("ask_twice", state, answers, message="Mine")),
            await refused(client.retry("ask_once", changed, answers, message="Mine")),
        ]
        assert value(await client.retry(*mine, message="Mine")) == ACCEPT, "the owner's state is as good as before"
        used = dict.fromkeys(answers, named("somebody else"))
        errors.append(await refused(client.retry("ask_once", state, used, message="Mine")))
        state, answers = await once()
        for _ in range(2):  # a day, whose every second the bridge has seen
            clock.skip(12 * 3600)
            await anyio.sleep(2 * SWEEP)
        errors.append(await refused(client.retry("ask_once", state, answers, message="Mine")))
    assert len(errors) == 6
    assert all(shown(error) == shown(errors[0]) for error in errors)
    assert errors[0].code == INVALID_PARAMS
    assert errors[0].message.startswith("This requestState is not, or no longer, valid.")
    reasons = {line for line in caplog.messages if "a retry of tools/call was refused" in line}
    assert len(reasons) >= 4, reasons


@everywhere
async def test_case_26_the_question_of_a_cancelled_call_reaches_no_other(transport: str) -> None:
    async with site(transport, env={"ASKER_GHOST": "1"}) as bridge:
        client = Client(bridge)
        with anyio.move_on_after(0.2):
            await client.call("slow_ask", seconds=0.7, message="A ghost's")
        result = await client.call("slow", seconds=1.2)
        assert result["resultType"] == "complete"
        assert text(result) == "slept 1.2"
        told = await client.heard()
        assert [entry["method"] for entry in told if entry["method"] == "notifications/cancelled"]


FORMS = {
    "nullable": ("nick", {"name": "Ada"}, {"name": "Ada", "nick": None}),
    "strings": ("tags", {"tags": "red\ngreen"}, {"tags": ["red", "green"]}),
    "ref": ("colour", {"colour": "blue"}, {"colour": "blue"}),
    "uuid": ("id", *[{"id": "6fa459ea-ee8a-3ca4-894e-db77e160355e"}] * 2),
}


@everywhere
@pytest.mark.parametrize("kind", FORMS)
async def test_case_27_a_form_is_shown_in_what_clients_read_and_the_server_gets_its_own(
    transport: str, kind: str
) -> None:
    """That both official clients show them is in `tests.peers.test_questions`."""
    field, given, got = FORMS[kind]
    async with site(transport) as bridge:
        client = Client(bridge)
        state, asked = await ask(client, "optional_form", kind=kind)
        [key] = asked
        schema = asked[key]["params"]["requestedSchema"]
        assert set(schema) <= {"$schema", "type", "properties", "required"}
        shape = schema["properties"][field]
        assert shape["type"] in ("string", "array")
        assert not {"$ref", "anyOf", "allOf"} & set(shape)
        done = await client.retry("optional_form", state, {key: {"action": "accept", "content": given}}, kind=kind)
        assert value(done)["content"] == got


AGREED = {"action": "accept"}


@everywhere
async def test_case_28_a_declined_url_is_one_error_and_an_accepted_one_waits_for_the_person(transport: str) -> None:
    async with site(transport) as bridge:
        client = Client(bridge)
        state, asked = await ask(client, "sign_in", id="no")
        [key] = asked
        assert asked[key]["params"]["mode"] == "url"
        error = await refused(client.retry("sign_in", state, {key: {"action": "decline"}}, id="no"))
        assert error.code != -32042
    async with site(transport) as bridge:
        client = Client(bridge)
        state, asked = await ask(client, "sign_in", id="yes", seconds=1.5)
        done = await client.retry("sign_in", state, dict.fromkeys(asked, AGREED), id="yes", seconds=1.5)
        assert text(done) == "signed in at try 2"


@everywhere
async def test_case_29_a_tool_that_goes_on_without_what_the_client_lacks_has_its_result(transport: str) -> None:
    async with site(transport) as bridge:
        client = Client(bridge, capabilities={})
        done = await client.call("catches_refusal", method="sampling/createMessage")
        assert value(done)["refused"]["code"] == -32601
        error = await refused(client.call("ask_sampling"))
        assert error.code == -32021
        assert error.data["requiredCapabilities"] == {"sampling": {}}


@everywhere
async def test_case_31_a_log_line_goes_to_no_call_that_did_not_ask_or_may_not_be_its_own(
    transport: str, journal: Journal
) -> None:
    async with site(transport, env=journal.env) as bridge:
        wants, silent = Client(bridge), Client(bridge)
        level = {"io.modelcontextprotocol/logLevel": "info"}

        async def logging_call() -> None:
            await silent.call("log", n=3, pause=0.1)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(logging_call)
            await until(lambda: journal.calls("log"))
            await wants.send("tools/call", {"name": "slow", "arguments": {"seconds": 0.6}, "_meta": level})
        assert not [note for note in wants.leg.notifications if note[0] == "notifications/message"]
        assert not [note for note in silent.leg.notifications if note[0] == "notifications/message"]
