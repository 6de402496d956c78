"""Cases 14, 16, 20 to 22 and 34: starts, ends, and calls that take their time. 15 is `tests.faults.test_ends`."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from tests.bridge.harness import (
    Client,
    Clock,
    Journal,
    forget_ghosts_soon,
    named,
    nothing_is_left,
    only_group,
    refused,
    text,
    until,
    value,
)
from tests.field.site import TRANSPORTS, Web, everywhere, site

pytestmark = pytest.mark.anyio

HOME: dict[str, Any] = {"roots": [{"uri": "file:///home", "name": "home"}]}


@everywhere
@pytest.mark.parametrize("later", [0, 70, 3600])
async def test_case_14_the_first_call_carries_the_ask_for_roots_whenever_it_comes(
    transport: str, later: float, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server that this was seen with is in `tests.peers.test_filesystem`."""
    clock = Clock(monkeypatch)
    async with site(transport, env={**journal.env, "ASKER_ROOTS_AT_START": "1"}) as bridge:
        client = Client(bridge)
        assert (await client.send("tools/list"))["resultType"] == "complete"
        clock.skip(later)
        asked = await client.call("roots_seen")
        assert asked["inputRequests"] == {"roots-1": {"method": "roots/list"}}
        assert journal.calls("roots_seen") == [], "the server hears of the call when it has the roots"
        done = await client.retry("roots_seen", asked["requestState"], {"roots-1": HOME})
        assert value(done) == HOME["roots"]
        assert value(await client.call("roots_seen")) == HOME["roots"], "nobody is asked twice"


@everywhere
async def test_case_14_a_client_without_roots_sees_what_an_old_one_without_would(
    transport: str, journal: Journal
) -> None:
    async with site(transport, env={**journal.env, "ASKER_ROOTS_AT_START": "1"}) as bridge:
        seen = value(await Client(bridge, capabilities={"elicitation": {}}).call("roots_seen"))
        assert [answer["code"] for answer in seen] == [-32601]
        [initialize] = journal.messages("initialize")
        assert "roots" not in initialize["params"]["capabilities"]


SAID = {
    "stdio": "exited with code 7",
    "streamable-http": "ended before it answered; whether it was carried out is unknown",
    "http-sse": "its session ends with it",
    "in-process": "closed its stream",
}


@everywhere
async def test_case_16_a_server_that_exits_with_an_answer_outstanding_fails_that_call_alone(
    transport: str, journal: Journal
) -> None:
    async with site(transport, env=journal.env) as bridge:
        ada, bo = Client(bridge, "ada"), Client(bridge, "bo")
        other = await bo.call("ask_once", message="Bo?")
        asked = await ada.call("die", seconds=0.3, code=7)
        [key] = asked["inputRequests"]
        await until(lambda: not all(group.channels for group in bridge.pool.groups.values()))
        error = await refused(ada.retry("die", asked["requestState"], {key: named("Ada")}, seconds=0.3, code=7))
        assert error.code == -32603
        assert SAID[transport] in error.message
        assert text(await ada.call("echo", text="a new process")) == "a new process"
        [key] = other["inputRequests"]
        done = await bo.retry("ask_once", other["requestState"], {key: named("Bo")}, message="Bo?")
        assert value(done) == named("Bo")
        assert len(journal.pids()) == 3


@pytest.mark.parametrize("transport", ["stdio", "http-sse", "in-process"])
async def test_case_16_a_server_that_keeps_dying_is_not_started_in_a_tight_loop(
    transport: str, journal: Journal
) -> None:
    """Over Streamable HTTP nothing is started, and a call that ends is no session that does."""
    async with site(transport, env=journal.env) as bridge:
        for _ in range(12):
            error = await refused(Client(bridge).call("die_now", code=3))
            if "in a row" in error.message:
                break
        else:
            pytest.fail("every call started the server")
        assert len(journal.pids()) <= 6


QUICK = {"silence_before_sse": 0.1, "keep_alive": 0.1}


async def with_progress(transport: str, steps: int, pause: float, **settings: Any) -> None:
    async with site(transport) as bridge:
        post = Web(bridge, **settings).call("progress", token="mine", n=steps, pause=pause)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(post.run)
            for step in range(1, steps + 1):
                await until(lambda step=step: len(post.answer.chunks) and len(post.answer.events) >= step, pause + 8)
                assert not post.answer.whole, "as it happens, not at the end"
        *told, result = post.answer.events
        assert [one["params"] for one in told] == [
            {"progressToken": "mine", "progress": number, "total": steps, "message": f"step {number}"}
            for number in range(1, steps + 1)
        ]
        assert result["result"]["content"][0]["text"] == f"{steps} steps"
        assert post.answer.body.count(b":\r\n\r\n") >= steps - 1, "comments keep it alive in between"


async def in_silence(transport: str, seconds: float, **settings: Any) -> None:
    async with site(transport) as bridge:
        post = Web(bridge, **settings).call("slow", seconds=seconds)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(post.run)
            await until(lambda: b":\r\n\r\n" in post.answer.body, 6)  # a proxy counts the time without a byte
        assert post.answer.headers["content-type"] == "text/event-stream"
        assert post.answer.headers["x-accel-buffering"] == "no"
        assert post.answer.body.count(b":\r\n\r\n") >= 5
        [result] = post.answer.events
        assert result["result"]["content"][0]["text"] == f"slept {seconds}"


@everywhere
async def test_case_20_progress_flows_as_it_happens_and_the_result_arrives(transport: str) -> None:
    await with_progress(transport, 6, 0.3, **QUICK)


@everywhere
async def test_case_34_a_silent_tool_is_kept_alive_by_comments(transport: str) -> None:
    await in_silence(transport, 1.2, **QUICK)


@pytest.mark.full
@pytest.mark.timeout(300)
async def test_case_34_four_minutes_of_silence_and_case_20_of_progress_as_usual() -> None:
    """With the usual settings, on all transports at once."""
    async with anyio.create_task_group() as tasks:
        for transport in TRANSPORTS:
            tasks.start_soon(in_silence, transport, 240)
            tasks.start_soon(with_progress, transport, 5, 48)


@everywhere
@pytest.mark.parametrize("tool", ["patient_again", "gives_up"])
async def test_case_21_an_answer_after_the_servers_time_out_counts_where_running_again_is_harmless(
    transport: str, tool: str, journal: Journal
) -> None:
    async with site(transport, env=journal.env) as bridge:
        client = Client(bridge)
        asked = await client.call(tool, message="Who?", seconds=0.2)
        await until(lambda: not any(live.call.attempting for live in bridge._live))
        [key] = asked["inputRequests"]
        done = await client.retry(tool, asked["requestState"], {key: named("Ada")}, message="Who?", seconds=0.2)
        if tool == "patient_again":
            assert value(done) == named("Ada")
            assert len(journal.calls(tool)) == 2
        else:
            assert done["isError"]
            assert text(done).startswith("TimeoutError")
            assert len(journal.calls(tool)) == 1


@everywhere
async def test_case_22_a_client_that_never_comes_back_leaves_nothing(transport: str, journal: Journal) -> None:
    async with site(transport, env=journal.env, elicitation_ttl=0.5, remember=0.5) as bridge:
        client = Client(bridge)
        await client.call("echo", text="first")
        forget_ghosts_soon(bridge)
        for tool in ("ask_once", "ask_both"):
            assert (await client.call(tool))["resultType"] == "input_required"
        await until(lambda: len(journal.answers()) == 3)
        assert [answer["result"] for answer in journal.answers()] == [{"action": "cancel"}] * 3
        await nothing_is_left(bridge)
        assert text(await client.call("echo", text="as ever")) == "as ever"
        assert len(only_group(bridge).channels) <= 2
        assert len(journal.pids()) <= 2
