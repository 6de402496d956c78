"""Sessions that several principals share: evidence that would do between two calls of one is not enough."""

from __future__ import annotations

from tests.attribution.playbook import Give, Play, Refuse, Send, nothing


def shared() -> Play:
    """A call of ada's thinks, one of bob's runs."""
    play = Play(max_sessions=1, shared=True)
    play.place("a", "first", owner="ada") << Send("a", 1)
    play.asks(1, "q0") << Give("q0", "a")
    play.suspends("a") << nothing
    play.after(1.1) << nothing
    play.place("b", "second", owner="bob") << Send("b", 1)
    return play


def test_the_end_of_anothers_call_does_not_clear_it_of_an_ask() -> None:
    play = shared()
    play.asks(1, "q") << nothing
    play.ends("b") << Refuse("q")


def test_the_end_of_anothers_call_that_never_asks_does() -> None:
    play = Play(max_sessions=1, shared=True)
    play.quiet("read")
    play.place("a", "first", owner="ada") << Send("a", 1)
    play.place("b", "read", owner="bob") << Send("b", 1)
    play.asks(1, "q") << nothing
    play.ends("b") << Give("q", "a")


def test_the_end_of_ones_own_call_does_too() -> None:
    play = shared()
    play.asks(1, "q") << nothing
    play.ends("b") << Refuse("q")
    play.place("c", "second", owner="ada") << Send("c", 1)
    play.asks(1, "q2") << nothing
    play.ends("c") << Give("q2", "a")


def test_a_ghost_of_anothers_lasts_as_long_as_any_may() -> None:
    play = Play(max_sessions=1, shared=True)
    play.knowledge.learned_done("first", 0.1)
    play.place("a", "first", owner="ada") << Send("a", 1)
    play.cancels("a") << nothing
    play.place("b", "second", owner="bob") << nothing
    play.after(5) << Send("b", 1)
    play.asks(1, "q") << nothing
    play.after(2.1) << Refuse("q")
