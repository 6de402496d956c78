"""A call that becomes a task: when, and what it is from then on."""

from __future__ import annotations

from typing import Any

import pytest

from bridge import outcomes as o
from bridge.timing import Phase
from legacy.messages import Result
from tests.call.playbook import (
    ACCEPT,
    SAMPLE,
    SAMPLED,
    Playbook,
    ProtocolError,
    StepUsed,
    after,
    asks,
    dies,
    fails,
    form,
    gone,
    made_task,
    replies,
    resumed,
    retry,
    sent,
    start,
    task_cancelled,
    update,
    withdraws,
)


def running(**options: Any) -> Playbook:
    play = Playbook(siblings=0.0, takes_tasks=True, **options)
    play >> start("a") << "begin"
    play >> sent
    return play


def task(**options: Any) -> Playbook:
    play = running(**options) >> made_task
    play >> after(0.2) << "a: task"
    return play


def asked(play: Playbook) -> list[str]:
    return list(play.call.input_requests)


# -- when --------------------------------------------------------------------------------------------------------------


def test_what_the_server_makes_a_task_is_one_when_it_does_not_end_at_once() -> None:
    play = running() >> made_task
    play >> after(0.05)
    play >> after(0.06) << "a: task"
    play = running() >> made_task
    play >> after(0.05) >> replies("quick") << "a: complete quick"


def test_it_is_one_when_it_asks() -> None:
    play = running() >> made_task >> asks("x") << "a: task" << "suspend"
    assert asked(play) == ["elicit-1"]


def test_for_a_client_that_takes_no_tasks_the_server_may_make_them_as_it_likes() -> None:
    play = Playbook(siblings=0.0, task_after=1)
    play >> start("a") << "begin"
    play >> sent >> made_task >> after(5) >> asks("x") << "a: round 1: elicit-1" << "suspend"


def test_a_call_becomes_a_task_when_it_has_taken_long_enough() -> None:
    play = running(task_after=10) >> after(10.05)
    play >> after(0.06) << "a: task"


def test_time_without_a_leg_counts_but_it_takes_a_leg_to_hear_of_the_task() -> None:
    play = running(task_after=10) >> asks("x") << "a: round 1: elicit-1" << "suspend"
    play >> after(60)
    play >> retry("b", 1, elicit_1=ACCEPT) << "resume"
    play >> resumed << "answer x accept"
    play >> after(0.11) << "b: task"


def test_the_leg_that_brings_an_answer_still_gets_a_quick_result() -> None:
    play = running(task_after=10) >> asks("x") << "a: round 1: elicit-1" << "suspend"
    play >> after(60)
    play >> retry("b", 1, elicit_1=ACCEPT) << "resume"
    play >> resumed << "answer x accept"
    play >> replies("quick") << "b: complete quick"


def test_the_ninth_round_is_not_asked_for() -> None:
    play = running(task_after=1000)
    for number in range(1, 9):
        play >> asks(f"x{number}") << f"{'a' if number == 1 else number}: round {number}: elicit-{number}" << "suspend"
        play >> retry(str(number + 1), number, **{f"elicit_{number}": ACCEPT}) << "resume"
        play >> resumed << f"answer x{number} accept"
    play >> asks("x9") << "9: task" << "suspend"
    assert asked(play) == ["elicit-9"]


# -- what it is from then on -------------------------------------------------------------------------------------------


def test_answers_come_in_any_phase_and_each_is_delivered_once() -> None:
    play = task() >> asks("x") << "suspend"
    play >> asks("y", SAMPLE) >> asks("z")
    assert asked(play) == ["elicit-1", "sample-2", "elicit-3"]
    play >> update(elicit_1=ACCEPT) << "resume"
    assert asked(play) == ["sample-2", "elicit-3"]
    play >> update(sample_2=SAMPLED)  # while the first waits for its turn
    assert asked(play) == ["elicit-3"]
    play.siblings = 0.05
    play >> resumed << "answer x accept" << "answer y"
    assert play.call.phase is Phase.GATHERING
    play >> update(elicit_1=ACCEPT, elicit_3=ACCEPT) << "answer z accept"  # while others may join those that are left
    play >> replies("done")
    assert play.call.outcome == o.Complete({"text": "done"})
    play.end()


def test_an_update_that_answers_nothing_changes_nothing() -> None:
    play = task() >> asks("x") << "suspend"
    play >> update(other=ACCEPT)
    with pytest.raises(ProtocolError):
        update(elicit_1=7)(play)
    assert asked(play) == ["elicit-1"]
    play >> replies("done") << "answer x cancel"
    play >> update(elicit_1=ACCEPT)


def test_what_the_server_takes_back_is_not_asked_any_more() -> None:
    play = task() >> asks("x") << "suspend"
    play >> withdraws("x") << "resume"
    assert asked(play) == []
    play >> asks("again") << "suspend"  # the same question, which nobody has answered
    play >> asks("other", SAMPLE)
    assert asked(play) == ["elicit-1", "sample-2"]


def test_what_the_client_cannot_be_asked_is_refused_alone() -> None:
    play = Playbook(siblings=0.0, takes_tasks=True, declares={"sampling": {}})
    play >> start("a") << "begin"
    play >> sent >> made_task
    play >> after(0.2) << "a: task"
    play >> asks("x") << "refuse x -32601"
    play >> asks("y", SAMPLE) << "suspend"
    assert asked(play) == ["sample-2"]
    play >> update(sample_2=SAMPLED) << "resume"
    play >> resumed << "answer y"
    play >> fails()
    outcome = play.call.outcome
    assert isinstance(outcome, o.Failed)
    assert outcome.error.data == {"requiredCapabilities": {"elicitation": {"form": {}}}}


def test_no_other_limit_than_its_own_ends_it() -> None:
    play = task(silence=5, call_ttl=10, elicitation_ttl=5, task_ttl=100) >> after(30)
    play >> asks("x") << "suspend"
    play >> after(60)
    assert asked(play) == ["elicit-1"]
    play >> after(10) << "cancel" << "answer x cancel"
    outcome = play.call.outcome
    assert isinstance(outcome, o.Failed)
    assert "--task-ttl" in outcome.error.message


def test_a_leg_that_goes_after_it_was_answered_is_no_client_that_goes_away() -> None:
    play = task() >> gone("a") >> after(5)
    play >> replies("done")
    assert play.call.outcome == o.Complete({"text": "done"})


def test_to_cancel_it_is_its_end() -> None:
    play = task() >> asks("x") << "suspend"
    play >> task_cancelled << "cancel" << "answer x cancel"
    assert play.call.outcome == o.Cancelled()
    play >> task_cancelled >> replies("late")
    assert play.call.outcome == o.Cancelled()


def test_what_the_server_cancels_is_cancelled() -> None:
    play = task()
    play >> (lambda play: play.call.feed(o.Replied(Result({}), cancelled=True), play.now))
    assert play.call.outcome == o.Cancelled()
    play = running() >> made_task
    play >> (lambda play: play.call.feed(o.Replied(Result({}), cancelled=True), play.now)) << "a: error -32603"


def test_the_leg_that_was_told_of_the_task_is_told_so_again_whatever_has_become_of_it() -> None:
    play = running() >> asks("x") << "a: round 1: elicit-1" << "suspend"
    play >> retry("b", 1, elicit_1=ACCEPT) << "resume"
    play >> resumed << "answer x accept"
    play >> made_task >> after(0.2) << "b: task"
    play >> retry("c", 1, elicit_1=ACCEPT) << "c: task"
    play >> replies("done")
    play >> retry("d", 1, elicit_1=ACCEPT) << "d: task"
    for step, answers in ((1, {}), (2, {}), (2, {"elicit_1": ACCEPT})):
        with pytest.raises(StepUsed):
            retry("e", step, **answers)(play)


# -- running again -----------------------------------------------------------------------------------------------------


def test_a_question_that_the_server_gave_up_stands_where_its_answer_still_counts() -> None:
    play = task(replayable=True) >> asks("x") << "suspend"
    play >> withdraws("x") << "resume"
    assert asked(play) == ["elicit-1"]
    play >> replies("too late", isError=True)
    assert asked(play) == ["elicit-1"]
    assert play.call.outcome is None
    play >> update(elicit_1=ACCEPT) << "begin"
    assert asked(play) == []
    play >> sent >> asks("x2") << "answer x2 accept"
    play >> replies("hello")
    assert play.call.outcome == o.Complete({"text": "hello"})


def test_an_answer_that_comes_while_the_server_goes_on_counts_in_the_next_attempt() -> None:
    play = task(replayable=True) >> asks("x") << "suspend"
    play >> withdraws("x") << "resume"
    play >> update(elicit_1=ACCEPT)
    play >> dies << "begin"
    play >> sent >> asks("x2") << "answer x2 accept"


def test_a_result_that_is_good_without_the_answer_is_not_held_back() -> None:
    play = task(replayable=True) >> asks("x") << "suspend"
    play >> replies("did without") << "answer x cancel"
    assert play.call.outcome == o.Complete({"text": "did without"})


def test_elsewhere_nothing_is_run_again() -> None:
    play = task() >> asks("x") << "suspend"
    play >> withdraws("x") << "resume"
    assert asked(play) == []
    play >> dies
    assert isinstance(play.call.outcome, o.Failed)


def test_a_page_that_the_server_wants_visited_is_input_too() -> None:
    pages = {"elicitations": [{"mode": "url", "elicitationId": "e", "url": "https://sign.in/", "message": "Sign in."}]}
    play = task() >> fails(-32042, "", pages) << "await sign-in e"
    assert asked(play) == ["elicit-1"]
    play >> update(elicit_1={"action": "accept"})
    play >> after(30) << "begin"
    play >> sent >> replies("signed in")
    assert play.call.outcome == o.Complete({"text": "signed in"})


def test_only_forms_that_can_be_shown_are_input() -> None:
    impossible = ("elicitation/create", form({"type": "object", "properties": {"a": {"type": "object"}}}))
    play = task() >> asks("x", impossible) << "refuse x -32602"
    assert asked(play) == []
