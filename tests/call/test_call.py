"""Section 4 of the design, rule by rule: what a call does with asks, answers, legs and time."""

from __future__ import annotations

import pytest

from bridge import outcomes as o
from tests.call.playbook import (
    ACCEPT,
    ROOTED,
    ROOTS,
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
    heard,
    replies,
    resumed,
    retry,
    retry_with,
    roots_settled,
    sent,
    start,
    the,
    withdraws,
)


def running(**options: object) -> Playbook:
    play = Playbook(**options)  # type: ignore[arg-type]
    play >> start("a") << "begin"
    return play >> sent


def suspended(**options: object) -> Playbook:
    play = running(**options)
    play >> asks("x") >> after(0.05) << "a: round 1: elicit-1" << "suspend"
    return play


# -- without asks -----------------------------------------------------------------------------------------------------


def test_a_call_that_is_not_asked_anything_ends_with_the_servers_result() -> None:
    play = running() >> replies("fine") << "a: complete fine"
    play.end()


def test_a_servers_error_passes_through_with_its_code() -> None:
    running() >> fails(-32000) << "a: error -32000"


def test_a_dead_server_fails_the_call() -> None:
    play = running() >> dies << "a: error -32603"
    assert "The server ended." in play.settled["a"].error.message  # type: ignore[union-attr]


def test_an_event_after_the_end_changes_nothing() -> None:
    play = running() >> replies() << "a: complete"
    (play >> replies("again") >> asks("x") >> gone("a")).end()


# -- suspending -------------------------------------------------------------------------------------------------------


def test_an_ask_becomes_a_round_after_the_sibling_wait() -> None:
    running() >> asks("x") >> after(0.04) >> after(0.02) << "a: round 1: elicit-1" << "suspend"


def test_asks_that_arrive_together_are_asked_together() -> None:
    play = running() >> asks("x") >> after(0.03) >> asks("y", SAMPLE) >> asks("z", ROOTS)
    play >> after(0.03) << "a: round 1: elicit-1 sample-2 roots-3" << "suspend"


def test_a_tool_known_to_ask_one_after_the_other_is_not_waited_for() -> None:
    running(siblings=0.0) >> asks("x") << "a: round 1: elicit-1" << "suspend"


def test_a_result_while_siblings_are_waited_for_ends_the_call_and_its_ask() -> None:
    running() >> asks("x") >> replies("early") << "answer x cancel" << "a: complete early"


def test_a_server_may_suggest_the_key_of_its_ask() -> None:
    named = ("elicitation/create", form(_meta={"mrtr-bridge/inputKey": "user_name"}))
    play = running(siblings=0.0) >> asks("x", named) << "a: round 1: user_name" << "suspend"
    assert "_meta" not in play.settled["a"].requests["user_name"]["params"]  # type: ignore[union-attr]


# -- resuming ---------------------------------------------------------------------------------------------------------


def test_a_retry_with_the_answer_resumes_the_call() -> None:
    play = suspended() >> retry("b", 1, elicit_1=ACCEPT) << "resume"
    play >> resumed << "answer x accept"
    play >> replies("hello") << "b: complete hello"


def test_decline_and_cancel_are_answers_like_any_other() -> None:
    for action in ("decline", "cancel"):
        play = suspended() >> retry("b", 1, elicit_1={"action": action}) << "resume"
        play >> resumed << f"answer x {action}"


def test_a_second_ask_makes_a_second_round_with_the_next_key() -> None:
    play = suspended() >> retry("b", 1, elicit_1=ACCEPT) << "resume"
    play >> resumed << "answer x accept"
    play >> asks("y") >> after(0.05) << "b: round 2: elicit-2" << "suspend"
    play >> retry("c", 2, elicit_2=ACCEPT) << "resume"
    play >> resumed << "answer y accept"
    play >> replies() << "c: complete"


def test_unknown_keys_are_ignored() -> None:
    suspended() >> retry("b", 1, elicit_1=ACCEPT, bogus={"action": 7}) << "resume"


def test_what_is_missing_is_asked_again_under_its_key_and_the_rest_delivered() -> None:
    play = running() >> asks("x") >> asks("y", SAMPLE) >> after(0.05) << "a: round 1: elicit-1 sample-2" << "suspend"
    play >> retry("b", 1, sample_2=SAMPLED) << "resume"
    play >> resumed << "answer y"
    play >> after(0.05) << "b: round 2: elicit-1" << "suspend"
    play >> retry("c", 2, elicit_1=ACCEPT) << "resume"


def test_a_retry_without_any_answer_gets_the_same_round_again_and_its_token_stays_good() -> None:
    play = suspended() >> retry("b", 1) << "b: round 1: elicit-1"
    play >> retry("c", 1, elicit_1=ACCEPT) << "resume"


def test_an_ask_that_came_while_suspended_joins_the_next_round() -> None:
    play = suspended() >> asks("y", SAMPLE) >> retry("b", 1, elicit_1=ACCEPT) << "resume"
    play >> resumed << "answer x accept"
    play >> after(0.05) << "b: round 2: sample-2" << "suspend"


@pytest.mark.parametrize("responses", [None, 7, "x", [], [1]])
def test_input_responses_that_are_no_object_are_refused_and_nothing_is_consumed(responses: object) -> None:
    play = suspended()
    with pytest.raises(ProtocolError) as refused:
        play >> retry_with("b", 1, responses)
    assert refused.value.code == -32602
    play >> retry("c", 1, elicit_1=ACCEPT) << "resume"


@pytest.mark.parametrize("answer", [7, None, {}, {"action": "maybe"}, {"action": "accept", "content": 3}])
def test_an_answer_of_the_wrong_shape_is_refused_and_nothing_is_consumed(answer: object) -> None:
    play = suspended()
    with pytest.raises(ProtocolError) as refused:
        play >> retry("b", 1, elicit_1=answer)
    assert refused.value.code == -32602
    assert "elicit-1" in refused.value.message
    play >> retry("c", 1, elicit_1=ACCEPT) << "resume"


def test_content_that_breaks_the_schema_is_asked_again_once_with_the_reason() -> None:
    wrong = {"action": "accept", "content": {"name": 7}}
    play = suspended() >> retry("b", 1, elicit_1=wrong) << "b: round 1: elicit-2"
    message = play.settled["b"].requests["elicit-2"]["params"]["message"]  # type: ignore[union-attr]
    assert message.startswith("Who?")
    assert "name" in message
    assert "7" not in message
    play >> retry("c", 1, elicit_2=wrong) << "resume"
    play >> resumed << "answer x accept"


# -- single use -------------------------------------------------------------------------------------------------------


def test_the_same_answers_again_wait_for_the_first_legs_outcome() -> None:
    play = suspended() >> retry("b", 1, elicit_1=ACCEPT) << "resume"
    play >> resumed << "answer x accept"
    (play >> retry("c", 1, elicit_1=ACCEPT)).end()
    play >> replies("once") << "b: complete once" << "c: complete once"


def test_the_same_answers_again_later_return_the_same_outcome() -> None:
    play = suspended() >> retry("b", 1, elicit_1=ACCEPT) << "resume"
    play >> resumed << "answer x accept"
    play >> replies("once") << "b: complete once"
    play >> retry("c", 1, elicit_1=ACCEPT) << "c: complete once"


def test_other_answers_after_use_are_refused() -> None:
    play = suspended() >> retry("b", 1, elicit_1=ACCEPT) << "resume"
    with pytest.raises(StepUsed):
        play >> retry("c", 1, elicit_1={"action": "decline"})


def test_a_token_of_an_earlier_step_is_refused() -> None:
    play = suspended() >> retry("b", 1, elicit_1=ACCEPT) << "resume"
    play >> resumed << "answer x accept"
    play >> asks("y") >> after(0.05) << "b: round 2: elicit-2" << "suspend"
    play >> retry("c", 2, elicit_2=ACCEPT) << "resume"
    with pytest.raises(StepUsed):
        play >> retry("d", 1, elicit_1=ACCEPT)


# -- the client goes away ---------------------------------------------------------------------------------------------


def test_a_client_that_goes_away_cancels_the_call() -> None:
    (running() >> gone("a") << "cancel").end()


def test_a_client_that_goes_away_after_its_round_cancels_nothing() -> None:
    (suspended() >> gone("a")).end()


def test_the_server_hears_cancelled_before_its_asks_are_answered() -> None:
    play = running() >> asks("x") >> asks("y", SAMPLE)
    play >> gone("a") << "cancel" << "answer x cancel" << "refuse y -32603"


def test_a_call_outlives_one_of_two_legs() -> None:
    play = suspended() >> retry("b", 1, elicit_1=ACCEPT) << "resume"
    play >> retry("c", 1, elicit_1=ACCEPT) >> gone("b") >> resumed << "answer x accept"
    play >> replies() << "c: complete"


def test_a_grace_lets_a_client_come_back() -> None:
    play = suspended(disconnect_grace=5) >> retry("b", 1, elicit_1=ACCEPT) << "resume"
    play >> gone("b") >> after(4) >> retry("c", 1, elicit_1=ACCEPT) >> after(4) >> resumed << "answer x accept"
    play >> gone("c") >> after(5) << "cancel"


def test_a_cancelled_call_cannot_be_resumed() -> None:
    play = suspended() >> retry("b", 1, elicit_1=ACCEPT) << "resume"
    play >> gone("b") << "cancel" << "answer x cancel"
    with pytest.raises(StepUsed):
        play >> retry("c", 1, elicit_1=ACCEPT)


# -- time -------------------------------------------------------------------------------------------------------------


def test_a_round_that_nobody_answers_expires_with_the_longest_of_its_asks() -> None:
    play = running() >> asks("x") >> asks("y", SAMPLE) >> after(0.05) << "a: round 1: elicit-1 sample-2" << "suspend"
    play >> after(599) >> after(1) << "cancel" << "answer x cancel" << "refuse y -32603"
    with pytest.raises(StepUsed):
        play >> retry("b", 1, elicit_1=ACCEPT)


def test_after_expiry_an_earlier_token_is_refused_too() -> None:
    play = suspended() >> retry("b", 1, elicit_1=ACCEPT) << "resume"
    play >> resumed << "answer x accept"
    play >> asks("y") >> after(0.05) << "b: round 2: elicit-2" << "suspend"
    play >> retry("c", 1, elicit_1=ACCEPT) << "c: round 2: elicit-2"
    play >> after(600) << "cancel" << "answer y cancel"
    for step, answers in ((1, {"elicit-1": ACCEPT}), (2, {"elicit-2": ACCEPT})):
        with pytest.raises(StepUsed):
            play >> retry_with("d", step, answers)


def test_sampling_alone_expires_sooner() -> None:
    play = running(siblings=0) >> asks("y", SAMPLE) << "a: round 1: sample-1" << "suspend"
    play >> after(120) << "cancel" << "refuse y -32603"


def test_a_call_has_a_cap_over_all_its_rounds() -> None:
    play = suspended(call_ttl=100) >> after(60) >> retry("b", 1, elicit_1=ACCEPT) << "resume"
    play >> resumed << "answer x accept"
    play >> after(41) << "cancel" << "b: error -32603"


def test_a_silent_server_fails_the_call() -> None:
    running(silence=10) >> after(6) >> heard >> after(6) >> after(4) << "cancel" << "a: error -32603"


def test_silence_does_not_count_while_suspended() -> None:
    play = suspended(silence=10) >> after(100) >> retry("b", 1, elicit_1=ACCEPT) << "resume"
    (play >> after(100) >> resumed << "answer x accept").end()


def test_a_server_that_gave_its_ask_a_progress_token_hears_that_we_are_at_it() -> None:
    wants_beats = ("elicitation/create", form(_meta={"progressToken": 5}))
    play = running(siblings=0) >> asks("x", wants_beats) << "a: round 1: elicit-1" << "suspend"
    play >> after(15) << "progress x 1"
    play >> after(15) << "progress x 2"
    (play >> retry("b", 1, elicit_1=ACCEPT) << "resume" >> after(15)).end()


def test_a_long_leg_may_end_with_a_round_that_asks_nothing() -> None:
    play = running(leg=30) >> after(30) << "a: round 1: nothing"
    play >> retry("b", 1) >> after(29) >> replies("slow") << "b: complete slow"


# -- the server gives up first ----------------------------------------------------------------------------------------


def test_a_server_that_finishes_without_its_answer_keeps_its_result_for_the_retry() -> None:
    play = suspended() >> replies("gave up") << "answer x cancel"
    play >> retry("b", 1, elicit_1=ACCEPT) << "b: complete gave up"


def test_a_server_that_takes_its_ask_back_goes_on_and_the_retry_waits_for_it() -> None:
    play = suspended() >> withdraws("x") << "resume"
    (play >> retry("b", 1, elicit_1=ACCEPT)).end()
    play >> replies("without") << "b: complete without"


def test_the_time_for_which_it_was_suspended_is_no_silence_of_a_server_that_takes_its_ask_back() -> None:
    play = suspended(silence=10) >> after(30) >> withdraws("x") << "resume"
    play >> after(9) >> retry("b", 1, elicit_1=ACCEPT) >> replies("without") << "b: complete without"


def test_a_call_that_dies_of_silence_with_no_leg_open_keeps_its_error_for_the_retry() -> None:
    play = suspended(silence=10) >> withdraws("x") << "resume"
    play >> after(10) << "cancel"
    play >> retry("b", 1, elicit_1=ACCEPT) << "b: error -32603"


def test_a_server_that_dies_while_suspended_fails_the_retry() -> None:
    play = suspended() >> dies << "answer x cancel"
    play >> retry("b", 1, elicit_1=ACCEPT) << "b: error -32603"


# -- capabilities -----------------------------------------------------------------------------------------------------


def test_an_ask_that_the_client_did_not_declare_is_refused_to_the_server() -> None:
    play = running(declares={"roots": {}}, siblings=0) >> asks("x") << "refuse x -32601"
    play >> replies("went on") << "a: complete went on"


def test_a_mode_that_the_client_did_not_declare_is_refused_with_invalid_params() -> None:
    url = ("elicitation/create", {"mode": "url", "message": "m", "url": "https://a.example", "elicitationId": "1"})
    running(declares={"elicitation": {}}, siblings=0) >> asks("x", url) << "refuse x -32602"


def test_a_call_that_fails_for_lack_of_a_capability_says_which() -> None:
    play = running(declares={}, siblings=0) >> asks("x", SAMPLE) << "refuse x -32601"
    play >> replies("sorry", isError=True) << "a: error -32021"
    assert play.settled["a"].error.data == {"requiredCapabilities": {"sampling": {}}}  # type: ignore[union-attr]


def test_what_the_retrys_client_declares_governs_its_further_asks() -> None:
    play = suspended() >> retry("b", 1, elicit_1=ACCEPT, declares={"elicitation": {}}) << "resume"
    play >> resumed << "answer x accept"
    play >> asks("y", SAMPLE) >> after(0.05) << "refuse y -32601"


def test_a_form_that_cannot_be_brought_to_the_client_is_refused_alone() -> None:
    nested = ("elicitation/create", form({"type": "object", "properties": {"a": {"type": "object", "properties": {}}}}))
    play = running() >> asks("x", nested) >> asks("y") >> after(0.05) << "refuse x -32602"
    play << "a: round 1: elicit-2" << "suspend"


# -- start-up roots ---------------------------------------------------------------------------------------------------


def test_start_up_roots_are_asked_before_the_call_is_sent() -> None:
    play = Playbook() >> start("a", roots_first="r") << "a: round 1: roots-1"
    play >> retry("b", 1, roots_1=ROOTED) << "answer r" << "settle roots"
    play >> roots_settled << "begin"
    play >> sent >> replies("ok") << "b: complete ok"


def test_start_up_roots_that_are_never_answered_are_given_back() -> None:
    play = Playbook() >> start("a", roots_first="r") << "a: round 1: roots-1"
    play >> after(120) << "give back r"


# -- invariants -------------------------------------------------------------------------------------------------------


def test_the_round_says_until_when_it_can_be_resumed() -> None:
    play = suspended(elicitation_ttl=30)
    outcome = play.settled["a"]
    assert isinstance(outcome, o.InputRequired)
    assert outcome.expires == play.now + 30


def test_the_deadline_is_finite_until_the_end() -> None:
    play = suspended()
    assert play.call.deadline == play.now + 600
    play >> replies() << "answer x cancel"
    assert play.call.deadline == float("inf")
    assert the(play, "x").method == "elicitation/create"
