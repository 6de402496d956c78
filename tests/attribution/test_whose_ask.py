"""Rules 3 to 8: whose ask it is."""

from __future__ import annotations

from bridge.knowledge import Kind
from tests.attribution.playbook import Forgotten, Give, Play, Refuse, Resume, Send, Withdraw, nothing


def two_that_may_ask() -> Play:
    """One has resumed without the turn that the other has."""
    play = Play(max_sessions=1)
    play.one("first")
    play.place("a", "first") << Send("a", 1)
    play.asks(1, "q0") << Give("q0", "a")
    play.suspends("a") << nothing
    play.place("b", "second") << Send("b", 1)
    play.resumes("a") << nothing
    play.after(5) << Resume("a")
    play.closed("q0") << nothing
    return play


# Labels.


def test_a_label_is_believed_whatever_else_runs() -> None:
    play = two_that_may_ask()
    play.asks(1, "q", label="b") << Give("q", "b")


def test_a_label_of_a_call_that_is_over_is_not_replaced_by_a_guess() -> None:
    play = Play()
    play.place("a") << Send("a", 1)
    play.ends("a") << nothing
    play.place("b") << Send("b", 1)
    play.asks(1, "q", label="a") << Refuse("q")


def test_a_label_of_a_plain_request_is_refused() -> None:
    play = Play()
    play.lists("a") << Send("a", 1)
    play.asks(1, "q", label="a") << Refuse("q")


# Rule 3.


def test_one_candidate_it_is_that_one() -> None:
    play = Play()
    play.place("a") << Send("a", 1)
    play.asks(1, "q") << Give("q", "a")


def test_an_ask_while_nothing_runs_is_refused() -> None:
    play = Play()
    play.asks(1, "q") << Refuse("q")


def test_a_run_on_another_session_is_no_candidate() -> None:
    play = Play(sessions=2)
    play.place("a") << Send("a", 1)
    play.asks(2, "q") << Refuse("q")


def test_while_a_call_of_a_tool_that_is_hardly_known_may_ask_on_no_other_runs_beside_it() -> None:
    play = Play(max_sessions=1)
    play.place("a", "gappy") << Send("a", 1)
    play.asks(1, "q1") << Give("q1", "a")
    play.suspends("a") << nothing
    play.place("b", "second") << nothing
    play.after(0.3) << nothing
    play.asks(1, "q2") << Give("q2", "a")
    assert play.knowledge.kind("gappy") is Kind.MANY


def test_a_second_after_its_ask_a_suspended_call_is_no_candidate_beside_a_running_one() -> None:
    play = Play(max_sessions=1)
    play.place("a", "first") << Send("a", 1)
    play.asks(1, "q1") << Give("q1", "a")
    play.suspends("a") << nothing
    play.place("b", "second") << nothing
    play.after(1.1) << Send("b", 1)
    play.asks(1, "q2") << Give("q2", "b")


def test_a_tool_known_to_ask_one_by_one_is_none_right_after_its_ask() -> None:
    play = Play(max_sessions=1)
    play.one("first")
    play.place("a", "first") << Send("a", 1)
    play.asks(1, "q1") << Give("q1", "a")
    play.suspends("a") << nothing
    play.place("b", "second") << Send("b", 1)
    play.asks(1, "q2") << Give("q2", "b")


def test_one_of_a_tool_that_asks_many_is_none_when_it_has_most_likely_asked_them_all() -> None:
    play = Play(max_sessions=1)
    for _ in range(3):
        play.knowledge.learned_ask("wizard", 1, gap=0.5)
    play.place("a", "wizard") << Send("a", 1)
    play.asks(1, "q1") << Give("q1", "a")
    play.suspends("a") << nothing
    play.place("b", "second") << nothing
    play.after(1.4) << nothing
    play.after(0.2) << Send("b", 1)
    play.asks(1, "q2") << Give("q2", "b")


def test_if_only_one_suspended_call_is_there_it_is_that_one_and_it_asks_many() -> None:
    play = Play()
    play.place("a", "wizard") << Send("a", 1)
    play.asks(1, "q1") << Give("q1", "a")
    play.suspends("a") << nothing
    assert play.knowledge.kind("wizard") is Kind.ONE
    play.asks(1, "q2") << Give("q2", "a")
    assert play.knowledge.kind("wizard") is Kind.MANY


# Rule 4.


def test_of_several_the_one_that_may_ask_is_inferred_after_100_ms() -> None:
    play = Play()
    play.quiet("read", took=10)
    play.place("a", "read") << Send("a", 1)
    play.place("b", "deploy") << Send("b", 1)
    play.asks(1, "q") << nothing
    play.after(0.09) << nothing
    play.after(0.02) << Give("q", "b", inferred=True)
    assert play.rules.counters.inferred == 1


def test_the_others_finish_and_nothing_is_inferred() -> None:
    play = Play()
    play.quiet("read")
    play.place("a", "read") << Send("a", 1)
    play.place("b", "deploy") << Send("b", 1)
    play.asks(1, "q") << nothing
    play.ends("a") << Give("q", "b")


def test_a_quiet_tool_that_asks_after_all_is_found_when_the_others_finish() -> None:
    play = Play()
    play.quiet("read")
    play.place("a", "read") << Send("a", 1)
    play.place("b", "deploy") << Send("b", 1)
    play.asks(1, "q") << nothing
    play.ends("b") << Give("q", "a")
    assert play.knowledge.kind("read") is Kind.ONE


def test_nothing_is_inferred_while_a_quiet_call_takes_longer_than_any_before_it() -> None:
    play = Play()
    play.quiet("read", took=0.01)
    play.place("a", "read") << Send("a", 1)
    play.place("b", "deploy") << Send("b", 1)
    play.asks(1, "q") << nothing
    play.after(0.2) << nothing
    play.ends("b") << Give("q", "a")


def test_strict_refuses_instead_of_inferring() -> None:
    play = Play(strict=True)
    play.quiet("read", took=10)
    play.place("a", "read") << Send("a", 1)
    play.place("b", "deploy") << Send("b", 1)
    play.asks(1, "q") << nothing
    play.after(0.11) << Refuse("q")


# Rule 5.


def test_two_that_may_ask_are_told_apart_when_one_ends() -> None:
    play = two_that_may_ask()
    play.asks(1, "q") << nothing
    play.after(1.9) << nothing
    play.ends("b") << Give("q", "a")


def test_two_that_may_ask_are_refused_after_2_s() -> None:
    play = two_that_may_ask()
    play.asks(1, "q") << nothing
    play.after(1.99) << nothing
    play.after(0.02) << Refuse("q")


def test_after_a_refusal_quiet_candidates_take_turns() -> None:
    play = Play()
    play.quiet("read", "write", took=10)
    play.place("a", "read") << Send("a", 1)
    play.place("b", "write") << Send("b", 1)
    play.asks(1, "q") << nothing
    play.after(2.1) << Refuse("q")
    assert play.knowledge.needs_turn("read")
    assert play.knowledge.needs_turn("write")


# Rule 6.


def test_if_only_plain_requests_are_candidates_it_is_refused_at_once() -> None:
    play = Play()
    play.lists("a") << Send("a", 1)
    play.asks(1, "q") << Refuse("q")


def test_if_only_a_plain_request_is_left_it_is_refused_at_once() -> None:
    play = Play()
    play.lists("a") << Send("a", 1)
    play.place("b") << Send("b", 1)
    play.asks(1, "q") << nothing
    play.ends("b") << Refuse("q")


# Rule 7.


def test_an_inferred_ask_of_a_call_that_ends_is_taken_back_and_judged_again() -> None:
    play = Play()
    play.quiet("read", took=10)
    play.place("a", "read") << Send("a", 1)
    play.place("b", "deploy") << Send("b", 1)
    play.asks(1, "q") << nothing
    play.after(0.11) << Give("q", "b", inferred=True)
    assert play.knowledge.kind("deploy") is Kind.ONE
    play.ends("b") << (Withdraw("q", "b"), Give("q", "a"))
    assert play.knowledge.kind("deploy") is Kind.UNKNOWN
    assert play.knowledge.kind("read") is Kind.ONE
    assert play.rules.counters.mended == 1


def test_it_is_refused_if_nobody_is_left() -> None:
    play = Play()
    play.quiet("read", took=10)
    play.place("a", "read") << Send("a", 1)
    play.place("b", "deploy") << Send("b", 1)
    play.asks(1, "q") << nothing
    play.after(0.11) << Give("q", "b", inferred=True)
    play.ends("a") << nothing
    play.ends("b") << (Withdraw("q", "b"), Refuse("q"))


def test_an_ask_that_the_server_withdrew_was_no_mistake() -> None:
    play = Play()
    play.quiet("read", took=10)
    play.place("a", "read") << Send("a", 1)
    play.place("b", "deploy") << Send("b", 1)
    play.asks(1, "q") << nothing
    play.after(0.11) << Give("q", "b", inferred=True)
    play.closed("q") << nothing
    play.ends("b") << nothing
    assert play.knowledge.kind("deploy") is Kind.ONE


def test_an_ask_that_was_certainly_its_own_ends_with_its_call() -> None:
    play = Play()
    play.place("a") << Send("a", 1)
    play.asks(1, "q") << Give("q", "a")
    play.ends("a") << Refuse("q")
    assert play.knowledge.kind("tool") is Kind.ONE
    assert play.rules.is_idle


# Rule 8.


def test_a_ghost_that_may_ask_counts_and_the_ask_is_refused() -> None:
    play = Play(max_sessions=1)
    play.place("a", "first") << Send("a", 1)
    play.cancels("a") << nothing
    play.place("b", "second") << nothing
    play.after(5) << Send("b", 1)
    play.asks(1, "q") << nothing
    play.after(2.1) << Refuse("q")


def test_a_quiet_ghost_does_not_keep_an_ask_from_its_call() -> None:
    play = Play()
    play.quiet("read", took=10)
    play.place("a", "read") << Send("a", 1)
    play.cancels("a") << nothing
    play.place("b", "deploy") << Send("b", 1)
    play.asks(1, "q") << nothing
    play.after(0.11) << Give("q", "b", inferred=True)


def test_a_ghost_is_not_forgotten_while_an_ask_may_be_its() -> None:
    play = Play(max_sessions=1)
    play.knowledge.learned_done("first", 3.4)
    play.place("a", "first") << Send("a", 1)
    play.cancels("a") << nothing
    play.place("b", "second") << nothing
    play.after(5) << Send("b", 1)
    play.asks(1, "q") << nothing
    play.after(2.1) << Refuse("q")
    play.after(60) << Forgotten("a")


def test_what_happens_to_a_call_that_is_over_changes_nothing() -> None:
    play = Play()
    play.place("a") << Send("a", 1)
    play.ends("a") << nothing
    play.ends("a") << nothing
    play.cancels("a") << nothing
    play.suspends("a") << nothing
    play.resumes("a") << nothing
    play.ghost_ends("a") << nothing
    assert play.rules.is_idle
    assert play.rules.deadline() is None


def test_where_nothing_may_be_inferred_a_suspended_call_of_a_tool_hardly_known_may_have_asked() -> None:
    play = Play(max_sessions=1, strict=True)
    play.place("a", "gappy") << Send("a", 1)
    play.asks(1, "q1") << Give("q1", "a")
    play.suspends("a") << nothing
    play.place("b", "other") << nothing
    play.after(1.1) << Send("b", 1)
    play.after(60) << nothing
    play.asks(1, "q2") << nothing  # a may ask two things, a minute apart
    play.after(0.11) << nothing
    play.after(2) << Refuse("q2")
