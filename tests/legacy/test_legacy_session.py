"""The rules of a session that hold on every transport (2025-11-25 basic/index, basic/utilities)."""

from __future__ import annotations

import logging
from typing import Any

import anyio
import pytest

from legacy.errors import CannotStart, SessionClosed
from legacy.handshake import handshake
from legacy.messages import Ask, Failure, Lost, Result
from legacy.session import Session
from tests.legacy.playbook import Playbook, ScriptedTransport, ask
from tests.legacy.support import CLIENT, Ears, eventually


def test_ids_are_ours_and_the_progress_token_is_the_id() -> None:
    play = Playbook()
    params = {"name": "x", "_meta": {"traceparent": "t", "progressToken": "theirs"}}
    play.session.send("tools/call", params, print)
    play.session.send("tools/list", None, print)
    play << {
        "id": 1,
        "method": "tools/call",
        "params": {"name": "x", "_meta": {"traceparent": "t", "progressToken": 1}},
    }
    play << {"id": 2, "method": "tools/list", "params": {"_meta": {"progressToken": 2}}}
    assert params["_meta"] == {"traceparent": "t", "progressToken": "theirs"}


@pytest.mark.parametrize(
    ("body", "reply"),
    [
        ({"result": {"a": 1}}, Result({"a": 1})),
        ({"result": {"a": 1}, "error": None}, Result({"a": 1})),
        ({"result": None, "error": {"code": -5, "message": "m", "data": {"d": 1}}}, Failure(-5, "m", {"d": 1})),
        ({"result": None}, Result({})),
        (
            {"error": {"code": "-5", "message": 3}},
            Failure(-32603, "The server answered with an error that has no message."),
        ),
        ({"error": "text"}, Failure(-32603, "text")),
        ({"result": [1]}, Failure(-32603, "The server answered with a result that is not an object.")),
    ],
)
def test_what_counts_as_a_result(body: dict[str, Any], reply: Result | Failure) -> None:
    play = Playbook()
    request_id, replies = play.call()
    play >> {"id": request_id, **body}
    assert replies == [reply]


@pytest.mark.parametrize("echo", [lambda i: i, str, float])
def test_an_id_may_come_back_as_text_and_only_the_first_answer_counts(echo: Any) -> None:
    play = Playbook()
    request_id, replies = play.call()
    play >> {"id": echo(request_id), "result": {"n": 1}} >> {"id": request_id, "result": {"n": 2}}
    play >> {"id": 99, "result": {}} >> {"id": True, "result": {}} >> {"id": None, "error": {"code": 1, "message": ""}}
    assert replies == [Result({"n": 1})]


def test_ping_is_answered_and_what_no_client_answers_is_refused() -> None:
    play = Playbook()
    play >> {"id": "p", "method": "ping"} >> {"id": 1, "method": "tools/list"}
    play << {"id": "p", "result": {}}
    play << {"id": 1, "error": {"code": -32601, "message": "Method not found: tools/list"}}


def test_an_ask_is_answered_once_under_the_servers_own_id() -> None:
    play = Playbook()
    play >> ask(7, message="?") >> ask("7", "roots/list")
    first, second = play.ears.asks
    play.session.refuse(second, -32601, "no", {"d": 1})
    play.session.answer(first, {"action": "accept"})
    play.session.answer(first, {"action": "cancel"})
    play << {"id": "7", "error": {"code": -32601, "message": "no", "data": {"d": 1}}}
    play << {"id": 7, "result": {"action": "accept"}}
    assert play.silent()


def test_a_withdrawn_ask_is_closed_and_cannot_be_answered() -> None:
    play = Playbook()
    play >> ask(7) >> {"method": "notifications/cancelled", "params": {"requestId": 7}}
    assert play.ears.withdrawn_asks == play.ears.asks
    assert not play.ears.asks[0].open
    play.session.answer(play.ears.asks[0], {})
    play >> {"method": "notifications/cancelled", "params": {"requestId": 8}} >> {"method": "notifications/cancelled"}
    assert play.silent()
    assert len(play.ears.withdrawn_asks) == 1


def test_progress_is_labelled_with_the_request_of_its_token() -> None:
    play = Playbook()
    request_id, _ = play.call()
    for token in (request_id, str(request_id), 99, "x"):
        play >> {"method": "notifications/progress", "params": {"progressToken": token, "progress": 1}}
    assert [label for _, _, label in play.ears.notifications] == [request_id, request_id, None, None]


def test_a_cancelled_request_becomes_a_ghost_that_ends_once() -> None:
    play = Playbook()
    request_id, replies = play.call()
    play.session.cancel(request_id, "why")
    play.session.cancel(request_id, "again")
    play << {"method": "notifications/cancelled", "params": {"requestId": request_id, "reason": "why"}}
    play >> {"id": request_id, "result": {}} >> {"id": request_id, "result": {}}
    assert (replies, play.ears.ghosts) == ([], [request_id])
    assert play.ears.ghost_replies == [Result({})]
    other, _ = play.call()
    play.session.cancel(other, "why")
    play.session.forget(other)
    play >> {"id": other, "result": {}}
    assert (play.ears.ghosts, play.transport.dropped) == ([request_id], [other])


def test_a_lost_session_ends_everything_once() -> None:
    play = Playbook()
    _, replies = play.call()
    play >> ask(1)
    play.session.lost("It died.")
    play.session.lost("It died again.")
    assert replies == [Lost("It died.", processed=True)]
    assert play.ears.losses == ["It died."]
    assert not play.ears.asks[0].open
    play.session.answer(play.ears.asks[0], {})
    play.session.notify("notifications/x")
    with pytest.raises(SessionClosed):
        play.session.send("tools/list", None, print)
    assert play.silent()


def test_a_repeated_ask_is_known_only_where_streams_are_resumed() -> None:
    for repeats, heard in ((False, 3), (True, 2)):
        play = Playbook(repeats=repeats)
        for message in (ask(1, message="a"), ask(1, message="a"), ask(1, message="b")):
            play.session.received(message, again=True)
        assert len(play.ears.asks) == heard
    play = Playbook(repeats=True)
    play >> ask(1, "roots/list") >> ask(1, "roots/list")  # a server that always says 1, on a stream that never broke
    assert len(play.ears.asks) == 2


def test_a_listener_that_fails_is_logged_without_its_message(caplog: pytest.LogCaptureFixture) -> None:
    def fail(session: Session, ask: Ask) -> None:
        raise ValueError("secret")

    play = Playbook(ears=Ears(on_ask=fail))
    request_id, replies = play.call()
    play >> ask(1) >> {"id": request_id, "result": {}}
    assert replies == [Result({})]
    assert "ValueError at" in caplog.text
    assert "secret" not in caplog.text


def test_nothing_that_a_message_carries_reaches_a_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    play = Playbook()
    request_id, _ = play.call("tools/call", {"arguments": {"k": "hush"}})
    play >> ask(1, message="hush") >> {"id": None, "error": {"code": 1, "message": "hush"}}
    play >> {"id": 55, "result": {"text": "hush"}} >> {"id": "hush", "result": {}} >> {"text": "hush"}
    play.session.answer(play.ears.asks[0], {"content": {"password": "hush"}})
    play >> {"id": request_id, "error": {"code": 1, "message": "hush"}}
    assert "hush" not in caplog.text


@pytest.mark.anyio
async def test_a_request_that_times_out_is_cancelled_and_forgotten() -> None:
    play = Playbook()
    reply = await play.session.request("tools/list", timeout=0.01)
    assert isinstance(reply, Lost)
    play << {"id": 1, "method": "tools/list", "params": {"_meta": {"progressToken": 1}}}
    play << {"method": "notifications/cancelled", "params": {"requestId": 1, "reason": "time-out"}}
    play >> {"id": 1, "result": {}}
    assert play.ears.ghosts == []


@pytest.mark.anyio
@pytest.mark.parametrize("version", ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"])
async def test_any_revision_of_ours_is_accepted(version: str) -> None:
    play = Playbook()
    capabilities = {"roots": {"listChanged": True}}
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(shake, play.session, play.transport, capabilities)
        await eventually(lambda: play.transport.sent)
        offered = {"protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": CLIENT}
        play << {"id": 1, "method": "initialize", "params": offered}
        play >> {"method": "notifications/message", "params": {"data": "early"}} >> ask(0, "roots/list")
        result = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": {}, "instructions": "i"}
        play >> {"id": 1, "result": result}
    play << {"method": "notifications/initialized"}
    assert (play.session.protocol_version, play.session.instructions) == (version, "i")
    assert (len(play.ears.notifications), len(play.ears.asks)) == (1, 1)


@pytest.mark.anyio
async def test_a_refused_version_is_tried_again_only_as_far_as_both_speak_one() -> None:
    play = Playbook()
    failures: list[str] = []

    async def refused() -> None:
        try:
            await shake(play.session, play.transport, {})
        except CannotStart as error:
            failures.append(str(error))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(refused)
        for number, version in enumerate(("2025-11-25", "2025-06-18", "2024-11-05"), 1):
            await eventually(lambda: play.transport.sent)
            sent = play.transport.sent.pop(0)
            assert (sent["id"], sent["params"]["protocolVersion"]) == (number, version)
            data = {"supported": ["2024-11-05", "2025-06-18", "1999-01-01"]}
            play >> {"id": number, "error": {"code": -32602, "message": "no", "data": data}}
    assert failures == ["The server 'srv' refused to initialize: no (-32602)."]
    assert play.silent()


async def shake(session: Session, transport: ScriptedTransport, capabilities: dict[str, Any]) -> None:
    await handshake(session, transport, client_info=CLIENT, capabilities=capabilities)
