"""Servers that can have one session only: everybody shares it, and everything is negotiated once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.bridge.harness import EVERYTHING, Client, Journal, bridged, named, only_group, refused, text, until, value
from tests.peers.talking import ROOT, node, node_modules, server_process

pytestmark = pytest.mark.anyio

FORMS: dict[str, Any] = {"elicitation": {}}
ONE_SESSION_SERVER = ROOT / "tests" / "node" / "one_session_server.mjs"


# -- known from the start ---------------------------------------------------------------------------------------------


async def test_everything_is_negotiated_once_and_all_profiles_share_it(journal: Journal) -> None:
    async with bridged(env=journal.env, single_session=True) as bridge:
        for capabilities in ({}, FORMS, {"sampling": {"tools": {}}}, EVERYTHING):
            initialize = value(await Client(bridge, capabilities=capabilities).call("whoami"))
            assert initialize["capabilities"] == {
                "roots": {"listChanged": True},
                "sampling": {"tools": {}, "context": {}},
                "elicitation": {"form": {}, "url": {}},
            }
        assert len(journal.pids()) == 1


async def test_calls_that_may_ask_take_turns_on_it(journal: Journal) -> None:
    async with bridged(env=journal.env, single_session=True, max_sessions=4) as bridge:
        clients = [Client(bridge, capabilities=EVERYTHING if n % 2 else FORMS) for n in range(4)]
        asked = [await client.call("ask_once", message=f"{n}?") for n, client in enumerate(clients)]
        for n, client in enumerate(clients):
            [request] = asked[n]["inputRequests"].values()
            assert request["params"]["message"] == f"{n}?"
            answers = dict.fromkeys(asked[n]["inputRequests"], named(str(n)))
            done = await client.retry("ask_once", asked[n]["requestState"], answers, message=f"{n}?")
            assert value(done) == named(str(n))
        assert len(journal.pids()) == 1


async def test_what_this_client_cannot_do_is_refused_as_an_old_client_would() -> None:
    async with bridged(single_session=True, silence=5) as bridge:
        for method, capabilities in (
            ("elicitation/create", {}),
            ("elicitation/create", {"sampling": {}}),
            ("sampling/createMessage", FORMS),
            ("roots/list", FORMS),
            ("roots/list", {}),
        ):
            result = await Client(bridge, capabilities=capabilities).call("catches_refusal", method=method)
            assert value(result)["refused"]["code"] == -32601


async def test_a_mode_that_this_client_does_not_have_is_invalid_params() -> None:
    async with bridged(single_session=True, silence=5) as bridge:
        error = await refused(Client(bridge, capabilities=FORMS).call("ask_url"))
        assert error.data == {"requiredCapabilities": {"elicitation": {"url": {}}}}


async def test_if_the_call_then_fails_the_client_learns_what_was_missing() -> None:
    async with bridged(single_session=True, silence=5) as bridge:
        for tool, required in (("ask_sampling", {"sampling": {}}), ("ask_roots", {"roots": {}})):
            error = await refused(Client(bridge, capabilities=FORMS).call(tool))
            assert (error.code, error.data) == (-32021, {"requiredCapabilities": required})


async def test_a_question_is_never_inferred_for_want_of_a_declaration(journal: Journal) -> None:
    """The server does not know that this client can do nothing: its tool may ask, and takes its turn."""
    async with bridged(env=journal.env, single_session=True) as bridge:
        able, unable = Client(bridge), Client(bridge, capabilities={})
        asked = await able.call("ask_once", message="Mine?")
        assert (await refused(unable.call("ask_once", message="Not mine?"))).code == -32021
        done = await able.retry("ask_once", asked["requestState"], {"elicit-1": named("Ada")}, message="Mine?")
        assert value(done) == named("Ada")
        assert only_group(bridge).attribution.counters.inferred == 0


async def test_roots_wait_for_a_client_that_has_some_and_keep_no_other_waiting(journal: Journal) -> None:
    journal.env["ASKER_ROOTS_AT_START"] = "1"
    home = {"roots": [{"uri": "file:///home"}]}
    async with bridged(env=journal.env, single_session=True) as bridge:
        without = Client(bridge, capabilities=FORMS)
        await without.send("server/discover")
        only_group(bridge).attribution._verdicts._settle_max = 0.2
        assert text(await without.call("slow", seconds=0.5)) == "slept 0.5"
        await until(journal.answers)  # refused meanwhile, as an old client without roots would have
        assert value(await Client(bridge).answered("roots_seen", lambda method, params: home)) == home["roots"]


async def test_a_second_principal_is_refused_and_told_why() -> None:
    async with bridged(single_session=True) as bridge:
        await Client(bridge, "ada").call("echo", text="x")
        for request in (Client(bridge, "bob").call("echo", text="x"), Client(bridge, "bob").send("tools/list")):
            error = await refused(request)
            assert error.code == -32603
            assert error.message == (
                "The server 'server' can have one session only, and another client has it. "
                "--shared-session lets all clients share it."
            )
        assert text(await Client(bridge, "ada").call("echo", text="still")) == "still"


async def test_with_a_shared_session_a_second_principal_is_not() -> None:
    async with bridged(single_session=True, shared_session=True) as bridge:
        for principal in ("ada", "bob"):
            assert text(await Client(bridge, principal).call("echo", text=principal)) == principal


# -- found out --------------------------------------------------------------------------------------------------------


@pytest.fixture
def url(request: pytest.FixtureRequest) -> Iterator[str]:
    env = {"MRTR_TEST_NODE_MODULES": str(node_modules())}
    with server_process([node(), str(ONE_SESSION_SERVER), request.param], r"listening on port (\d+)", env=env) as match:
        yield f"http://127.0.0.1:{match[1]}/{'sse' if request.param == 'sse' else 'mcp'}"


@pytest.mark.parametrize("url", ["transport", "shown", "hidden", "sse"], indirect=True)
async def test_case_30_a_refused_second_session_is_found_out(url: str, caplog: pytest.LogCaptureFixture) -> None:
    async with bridged(url=url) as bridge:
        first, second = Client(bridge, capabilities=FORMS), Client(bridge)
        asked = await first.call("name")
        assert asked["resultType"] == "input_required"
        assert text(await second.call("count")) == "1"  # a profile of its own, and so a session of its own
        assert text(await second.call("count")) == "2"
        done = await first.retry("name", asked["requestState"], dict.fromkeys(asked["inputRequests"], named("Ada")))
        assert text(done) == "Ada"
        assert text(await second.answered("name", lambda method, params: named("Bob"))) == "Bob"
        said = [record for record in caplog.records if "one session only: all clients" in record.getMessage()]
        assert len(said) == 1
        error = await refused(Client(bridge, "bob").call("count"))
        assert "another client has it" in error.message
        assert len(only_group(bridge).channels) == 1


@pytest.mark.parametrize("url", ["hidden"], indirect=True)
async def test_a_further_session_of_the_same_clients_is_done_without(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with bridged(url=url) as bridge:
        client = Client(bridge, capabilities=FORMS)
        first, second = await client.call("name"), await client.call("name")
        for asked, name in ((second, "Bob"), (first, "Ada")):
            answers = dict.fromkeys(asked["inputRequests"], named(name))
            assert text(await client.retry("name", asked["requestState"], answers)) == name
        assert len(only_group(bridge).channels) == 1


@pytest.mark.parametrize("url", ["transport"], indirect=True)
async def test_a_server_that_somebody_else_has_is_not_taken_for_ours(url: str) -> None:
    async with bridged(url=url) as theirs, bridged(url=url) as ours:
        await Client(theirs).call("count")
        assert (await refused(Client(ours).call("count"))).code == -32603
        assert not ours.pool.single
