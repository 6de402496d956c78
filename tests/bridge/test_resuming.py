"""How a call is resumed: section by section what a retry may say, and what becomes of it."""

from __future__ import annotations

import sys
from typing import Any

import anyio
import pytest

from bridge.state import FROZEN_MESSAGE
from modern.errors import ProtocolError
from tests.bridge.harness import (
    ACCEPT,
    Client,
    Journal,
    Leg,
    Result,
    bridged,
    forget_ghosts_soon,
    named,
    nothing_is_left,
    only_group,
    refused,
    shown,
    text,
    until,
    value,
)

pytestmark = pytest.mark.anyio

FROZEN = (-32602, FROZEN_MESSAGE, {"reason": "invalid_request_state"})


# -- answers ----------------------------------------------------------------------------------------------------------


async def test_a_missing_answer_is_asked_again_alone_and_the_given_one_is_kept(journal: Journal) -> None:
    async with bridged(env=journal.env) as bridge:
        client = Client(bridge)
        asked = await client.call("ask_both")
        assert list(asked["inputRequests"]) == ["elicit-1", "elicit-2"]
        again = await client.retry("ask_both", asked["requestState"], {"elicit-1": named("Ada")})
        assert again["inputRequests"] == {"elicit-2": asked["inputRequests"]["elicit-2"]}
        assert again["requestState"] != asked["requestState"]
        await until(lambda: len(journal.answers()) == 1)
        done = await client.retry("ask_both", again["requestState"], {"elicit-2": named("Bob")})
    assert value(done) == [named("Ada"), named("Bob")]


async def test_the_second_of_two_may_be_answered_first() -> None:
    async with bridged() as bridge:
        client = Client(bridge)
        asked = await client.call("ask_both")
        again = await client.retry("ask_both", asked["requestState"], {"elicit-2": named("Bob")})
        assert list(again["inputRequests"]) == ["elicit-1"]
        done = await client.retry("ask_both", again["requestState"], {"elicit-1": named("Ada")})
    assert value(done) == [named("Ada"), named("Bob")]


async def test_unknown_keys_are_ignored() -> None:
    async with bridged() as bridge:
        client = Client(bridge)
        asked = await client.call("ask_once")
        again = await client.retry("ask_once", asked["requestState"], {"elicit-7": ACCEPT, "": 5})
        assert again["inputRequests"] == asked["inputRequests"]
        answers = {"elicit-1": ACCEPT, "elicit-9": "nonsense", "name": None}
        done = await client.retry("ask_once", again["requestState"], answers)
    assert value(done) == ACCEPT


async def test_a_retry_without_answers_is_asked_again() -> None:
    async with bridged() as bridge:
        client = Client(bridge)
        asked = await client.call("ask_once")
        params = {"name": "ask_once", "arguments": {}, "requestState": asked["requestState"]}
        again = await client.send("tools/call", params)
        assert again["inputRequests"] == asked["inputRequests"]
        for state in (again["requestState"], asked["requestState"]):
            done = await client.retry("ask_once", state, {"elicit-1": ACCEPT})
            assert value(done) == ACCEPT


@pytest.mark.parametrize(
    "responses",
    [
        [],
        "elicit-1",
        5,
        False,
        {"elicit-1": "Ada"},
        {"elicit-1": None},
        {"elicit-1": []},
        {"elicit-1": {}},
        {"elicit-1": {"action": "maybe"}},
        {"elicit-1": {"action": ["accept"]}},
        {"elicit-1": {"action": "accept", "content": "Ada"}},
        {"elicit-1": {"action": "accept", "content": ["Ada"]}},
    ],
)
async def test_a_wrong_shape_is_refused_and_the_token_stays_good(responses: Any) -> None:
    async with bridged() as bridge:
        client = Client(bridge)
        asked = await client.call("ask_once")
        for _ in range(2):
            error = await refused(client.retry("ask_once", asked["requestState"], responses))
            assert error.code == -32602
            assert shown(error) != FROZEN
        done = await client.retry("ask_once", asked["requestState"], {"elicit-1": ACCEPT})
    assert value(done) == ACCEPT


async def test_of_a_round_with_one_wrong_shape_nothing_is_taken(journal: Journal) -> None:
    async with bridged(env=journal.env) as bridge:
        client = Client(bridge)
        asked = await client.call("ask_both")
        answers = {"elicit-1": named("Ada"), "elicit-2": {"action": "perhaps"}}
        error = await refused(client.retry("ask_both", asked["requestState"], answers))
        assert error.code == -32602
        await anyio.sleep(0.1)
        assert journal.answers() == []
        answers = {"elicit-1": named("Bob"), "elicit-2": named("Cy")}
        done = await client.retry("ask_both", asked["requestState"], answers)
    assert value(done) == [named("Bob"), named("Cy")]


@pytest.mark.parametrize(
    ("tool", "key", "answer"),
    [
        ("ask_sampling", "sample-1", {"role": "assistant", "content": {"type": "text"}, "model": "m"}),
        ("ask_sampling", "sample-1", {"content": {"type": "text", "text": "no role"}, "model": "m"}),
        ("ask_roots", "roots-1", {"roots": "file:///"}),
        ("ask_roots", "roots-1", {"roots": [{"name": "no uri"}]}),
    ],
)
async def test_wrong_shapes_of_other_answers(tool: str, key: str, answer: dict[str, Any]) -> None:
    async with bridged() as bridge:
        client = Client(bridge)
        asked = await client.call(tool)
        assert list(asked["inputRequests"]) == [key]
        error = await refused(client.retry(tool, asked["requestState"], {key: answer}))
        assert error.code == -32602


@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_decline_and_cancel_are_answers_like_any_other(action: str) -> None:
    async with bridged() as bridge:
        client = Client(bridge)
        asked = await client.call("ask_once")
        done = await client.retry("ask_once", asked["requestState"], {"elicit-1": {"action": action}})
    assert value(done) == {"action": action}


async def test_content_that_breaks_the_schema_is_asked_again_once_then_the_server_judges() -> None:
    async with bridged() as bridge:
        client = Client(bridge)
        asked = await client.call("ask_once", message="Your name?")
        wrong = {"action": "accept", "content": {"name": 5}}
        again = await client.retry("ask_once", asked["requestState"], {"elicit-1": wrong}, message="Your name?")
        [(key, request)] = again["inputRequests"].items()
        assert key == "elicit-2"
        message = request["params"]["message"]
        assert message.startswith("Your name?")
        assert len(message) > len("Your name?\n\n")
        wrong_again = {"action": "accept", "content": {"name": 6}}
        done = await client.retry("ask_once", again["requestState"], {key: wrong_again}, message="Your name?")
    assert value(done) == wrong_again


async def test_what_is_asked_again_can_be_answered_well() -> None:
    async with bridged() as bridge:
        client = Client(bridge)
        asked = await client.call("ask_once")
        again = await client.retry("ask_once", asked["requestState"], {"elicit-1": {"action": "accept"}})
        assert list(again["inputRequests"]) == ["elicit-2"]
        ignored = await client.retry("ask_once", again["requestState"], {"elicit-1": ACCEPT})
        assert list(ignored["inputRequests"]) == ["elicit-2"]
        done = await client.retry("ask_once", again["requestState"], {"elicit-2": named("Ada")})
    assert value(done) == named("Ada")


async def test_keys_of_one_call_are_never_used_twice() -> None:
    async with bridged() as bridge:
        client = Client(bridge)
        seen: list[str] = []
        result = await client.call("ask_many", n=4)
        while result["resultType"] == "input_required":
            [key] = result["inputRequests"]
            seen.append(key)
            result = await client.retry("ask_many", result["requestState"], {key: named(key)}, n=4)
    assert seen == ["elicit-1", "elicit-2", "elicit-3", "elicit-4"]
    assert value(result) == [named(key) for key in seen]


async def test_a_first_request_with_answers_but_no_state_is_a_new_one() -> None:
    async with bridged() as bridge:
        client = Client(bridge)
        params = {"name": "ask_once", "arguments": {}, "inputResponses": {"elicit-1": ACCEPT}}
        asked = await client.send("tools/call", params)
    assert asked["resultType"] == "input_required"


async def test_what_the_retrys_client_declares_governs_further_asks() -> None:
    async with bridged() as bridge:
        asked = await Client(bridge).call("ask_twice")
        without = Client(bridge, capabilities={})
        error = await refused(without.retry("ask_twice", asked["requestState"], {"elicit-1": ACCEPT}))
    assert error.code == -32021
    assert error.data["requiredCapabilities"]["elicitation"] == {"form": {}}


# -- single use -------------------------------------------------------------------------------------------------------


async def test_the_same_token_with_the_same_answers_has_the_same_outcome(journal: Journal) -> None:
    async with bridged(env=journal.env) as bridge:
        client = Client(bridge)
        asked = await client.call("ask_once")
        first = await client.retry("ask_once", asked["requestState"], {"elicit-1": ACCEPT})
        for _ in range(3):
            assert await client.retry("ask_once", asked["requestState"], {"elicit-1": ACCEPT}) == first
        assert len(journal.calls("ask_once")) == 1
        assert len(journal.answers()) == 1


async def test_a_round_can_be_fetched_again_and_gone_on_from() -> None:
    async with bridged() as bridge:
        client = Client(bridge)
        asked = await client.call("ask_twice")
        second = await client.retry("ask_twice", asked["requestState"], {"elicit-1": named("Ada")})
        once_more = await client.retry("ask_twice", asked["requestState"], {"elicit-1": named("Ada")})
        assert once_more["inputRequests"] == second["inputRequests"]
        done = await client.retry("ask_twice", once_more["requestState"], {"elicit-2": named("Bob")})
        assert value(done) == [named("Ada"), named("Bob")]
        error = await refused(client.retry("ask_twice", asked["requestState"], {"elicit-1": named("Ada")}))
        assert shown(error) == FROZEN


async def test_an_error_is_an_outcome_too(journal: Journal) -> None:
    async with bridged(env=journal.env) as bridge:
        client = Client(bridge)
        asked = await client.call("ask_then_fail")
        first = await client.retry("ask_then_fail", asked["requestState"], {"elicit-1": ACCEPT})
        assert first["isError"] is True
        assert await client.retry("ask_then_fail", asked["requestState"], {"elicit-1": ACCEPT}) == first
        assert len(journal.calls("ask_then_fail")) == 1


async def test_two_legs_with_the_same_token_share_one_outcome(journal: Journal) -> None:
    async with bridged(env=journal.env) as bridge:
        clients = [Client(bridge) for _ in range(3)]
        asked = await clients[0].call("slow_after", seconds=0.3)
        results: list[Result] = []

        async def retry(client: Client) -> None:
            state = asked["requestState"]
            results.append(await client.retry("slow_after", state, {"elicit-1": ACCEPT}, seconds=0.3))

        async with anyio.create_task_group() as tasks:
            for client in clients:
                tasks.start_soon(retry, client)
        assert [value(result) for result in results] == [ACCEPT] * 3
        assert len(journal.answers()) == 1
        assert len(journal.calls("slow_after")) == 1


async def test_other_answers_get_the_frozen_error_while_it_runs_and_afterwards(journal: Journal) -> None:
    async with bridged(env=journal.env) as bridge:
        client, other = Client(bridge), Client(bridge)
        asked = await client.call("slow_after", seconds=0.3)
        state = asked["requestState"]
        results: list[Result] = []

        async def retry() -> None:
            results.append(await client.retry("slow_after", state, {"elicit-1": named("Ada")}, seconds=0.3))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(retry)
            await until(journal.answers)
            running = await refused(other.retry("slow_after", state, {"elicit-1": named("Eve")}, seconds=0.3))
        after = await refused(other.retry("slow_after", state, {"elicit-1": named("Eve")}, seconds=0.3))
        assert shown(running) == shown(after) == FROZEN
        assert value(results[0]) == named("Ada")
        assert len(journal.answers()) == 1


# -- the one frozen error ---------------------------------------------------------------------------------------------


async def test_every_refused_state_gets_the_very_same_error() -> None:
    async with bridged() as bridge:
        client = Client(bridge)
        asked = await client.call("ask_once", message="m")
        state, answers = asked["requestState"], {"elicit-1": ACCEPT}
        flipped = ("B" if state[20] == "A" else "A").join((state[:20], state[21:]))
        sealed = {"requestState": state, "inputResponses": answers}
        attempts = {
            "another principal": Client(bridge, "mallory").retry("ask_once", state, answers, message="m"),
            "other arguments": client.retry("ask_once", state, answers, message="n"),
            "more arguments": client.retry("ask_once", state, answers, message="m", key="k"),
            "no arguments": client.retry("ask_once", state, answers),
            "another tool": client.retry("ask_again", state, answers, message="m"),
            "another method": client.send("prompts/get", {"name": "ask_once", "arguments": {"message": "m"}, **sealed}),
            "a resource": client.send("resources/read", {"uri": "asker://question", **sealed}),
            "one byte changed": client.retry("ask_once", flipped, answers, message="m"),
            "cut": client.retry("ask_once", state[:-1], answers, message="m"),
            "longer": client.retry("ask_once", state + "A", answers, message="m"),
            "padded": client.retry("ask_once", state + "=", answers, message="m"),
            "empty": client.retry("ask_once", "", answers, message="m"),
            "garbage": client.retry("ask_once", "requestState", answers, message="m"),
            "not ASCII": client.retry("ask_once", "ä" * 75, answers, message="m"),
            "huge": client.retry("ask_once", "A" * 100_000, answers, message="m"),
        }
        errors = {name: shown(await refused(attempt)) for name, attempt in attempts.items()}
        assert errors == dict.fromkeys(attempts, FROZEN)
        done = await client.retry("ask_once", state, answers, message="m")
        assert value(done) == ACCEPT  # none of it harmed the call


@pytest.mark.parametrize("state", [5, True, [], {}, ["x"], 1.5])
async def test_a_state_that_is_no_string_gets_the_frozen_error(state: Any) -> None:
    async with bridged() as bridge:
        client = Client(bridge)
        assert shown(await refused(client.retry("ask_once", state, {}))) == FROZEN


async def test_no_single_character_can_be_changed() -> None:
    async with bridged() as bridge:
        client = Client(bridge)
        asked = await client.call("ask_once")
        state = asked["requestState"]
        for at, character in enumerate(state):
            for other in {"A", "z", chr(ord(character) ^ 1)} - {character}:
                changed = state[:at] + other + state[at + 1 :]
                error = await refused(client.retry("ask_once", changed, {"elicit-1": ACCEPT}))
                assert shown(error) == FROZEN, (at, character, other)


async def test_a_token_of_another_bridge_gets_the_frozen_error() -> None:
    async with bridged() as one, bridged() as two:
        asked = await Client(one).call("ask_once")
        error = await refused(Client(two).retry("ask_once", asked["requestState"], {"elicit-1": ACCEPT}))
    assert shown(error) == FROZEN


async def test_a_token_is_spent_when_what_it_came_to_is_forgotten() -> None:
    async with bridged(remember=0.2) as bridge:
        client = Client(bridge)
        asked = await client.call("ask_once")
        await client.retry("ask_once", asked["requestState"], {"elicit-1": ACCEPT})
        await until(lambda: not bridge._calls)
        error = await refused(client.retry("ask_once", asked["requestState"], {"elicit-1": ACCEPT}))
    assert shown(error) == FROZEN


@pytest.mark.parametrize("seconds", [1, 300])
async def test_tokens_are_short_however_long_the_request_is(seconds: int) -> None:
    async with bridged(elicitation_ttl=seconds) as bridge:
        client = Client(bridge, "a principal with a long name " * 20)
        for tool in ("ask_once", "ask_both", "ask_sampling", "ask_roots"):
            asked = await client.call(tool, message="long " * 1000)
            assert len(asked["requestState"]) <= 96
            assert asked["requestState"].isascii()


# -- time and absence -------------------------------------------------------------------------------------------------


async def test_at_expiry_the_server_hears_of_it_and_memory_returns(journal: Journal) -> None:
    async with bridged(env=journal.env, elicitation_ttl=0.3, remember=0.2) as bridge:
        client = Client(bridge)
        asked = await client.call("ask_once")
        forget_ghosts_soon(bridge)
        await until(lambda: "cancel" in journal.order())
        assert journal.order()[-2:] == ["notifications/cancelled", "cancel"]
        [call] = journal.calls("ask_once")
        assert journal.messages("notifications/cancelled")[0]["params"]["requestId"] == call["id"]
        error = await refused(client.retry("ask_once", asked["requestState"], {"elicit-1": ACCEPT}))
        assert shown(error) == FROZEN
        await nothing_is_left(bridge)
        assert text(await client.call("echo", text="still here")) == "still here"


async def test_sampling_expires_with_an_error(journal: Journal) -> None:
    async with bridged(env=journal.env, sampling_ttl=0.3) as bridge:
        await Client(bridge).call("ask_sampling")
        await until(lambda: "error" in journal.order())
        assert journal.order()[-2:] == ["notifications/cancelled", "error"]


async def test_a_call_has_a_cap_over_all_its_rounds(journal: Journal) -> None:
    async with bridged(env=journal.env, call_ttl=0.6) as bridge:
        client = Client(bridge)
        asked = await client.call("ask_many", n=3)
        asked = await client.retry("ask_many", asked["requestState"], {"elicit-1": ACCEPT}, n=3)
        await until(lambda: "notifications/cancelled" in journal.order())
        error = await refused(client.retry("ask_many", asked["requestState"], {"elicit-2": ACCEPT}, n=3))
        assert shown(error) == FROZEN


async def serve_and_leave(client: Client, params: dict[str, Any], leave: Any) -> None:
    """Send a request whose client goes away as soon as ``leave`` (a coroutine function) has returned."""
    async with anyio.create_task_group() as tasks:

        async def serve() -> None:
            await client.bridge.serve(client.request("tools/call", params), Leg())

        tasks.start_soon(serve)
        await leave()
        tasks.cancel_scope.cancel()


async def test_a_client_that_goes_away_cancels(journal: Journal) -> None:
    async with bridged(env=journal.env) as bridge:
        client = Client(bridge)
        params = {"name": "slow", "arguments": {"seconds": 5}}
        await serve_and_leave(client, params, lambda: until(lambda: journal.calls("slow")))
        await until(lambda: journal.messages("notifications/cancelled"))
        [cancelled] = journal.messages("notifications/cancelled")
        assert cancelled["params"]["requestId"] == journal.calls("slow")[0]["id"]
        forget_ghosts_soon(bridge)
        assert text(await client.call("echo", text="unharmed")) == "unharmed"


async def test_a_client_that_goes_away_while_siblings_are_awaited(journal: Journal) -> None:
    async with bridged(env=journal.env) as bridge:
        client = Client(bridge)
        assert text(await client.call("echo", text="warm")) == "warm"
        params = {"name": "ask_once", "arguments": {}}
        await serve_and_leave(client, params, lambda: until(lambda: only_group(bridge)._asked_on))
        forget_ghosts_soon(bridge)
        await until(lambda: "cancel" in journal.order())
        assert journal.order()[-2:] == ["notifications/cancelled", "cancel"]


async def test_a_client_that_goes_away_after_its_answer(journal: Journal) -> None:
    async with bridged(env=journal.env, remember=0.2) as bridge:
        client = Client(bridge)
        asked = await client.call("slow_after", seconds=5)
        forget_ghosts_soon(bridge)
        sealed = {"requestState": asked["requestState"], "inputResponses": {"elicit-1": ACCEPT}}
        params = {"name": "slow_after", "arguments": {"seconds": 5}, **sealed}
        await serve_and_leave(client, params, lambda: until(journal.answers))
        await until(lambda: journal.messages("notifications/cancelled"))
        assert journal.order()[-2:] == ["accept", "notifications/cancelled"]
        error = await refused(client.send("tools/call", params))
        assert shown(error) == FROZEN


async def test_one_of_two_legs_may_go_away(journal: Journal) -> None:
    async with bridged(env=journal.env) as bridge:
        client = Client(bridge)
        asked = await client.call("slow_after", seconds=0.4)
        sealed = {"requestState": asked["requestState"], "inputResponses": {"elicit-1": ACCEPT}}
        params = {"name": "slow_after", "arguments": {"seconds": 0.4}, **sealed}
        results: list[Result] = []

        async def stay() -> None:
            results.append(await Client(bridge).send("tools/call", params))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(stay)
            await serve_and_leave(client, params, lambda: until(journal.answers))
        assert value(results[0]) == ACCEPT
        assert journal.messages("notifications/cancelled") == []


async def test_with_a_grace_a_lost_outcome_can_be_fetched(journal: Journal) -> None:
    async with bridged(env=journal.env, disconnect_grace=5) as bridge:
        client = Client(bridge)
        asked = await client.call("slow_after", seconds=0.3)
        sealed = {"requestState": asked["requestState"], "inputResponses": {"elicit-1": ACCEPT}}
        params = {"name": "slow_after", "arguments": {"seconds": 0.3}, **sealed}
        await serve_and_leave(client, params, lambda: until(journal.answers))
        assert value(await client.send("tools/call", params)) == ACCEPT
        assert journal.messages("notifications/cancelled") == []
        assert len(journal.answers()) == 1


async def test_a_suspended_call_leaves_nothing_behind_when_it_is_done() -> None:
    async with bridged(remember=0.2) as bridge:
        client = Client(bridge)
        for tool in ("ask_once", "ask_twice", "ask_both", "leaves", "gives_up"):
            asked = await client.call(tool, seconds=0.1)
            while asked["resultType"] == "input_required":
                answers = dict.fromkeys(asked["inputRequests"], ACCEPT)
                asked = await client.retry(tool, asked["requestState"], answers, seconds=0.1)
        await nothing_is_left(bridge)


async def test_a_leg_can_end_without_a_question() -> None:
    async with bridged(leg=0.2) as bridge:
        client = Client(bridge)
        result, rounds = await client.call("slow", seconds=1.2), 0
        while result["resultType"] == "input_required":
            assert "inputRequests" not in result or result["inputRequests"] == {}
            params = {"name": "slow", "arguments": {"seconds": 1.2}, "requestState": result["requestState"]}
            result, rounds = await client.send("tools/call", params), rounds + 1
        assert rounds >= 1
        assert text(result) == "slept 1.2"


# -- what the server does meanwhile -----------------------------------------------------------------------------------


async def test_a_server_that_gives_up_has_the_last_word(journal: Journal) -> None:
    async with bridged(env=journal.env) as bridge:
        client = Client(bridge)
        asked = await client.call("gives_up", seconds=0.2)
        await until(lambda: not only_group(bridge)._runs)
        result = await client.retry("gives_up", asked["requestState"], {"elicit-1": ACCEPT}, seconds=0.2)
        assert result["isError"] is True
        assert text(result).startswith("TimeoutError")
        assert journal.answers() == []


async def test_a_server_that_finishes_without_the_answer_has_the_last_word() -> None:
    async with bridged() as bridge:
        client = Client(bridge)
        asked = await client.call("leaves", seconds=0.2)
        await until(lambda: not only_group(bridge)._runs)
        result = await client.retry("leaves", asked["requestState"], {"elicit-1": ACCEPT}, seconds=0.2)
    assert text(result) == "left"


async def test_a_server_that_dies_with_its_question_open_gives_a_clear_error(journal: Journal) -> None:
    async with bridged(env=journal.env) as bridge:
        client = Client(bridge)
        asked = await client.call("die", seconds=0.2, code=3)
        await until(lambda: only_group(bridge).primary is None)
        error = await refused(client.retry("die", asked["requestState"], {"elicit-1": ACCEPT}, seconds=0.2, code=3))
        assert error.code == -32603
        assert "exited with code 3" in error.message
        assert text(await client.call("echo", text="anew")) == "anew"
        assert len(journal.pids()) == 2


async def test_a_server_that_dies_after_the_answer_gives_a_clear_error() -> None:
    async with bridged() as bridge:
        client = Client(bridge)
        asked = await client.call("die", seconds=0.6, code=0)
        error = await refused(client.retry("die", asked["requestState"], {"elicit-1": ACCEPT}, seconds=0.6, code=0))
    assert error.code == -32603
    assert "exited with code 0" in error.message


async def test_a_server_that_wants_to_know_hears_that_its_ask_is_looked_after(journal: Journal) -> None:
    async with bridged(env=journal.env, ask_progress=0.2) as bridge:
        client = Client(bridge)
        asked = await client.call("ask_watched")
        assert "_meta" not in asked["inputRequests"]["elicit-1"]["params"]
        await until(lambda: len(journal.messages("notifications/progress")) >= 2)
        beats = [message["params"] for message in journal.messages("notifications/progress")]
        assert {beat["progressToken"] for beat in beats} == {"beat"}
        assert [beat["progress"] for beat in beats] == sorted({beat["progress"] for beat in beats})
        done = await client.retry("ask_watched", asked["requestState"], {"elicit-1": ACCEPT})
    assert value(done) == ACCEPT


# -- what can be asked about ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "params"),
    [("prompts/get", {"name": "introduction"}), ("resources/read", {"uri": "asker://question"})],
)
async def test_prompts_and_resources_suspend_too(method: str, params: dict[str, Any]) -> None:
    async with bridged() as bridge:
        client = Client(bridge)
        asked = await client.send(method, params)
        assert asked["resultType"] == "input_required"
        assert list(asked["inputRequests"]) == ["elicit-1"]
        assert "ttlMs" not in asked
        sealed = {"requestState": asked["requestState"], "inputResponses": {"elicit-1": named("Ada")}}
        done = await client.send(method, {**params, **sealed})
        assert done["resultType"] == "complete"
        assert "Ada" in str(done)
        error = await refused(client.send(method, {**params, **sealed, "inputResponses": {"elicit-1": named("Eve")}}))
    assert shown(error) == FROZEN


COMPLETION = {"ref": {"type": "ref/prompt", "name": "introduction"}, "argument": {"name": "who", "value": ""}}


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("server/discover", {}),
        ("tools/list", {}),
        ("prompts/list", {}),
        ("resources/list", {}),
        ("resources/templates/list", {}),
        ("completion/complete", COMPLETION),
    ],
)
async def test_everything_else_is_complete_at_once_beside_a_suspended_call(method: str, params: Any) -> None:
    async with bridged() as bridge:
        client = Client(bridge)
        asked = await client.call("ask_once")
        result = await client.send(method, params)
        assert result["resultType"] == "complete"
        with_state = {**params, "requestState": asked["requestState"], "inputResponses": {"elicit-1": ACCEPT}}
        assert (await client.send(method, with_state))["resultType"] == "complete"
        assert value(await client.retry("ask_once", asked["requestState"], {"elicit-1": ACCEPT})) == ACCEPT


async def test_closing_the_bridge_cancels_what_is_suspended(journal: Journal) -> None:
    async with bridged(env=journal.env) as bridge:
        await Client(bridge).call("ask_once")
    assert journal.order()[-2:] == ["notifications/cancelled", "cancel"]


async def test_a_server_that_cannot_start_is_named() -> None:
    async with bridged("no-such-command-anywhere") as bridge:
        error = await refused(Client(bridge).call("echo"))
    assert error.code == -32603
    assert "no-such-command-anywhere" in error.message


async def test_what_keeps_the_server_from_starting_is_known_until_it_starts() -> None:
    async with bridged(sys.executable, "-c", "import sys; sys.exit(3)") as bridge:
        assert await bridge.ready() is None
        with pytest.raises(ProtocolError, match="exited with code 3"):
            await Client(bridge).send("server/discover")
        assert "exited with code 3" in (await bridge.ready() or "")
    async with bridged() as bridge:
        await Client(bridge).send("server/discover")
        assert await bridge.ready() is None
