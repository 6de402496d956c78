"""When a call has waited long enough, and for what. Pure: times come in, verdicts go out.

A *round* is good for as long as the longest of its asks may take; a *call* over all its rounds for ``limits.call_ttl``;
a *server* may be silent on a running call for ``limits.silence``; a call outlives its last open *leg* by
``limits.disconnect_grace``; and a leg may be cut short after ``limits.leg``. A call that has become a *task* has but
one limit, ``limits.task_ttl``.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from math import inf

from bridge.settings import Limits
from legacy.messages import Ask


class Phase(Enum):
    """Where a call's coroutine is suspended."""

    WAITING = "waiting"
    RUNNING = "running"
    GATHERING = "gathering"
    SUSPENDED = "suspended"
    RESUMING = "resuming"
    LAPSED = "lapsed"
    """The attempt has ended, and a client's answers would still count."""
    SIGNING_IN = "signing in"
    """A person is at a URL that the server wanted opened."""
    DONE = "done"


class Overdue(Enum):
    """What has taken too long, the most final first."""

    CLIENT = "client"
    """The last leg's client went away and did not come back."""
    ROUND = "round"
    """Nobody continued the call in time."""
    CALL = "call"
    SERVER = "server"
    """The server said nothing."""
    TASK = "task"
    """A task has not ended in its time."""
    LEG = "leg"


SHORTCUT = 0.1
"""Seconds that an open leg still gives a call to end before it becomes a task: a client that has a result at once need
not come back for it."""
ROUNDS_LEFT_TO_CLIENTS = 8
"""Clients stop after 10 rounds. A call that may become a task does so before it asks for more than these."""


class Timing:
    """The clockwork of one call; all times in monotonic seconds.

    Invariant: ``expires_at`` never passes ``ends_at``, unless the call is a task.
    """

    __slots__ = (
        "_limits",
        "abandoned_at",
        "beat_at",
        "beats",
        "ends_at",
        "expires_at",
        "heard_at",
        "leg_since",
        "siblings_until",
        "signed_in_by",
        "task",
        "task_from",
    )

    def __init__(self, limits: Limits, now: float) -> None:
        self._limits = limits
        self.ends_at = now + limits.call_ttl
        self.expires_at = inf
        """Until when a client that has no open leg may come back."""
        self.heard_at = now
        self.siblings_until = inf
        self.signed_in_by = inf
        self.abandoned_at = inf
        self.leg_since = now
        self.beat_at = inf
        """When a server that wants to hear that its ask is looked after is told so next."""
        self.beats = 0
        self.task = False
        """Whether the call is a task by now."""
        self.task_from = inf
        """From when on it had better be one."""

    def round_shown(self, asks: Iterable[Ask], now: float) -> float:
        """A round was shown, or would have been if a leg were open; until when it is good."""
        self.expires_at = min(now + max(map(self._patience, asks)), self.ends_at)
        return self.expires_at

    def parked(self, now: float) -> float:
        """A leg was cut short; until when its client may come back."""
        self.expires_at = min(now + self._limits.sampling_ttl, self.ends_at)
        return self.expires_at

    def lapsed(self) -> None:
        """No server waits any more; the client may, as long as the call may take."""
        self.expires_at = self.ends_at

    def signing_in(self, now: float) -> None:
        """A person has agreed to open a URL."""
        self.signed_in_by = now + self._limits.sign_in

    def leg_joined(self, now: float) -> None:
        self.leg_since = now
        self.abandoned_at = self.expires_at = inf

    def became_task(self, now: float) -> None:
        """From now on only the task's own time counts."""
        self.task = True
        self.ends_at = now + self._limits.task_ttl
        self.task_from = self.abandoned_at = self.expires_at = inf

    def task_due(self, step: int, now: float) -> bool:
        """Whether the call had better become a task than ask its client for one more round."""
        return self.task_from <= now or (self.task_from < inf and step > ROUNDS_LEFT_TO_CLIENTS)

    def last_leg_gone(self, now: float) -> None:
        self.abandoned_at = now + self._limits.disconnect_grace

    def beating(self, wanted: bool, now: float) -> None:
        """Whether a server wants to hear while its ask is looked after; then the next time is set."""
        self.beat_at = now + self._limits.ask_progress if wanted else inf

    def overdue(self, phase: Phase, legs: int, now: float) -> Overdue | None:
        if self.task:
            return Overdue.TASK if now >= self.ends_at else None
        if now >= self.abandoned_at:
            return Overdue.CLIENT
        if now >= min(self.ends_at, self.expires_at):
            return Overdue.CALL if legs else Overdue.ROUND
        if phase is Phase.RUNNING and now >= self.heard_at + self._limits.silence:
            return Overdue.SERVER
        return Overdue.LEG if now >= min(self._leg_ends_at(legs), self.leg_ends_by_task_at(legs)) else None

    def deadline(self, phase: Phase, legs: int) -> float:
        """When something is overdue, or due, at the latest."""
        match phase:
            case Phase.DONE:
                return inf
            case Phase.RUNNING if self.task:
                further = inf
            case Phase.RUNNING:
                further = min(self.heard_at + self._limits.silence, self._leg_ends_at(legs))
            case Phase.GATHERING:
                further = self.siblings_until
            case Phase.SUSPENDED:
                further = self.beat_at
            case Phase.SIGNING_IN:
                further = min(self.signed_in_by, self._leg_ends_at(legs))
            case Phase.LAPSED:
                further = inf
            case Phase.WAITING | Phase.RESUMING:
                further = self._leg_ends_at(legs)
        return min(self.ends_at, self.expires_at, self.abandoned_at, self.leg_ends_by_task_at(legs), further)

    def leg_ends_by_task_at(self, legs: int) -> float:
        """When the open leg is told that the call is a task now."""
        return max(self.task_from, self.leg_since) + SHORTCUT if legs else inf

    def _leg_ends_at(self, legs: int) -> float:
        return inf if self._limits.leg is None or not legs else self.leg_since + self._limits.leg

    def _patience(self, ask: Ask) -> float:
        match ask.method:
            case "elicitation/create":
                patience = self._limits.elicitation_ttl
            case "roots/list":
                patience = self._limits.roots_ttl
            case _:
                patience = self._limits.sampling_ttl
        return patience if self._limits.one_call is None else min(patience, self._limits.one_call)
