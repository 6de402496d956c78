"""Roots: an ask for them needs no owner, and no list carries one (rule 6)."""

from __future__ import annotations

from bridge.knowledge import Kind
from tests.attribution.playbook import Give, Hold, LastRoots, Play, Refuse, Resume, Send, Withdraw, nothing


def test_roots_for_a_list_get_the_last_answer() -> None:
    play = Play()
    play.lists("a") << Send("a", 1)
    play.asks_roots(1, "r", last_roots=True) << LastRoots("r")


def test_held_roots_lapse_if_a_list_is_still_open_after_2_s() -> None:
    play = Play()
    play.lists("a") << Send("a", 1)
    play.asks_roots(1, "r") << Hold("r")
    play.after(1.9) << nothing
    play.after(0.2) << Refuse("r", lapsed=True)
    assert play.rules.counters.lapsed == 1


def test_held_roots_stay_held_if_the_list_ended() -> None:
    play = Play()
    play.lists("a") << Send("a", 1)
    play.asks_roots(1, "r") << Hold("r")
    play.ends("a") << nothing
    play.after(50) << nothing
    play.place("b") << (Send("b", 1), Give("r", "b"))


def test_a_list_that_starts_later_has_its_own_2_s() -> None:
    play = Play()
    play.asks_roots(1, "r") << Hold("r")
    play.after(30) << nothing
    play.lists("a") << Send("a", 1)
    play.after(1.9) << nothing
    play.after(0.2) << Refuse("r", lapsed=True)


def test_when_roots_are_known_every_session_that_waits_for_them_has_them() -> None:
    play = Play(sessions=2)
    play.asks_roots(1, "r1") << Hold("r1")
    play.asks_roots(2, "r2") << Hold("r2")
    play.closed("r1") << nothing
    play.roots_known() << LastRoots("r2")
    play.place("a") << Send("a", 1)
    assert play.rules.roots_known() == []


def test_any_running_call_carries_roots_the_one_with_the_turn_first() -> None:
    play = Play()
    play.quiet("read")
    play.place("a", "deploy") << Send("a", 1)
    play.place("b", "read") << Send("b", 1)
    play.asks_roots(1, "r1") << Give("r1", "a")
    play.ends("a") << (Withdraw("r1", "a"), Give("r1", "b"))


def test_the_newest_quiet_call_carries_roots_if_none_has_the_turn() -> None:
    play = Play()
    play.quiet("read")
    play.place("a", "read") << Send("a", 1)
    play.place("b", "read") << Send("b", 1)
    play.asks_roots(1, "r") << Give("r", "b")


def test_roots_while_nothing_runs_are_held_for_a_call_that_goes_on() -> None:
    play = Play()
    play.place("a") << Send("a", 1)
    play.asks(1, "q") << Give("q", "a")
    play.suspends("a") << nothing
    play.asks_roots(1, "r") << Hold("r")
    play.resumes("a") << (Resume("a"), Give("r", "a"))


def test_roots_do_not_make_a_tool_one_that_asks() -> None:
    play = Play()
    for _ in range(5):
        play.place("a", "read") << Send("a", 1)
        play.asks_roots(1, "r") << Give("r", "a")
        play.closed("r") << nothing
        play.ends("a") << nothing
    assert play.knowledge.kind("read") is Kind.QUIET
