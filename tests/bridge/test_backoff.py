"""A server that keeps dying is started more and more slowly; one misfortune counts once."""

from __future__ import annotations

from bridge.backoff import FREE_FAILURES, LONGEST_PAUSE, Backoff


def test_the_first_failures_cost_no_wait_and_the_next_more_and_more() -> None:
    backoff, now = Backoff(), 100.0
    pauses = []
    for _ in range(FREE_FAILURES + 9):
        backoff.failed("It broke.", now)
        pauses.append(max(0.0, backoff.pause(now)))
        now += 100
    assert pauses[:FREE_FAILURES] == [0.0] * FREE_FAILURES
    assert pauses[FREE_FAILURES:] == [0.5, 1, 2, 4, 8, 16, 30, 30, 30]
    assert max(pauses) == LONGEST_PAUSE


def test_sessions_that_end_together_count_once() -> None:
    backoff = Backoff()
    for at in (1.0, 1.1, 1.2, 1.3, 1.4):
        backoff.failed("It broke.", at, since=0.5)
    assert backoff.refusal(1.5) is None


def test_sessions_that_each_end_as_soon_as_they_have_begun_count_each() -> None:
    backoff = Backoff()
    for at in (1.0, 1.1, 1.2):
        backoff.failed("It broke.", at, since=at - 0.05)
    assert backoff.refusal(1.25) is not None


def test_the_refusal_says_why_and_when_never_in_no_time() -> None:
    backoff = Backoff()
    for at in (1.0, 2.0, 3.0):
        backoff.failed("The server exited.", at)
    assert backoff.refusal(3.2) == ("The server exited. It failed 3 times in a row; the next start is tried in 1 s.")
    assert backoff.refusal(3.6) is None
