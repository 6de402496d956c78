"""Servers that read answers inline: one run on a session at a time, whatever it is."""

from __future__ import annotations

from tests.attribution.playbook import EndSession, Give, Play, Refuse, Resume, Send, nothing, opened


def test_every_run_needs_a_session_of_its_own() -> None:
    play = Play(max_sessions=2, one_call=True)
    play.quiet("read")
    play.lists("a") << Send("a", 1)
    play.place("b", "read") << opened
    play.opens() << Send("b", 2)
    play.lists("c") << nothing
    play.ends("b") << Send("c", 2)


def test_a_suspended_call_keeps_its_session_and_resumes_at_once() -> None:
    play = Play(max_sessions=1, one_call=True)
    play.place("a") << Send("a", 1)
    play.asks(1, "q") << Give("q", "a")
    play.suspends("a") << nothing
    play.lists("b") << nothing
    play.after(120) << nothing
    play.resumes("a") << Resume("a")
    play.closed("q") << nothing
    play.ends("a") << Send("b", 1)


def test_an_ask_belongs_to_the_only_call_however_long_it_waits() -> None:
    play = Play(one_call=True)
    play.place("a") << Send("a", 1)
    for number in range(4):
        play.asks(1, f"q{number}") << Give(f"q{number}", "a")
        play.suspends("a") << nothing
        play.resumes("a") << Resume("a")
        play.closed(f"q{number}") << nothing


def test_a_ghost_keeps_its_session_until_the_server_ends_it() -> None:
    play = Play(max_sessions=1, one_call=True)
    play.place("a") << Send("a", 1)
    play.cancels("a") << nothing
    play.place("b") << nothing
    play.asks(1, "q") << Refuse("q")
    play.after(9) << nothing
    play.ghost_ends("a") << Send("b", 1)


def test_a_session_whose_ghost_outlives_its_time_is_ended() -> None:
    play = Play(max_sessions=1, one_call=True)
    play.place("a") << Send("a", 1)
    play.cancels("a") << nothing
    play.place("b") << nothing
    play.after(10.1) << EndSession(1)
    play.closes(1) << opened
    play.opens() << Send("b", 2)
