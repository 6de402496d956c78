"""Answers that come too late for the server, and URLs that it wants opened first: a real server, a whole bridge."""

from __future__ import annotations

import logging
from typing import Any

import anyio
import pytest

from tests.bridge.harness import (
    Client,
    Journal,
    bridged,
    forget_ghosts_soon,
    named,
    nothing_is_left,
    refused,
    text,
    until,
    value,
)

pytestmark = pytest.mark.anyio

YES = {"action": "accept"}


async def ended(journal: Journal, bridge: Any) -> None:
    """The server's first try is over, as far as the bridge knows."""
    await until(lambda: not any(live.call.attempting for live in bridge._live))


@pytest.mark.parametrize("tool", ["patient_again", "die_again", "leaves_again"])
async def test_an_answer_counts_where_running_again_is_harmless(journal: Journal, tool: str) -> None:
    async with bridged(env=journal.env) as bridge:
        client = Client(bridge)
        asked = await client.call(tool, message="Who?", seconds=0.1)
        await ended(journal, bridge)
        done = await client.retry(tool, asked["requestState"], {"elicit-1": named("Ada")}, message="Who?", seconds=0.1)
        assert value(done) == named("Ada")
        assert len(journal.calls(tool)) == 2


@pytest.mark.parametrize("tool", ["gives_up", "leaves", "die"])
async def test_elsewhere_the_retry_gets_what_the_call_came_to(journal: Journal, tool: str) -> None:
    async with bridged(env=journal.env) as bridge:
        client = Client(bridge)
        asked = await client.call(tool, message="Who?", seconds=0.1)
        await ended(journal, bridge)
        retry = client.retry(tool, asked["requestState"], {"elicit-1": named("Ada")}, message="Who?", seconds=0.1)
        if tool == "die":
            assert (await refused(retry)).code == -32603
        else:
            assert text(await retry).startswith({"gives_up": "TimeoutError", "leaves": "left"}[tool])
        assert len(journal.calls(tool)) == 1


async def test_the_operator_knows_better_than_the_tool(journal: Journal) -> None:
    async with bridged(env=journal.env, replay={"patient_again": False, "gives_up": True}) as bridge:
        client = Client(bridge)
        for tool, tries in (("patient_again", 1), ("gives_up", 2)):
            asked = await client.call(tool, message=tool, seconds=0.1)
            await ended(journal, bridge)
            again = await client.retry(
                tool, asked["requestState"], {"elicit-1": named("Ada")}, message=tool, seconds=0.1
            )
            assert again["resultType"] == "complete"
            assert len(journal.calls(tool)) == tries


async def test_an_answer_counts_after_the_round_has_expired_at_the_server(journal: Journal) -> None:
    async with bridged(env=journal.env, elicitation_ttl=0.3) as bridge:
        client = Client(bridge)
        asked = await client.call("ask_again", message="Who?")
        await until(lambda: "notifications/cancelled" in journal.order())
        forget_ghosts_soon(bridge)
        done = await client.retry("ask_again", asked["requestState"], {"elicit-1": named("Ada")}, message="Who?")
        assert value(done) == named("Ada")
        heard = [
            what for what in journal.order() if what in ("tools/call", "notifications/cancelled", "cancel", "accept")
        ]
        assert heard == ["tools/call", "notifications/cancelled", "cancel", "tools/call", "accept"]


@pytest.mark.parametrize(
    ("method", "params"),
    [("prompts/get", {"name": "introduction"}), ("resources/read", {"uri": "asker://question"})],
)
async def test_prompts_and_resources_are_run_again_too(journal: Journal, method: str, params: dict[str, Any]) -> None:
    async with bridged(env=journal.env, elicitation_ttl=0.3) as bridge:
        client = Client(bridge)
        asked = await client.send(method, params)
        await until(lambda: "notifications/cancelled" in journal.order())
        forget_ghosts_soon(bridge)
        answers = {"requestState": asked["requestState"], "inputResponses": {"elicit-1": named("Ada")}}
        done = await client.send(method, {**params, **answers})
        assert "Ada" in str(done)


async def test_it_is_run_again_where_the_clients_calls_run_by_then(journal: Journal) -> None:
    """The retry's client declares less: another group, another session; its server asks it no more than it can."""
    async with bridged(env=journal.env) as bridge:
        client = Client(bridge)
        asked = await client.call("leaves_again", message="Who?", seconds=0.1)
        await ended(journal, bridge)
        client.capabilities = {"elicitation": {"form": {}}}
        answers = {"elicit-1": named("Ada")}
        done = await client.retry("leaves_again", asked["requestState"], answers, message="Who?", seconds=0.1)
        assert value(done) == named("Ada")
        assert len(journal.pids()) == 2


async def test_a_second_retry_waits_for_the_attempt_and_gets_the_same(journal: Journal) -> None:
    async with bridged(env=journal.env) as bridge:
        one, other = Client(bridge), Client(bridge)
        asked = await one.call("leaves_again", message="Who?", seconds=0.1)
        await ended(journal, bridge)
        results: list[Any] = []

        async def retry(client: Client) -> None:
            answers = {"elicit-1": named("Ada")}
            results.append(
                value(await client.retry("leaves_again", asked["requestState"], answers, message="Who?", seconds=0.1))
            )

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(retry, one)
            tasks.start_soon(retry, other)
        assert results == [named("Ada")] * 2
        assert len(journal.calls("leaves_again")) == 2


async def test_what_was_answered_is_never_logged(journal: Journal, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with bridged(env=journal.env) as bridge:
        client = Client(bridge)
        asked = await client.call("die_again", message="Who?", seconds=0.1)
        await ended(journal, bridge)
        answers = {"elicit-1": named("hunter2")}
        await client.retry("die_again", asked["requestState"], answers, message="Who?", seconds=0.1)
    assert "is run again" in caplog.text
    assert "hunter2" not in caplog.text
    assert "Who?" not in caplog.text


# -- URLs that must be opened first -----------------------------------------------------------------------------------


async def test_a_url_is_shown_and_one_round_is_enough_when_the_person_is_done(journal: Journal) -> None:
    async with bridged(env=journal.env, sign_in=15) as bridge:
        client = Client(bridge)
        asked = await client.call("sign_in", seconds=0.4)
        params = asked["inputRequests"]["elicit-1"]["params"]
        assert params == {"mode": "url", "url": "https://example.com/page-1", "message": "Sign in first."}
        with anyio.fail_after(10):
            done = await client.retry("sign_in", asked["requestState"], {"elicit-1": YES}, seconds=0.4)
        assert text(done) == "signed in at try 2"


async def test_a_server_that_announces_nothing_is_asked_again_after_a_time(journal: Journal) -> None:
    async with bridged(env=journal.env, sign_in=0.3) as bridge:
        client = Client(bridge)
        asked = await client.call("sign_in", seconds=-1)
        done = await client.retry("sign_in", asked["requestState"], {"elicit-1": YES}, seconds=-1)
        assert text(done) == "signed in at try 2"


@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_a_declined_url_ends_the_call_with_one_error(journal: Journal, action: str) -> None:
    async with bridged(env=journal.env) as bridge:
        client = Client(bridge)
        asked = await client.call("sign_in")
        error = await refused(client.retry("sign_in", asked["requestState"], {"elicit-1": {"action": action}}))
        assert error.code == -32603
        assert "declined" in error.message
        assert len(journal.calls("sign_in")) == 1


async def test_a_client_that_opens_no_urls_hears_which_capability_is_missing(journal: Journal) -> None:
    async with bridged(env=journal.env) as bridge:
        error = await refused(Client(bridge, capabilities={"elicitation": {"form": {}}}).call("sign_in"))
        assert error.code == -32021
        assert error.data == {"requiredCapabilities": {"elicitation": {"url": {}}}}


async def test_others_are_served_while_a_person_signs_in_and_nothing_is_left_when_they_go_away(
    journal: Journal,
) -> None:
    async with bridged(env=journal.env, elicitation_ttl=0.5, remember=0.1) as bridge:
        client, other = Client(bridge), Client(bridge)
        await client.call("sign_in")
        assert text(await other.call("echo", text="beside")) == "beside"
        await nothing_is_left(bridge)
        assert not any(group.sign_ins._waiting for group in bridge.pool.groups.values())
