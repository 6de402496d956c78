"""In front of a server that reads answers inline: one request at a time, and nothing but answers beside it."""

from __future__ import annotations

from typing import Any

import pytest

from legacy.messages import Lost, Reply
from legacy.session import Session
from legacy.transports.one_call import OneCall
from tests.legacy.playbook import ScriptedTransport, ask
from tests.legacy.support import Ears


class Play:
    """A session over a scripted transport, with the gate between them."""

    def __init__(self) -> None:
        self.wire = ScriptedTransport()
        self.ears = Ears()
        gate = OneCall(self.wire)
        self.session = Session("srv", gate, self.ears)
        gate.attach(self.session)
        self.session.started()
        self.gate = gate
        self.replies: list[Reply] = []

    def call(self, method: str = "tools/call") -> int:
        return self.session.send(method, {}, self.replies.append)

    def says(self, **message: Any) -> None:
        self.gate.received({"jsonrpc": "2.0", **message})

    def sent(self) -> list[Any]:
        """Methods, and ids of answers, that went out since the last look."""
        sent = [message.get("method", message.get("id")) for message in self.wire.sent]
        self.wire.sent.clear()
        return sent


def test_a_second_request_waits_for_the_first() -> None:
    play = Play()
    first = play.call()
    play.call("tools/list")
    assert play.sent() == ["tools/call"]
    play.says(id=first, result={})
    assert play.sent() == ["tools/list"]
    assert len(play.replies) == 1


def test_answers_go_through_and_everything_else_waits_in_order() -> None:
    play = Play()
    first = play.call()
    play.session.notify("notifications/roots/list_changed")
    play.call("logging/setLevel")
    play.says(**ask("q1"))
    play.session.answer(play.ears.asks[0], {"action": "accept"})
    assert play.sent() == ["tools/call", "q1"]
    play.says(id=first, result={})
    assert play.sent() == ["notifications/roots/list_changed", "logging/setLevel"]


def test_what_means_nothing_afterwards_is_not_sent_at_all() -> None:
    play = Play()
    first = play.call()
    play.session.cancel(first, "gone")
    play.session.notify("notifications/progress", {"progressToken": 1, "progress": 1})
    play.says(id=first, result={})
    assert play.sent() == ["tools/call"]
    assert play.ears.ghosts == [first]


def test_a_cancelled_request_still_keeps_others_away_even_forgotten() -> None:
    play = Play()
    first = play.call()
    play.session.cancel(first, "gone")
    play.session.forget(first)
    play.call("tools/list")
    assert play.sent() == ["tools/call"]
    play.says(id=first, result={})
    assert play.sent() == ["tools/list"]


@pytest.mark.parametrize("how", ["answered", "withdrawn"])
def test_while_an_ask_outside_calls_is_open_nothing_is_sent(how: str) -> None:
    play = Play()
    play.says(**ask("r1", "roots/list"))
    play.call()
    assert play.sent() == []
    if how == "answered":
        play.session.answer(play.ears.asks[0], {"roots": []})
        assert play.sent() == ["r1", "tools/call"]
    else:
        play.says(method="notifications/cancelled", params={"requestId": "r1"})
        assert play.sent() == ["tools/call"]


def test_what_the_session_ignores_keeps_nothing_waiting() -> None:
    play = Play()
    play.says(id=True, method="roots/list")
    play.call()
    assert play.sent() == ["tools/call"]


def test_a_servers_ping_is_answered_at_once() -> None:
    play = Play()
    play.call()
    play.says(id="p1", method="ping")
    assert play.sent() == ["tools/call", "p1"]


def test_a_request_that_waits_can_be_dropped() -> None:
    play = Play()
    first = play.call()
    second = play.call("tools/list")
    play.session.cancel(second, "gone")
    play.session.forget(second)
    play.says(id=first, result={})
    assert play.sent() == ["tools/call"]


def test_a_request_that_is_lost_makes_room() -> None:
    play = Play()
    first = play.call()
    play.call("tools/list")
    play.gate.request_lost(first, "unreadable", processed=True)
    assert isinstance(play.replies[0], Lost)
    assert play.sent() == ["tools/call", "tools/list"]
