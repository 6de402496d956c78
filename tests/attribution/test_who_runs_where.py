"""Rules 1 and 2: who runs where."""

from __future__ import annotations

from tests.attribution.playbook import Forgotten, Give, Play, Refuse, Resume, Send, nothing, opened

# Rule 1.


def test_the_first_call_starts_the_first_session_and_all_wait_for_it() -> None:
    play = Play(sessions=0)
    play.place("a") << opened
    play.place("b") << nothing
    play.lists("c") << nothing
    play.opens() << (Send("a", 1), opened, Send("c", 1))
    play.opens() << Send("b", 2)


def test_calls_one_after_the_other_all_go_to_the_primary() -> None:
    play = Play()
    for name in "abcd":
        play.place(name, f"tool {name}") << Send(name, 1)
        play.ends(name) << nothing


def test_a_call_that_may_ask_beside_another_gets_a_session_of_its_own() -> None:
    play = Play()
    play.place("a") << Send("a", 1)
    play.place("b") << opened
    play.opens() << Send("b", 2)


def test_an_idle_session_of_the_pool_is_taken_before_a_new_one_is_started() -> None:
    play = Play(sessions=2)
    play.place("a") << Send("a", 1)
    play.place("b") << Send("b", 2)


def test_quiet_calls_run_beside_it_any_number() -> None:
    play = Play()
    play.quiet("read")
    play.place("a") << Send("a", 1)
    for name in "bcd":
        play.place(name, "read") << Send(name, 1)


def test_plain_requests_and_calls_of_clients_that_declared_nothing_need_no_turn() -> None:
    play = Play()
    play.place("a") << Send("a", 1)
    play.lists("b") << Send("b", 1)
    play.place("c", "deploy", may_be_asked=False) << Send("c", 1)


def test_a_session_with_a_suspended_call_is_avoided_for_a_minute() -> None:
    play = Play(sessions=2)
    play.place("a") << Send("a", 1)
    play.asks(1, "q") << Give("q", "a")
    play.suspends("a") << nothing
    play.place("b") << Send("b", 2)
    play.ends("b") << nothing
    play.after(60) << nothing
    play.place("c") << Send("c", 1)


def test_when_no_more_may_be_started_one_whose_askers_are_suspended_is_taken() -> None:
    play = Play(max_sessions=1)
    play.one("tool")
    play.place("a") << Send("a", 1)
    play.asks(1, "q") << Give("q", "a")
    play.place("b") << nothing
    play.suspends("a") << Send("b", 1)


def test_when_all_are_busy_a_call_waits_its_turn() -> None:
    play = Play(max_sessions=2, sessions=2)
    play.place("a") << Send("a", 1)
    play.place("b") << Send("b", 2)
    play.place("c") << nothing
    play.place("d") << nothing
    play.ends("b") << Send("c", 2)
    play.ends("a") << Send("d", 1)


def test_calls_that_wait_go_when_their_tool_turns_out_quiet() -> None:
    play = Play(max_sessions=1)
    for name in "abcde":
        play.place(name, "read")
    play.place("f", "read") << nothing
    for name, then in zip("abcd", "bcde", strict=True):
        play.ends(name) << Send(then, 1)
    play.place("g", "deploy") << nothing
    play.ends("e") << (Send("f", 1), Send("g", 1))


def test_a_session_without_unlabelled_asks_needs_no_turns() -> None:
    play = Play(sessions=0)
    play.place("a") << opened
    play.place("b") << nothing
    play.opens(unlabelled=False) << (Send("a", 1), Send("b", 1))
    play.place("c") << Send("c", 1)


def test_a_tool_that_asks_on_its_posts_stream_needs_no_turn_until_it_asks_elsewhere() -> None:
    play = Play(sessions=2)
    play.place("a", "deploy") << Send("a", 1)
    play.asks(1, "q1", label="a") << Give("q1", "a")
    play.closed("q1") << nothing
    play.place("b", "deploy") << Send("b", 1)
    play.ends("a") << nothing
    play.asks(1, "q2") << Give("q2", "b")
    play.closed("q2") << nothing
    play.place("c", "deploy") << Send("c", 2)


def test_a_tasks_label_does_not_free_its_tool_from_turns() -> None:
    play = Play(sessions=2)
    play.place("a", "deploy") << Send("a", 1)
    play.asks(1, "q1", label="a", on_post=False) << Give("q1", "a")
    play.place("b", "deploy") << Send("b", 2)


def test_a_session_that_cannot_be_started_is_not_tried_again_at_once() -> None:
    play = Play()
    play.place("a") << Send("a", 1)
    play.place("b") << opened
    play.cannot_open() << nothing
    play.place("c") << nothing
    play.ends("a") << Send("b", 1)
    play.after(30) << opened
    play.opens() << Send("c", 2)


def test_the_next_oldest_becomes_the_primary_when_it_ends() -> None:
    play = Play(sessions=2)
    play.place("a") << Send("a", 1)
    play.closes(1) << nothing
    play.lists("b") << Send("b", 2)
    play.ends("a") << nothing


def test_calls_wait_for_a_new_session_when_the_only_one_ends() -> None:
    play = Play(max_sessions=1)
    play.place("a") << Send("a", 1)
    play.place("b") << nothing
    play.closes(1) << opened
    play.opens() << Send("b", 2)


def test_a_call_that_was_cancelled_while_it_waited_is_no_ghost() -> None:
    play = Play(max_sessions=1)
    play.place("a") << Send("a", 1)
    play.place("b") << nothing
    play.cancels("b") << nothing
    play.ends("a") << nothing
    assert play.rules.is_idle


# Rule 2.


def test_a_call_resumes_before_calls_that_have_not_started() -> None:
    play = Play(max_sessions=1)
    play.one("tool")
    play.place("a") << Send("a", 1)
    play.asks(1, "q") << Give("q", "a")
    play.suspends("a") << nothing
    play.place("b") << Send("b", 1)
    play.place("c") << nothing
    play.resumes("a") << nothing
    play.ends("b") << Resume("a")
    play.closed("q") << nothing
    play.ends("a") << Send("c", 1)


def test_a_call_waits_5_s_for_its_turn_then_resumes_anyway() -> None:
    play = Play(max_sessions=1)
    play.one("tool")
    play.place("a") << Send("a", 1)
    play.asks(1, "q") << Give("q", "a")
    play.suspends("a") << nothing
    play.place("b") << Send("b", 1)
    play.resumes("a") << nothing
    play.after(4.9) << nothing
    play.after(0.2) << Resume("a")


def test_a_tool_that_asks_several_things_at_once_keeps_the_turn() -> None:
    play = Play(max_sessions=1)
    play.many("wizard")
    play.place("a", "wizard") << Send("a", 1)
    play.asks(1, "q") << Give("q", "a")
    play.suspends("a") << nothing
    play.place("b") << nothing
    play.resumes("a") << Resume("a")
    play.closed("q") << nothing
    play.ends("a") << Send("b", 1)


def test_but_not_for_longer_than_it_has_ever_taken_to_ask_them_all() -> None:
    play = Play(max_sessions=1)
    for _ in range(3):
        play.knowledge.learned_ask("wizard", 1, gap=0.1)
    play.place("a", "wizard") << Send("a", 1)
    play.asks(1, "q") << Give("q", "a")
    play.suspends("a") << nothing
    play.place("b") << nothing
    play.after(0.9) << nothing
    play.after(0.2) << Send("b", 1)
    play.resumes("a") << nothing  # and takes its turn like any other
    play.ends("b") << Resume("a")


def test_a_tool_that_turns_out_to_ask_many_keeps_it_until_it_is_known_for_how_long() -> None:
    play = Play(max_sessions=1)
    play.place("a", "wizard") << Send("a", 1)
    play.asks(1, "q1") << Give("q1", "a")
    play.suspends("a") << nothing
    play.after(0.5) << nothing
    play.asks(1, "q2") << Give("q2", "a")
    play.place("b") << nothing
    play.after(60) << nothing
    play.resumes("a") << Resume("a")


def test_asking_on_keeps_the_turn() -> None:
    play = Play(max_sessions=1)
    for _ in range(3):
        play.knowledge.learned_ask("wizard", 1, gap=0.1)
    play.place("a", "wizard") << Send("a", 1)
    for number in range(3):
        play.asks(1, f"q{number}") << Give(f"q{number}", "a")
        play.suspends("a") << nothing
        play.after(0.9) << nothing
    play.place("b") << nothing
    play.after(1.7) << nothing  # three times the 0.9 s that it has taken from one to the next by now
    play.after(0.2) << Send("b", 1)


# Rule 8, as far as it is about where calls run.


def test_a_session_with_a_ghost_takes_no_new_call_if_another_can_be_had() -> None:
    play = Play()
    play.place("a") << Send("a", 1)
    play.cancels("a") << nothing
    play.place("b") << opened
    play.opens() << Send("b", 2)


def test_if_none_can_be_had_a_call_waits_5_s_for_the_ghost_to_end() -> None:
    play = Play(max_sessions=1)
    play.place("a") << Send("a", 1)
    play.cancels("a") << nothing
    play.place("b") << nothing
    play.after(4.9) << nothing
    play.after(0.2) << Send("b", 1)


def test_a_ghost_ends_when_the_server_answers_it() -> None:
    play = Play(max_sessions=1)
    play.place("a") << Send("a", 1)
    play.cancels("a") << nothing
    play.place("b") << nothing
    play.ghost_ends("a") << Send("b", 1)


def test_a_ghost_of_an_unknown_tool_is_forgotten_after_10_s() -> None:
    play = Play()
    play.place("a") << Send("a", 1)
    play.cancels("a") << nothing
    play.after(9.9) << nothing
    play.after(0.2) << Forgotten("a")
    assert play.rules.is_idle
    assert play.rules.counters.ghosts_forgotten == 1


def test_a_ghost_is_forgotten_after_twice_the_longest_run_of_its_tool_within_bounds() -> None:
    play = Play()
    for longest, life in ((0.1, 2), (4, 8), (100, 60)):
        tool = f"takes {longest}"
        play.knowledge.learned_done(tool, longest)
        play.place("a", tool) << Send("a", 1)
        play.cancels("a") << nothing
        play.after(life - 0.1) << nothing
        play.after(0.2) << Forgotten("a")


def test_a_quiet_ghost_keeps_nobody_away() -> None:
    play = Play()
    play.quiet("read")
    play.place("a", "read") << Send("a", 1)
    play.cancels("a") << nothing
    play.place("b") << Send("b", 1)


def test_a_ghosts_ask_is_refused_and_shows_that_it_lives() -> None:
    play = Play()
    play.place("a") << Send("a", 1)
    play.cancels("a") << nothing
    play.after(9) << nothing
    play.asks(1, "q") << Refuse("q")
    play.after(9) << nothing
    play.after(2) << Forgotten("a")
