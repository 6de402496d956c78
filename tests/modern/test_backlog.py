"""What waits for a slow reader is bounded, and what it cannot do without is not dropped in silence."""

from __future__ import annotations

import pytest

from modern import backlog
from modern.backlog import Backlog, Verdict

PROGRESS, UPDATED = "notifications/progress", "notifications/resources/updated"


def test_progress_is_dropped_beyond_the_limit_and_goes_on_when_there_is_room() -> None:
    waiting = Backlog(3)
    verdicts = [waiting.judge(PROGRESS, b"%d" % n) for n in range(5)]
    assert verdicts == [Verdict.QUEUE] * 3 + [Verdict.DROP] * 2
    assert waiting.dropped == 2
    waiting.left(b"0")
    assert waiting.judge(PROGRESS, b"5") is Verdict.QUEUE


def test_a_change_that_already_waits_is_told_once_and_too_many_different_ones_end_the_stream() -> None:
    waiting = Backlog(3)
    for n in range(12):
        assert waiting.judge(UPDATED, b"%d" % n) is Verdict.QUEUE
        assert n < 3 or waiting.judge(UPDATED, b"%d" % n) is Verdict.DROP
    assert waiting.judge(UPDATED, b"one more") is Verdict.END


def test_a_few_large_messages_count_as_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backlog, "MOST_BYTES", 1000)
    waiting = Backlog(100)
    assert waiting.judge(PROGRESS, b"x" * 999) is Verdict.QUEUE
    assert waiting.judge(PROGRESS, b"y" * 1) is Verdict.QUEUE
    assert waiting.judge(PROGRESS, b"z") is Verdict.DROP
    for n in range(3):
        assert waiting.judge(UPDATED, b"%d" % n * 1000) is Verdict.QUEUE
    assert waiting.judge(UPDATED, b"end") is Verdict.END
    for encoded in (b"x" * 999, b"y", *(b"%d" % n * 1000 for n in range(3))):
        waiting.left(encoded)
    assert (waiting.count, waiting.size) == (0, 0)
    assert waiting.judge(PROGRESS, b"z") is Verdict.QUEUE
