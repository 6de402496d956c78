"""The vocabulary of attribution: runs, channels, and the commands that its rules give.

Values and two small mutable records. The rules are in `bridge.turns` (who runs where) and `bridge.verdicts` (whose
ask); only they write to a `Run` or a `Channel`. Both may be subclassed by whoever carries the commands out.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Protocol

from legacy.messages import Ask

if TYPE_CHECKING:
    from bridge.verdicts import Asked


class RunState(Enum):
    WAITING = "waiting"
    """It wants a session and was not sent."""
    RUNNING = "running"
    """It was sent, and the server works on it as far as we know."""
    SUSPENDED = "suspended"
    """It waits for a client's answers."""
    RESUMING = "resuming"
    """The answers are there; it waits for the turn of its session."""
    GHOST = "ghost"
    """It was cancelled here; the server never said that it stopped."""
    DONE = "done"


# The hot path compares with these: reading a member off its Enum class costs as much as the rest of the comparison.
WAITING, RUNNING, SUSPENDED = RunState.WAITING, RunState.RUNNING, RunState.SUSPENDED
RESUMING, GHOST, DONE = RunState.RESUMING, RunState.GHOST, RunState.DONE


class Run:
    """One legacy request, from when it wants a session until the server has answered it."""

    __slots__ = (
        "asked_at",
        "asks",
        "carries_roots",
        "channel",
        "due",
        "may_be_asked",
        "owner",
        "paused",
        "sent_at",
        "since",
        "state",
        "suspect",
        "suspended_at",
        "tool",
        "turn",
    )

    def __init__(self, tool: str | None, *, may_be_asked: bool, carries_roots: bool, owner: str = "") -> None:
        self.tool = tool
        """Its key in `Knowledge`; None for a plain request (list, completion, ...), which can carry no ask."""
        self.may_be_asked = may_be_asked
        """Whether its client declared anything that can be asked."""
        self.carries_roots = carries_roots
        self.owner = owner
        """Whose it is, where several principals share the sessions."""
        self.state = WAITING
        self.channel: Channel | None = None
        self.turn = False
        """Whether it holds the turn of its channel."""
        self.since = 0.0
        """When it came into its state, for the states that end by time."""
        self.sent_at = 0.0
        self.suspended_at = 0.0
        self.asked_at = 0.0
        """When the latest of its asks came."""
        self.paused = 0.0
        """Seconds for which it was suspended so far."""
        self.suspect = False
        """Whether an ask that was refused may have been its: its end does not show that its tool is quiet."""
        self.due: float | None = None
        """When time will do something to it: the valid timer among those set."""
        self.asks: dict[Asked, None] | None = None
        """Open asks that were given to it."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.tool or 'plain'} {self.state.value}>"


class Channel:
    """One session, as the rules see it."""

    __slots__ = ("active", "doubts", "held", "open", "primary", "suspended", "unlabelled")

    def __init__(self, *, unlabelled: bool) -> None:
        self.unlabelled = unlabelled
        """Whether asks can come on it that do not say whose they are."""
        self.primary = False
        self.open: dict[Run, None] = {}
        """Runs that were sent on it and not answered, ghosts included, oldest first."""
        self.active: dict[Run, None] = {}
        """Those of them that have to be looked at one by one: not suspended, or suspended with the turn."""
        self.suspended: dict[str, dict[Run, None]] = {}
        """The others, by tool, the latest last: a thousand people may be thinking, and no ask is to wait for that."""
        self.doubts: dict[Asked, None] = {}
        """Open asks that are not judged yet, or were and may turn out to be another run's."""
        self.held: dict[Asked, None] = {}
        """Roots asks that no run could carry."""

    def sent(self, run: Run) -> None:
        """The run's request is sent on it."""
        self.open[run] = None
        self.active[run] = None

    def waits(self, run: Run) -> None:
        """The run is suspended, without the turn; or, if it was that already, the latest to ask."""
        self.active.pop(run, None)
        waiting = self.suspended.setdefault(run.tool or "", {})
        waiting.pop(run, None)
        waiting[run] = None

    def goes_on(self, run: Run) -> None:
        """The run is suspended no longer."""
        if run in self.active:
            return
        waiting = self.suspended.get(run.tool or "")
        if waiting is not None:
            waiting.pop(run, None)
            if not waiting:
                del self.suspended[run.tool or ""]
        self.active[run] = None

    def over(self, run: Run) -> None:
        """The run is there no longer."""
        self.goes_on(run)
        self.active.pop(run, None)
        self.open.pop(run, None)

    @property
    def holders(self) -> list[Run]:
        """Runs that took the turn. Of those that still need one (`Turns.needs_turn`) there is more than one only if one
        of them resumed without waiting for it any longer."""
        return [run for run in self.open if run.turn]


@dataclass(frozen=True, slots=True)
class Send:
    """Send the run's request on this channel."""

    run: Run
    channel: Channel


@dataclass(frozen=True, slots=True)
class OpenSession:
    """Start one more session; then `open_channel`, or `session_failed`."""


@dataclass(frozen=True, slots=True)
class Resume:
    """Deliver the answers that the run waits to deliver."""

    run: Run


@dataclass(frozen=True, slots=True)
class Give:
    """The ask belongs to this run (a roots ask: is carried by it)."""

    ask: Ask
    run: Run
    inferred: bool


@dataclass(frozen=True, slots=True)
class Refuse:
    """Answer the ask with an error."""

    ask: Ask
    reason: str
    lapsed: bool = False
    """It is a held roots ask that had to go: the next call that can should ask on the bridge's own account."""


@dataclass(frozen=True, slots=True)
class Hold:
    """A roots ask that nobody can carry now: keep it for the next call that can."""

    ask: Ask


@dataclass(frozen=True, slots=True)
class LastRoots:
    """Answer the ask with the last known roots."""

    ask: Ask


@dataclass(frozen=True, slots=True)
class Withdraw:
    """The ask was not this run's after all: take it back from its client. What becomes of it is said next."""

    ask: Ask
    run: Run


@dataclass(frozen=True, slots=True)
class Forgotten:
    """A ghost that the server never answered is remembered no longer."""

    run: Run


@dataclass(frozen=True, slots=True)
class EndSession:
    """Its server is still at a call that was given up, and nothing else can reach it: end it, then
    `close_channel`."""

    channel: Channel


Command = Send | OpenSession | Resume | Give | Refuse | Hold | LastRoots | Withdraw | Forgotten | EndSession


@dataclass(slots=True)
class Counters:
    """What happened so far."""

    given: int = 0
    inferred: int = 0
    refused: int = 0
    mended: int = 0
    held: int = 0
    lapsed: int = 0
    spilled: int = 0
    """Calls sent on another session than the primary."""
    impatient: int = 0
    """Calls that resumed without the turn."""
    ghosts: int = 0
    ghosts_forgotten: int = 0


class Due(Protocol):
    """Something that time does something to."""

    due: float | None


class Timers:
    """When `tick` has something to do.

    Invariant: a subject's ``due`` is the time of its one valid entry, or None; entries that do not say the same are
    stale and skipped.
    """

    __slots__ = ("_count", "_heap", "_limit")

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Due]] = []
        self._count = 0
        self._limit = 64

    def set(self, subject: Due, when: float) -> None:
        subject.due = when
        self._count += 1
        heapq.heappush(self._heap, (when, self._count, subject))
        if len(self._heap) > self._limit:  # mostly stale ones, which would keep what is done in memory
            self._heap = [entry for entry in self._heap if entry[2].due == entry[0]]
            heapq.heapify(self._heap)
            self._limit = max(64, 2 * len(self._heap))

    def next(self) -> float | None:
        heap = self._heap
        while heap and heap[0][2].due != heap[0][0]:
            heapq.heappop(heap)
        return heap[0][0] if heap else None

    def pop_due(self, now: float) -> Due | None:
        """The next subject whose time has come; it has no timer any more."""
        when = self.next()
        if when is None or when > now:
            return None
        subject = heapq.heappop(self._heap)[2]
        subject.due = None
        return subject
