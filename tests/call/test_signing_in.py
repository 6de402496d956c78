"""The error -32042: the client is shown the URLs, and the request is sent again."""

from __future__ import annotations

from typing import Any

from bridge import outcomes as o
from tests.call.playbook import (
    ACCEPT,
    Playbook,
    after,
    asks,
    fails,
    gone,
    replies,
    resumed,
    retry,
    sent,
    signed_in,
    start,
)

YES = {"action": "accept"}


def page(id: str = "e1", **fields: Any) -> dict[str, Any]:
    return {"mode": "url", "elicitationId": id, "url": f"https://sign.in/{id}", "message": "Sign in.", **fields}


def refusing(*pages: Any, **options: Any) -> Playbook:
    play = Playbook(siblings=0.0, **options) >> start("a") << "begin"
    return play >> sent >> fails(-32042, "Sign in first.", {"elicitations": list(pages)})


def shown(**options: Any) -> Playbook:
    return refusing(page(), **options) << "await sign-in e1" << "a: round 1: elicit-1"


def test_the_url_is_asked_for_and_after_its_completion_the_request_is_sent_again() -> None:
    play = shown()
    outcome = play.settled["a"]
    assert isinstance(outcome, o.InputRequired)
    assert outcome.requests["elicit-1"]["params"] == {"mode": "url", "url": "https://sign.in/e1", "message": "Sign in."}
    (play >> retry("b", 1, elicit_1=YES) >> after(15)).end()
    play >> signed_in("e1") << "begin"
    play >> sent >> replies("in") << "b: complete in"


def test_a_completion_that_comes_before_the_clients_answer_is_not_waited_for_again() -> None:
    play = shown() >> signed_in("e1") >> retry("b", 1, elicit_1=YES) << "begin"
    play >> sent >> replies("in") << "b: complete in"


def test_without_a_completion_the_request_is_sent_again_after_a_time() -> None:
    play = shown(sign_in=25) >> retry("b", 1, elicit_1=YES)
    (play >> after(24)).end()
    play >> after(1) << "begin"


def test_to_decline_or_to_cancel_ends_the_call_with_an_error_of_another_code_and_no_second_question() -> None:
    for action in ("decline", "cancel"):
        play = shown() >> retry("b", 1, elicit_1={"action": action}) << "b: error -32603"
        play.end()


def test_a_client_without_urls_hears_what_is_missing() -> None:
    play = refusing(page(), declares={"elicitation": {}}) << "a: error -32021"
    outcome = play.settled["a"]
    assert isinstance(outcome, o.Failed)
    assert outcome.error.data == {"requiredCapabilities": {"elicitation": {"url": {}}}}


def test_several_urls_make_one_round_and_all_are_waited_for() -> None:
    play = refusing(page("e1"), page("e2")) << "await sign-in e1 e2" << "a: round 1: elicit-1 elicit-2"
    (play >> retry("b", 1, elicit_1=YES, elicit_2=YES) >> signed_in("e2")).end()
    play >> signed_in("e1") << "begin"


def test_a_url_without_an_answer_is_asked_for_again_alone() -> None:
    play = refusing(page("e1"), page("e2")) << "await sign-in e1 e2" << "a: round 1: elicit-1 elicit-2"
    play >> retry("b", 1, elicit_1=YES) << "b: round 2: elicit-2"
    play >> retry("c", 2, elicit_2=YES) >> signed_in("e1") >> signed_in("e2") << "begin"


def test_a_server_that_is_still_not_satisfied_asks_again() -> None:
    play = shown() >> signed_in("e1") >> retry("b", 1, elicit_1=YES) << "begin"
    play >> sent >> fails(-32042, "", {"elicitations": [page("e2")]}) << "await sign-in e2" << "b: round 2: elicit-2"


def test_what_names_no_url_that_can_be_opened_is_an_error_like_any_other() -> None:
    for data in (None, {}, {"elicitations": []}, {"elicitations": [3]}, {"elicitations": [page(url="nowhere")]}):
        play = Playbook() >> start("a") << "begin"
        play >> sent >> fails(-32042, "Sign in.", data) << "a: error -32603"


def test_the_mode_is_understood_where_it_is_not_said() -> None:
    bare = {"elicitationId": "e1", "url": "https://sign.in/e1", "message": "Sign in."}
    refusing(bare) << "await sign-in e1" << "a: round 1: elicit-1"


def test_a_client_that_goes_away_while_it_is_waited_for_ends_the_call_and_the_server_hears_nothing() -> None:
    play = shown() >> retry("b", 1, elicit_1=YES)
    (play >> gone("b")).end()
    (play >> signed_in("e1")).end()


def test_a_round_of_urls_expires_like_any_other() -> None:
    (shown() >> after(600)).end()


def test_what_was_answered_before_is_not_asked_again_where_the_call_may_be_repeated() -> None:
    for replayable, then in ((True, "answer x2 accept"), (False, "c: round 3: elicit-3")):
        play = Playbook(siblings=0.0, replayable=replayable) >> start("a") << "begin"
        play >> sent >> asks("x") << "a: round 1: elicit-1" << "suspend"
        play >> retry("b", 1, elicit_1=ACCEPT) << "resume"
        play >> resumed << "answer x accept"
        play >> fails(-32042, "", {"elicitations": [page()]}) << "await sign-in e1" << "b: round 2: elicit-2"
        play >> signed_in("e1") >> retry("c", 2, elicit_2=YES) << "begin"
        play >> sent >> asks("x2") << then
        play._pending = []
