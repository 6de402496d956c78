"""What a server says on its own: progress, log messages, changes; and the warnings about what is going away."""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.bridge.harness import (
    ACCEPT,
    Client,
    Journal,
    Leg,
    bridged,
    only_group,
    text,
    usual_answer,
)

pytestmark = pytest.mark.anyio


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path)


# -- progress ---------------------------------------------------------------------------------------------------------


def progress(leg: Leg) -> list[tuple[Any, Any]]:
    return [(p["progressToken"], p["progress"]) for m, p in leg.notifications if m == "notifications/progress"]


@pytest.mark.parametrize("token", ["mine", 7, 0, ""])
async def test_progress_reaches_the_leg_that_gave_a_token_under_that_token(token: str | int) -> None:
    async with bridged() as bridge:
        client = Client(bridge)
        await client.send("tools/call", {"name": "progress", "arguments": {"n": 3}}, progress_token=token)
        assert progress(client.leg) == [(token, 1), (token, 2), (token, 3)]
        details = client.leg.notifications[0][1]
        assert (details["total"], details["message"]) == (3, "step 1")


async def test_without_a_token_there_is_no_progress() -> None:
    async with bridged() as bridge:
        client = Client(bridge)
        assert text(await client.call("progress", n=2)) == "2 steps"
        assert client.leg.notifications == []


async def test_each_of_several_calls_has_its_own_progress() -> None:
    async with bridged() as bridge:
        legs: dict[str, Leg] = {}

        async def run(token: str, count: int) -> None:
            client = Client(bridge)
            await client.send("tools/call", {"name": "progress", "arguments": {"n": count}}, progress_token=token)
            legs[token] = client.leg

        async with anyio.create_task_group() as tasks:
            for count in range(1, 6):
                tasks.start_soon(run, f"token-{count}", count)
        for count in range(1, 6):
            assert progress(legs[f"token-{count}"]) == [(f"token-{count}", step + 1) for step in range(count)]


async def test_progress_goes_on_rising_on_the_second_leg_under_its_token() -> None:
    async with bridged() as bridge:
        client = Client(bridge)
        params = {"name": "ask_between", "arguments": {}}
        asked = await client.send("tools/call", params, progress_token="first")
        assert asked["resultType"] == "input_required"
        assert progress(client.leg) == [("first", 1), ("first", 2)]
        sealed = {"requestState": asked["requestState"], "inputResponses": {"elicit-1": ACCEPT}}
        await client.send("tools/call", {**params, **sealed}, progress_token="second")
        assert progress(client.leg) == [("second", 3), ("second", 4)]  # the server's repeated 2 is left out


async def test_nothing_is_told_to_a_leg_that_has_ended() -> None:
    async with bridged() as bridge:
        client = Client(bridge)
        params = {"name": "ask_between", "arguments": {}}
        asked = await client.send("tools/call", params, progress_token="first", log_level="debug")
        first, told = client.leg, len(client.leg.notifications)
        sealed = {"requestState": asked["requestState"], "inputResponses": {"elicit-1": ACCEPT}}
        await client.send("tools/call", {**params, **sealed})
        assert len(first.notifications) == told
        assert client.leg.notifications == []


# -- log messages -----------------------------------------------------------------------------------------------------


async def logged(client: Client, level: str, wanted: str | None, n: int = 2) -> list[dict[str, Any]]:
    params = {"name": "log", "arguments": {"n": n, "level": level}}
    await client.send("tools/call", params, log_level=wanted)
    return [params for method, params in client.leg.notifications if method == "notifications/message"]


@pytest.mark.parametrize(
    ("level", "wanted", "arrives"),
    [
        ("info", "info", True),
        ("info", "debug", True),
        ("error", "warning", True),
        ("emergency", "emergency", True),
        ("info", "warning", False),
        ("debug", "info", False),
        ("info", None, False),
        ("no-such-level", "debug", False),
    ],
)
async def test_log_messages_reach_a_leg_that_asked_for_their_level(
    level: str, wanted: str | None, arrives: bool
) -> None:
    async with bridged() as bridge:
        lines = await logged(Client(bridge), level, wanted)
    assert [line["data"] for line in lines] == (["line 1", "line 2"] if arrives else [])
    assert all((line["level"], line["logger"]) == (level, "asker") for line in lines)


async def test_the_server_is_set_to_the_lowest_level_that_is_wanted(journal: Journal) -> None:
    async with bridged(env=journal.env) as bridge:
        client = Client(bridge)
        for wanted in (None, "warning", "error", "debug", "info"):
            await logged(client, "error", wanted, n=1)
        levels = [message["params"]["level"] for message in journal.messages("logging/setLevel")]
        assert levels == ["warning", "debug"]


async def test_a_log_line_that_may_be_another_calls_reaches_nobody() -> None:
    async with bridged() as bridge:
        quiet = Client(bridge)
        for _ in range(5):
            await quiet.call("slow", seconds=0.01)
        legs: list[Leg] = []

        async def run(tool: str, **arguments: Any) -> None:
            client = Client(bridge)
            legs.append(client.leg)
            await client.send("tools/call", {"name": tool, "arguments": arguments}, log_level="debug")
            legs.append(client.leg)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: run("slow", seconds=0.5))
            await anyio.sleep(0.1)
            tasks.start_soon(lambda: run("log", n=3))
        assert len(only_group(bridge).channels) == 1
        assert all(leg.notifications == [] for leg in legs)


# -- what is going away -----------------------------------------------------------------------------------------------


def warnings(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    return [record for record in caplog.records if record.name == "mrtr.deprecation"]


def said(caplog: pytest.LogCaptureFixture, event: str) -> list[str]:
    found = [vars(record) for record in warnings(caplog)]
    return sorted(fields["feature"] for fields in found if fields["event"] == f"deprecated_{event}")


async def test_what_a_session_negotiates_is_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    async with bridged() as bridge:
        client = Client(bridge)
        for _ in range(3):
            await client.call("echo", text="x")
        assert said(caplog, "negotiated") == ["logging", "roots", "sampling"]
        assert said(caplog, "used") == []
        await client.call("ask_once")
        await client.call("ask_once")  # a second session
        assert len(said(caplog, "negotiated")) == 6


async def test_a_client_that_declares_less_negotiates_less(caplog: pytest.LogCaptureFixture) -> None:
    async with bridged() as bridge:
        await Client(bridge, capabilities={"elicitation": {}}).call("echo", text="x")
    assert said(caplog, "negotiated") == ["logging"]


@pytest.mark.parametrize(
    ("tool", "feature", "instead"),
    [
        ("ask_roots", "roots", "tool parameters"),
        ("ask_sampling", "sampling", "LLM provider"),
        ("log", "logging", "OpenTelemetry"),
    ],
)
async def test_a_use_is_warned_of_once_with_server_client_date_and_replacement(
    caplog: pytest.LogCaptureFixture, tool: str, feature: str, instead: str
) -> None:
    async with bridged() as bridge:
        for _ in range(3):
            await Client(bridge).answered(tool, usual_answer)
    assert said(caplog, "used") == [feature]
    [record] = [r for r in warnings(caplog) if vars(r)["event"] == "deprecated_used"]
    message = record.getMessage()
    assert record.levelno == logging.WARNING
    assert "Server server " in message
    assert "client harness" in message
    assert re.search(r"2027-07-28", message)
    assert instead in message


async def test_elicitation_is_not_deprecated(caplog: pytest.LogCaptureFixture) -> None:
    async with bridged() as bridge:
        await Client(bridge, capabilities={"elicitation": {}}).answered("ask_once", usual_answer)
    assert "licitation" not in " ".join(record.getMessage() for record in warnings(caplog))


async def test_a_client_that_asks_for_logs_uses_logging(caplog: pytest.LogCaptureFixture) -> None:
    async with bridged() as bridge:
        client = Client(bridge)
        params = {"name": "echo", "arguments": {"text": "x"}}
        for _ in range(2):
            await client.send("tools/call", params, log_level="info")
    assert said(caplog, "used") == ["logging"]
