"""What a server says on its own: progress, log messages, changes; and the warnings about what is going away."""

from __future__ import annotations

import json
import logging
import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from bridge import server_log
from bridge.serving import Bridge
from legacy.session import Session
from tests.bridge.harness import (
    ACCEPT,
    Client,
    Journal,
    Leg,
    bridged,
    only_group,
    refused,
    text,
    until,
    usual_answer,
    value,
)
from tests.bridge.listeners import announcer

pytestmark = pytest.mark.anyio


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


TALKER = """
import json, sys, time
for line in sys.stdin:
    m = json.loads(line)
    if "id" not in m:
        continue
    if m["method"] == "initialize":
        offered = json.loads(sys.argv[1])
        r = {"protocolVersion": "2025-06-18", "capabilities": offered, "serverInfo": {"name": "t", "version": ""}}
    else:
        if m["method"] == "logging/setLevel" and "silent" in sys.argv:
            continue
        token = m.get("params", {}).get("_meta", {}).get("progressToken")
        params = {"progressToken": token, "progress": 0}
        made = {"jsonrpc": "2.0", "method": "notifications/progress", "params": params}
        for n in range(int(sys.argv[2])):
            params["progress"] = n
            print(json.dumps(made), flush="slowly" in sys.argv)
            if "slowly" in sys.argv:
                time.sleep(0.1)
        r = {"content": [{"type": "text", "text": m["method"]}], "tools": [], "completion": {"values": []}}
    print(json.dumps({"jsonrpc": "2.0", "id": m["id"], "result": r}), flush=True)
"""


def talker(offered: dict[str, Any], count: int, *habits: str) -> tuple[str, ...]:
    """A server that reports so much progress on every request."""
    return sys.executable, "-c", TALKER, json.dumps(offered), str(count), *habits


async def test_ten_thousand_reports_arrive_in_order() -> None:
    async with bridged(*talker({"tools": {}}, 10_000)) as bridge:
        client = Client(bridge)
        await client.send("tools/call", {"name": "x"}, progress_token="t")
        assert progress(client.leg) == [("t", n) for n in range(10_000)]


@pytest.mark.parametrize("method", ["tools/list", "completion/complete"])
async def test_a_request_that_cannot_be_asked_about_has_progress_as_well(method: str) -> None:
    async with bridged(*talker({"tools": {}}, 2)) as bridge:
        client = Client(bridge)
        params = {"ref": {"type": "ref/prompt", "name": "x"}, "argument": {"name": "a", "value": ""}}
        await client.send(method, params if method == "completion/complete" else {}, progress_token="t")
        assert progress(client.leg) == [("t", 0), ("t", 1)]


async def test_a_list_that_reports_progress_is_not_taken_for_silent() -> None:
    async with bridged(*talker({"tools": {}}, 12, "slowly"), silence=0.9) as bridge:
        client = Client(bridge)
        await client.send("tools/list", progress_token="t")  # takes 1.2 s
        assert progress(client.leg) == [("t", n) for n in range(12)]


@asynccontextmanager
async def one_call_open(bridge: Bridge, **fields: Any) -> AsyncIterator[tuple[Client, Session, int]]:
    """A client whose call works for as long as the body; the session and the id that it has there."""
    client = Client(bridge)
    for _ in range(5):
        await client.call("slow", seconds=0.001)  # known to ask nothing, so that others run beside it
    async with anyio.create_task_group() as tasks:
        params = {"name": "slow", "arguments": {"seconds": 5}}
        tasks.start_soon(lambda: client.send("tools/call", params, **fields))
        await until(lambda: bridge.pool.groups and only_group(bridge)._runs)
        session = only_group(bridge).primary
        assert session is not None
        [run] = only_group(bridge)._runs.on(session)
        yield client, session, run.request_id
        tasks.cancel_scope.cancel()


async def test_progress_goes_by_our_token_and_by_nothing_else() -> None:
    async with bridged() as bridge, one_call_open(bridge, progress_token="mine") as (client, session, id):

        def report(token: Any, value: Any, stream: int | None = None, **more: Any) -> None:
            params = {"progressToken": token, "progress": value, **more}
            session.received({"jsonrpc": "2.0", "method": "notifications/progress", "params": params}, stream)

        for token in (id + 1, id + 1000, 0, -1, "foreign", None, True, [id]):
            report(token, 1)
            report(token, 1, id)  # on the call's own stream
        assert client.leg.notifications == []
        report(id, 1, total=3, message="one", unknown={"a": 1})
        report(str(id), 2.5, id + 1)  # a server that writes numbers as text, on somebody else's stream
        for value in (2.5, 2, "3", None, True, -1):
            report(id, value)
        report(id, 3)
        assert client.leg.notifications[0] == (
            "notifications/progress",
            {"progressToken": "mine", "progress": 1, "total": 3, "message": "one", "unknown": {"a": 1}},
        )
        assert progress(client.leg) == [("mine", 1), ("mine", 2.5), ("mine", 3)]


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


async def test_the_server_has_the_level_before_it_has_the_request_and_again_after_its_death() -> None:
    async with bridged(*announcer()) as bridge:
        client = Client(bridge)
        wanted = {"name": "level"}
        assert value(await client.send("tools/call", wanted, log_level="notice")) == ["notice"]
        assert value(await client.send("tools/call", wanted, log_level="error")) == ["notice"]
        assert value(await client.send("tools/call", wanted, log_level="info")) == ["notice", "info"]
        await refused(client.call("die"))
        assert value(await client.call("level")) == ["info"]


async def test_a_list_that_wants_logs_sets_the_level_too(journal: Journal) -> None:
    async with bridged(env=journal.env) as bridge:
        await Client(bridge).send("tools/list", log_level="debug")
        assert journal.order()[-2:] == ["logging/setLevel", "tools/list"]


async def test_a_server_that_does_not_answer_for_its_level_is_called_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server_log, "PATIENCE", 0.2)
    async with bridged(*talker({"tools": {}, "logging": {}}, 0, "silent")) as bridge:
        client = Client(bridge)
        for _ in range(2):
            assert text(await client.send("tools/call", {"name": "x"}, log_level="debug")) == "tools/call"
        session = only_group(bridge).primary
        assert session is not None
        assert session.only_open is None  # nothing of it is left to be taken for a request that logs


async def test_a_server_without_logging_is_not_told_a_level() -> None:
    async with bridged(*talker({"tools": {}}, 0)) as bridge:
        assert text(await Client(bridge).send("tools/call", {"name": "x"}, log_level="debug")) == "tools/call"
        session = only_group(bridge).primary
        assert session is not None
        assert session._next_id <= 5  # initialize, ping, tools/list, tools/call


async def test_a_log_line_goes_to_the_call_that_the_wire_names_or_that_alone_is_open() -> None:
    async with bridged() as bridge, one_call_open(bridge, log_level="info") as (client, session, id):

        def say(data: str, stream: int | None = None, level: str = "info") -> None:
            params = {"level": level, "data": data, "logger": "l"}
            session.received({"jsonrpc": "2.0", "method": "notifications/message", "params": params}, stream)

        def heard() -> list[str]:
            return [params["data"] for _, params in client.leg.notifications]

        say("alone")
        say("on its stream", id)
        assert heard() == ["alone", "on its stream"]
        say("on the stream of another request", id + 1)
        say("on the stream of one that is over", 1)
        own = session.send_plain("ping", None, lambda reply: None)
        say("while the bridge itself asks something")
        say("on its stream, whatever else is open", id)
        session.request_lost(own, "", processed=True)
        other = Client(bridge)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(other.send, "tools/call", {"name": "slow", "arguments": {"seconds": 1}})
            await until(lambda: len(only_group(bridge)._runs.on(session)) == 2)
            say("while another call is open")
            tasks.cancel_scope.cancel()
        say("too mild", id, "debug")
        say("without a level", id, "loud")
        assert heard() == ["alone", "on its stream", "on its stream, whatever else is open"]
        assert only_group(bridge).unclaimed.by_level == {"info": 4, "debug": 1, "unknown": 1}


async def test_where_principals_share_a_session_only_the_wire_says_whose_a_log_line_is() -> None:
    async with (
        bridged(shared_session=True) as bridge,
        one_call_open(bridge, log_level="debug") as (client, session, id),
    ):
        said = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "x"}}
        session.received(said)
        assert client.leg.notifications == []
        session.received(said, id)
        assert len(client.leg.notifications) == 1


async def test_a_server_that_logs_without_having_said_so_is_found_to_log() -> None:
    async with bridged(*talker({"tools": {}}, 0)) as bridge:
        client = Client(bridge)
        assert "logging" not in (await client.send("server/discover"))["capabilities"]
        session = only_group(bridge).primary
        assert session is not None
        said = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "x"}}
        session.received(said)
        assert (await client.send("server/discover"))["capabilities"]["logging"] == {}
        other = Client(bridge, capabilities={})
        assert (await other.send("server/discover"))["capabilities"]["logging"] == {}


async def test_who_wants_no_logs_gets_none_and_they_are_counted(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "mrtr.server")
    async with bridged() as bridge:
        assert await logged(Client(bridge), "warning", None, n=3) == []
        assert only_group(bridge).unclaimed.by_level == {"warning": 3}
    assert "logged, at level warning, what no client gets (1 so far)" in caplog.text


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
