"""What speaks for a run being the one that asked: the evidence on which `bridge.verdicts` judges.

Reads what is known of tools and what is open on a channel. It decides nothing, and changes only how long a ghost is
believed in.
"""

from __future__ import annotations

from bridge.knowledge import Knowledge
from bridge.runs import GHOST, RESUMING, RUNNING, SUSPENDED, Channel, Run, Timers


class Evidence:
    """See the module, and `bridge.attribution` for the rules."""

    __slots__ = ("_ghost_max", "_ghost_min", "_ghost_unknown", "_knowledge", "_shared", "_timers", "_trusting")

    def __init__(
        self,
        knowledge: Knowledge,
        timers: Timers,
        *,
        trusting: bool,
        shared: bool,
        ghost_min: float,
        ghost_max: float,
        ghost_unknown: float,
    ) -> None:
        self._knowledge = knowledge
        self._timers = timers
        self._trusting = trusting
        self._shared = shared
        self._ghost_min = ghost_min
        self._ghost_max = ghost_max
        self._ghost_unknown = ghost_unknown

    def who_can_have_asked(self, channel: Channel, at: float) -> dict[Run, None]:
        """The candidates. One that waits for us counts while it may ask something else, as far as its tool is known, or
        if nothing else is open."""
        counted: dict[Run, None] = {}
        for run in channel.active:
            waits = run.state is SUSPENDED or run.state is RESUMING
            if not waits or at - run.asked_at <= self._within(run.tool or ""):
                counted[run] = None
        for tool, runs in channel.suspended.items():
            within = self._within(tool)
            for run in reversed(runs):
                if at - run.asked_at > within:
                    break  # those before it asked earlier
                counted[run] = None
        return counted or dict.fromkeys(channel.open)

    def _within(self, tool: str) -> float:
        return self._knowledge.asks_again_within(tool, trusting=self._trusting)

    def overran(self, run: Run, now: float) -> bool:
        """The run of a quiet tool takes twice as long as any before it: as if it waited for something."""
        longest = self._knowledge.longest_run(run.tool) if run.tool is not None else None
        return longest is not None and run.state is RUNNING and now - run.sent_at - run.paused > 2 * longest

    def may_ask(self, run: Run) -> bool:
        """It can be asked about, and its tool is not known to be quiet."""
        return run.may_be_asked and run.tool is not None and self._knowledge.may_ask(run.tool)

    def ghost_life(self, run: Run) -> float:
        if self._shared:
            return self._ghost_max
        longest = self._knowledge.longest_run(run.tool) if run.tool is not None else None
        if longest is None:
            return self._ghost_unknown
        return min(max(2 * longest, self._ghost_min), self._ghost_max)

    def haunted_by(self, runs: list[Run], now: float) -> None:
        """Ghosts among the runs may have asked just now, so they go on from now."""
        for run in runs:
            if run.state is GHOST:
                until = min(now + self.ghost_life(run), run.since + self._ghost_max)
                if run.due is None or until > run.due:
                    self._timers.set(run, until)
