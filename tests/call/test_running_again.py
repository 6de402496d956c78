"""A server that does not wait for its answers: where running again is harmless, the answer counts all the same."""

from __future__ import annotations

from typing import Any

import pytest

from bridge import outcomes as o
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
    replies,
    resumed,
    retry,
    sent,
    start,
    withdraws,
)

AGE = ("elicitation/create", form({"type": "object", "properties": {"age": {"type": "integer"}}}))
OLD = {"action": "accept", "content": {"age": 36}}


def suspended(*, replayable: bool = True, **options: Any) -> Playbook:
    play = Playbook(siblings=0.0, replayable=replayable, **options)
    play >> start("a") << "begin"
    play >> sent >> asks("x") << "a: round 1: elicit-1" << "suspend"
    return play


def run_again(play: Playbook) -> Playbook:
    """The retry that makes the server be asked once more, up to the answer from the journal."""
    play >> retry("b", 1, elicit_1=ACCEPT) << "begin"
    play >> sent >> asks("x2") << "answer x2 accept"
    return play


def test_a_server_that_gives_up_on_its_ask_and_fails_is_run_again_with_the_answer() -> None:
    play = suspended() >> withdraws("x") << "resume"
    play >> replies("too late", isError=True)
    run_again(play) >> replies("hello") << "b: complete hello"
    play.end()


def test_a_server_that_ends_without_waiting_for_its_answer_is_run_again() -> None:
    play = suspended() >> replies("impatient") << "answer x cancel"
    run_again(play) >> replies("hello") << "b: complete hello"


def test_a_server_that_died_or_lost_its_session_is_run_again() -> None:
    run_again(suspended() >> dies << "answer x cancel") >> replies("hello") << "b: complete hello"


def test_an_answer_after_the_round_has_expired_counts() -> None:
    play = suspended(call_ttl=3600) >> after(600) << "cancel" << "answer x cancel"
    assert not play.call.attempting
    run_again(play) >> replies("hello") << "b: complete hello"


def test_the_clients_token_is_good_as_long_as_its_answer_counts() -> None:
    shown = {}
    for replayable in (True, False):
        play = suspended(replayable=replayable, call_ttl=3600)
        outcome = play.settled["a"]
        assert isinstance(outcome, o.InputRequired)
        shown[replayable] = outcome.expires - play.now
    assert shown == {True: 3600, False: 600}


def test_elsewhere_nothing_is_run_again() -> None:
    play = suspended(replayable=False) >> withdraws("x") << "resume"
    play >> replies("too late", isError=True) >> retry("b", 1, elicit_1=ACCEPT) << "b: complete too late"
    play = suspended(replayable=False) >> dies << "answer x cancel"
    play >> retry("b", 1, elicit_1=ACCEPT) << "b: error -32603"
    play = suspended(replayable=False) >> after(600) << "cancel" << "answer x cancel"
    with pytest.raises(StepUsed):
        play >> retry("b", 1, elicit_1=ACCEPT)


def test_without_an_answer_the_retry_gets_what_the_call_came_to() -> None:
    play = suspended() >> withdraws("x") << "resume"
    play >> replies("impatient") >> retry("b", 1) << "b: complete impatient"


def test_after_an_expiry_a_retry_without_an_answer_is_asked_again_under_the_same_key() -> None:
    play = suspended() >> after(600) << "cancel" << "answer x cancel"
    play >> retry("b", 1) << "begin"
    play >> sent >> asks("x2") << "b: round 1: elicit-1" << "suspend"
    play >> retry("c", 1, elicit_1=ACCEPT) << "resume"
    play >> resumed << "answer x2 accept"


def test_a_decline_is_an_answer_that_counts() -> None:
    play = suspended() >> dies << "answer x cancel"
    play >> retry("b", 1, elicit_1={"action": "decline"}) << "begin"
    play >> sent >> asks("x2") << "answer x2 decline"


def test_the_answers_of_earlier_rounds_are_not_asked_for_again() -> None:
    play = suspended() >> retry("b", 1, elicit_1=ACCEPT) << "resume"
    play >> resumed << "answer x accept"
    play >> asks("y", AGE) << "b: round 2: elicit-2" << "suspend"
    play >> dies << "answer y cancel"
    play >> retry("c", 2, elicit_2=OLD) << "begin"
    play >> sent >> asks("x2") << "answer x2 accept"
    play >> asks("y2", AGE) << "answer y2 accept"
    play >> replies("both") << "c: complete both"


def test_from_the_first_ask_that_differs_the_client_is_asked_again() -> None:
    play = suspended() >> retry("b", 1, elicit_1=ACCEPT) << "resume"
    play >> resumed << "answer x accept"
    play >> asks("y", AGE) << "b: round 2: elicit-2" << "suspend"
    play >> dies << "answer y cancel"
    play >> retry("c", 2, elicit_2=OLD) << "begin"
    play >> sent >> asks("z", SAMPLE) << "c: round 3: sample-3" << "suspend"
    play >> retry("d", 3, sample_3=SAMPLED) << "resume"
    play >> resumed << "answer z"
    play >> asks("x2") << "d: round 4: elicit-4" << "suspend"


def test_asks_of_one_round_are_answered_in_whichever_order_they_come() -> None:
    play = Playbook(replayable=True) >> start("a") << "begin"
    play >> sent >> asks("x") >> asks("y", AGE) >> after(0.05) << "a: round 1: elicit-1 elicit-2" << "suspend"
    play >> dies << "answer x cancel" << "answer y cancel"
    play >> retry("b", 1, elicit_1=ACCEPT, elicit_2=OLD) << "begin"
    play >> sent >> asks("y2", AGE) << "answer y2 accept"
    play >> asks("x2") << "answer x2 accept"


def test_an_answer_that_comes_while_the_server_goes_on_without_it_counts_at_its_end() -> None:
    play = suspended() >> withdraws("x") << "resume"
    (play >> retry("b", 1, elicit_1=ACCEPT)).end()
    play >> replies("without") << "begin"
    play >> sent >> asks("x2") << "answer x2 accept"
    play >> replies("with") << "b: complete with"


def test_a_server_that_withdraws_while_the_call_waits_for_its_turn_is_run_again() -> None:
    play = suspended() >> retry("b", 1, elicit_1=ACCEPT) << "resume"
    play >> withdraws("x") >> replies("too late", isError=True) << "begin"
    play >> sent >> asks("x2") << "answer x2 accept"


def test_a_server_that_asks_the_same_again_gets_the_answer_to_what_it_gave_up() -> None:
    for replayable in (True, False):
        play = suspended(replayable=replayable) >> withdraws("x") << "resume"
        play >> asks("x2") << "suspend"
        play >> retry("b", 1, elicit_1=ACCEPT) << "resume"
        play >> resumed << "answer x2 accept"


def test_a_question_that_was_another_calls_is_not_this_calls_when_it_is_run_again() -> None:
    play = (
        suspended() >> (lambda play: play.call.feed(o.Withdrawn(play.call.outstanding.asks[0]), play.now)) << "resume"
    )
    play >> replies("mine") >> retry("b", 1, elicit_1=ACCEPT) << "b: complete mine"


def test_a_server_that_never_waits_is_run_once_for_each_answer() -> None:
    play = suspended() >> replies("1") << "answer x cancel"
    play >> retry("b", 1, elicit_1=ACCEPT) << "begin"
    play >> sent >> replies("2") << "b: complete 2"
    play.end()


def test_a_call_that_has_lapsed_ends_with_its_time() -> None:
    play = suspended(call_ttl=1000) >> dies << "answer x cancel"
    (play >> after(1001)).end()
    with pytest.raises(StepUsed):
        play >> retry("b", 1, elicit_1=ACCEPT)


def test_the_second_attempt_is_cancelled_when_its_client_goes_away() -> None:
    play = suspended() >> dies << "answer x cancel"
    play >> retry("b", 1, elicit_1=ACCEPT) << "begin"
    play >> sent >> gone("b") << "cancel"


def test_the_same_retry_again_gets_the_same_outcome_and_another_none() -> None:
    play = run_again(suspended() >> dies << "answer x cancel") >> replies("hello") << "b: complete hello"
    play >> retry("c", 1, elicit_1=ACCEPT) << "c: complete hello"
    with pytest.raises(StepUsed):
        play >> retry("d", 1, elicit_1={"action": "decline"})


def test_an_answer_of_the_wrong_shape_takes_nothing_and_the_token_stays_good() -> None:
    play = suspended() >> dies << "answer x cancel"
    with pytest.raises(ProtocolError):
        play >> retry("b", 1, elicit_1={"action": "maybe"})
    run_again(play) >> replies("hello") << "b: complete hello"


def test_an_error_of_the_second_attempt_is_the_calls() -> None:
    run_again(suspended() >> dies << "answer x cancel") >> fails(-32000) << "b: error -32000"


def test_no_answer_shows_in_what_python_prints() -> None:
    play = suspended() >> dies << "answer x cancel"
    play >> retry("b", 1, elicit_1={"action": "accept", "content": {"name": "s3cret"}}) << "begin"
    rounds = play.call._journal._rounds
    assert rounds
    assert "s3cret" not in repr(rounds)
    assert "s3cret" not in repr(rounds[0][0].item)
