"""Keeps a server that keeps dying from being started in a tight loop. Pure: times in, verdicts out."""

from __future__ import annotations

FREE_FAILURES = 2
"""Failures in a row after which the next start is tried at once."""
LONGEST_PAUSE = 30.0
ONE_CAUSE = 0.5
"""Seconds within which several ends have most likely one reason, and count once."""


class Backoff:
    """What to do about starts that fail, or about sessions that end soon after their start."""

    __slots__ = ("_failed_at", "_failures", "_last", "_until")

    def __init__(self) -> None:
        self._failures = 0
        self._failed_at = float("-inf")
        self._until = 0.0
        self._last = ""

    def failed(self, why: str, now: float, *, since: float | None = None) -> None:
        """One more failure. Of something that there was ``since`` then it is none if the last was just now, and this
        was there already: they had one cause."""
        together = since is not None and since <= self._failed_at and now - self._failed_at < ONE_CAUSE
        self._failed_at = now
        if together:
            return
        self._failures += 1
        self._last = why
        over = self._failures - FREE_FAILURES
        if over > 0:
            self._until = now + min(0.5 * 2 ** (over - 1), LONGEST_PAUSE)

    def pause(self, now: float) -> float:
        """Seconds until the next start; not above 0 if it may be tried."""
        return self._until - now

    def refusal(self, now: float) -> str | None:
        """Why no start is tried now, or None."""
        if now >= self._until:
            return None
        wait = max(1.0, self._until - now)
        return f"{self._last} It failed {self._failures} times in a row; the next start is tried in {wait:.0f} s."
