"""Subscription streams: what they bring, what the old server is asked to watch for them, and what they outlive."""

from __future__ import annotations

import os
import signal
import socket
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import anyio
import pytest

from bridge import watching
from bridge.group import Moved
from modern.listen import ACKNOWLEDGED, SUBSCRIPTION_ID_KEY, UPDATED
from tests.bridge.harness import ACCEPT, Client, Journal, bridged, only_group, refused, until, value
from tests.bridge.listeners import CHANGES, announcer, listening
from tests.bridge.test_restart import old_server
from tests.legacy.http_server import Exchange, HttpServer, serving

pytestmark = pytest.mark.anyio


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
        await client.send("tools/call", {"name": "log", "arguments": {"n": 1}}, log_level="debug")
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


@pytest.mark.parametrize("hears", [True, False])
async def test_what_an_http_server_without_a_get_stream_cannot_say_is_not_promised(hears: bool) -> None:
    """The same server, once with a GET stream and once with 405."""
    able = {"tools": {"listChanged": True}, "resources": {"listChanged": True, "subscribe": True}, "logging": {}}
    server = HttpServer()

    async def initialize(x: Exchange) -> None:
        info = {"name": "s", "version": "1"}
        await x.result({"protocolVersion": "2025-11-25", "capabilities": able, "serverInfo": info}, mcp_session_id="1")

    async def get(x: Exchange) -> None:
        await x.stream()
        await x.gone()

    server.on_initialize = initialize
    if hears:
        server.on_get = get
    wanted = {"resourceSubscriptions": ["a:b"], "toolsListChanged": True}
    async with serving(server), bridged(url=f"http://127.0.0.1:{server.port}/mcp") as bridge:
        found = (await Client(bridge).send("server/discover"))["capabilities"]
        assert {name: found[name] for name in able} == (able if hears else {key: {} for key in able})
        async with listening(bridge, **wanted) as stream:
            assert stream.acknowledged() == (wanted if hears else {})


# -- what the server is asked to watch --------------------------------------------------------------------------------


async def watched(client: Client) -> dict[str, list[str]]:
    found: dict[str, list[str]] = value(await client.call("watched"))
    return found


async def test_the_server_has_answered_before_the_stream_is_acknowledged() -> None:
    async with bridged(*announcer()) as bridge:
        client = Client(bridge)
        await client.call("watched")
        async with listening(bridge, client, resourceSubscriptions=["watch://slow/a"]) as stream:
            assert stream.acknowledged() == {"resourceSubscriptions": ["watch://slow/a"]}
            assert (await watched(client))["watched"] == ["watch://slow/a"]


async def test_what_the_server_refuses_or_never_answers_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "PATIENCE", 1.0)
    monkeypatch.setattr("bridge.listening.PATIENCE", 1.0)
    wanted = ["watch://silent/a", "watch://refused/b", "watch://one", *(f"watch://silent/{n}" for n in range(20))]
    async with bridged(*announcer()) as bridge:
        client = Client(bridge)
        await client.call("watched")
        async with listening(bridge, client, resourceSubscriptions=wanted, toolsListChanged=True) as stream:
            assert stream.acknowledged() == {"resourceSubscriptions": ["watch://one"], "toolsListChanged": True}
            # Whether it watches what it did not answer for is not known, so it is told to stop.
            told = (await watched(client))["requests"]
            assert told.count("subscribe watch://refused/b") == 1
            assert "unsubscribe watch://refused/b" not in told
        group = only_group(bridge)
        await until(lambda: not group.listening._watching)
        assert "unsubscribe watch://silent/a" in (await watched(client))["requests"]


async def test_streams_that_want_what_nobody_answers_for_hold_up_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    async with bridged(*announcer()) as bridge:
        client = Client(bridge)
        await client.call("watched")
        async with (
            listening(bridge, Client(bridge), acknowledged=False, resourceSubscriptions=["watch://silent/a"]) as slow,
            listening(bridge, client, resourceSubscriptions=["watch://one"]) as quick,
        ):
            assert quick.acknowledged() == {"resourceSubscriptions": ["watch://one"]}
            assert slow.leg.notifications == []


async def test_a_client_that_leaves_before_the_answer_leaves_nothing_watched() -> None:
    async with bridged(*announcer()) as bridge:
        client = Client(bridge)
        await client.call("watched")
        async with listening(bridge, client, acknowledged=False, resourceSubscriptions=["watch://slow/a"]):
            await until(lambda: only_group(bridge).listening._watching)
        await until(lambda: not only_group(bridge).listening._watching)
        assert await watched(client) == {
            "watched": [],
            "requests": ["subscribe watch://slow/a", "unsubscribe watch://slow/a"],
        }


async def test_streams_that_come_and_go_leave_the_server_with_what_is_wanted() -> None:
    """The server handles requests side by side, and the slow ones in another order than they came."""
    uri = "watch://slow/a"
    async with bridged(*announcer()) as bridge:
        client = Client(bridge)
        await client.call("watched")
        for pause in (0.0, 0.01, 0.1, 0.25, 0.27):
            async with listening(bridge, acknowledged=False, resourceSubscriptions=[uri]):
                await anyio.sleep(pause)
        async with listening(bridge, resourceSubscriptions=[uri]) as stream:
            assert stream.acknowledged() == {"resourceSubscriptions": [uri]}
            found = await watched(client)
            assert found["watched"] == [uri]
            await client.call("touch", uri=f"{uri}/below")
            await until(lambda: stream.updates() == [f"{uri}/below"])
        await until(lambda: not only_group(bridge).listening._watching)
        found = await watched(client)
        assert found["watched"] == []
        kinds = [request.split()[0] for request in found["requests"]]
        assert kinds == ["subscribe", "unsubscribe"] * (len(kinds) // 2)


async def test_clients_of_another_kind_have_subscriptions_of_their_own() -> None:
    """They have sessions of their own, and one's last stream ends nobody else's subscription."""
    async with bridged(*announcer()) as bridge:
        one, two = Client(bridge), Client(bridge, capabilities={"elicitation": {}})
        async with listening(bridge, one, resourceSubscriptions=["watch://one"]) as stream:
            async with listening(bridge, two, resourceSubscriptions=["watch://one"]) as other:
                await two.call("touch", uri="watch://one")
                await until(lambda: other.updates() == ["watch://one"])
            await until(lambda: all(len(g.listening._watching) < 2 for g in bridge.pool.groups.values()))
            assert (await watched(two))["watched"] == []
            assert (await watched(one))["watched"] == ["watch://one"]
            await one.call("touch", uri="watch://one")
            await until(lambda: stream.updates() == ["watch://one"])


async def test_a_resource_that_is_not_watched_again_ends_its_streams(tmp_path: Path) -> None:
    """Each server process reads how it takes subscriptions up when it starts."""
    habits = tmp_path / "habits"
    habits.write_text("")
    async with bridged(*announcer(), env={"ANNOUNCER_HABITS": str(habits)}) as bridge:
        client = Client(bridge)
        async with (
            listening(bridge, resourceSubscriptions=["watch://one"]) as first,
            listening(bridge, resourceSubscriptions=["watch://two"]) as second,
        ):
            habits.write_text("refuse watch://one")
            await refused(client.call("die"))
            await until(lambda: first.closed is not None)
            assert first.closed is not None
            assert first.closed["_meta"][SUBSCRIPTION_ID_KEY] == first.id
            await until(lambda: second.updates() == ["watch://two"])  # watched again, and told to look
            assert second.closed is None
            await client.call("touch", uri="watch://two")
            await until(lambda: second.updates() == ["watch://two"] * 2)


async def test_an_update_that_was_not_asked_for_reaches_nobody() -> None:
    async with bridged(*announcer()) as bridge:
        client = Client(bridge)
        async with listening(bridge, resourceSubscriptions=["watch://one"], promptsListChanged=True) as stream:
            for uri in ("watch://other", "watch://one-and-a-half", "watch://on", "watch://one/below", "watch://one#x"):
                await client.call("touch", uri=uri, anyway=True)
            await client.call("change", kind="tool")
            await client.call("change", kind="prompt")
            await until(lambda: CHANGES["promptsListChanged"] in stream.methods())
            assert stream.updates() == ["watch://one/below", "watch://one#x"]
            assert CHANGES["toolsListChanged"] not in stream.methods()


async def test_a_server_without_subscriptions_is_asked_for_none() -> None:
    python = os.environ["MRTR_TEST_LEGACY_PYTHON"]
    server = Path(__file__).parents[1] / "servers" / "conformance_server.py"
    async with bridged(python, str(server)) as bridge:
        session = await only_after_discovery(bridge)
        assert not session.capabilities["resources"].get("subscribe")
        async with listening(bridge, resourceSubscriptions=["test://watched-resource"], resourcesListChanged=True) as s:
            assert s.acknowledged() == {"resourcesListChanged": True}


async def only_after_discovery(bridge: Any) -> Any:
    await Client(bridge).send("server/discover")
    return only_group(bridge).primary


async def test_streams_end_gracefully_while_their_resource_is_not_answered_for() -> None:
    async with bridged(*announcer()) as bridge:
        await Client(bridge).call("watched")
        async with listening(bridge, acknowledged=False, resourceSubscriptions=["watch://silent/a"]) as stream:
            await until(lambda: only_group(bridge).listening._watching)
            bridge.stop_listening()
            await until(lambda: stream.closed is not None)
            assert stream.methods() == [ACKNOWLEDGED]
            assert stream.acknowledged() == {}


@pytest.mark.parametrize(("option", "path"), [("--http", "mcp"), ("--sse", "sse")])
async def test_an_http_server_that_is_started_anew_is_subscribed_again_though_nobody_calls(
    option: str, path: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    command = announcer(option, str(port))
    wanted = {"resourceSubscriptions": ["watch://one"], "promptsListChanged": True}
    async with bridged(url=f"http://127.0.0.1:{port}/{path}") as bridge:
        client = Client(bridge)
        with ExitStack() as first:
            first.enter_context(old_server(port, command))
            await client.call("watched")
            async with listening(bridge, client, **wanted) as stream:
                await client.call("touch", uri="watch://one")
                await client.call("change", kind="prompt")
                await until(lambda: stream.methods() == [ACKNOWLEDGED, UPDATED, CHANGES["promptsListChanged"]])
                first.close()
                with old_server(port, command):
                    # Told by the session that took the lost one's place.
                    await until(lambda: stream.methods()[3:] == [CHANGES["promptsListChanged"], UPDATED], 15)
                    assert (await watched(client))["watched"] == ["watch://one"]
                    await client.call("touch", uri="watch://one")
                    await until(lambda: len(stream.updates()) == 3)


async def test_a_session_that_could_not_be_heard_for_a_while_has_its_clients_look_again_but_not_all_the_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("bridge.listening.SELDOM", 1.0)
    wanted = {"resourceSubscriptions": ["asker://plain"], "toolsListChanged": True}
    told = [CHANGES["toolsListChanged"], UPDATED]
    async with bridged() as bridge, listening(bridge, **wanted) as stream:
        session = only_group(bridge).primary
        assert session is not None
        session.interrupted()
        await until(lambda: stream.methods()[1:] == told)
        assert stream.updates() == ["asker://plain"]
        for _ in range(5):
            session.interrupted()
            await anyio.sleep(0.01)
        assert stream.methods()[1:] == told
        await until(lambda: stream.methods()[1:] == told * 2)
        await anyio.sleep(0.1)
        assert stream.methods()[1:] == told * 2


@pytest.mark.parametrize("how", ["shared_session", "single_session"])
async def test_clients_that_share_a_session_share_its_subscriptions(how: str, journal: Journal) -> None:
    others = {"shared_session": "bob", "single_session": "ada"}
    wanted = {"resourceSubscriptions": ["asker://plain"], "toolsListChanged": True}
    async with bridged(env=journal.env, **{how: True}) as bridge:
        one, two = Client(bridge, "ada"), Client(bridge, others[how], {} if how == "single_session" else None)
        async with listening(bridge, one, **wanted) as first:
            async with listening(bridge, two, **wanted) as second:
                await announce_everything(two)
                for stream in (first, second):
                    assert stream.methods() == [ACKNOWLEDGED, CHANGES["toolsListChanged"], UPDATED]
                assert len(journal.messages("resources/subscribe")) == 1
            await one.call("announce", method=UPDATED, params={"uri": "asker://plain"})
            assert len(first.updates()) == 2
            assert journal.messages("resources/unsubscribe") == []
        await until(lambda: journal.messages("resources/unsubscribe"))


async def test_streams_of_a_group_that_gets_no_session_any_more_end_and_may_be_opened_again() -> None:
    async with bridged() as bridge, listening(bridge, toolsListChanged=True) as stream:
        group = only_group(bridge)
        group.opening += 1
        group.start_failed(Moved("A further one."))
        await anyio.sleep(0.01)
        assert stream.closed is None
        group.opening += 1
        assert group.primary is not None
        group.primary.lost("The server died.")
        group.start_failed(Moved("Another has the session."))
        await until(lambda: stream.closed is not None)
        assert not group.listening
        async with listening(bridge, toolsListChanged=True) as again:
            assert again.acknowledged() == {"toolsListChanged": True}
