"""What a server says on its own: progress, log messages, changes; and the warnings about what is going away."""

from __future__ import annotations

import logging
import os
import re
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from bridge.serving import Bridge
from modern.listen import ACKNOWLEDGED, SUBSCRIPTION_ID_KEY
from tests.bridge.harness import (
    ACCEPT,
    Client,
    Journal,
    Leg,
    Result,
    bridged,
    only_group,
    refused,
    text,
    until,
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


# -- subscriptions ----------------------------------------------------------------------------------------------------


class Stream:
    """A subscription that is open."""

    def __init__(self, leg: Leg, id: Any) -> None:
        self.leg, self.id = leg, id
        self.closed: Result | None = None

    def methods(self) -> list[str]:
        return [method for method, _ in self.leg.notifications]


@asynccontextmanager
async def listening(bridge: Bridge, **wanted: Any) -> AsyncIterator[Stream]:
    client = Client(bridge)
    request = client.request("subscriptions/listen", {"notifications": wanted})
    stream = Stream(Leg(), request.id)

    async def serve() -> None:
        stream.closed = await bridge.serve(request, stream.leg)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(serve)
        await until(lambda: stream.leg.notifications)
        yield stream
        tasks.cancel_scope.cancel()


CHANGES = {
    "toolsListChanged": "notifications/tools/list_changed",
    "promptsListChanged": "notifications/prompts/list_changed",
    "resourcesListChanged": "notifications/resources/list_changed",
}


async def announce_everything(client: Client) -> None:
    for method in (*CHANGES.values(), "notifications/made/up", "notifications/elicitation/complete"):
        await client.call("announce", method=method)
    for uri in ("asker://plain", "asker://question"):
        await client.call("announce", method="notifications/resources/updated", params={"uri": uri})


async def test_the_first_message_acknowledges_what_is_honoured() -> None:
    async with bridged() as bridge, listening(bridge, toolsListChanged=True, unheardOf=True) as stream:
        method, params = stream.leg.notifications[0]
        assert method == ACKNOWLEDGED
        assert params["notifications"] == {"toolsListChanged": True}
        assert params["_meta"][SUBSCRIPTION_ID_KEY] == stream.id


@pytest.mark.parametrize("wanted", [*CHANGES])
async def test_a_stream_brings_what_was_asked_for_and_nothing_else(wanted: str) -> None:
    async with bridged() as bridge, listening(bridge, **{wanted: True}) as stream:
        await announce_everything(Client(bridge))
        assert stream.methods() == [ACKNOWLEDGED, CHANGES[wanted]]
        assert all(params["_meta"][SUBSCRIPTION_ID_KEY] == stream.id for _, params in stream.leg.notifications)


async def test_two_streams_have_two_filters() -> None:
    async with (
        bridged() as bridge,
        listening(bridge, toolsListChanged=True) as tools,
        listening(bridge, toolsListChanged=True, promptsListChanged=True) as both,
    ):
        await announce_everything(Client(bridge))
        assert tools.methods() == [ACKNOWLEDGED, CHANGES["toolsListChanged"]]
        assert both.methods() == [ACKNOWLEDGED, CHANGES["toolsListChanged"], CHANGES["promptsListChanged"]]


async def test_resources_are_subscribed_once_and_unsubscribed_after_the_last(journal: Journal) -> None:
    plain = ["asker://plain"]
    async with bridged(env=journal.env) as bridge:
        async with listening(bridge, resourceSubscriptions=plain) as one:
            async with listening(bridge, resourceSubscriptions=plain) as two:
                await announce_everything(Client(bridge))
                for stream in (one, two):
                    updates = [p["uri"] for m, p in stream.leg.notifications if m == "notifications/resources/updated"]
                    assert updates == plain
                assert len(journal.messages("resources/subscribe")) == 1
            await anyio.sleep(0.1)
            assert journal.messages("resources/unsubscribe") == []
        await until(lambda: journal.messages("resources/unsubscribe"))
        assert len(journal.messages("resources/unsubscribe")) == 1


async def test_a_server_that_dies_is_started_and_subscribed_again_and_the_gap_is_told(journal: Journal) -> None:
    told = [CHANGES["toolsListChanged"], "notifications/resources/updated"]
    async with (
        bridged(env=journal.env) as bridge,
        listening(bridge, resourceSubscriptions=["asker://plain"], toolsListChanged=True) as stream,
    ):
        with pytest.raises(Exception, match="exited"):
            await Client(bridge).call("die_now")
        await until(lambda: stream.methods()[1:] == told)  # though nobody calls
        assert len(journal.messages("resources/subscribe")) == 2
        await announce_everything(Client(bridge))
        assert stream.methods()[3:] == told


async def test_when_the_subscribed_session_dies_another_takes_its_subscriptions_over(journal: Journal) -> None:
    async with bridged(env=journal.env) as bridge, listening(bridge, resourceSubscriptions=["asker://plain"]) as stream:
        client = Client(bridge)
        asked = await client.call("ask_once")
        await client.call("slow", seconds=0.01)  # on a second session, since the first has a suspended asker
        group = next(iter(bridge.pool.groups.values()))
        assert len(group.channels) == 2
        os.kill(journal.pids()[0], signal.SIGKILL)
        await until(lambda: len(group.channels) == 1)
        await until(lambda: stream.methods()[1:] == ["notifications/resources/updated"])
        assert len(journal.messages("resources/subscribe")) == 2
        error = await refused(client.retry("ask_once", asked["requestState"], {"elicit-1": ACCEPT}))
        assert "SIGKILL" in error.message


async def test_another_principals_changes_do_not_reach_a_stream() -> None:
    async with bridged() as bridge, listening(bridge, toolsListChanged=True) as stream:
        await announce_everything(Client(bridge, "another"))
        assert stream.methods() == [ACKNOWLEDGED]


async def test_progress_and_log_messages_never_travel_on_a_stream() -> None:
    async with bridged() as bridge, listening(bridge, **dict.fromkeys(CHANGES, True)) as stream:
        client = Client(bridge)
        params = {"name": "progress", "arguments": {"n": 2}}
        await client.send("tools/call", params, progress_token="p", log_level="debug")
        await logged(client, "error", "debug")
        assert stream.methods() == [ACKNOWLEDGED]


async def test_the_closing_result_names_the_subscription() -> None:
    async with bridged() as bridge, listening(bridge, toolsListChanged=True) as stream:
        bridge.stop_listening()
        await until(lambda: stream.closed is not None)
        assert stream.closed is not None
        assert stream.closed["resultType"] == "complete"
        assert stream.closed["_meta"][SUBSCRIPTION_ID_KEY] == stream.id


async def test_a_stream_that_was_left_is_forgotten() -> None:
    async with bridged() as bridge:
        async with listening(bridge, toolsListChanged=True):
            assert only_group(bridge).listening
        assert not only_group(bridge).listening
        assert only_group(bridge).idle
