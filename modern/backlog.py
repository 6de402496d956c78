"""How many notifications may wait for a client that reads slowly, and which are given up first.

The rule: memory is bounded per leg, and what is lost is what a client can do without. Progress and log messages are
dropped beyond the limit. Changes are not: one that already waits is not queued twice (the client has not read it yet,
so it will still look after the change), and a stream that has far too many different ones is ended rather than
silently left with gaps. The response never waits here.
"""

from __future__ import annotations

from collections import Counter
from enum import Enum
from typing import Final

DROPPABLE: Final = frozenset({"notifications/progress", "notifications/message"})
MOST_BYTES: Final = 8 * 1024 * 1024
"""What may wait for one leg, however few notifications it is: a single log message can have megabytes."""


class Verdict(Enum):
    """What becomes of a notification."""

    QUEUE = "queue"
    DROP = "drop"
    END = "end"


class Backlog:
    """What waits for one leg. Invariant: never more than ``4 * limit`` notifications, nor ``4 * MOST_BYTES`` and one
    message."""

    __slots__ = ("_limit", "_waiting", "count", "dropped", "size")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._waiting: Counter[bytes] = Counter()
        self.count = 0
        self.size = 0
        self.dropped = 0

    def judge(self, method: str, encoded: bytes) -> Verdict:
        """Whether ``encoded`` is to be queued; if so, it counts until `left` is called with it."""
        if self.count >= self._limit or self.size >= MOST_BYTES:
            if method in DROPPABLE or self._waiting[encoded]:
                self.dropped += 1
                return Verdict.DROP
            if self.count >= 4 * self._limit or self.size >= 4 * MOST_BYTES:
                return Verdict.END
        self.count += 1
        self.size += len(encoded)
        self._waiting[encoded] += 1
        return Verdict.QUEUE

    def left(self, encoded: bytes) -> None:
        """``encoded`` has gone to the client."""
        self.count -= 1
        self.size -= len(encoded)
        self._waiting[encoded] -= 1
        if not self._waiting[encoded]:
            del self._waiting[encoded]
