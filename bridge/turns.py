"""Who runs where: rules 1 and 2 of attribution (see `bridge.attribution` for the whole theory).

A run that needs no turn goes to the primary session at once. One that does is *seated*: on a session with an unlabelled
channel at most one run that needs a turn is running. What a session is to such a run:

    standing    what it means                                              new run           run that resumes there
    FREE        nothing there that may ask, or it was suspended long ago   takes it          takes the turn
    RESTING     all that may ask there are suspended                       if no more may    takes the turn
                                                                           be started
    HAUNTED     no turn taken, but a ghost that may ask                    after `patience`  takes the turn
    BUSY        somebody has the turn, or waits to resume                  waits             waits, for `patience`

With `one_call` every run needs a turn, keeps it while it is suspended or a ghost, and a session is FREE or BUSY.

What needs a turn is asked of `Knowledge` each time, never remembered: a tool that turns out to ask takes its turn from
that moment on, one that turns out quiet gives it up.
"""

from __future__ import annotations

from enum import IntEnum
from math import inf

from bridge.knowledge import Knowledge
from bridge.runs import (
    DONE,
    GHOST,
    RESUMING,
    RUNNING,
    SUSPENDED,
    WAITING,
    Channel,
    Command,
    Counters,
    OpenSession,
    Resume,
    Run,
    Send,
    Timers,
)


class Standing(IntEnum):
    """Better is smaller."""

    FREE = 0
    RESTING = 1
    HAUNTED = 2
    BUSY = 3


class Turns:
    """The sessions of one group, the runs on them and those that wait.

    Invariants: the primary is the oldest channel, if there is any; a WAITING run is in ``queue``, a RESUMING one in
    ``resuming``, and nothing else is; every sent run that is not DONE is in its channel's ``open``, and either in its
    ``active`` or, SUSPENDED and without the turn, in its ``suspended``; while a channel is FREE, no run waits that
    could have it; only `hurry` lets two runs that need a turn run side by side.
    """

    __slots__ = (
        "_closed_until",
        "_counters",
        "_knowledge",
        "_patience",
        "_recent",
        "_reopen_after",
        "_timers",
        "channels",
        "due",
        "max_sessions",
        "one_call",
        "opening",
        "primary",
        "queue",
        "resuming",
    )

    def __init__(
        self,
        knowledge: Knowledge,
        timers: Timers,
        counters: Counters,
        *,
        max_sessions: int,
        one_call: bool,
        patience: float,
        recent: float,
        reopen_after: float,
    ) -> None:
        self._knowledge = knowledge
        self._timers = timers
        self._counters = counters
        self._patience = patience
        self._recent = recent
        self._reopen_after = reopen_after
        self._closed_until = float("-inf")
        self.max_sessions = max_sessions
        self.one_call = one_call
        """One run on a session at a time, whatever it is."""
        self.channels: dict[Channel, None] = {}
        self.primary: Channel | None = None
        self.queue: dict[Run, None] = {}
        self.resuming: dict[Run, None] = {}
        self.opening = 0
        self.due: float | None = None

    def needs_turn(self, run: Run) -> bool:
        """The run may ask, and the ask may come without a label."""
        if self.one_call:
            return True
        return run.may_be_asked and run.tool is not None and self._knowledge.needs_turn(run.tool)

    # -- what happens to runs -----------------------------------------------------------------------------------------

    def place(self, run: Run, now: float) -> list[Command]:
        primary = self.primary
        if primary is not None and not (primary.unlabelled and self.needs_turn(run)):
            return [self._send(run, primary, now)]
        run.since = now
        self.queue[run] = None
        return self.pump(now)

    def suspended(self, run: Run, now: float) -> list[Command]:
        run.state = SUSPENDED
        run.suspended_at = now
        # A tool that asks several things at once may ask the next while it waits, and one that is hardly known may be
        # such a tool: it stays the only one that may, until it has most likely asked all that it will.
        within = self._knowledge.asks_again_within(run.tool or "") if self._takes_turns(run) else -1.0
        if self.one_call:
            run.turn = True
        elif within > 0:
            run.turn = run.turn or self._may_take(run)
            if run.turn and within != inf:
                self._timers.set(run, max(run.asked_at + within, now))
        else:
            run.turn = False
        if not run.turn and run.channel is not None:
            run.channel.waits(run)
        return self.pump(now)

    def wants_to_resume(self, run: Run, now: float) -> list[Command]:
        if run.turn or not self._takes_turns(run):
            return [self._resume(run, now)]
        run.state = RESUMING
        if run.channel is not None:
            run.channel.goes_on(run)
        run.since = now
        self.resuming[run] = None
        commands = self.pump(now)
        if run.state is RESUMING:
            self._timers.set(run, now + self._patience)
        return commands

    def let_go(self, run: Run, now: float) -> list[Command]:
        """If it has most likely asked all that it will, others may have the turn while it waits."""
        until = run.asked_at + self._knowledge.asks_again_within(run.tool or "")
        if now < until:
            if until != inf:
                self._timers.set(run, until)
            return []
        run.turn = False
        if run.channel is not None:
            run.channel.waits(run)
        return self.pump(now)

    def hurry(self, run: Run, now: float) -> Command:
        """It waited long enough: whoever has the turn may be waiting for a lock that this run holds."""
        self._counters.impatient += 1
        return self._resume(run, now)

    def haunts(self, run: Run, now: float) -> None:
        """The run was cancelled. It holds no turn any more, but its session is not as good as another."""
        self._stop_waiting(run)
        run.state = GHOST
        if run.channel is not None:
            run.channel.goes_on(run)
        run.since = now
        run.turn = False
        run.due = None

    def gone(self, run: Run) -> None:
        """The run is over, however it ended."""
        self._stop_waiting(run)
        if run.channel is not None:
            run.channel.over(run)
        run.state = DONE
        run.turn = False
        run.due = None

    def _stop_waiting(self, run: Run) -> None:
        if run.state is WAITING:
            self.queue.pop(run, None)
        elif run.state is RESUMING:
            self.resuming.pop(run, None)

    # -- what happens to sessions -------------------------------------------------------------------------------------

    def opened(self, channel: Channel, now: float) -> list[Command]:
        self.opening = max(0, self.opening - 1)
        self.channels[channel] = None
        if self.primary is None:
            self.primary = channel
            channel.primary = True
        return self.pump(now)

    def closed(self, channel: Channel, now: float) -> list[Command]:
        self.channels.pop(channel, None)
        for run in list(channel.open):
            self.gone(run)
        if self.primary is channel:
            channel.primary = False
            self.primary = next(iter(self.channels), None)
            if self.primary is not None:
                self.primary.primary = True
        return self.pump(now)

    def failed(self, now: float) -> list[Command]:
        """A session could not be started: make do with those that are there, for a while."""
        self.opening = max(0, self.opening - 1)
        if not self.channels:
            return []  # whoever waits is told by the driver; starting again at once would never end
        self._closed_until = now + self._reopen_after
        self._timers.set(self, self._closed_until)
        return self.pump(now)

    # -- the rules ----------------------------------------------------------------------------------------------------

    def pump(self, now: float) -> list[Command]:
        """Let everything go on that now can: first what resumes, then what has not started, each in its order."""
        commands: list[Command] = []
        if self.resuming:
            for run in list(self.resuming):
                if not self._takes_turns(run) or self._may_take(run):
                    commands.append(self._resume(run, now))
        if self.queue:
            self._pump_queue(now, commands)
        return commands

    def _pump_queue(self, now: float, commands: list[Command]) -> None:
        being_started = self.opening
        stuck = False
        for run in list(self.queue):
            primary = self.primary
            if primary is not None and not (primary.unlabelled and self.needs_turn(run)):
                commands.append(self._send(run, primary, now))
                continue
            if stuck:
                continue
            channel, standing = self._best(now)
            if channel is not None and standing is Standing.FREE:
                commands.append(self._send(run, channel, now))
            elif being_started:
                being_started -= 1
                stuck = not self.channels  # the first session serves everybody; what more is needed shows then
            elif len(self.channels) + self.opening < self.max_sessions and not (
                self.channels and now < self._closed_until
            ):
                self.opening += 1
                commands.append(OpenSession())
                stuck = not self.channels
            elif channel is not None and (
                standing is Standing.RESTING or (standing is Standing.HAUNTED and now >= run.since + self._patience)
            ):
                commands.append(self._send(run, channel, now))
            else:
                stuck = True
                if run.due is None:
                    # Also finds out what other groups of the server have taught `Knowledge` meanwhile.
                    patient_until = run.since + self._patience
                    self._timers.set(run, patient_until if now < patient_until else now + self._patience)

    def _best(self, now: float) -> tuple[Channel | None, Standing]:
        """The best session for a run that needs a turn: the oldest of those that stand best."""
        best, best_standing = None, Standing.BUSY
        for channel in self.channels:
            if not channel.unlabelled:
                return channel, Standing.FREE
            standing = self._standing(channel, now)
            if standing < best_standing:
                best, best_standing = channel, standing
                if standing is Standing.FREE:
                    break
        return best, best_standing

    def _standing(self, channel: Channel, now: float) -> Standing:
        if self.one_call:
            return Standing.BUSY if channel.open else Standing.FREE
        standing = Standing.FREE
        for run in channel.active:
            if not self.needs_turn(run):
                continue
            if run.state is not GHOST:
                return Standing.BUSY
            standing = Standing.HAUNTED
        if standing is Standing.FREE:
            latest = [next(reversed(runs)) for runs in channel.suspended.values()]
            if any(now - run.suspended_at < self._recent and self.needs_turn(run) for run in latest):
                standing = Standing.RESTING
        return standing

    def _takes_turns(self, run: Run) -> bool:
        return run.channel is not None and run.channel.unlabelled and self.needs_turn(run)

    def _may_take(self, run: Run) -> bool:
        """No other run has the turn of this one's session."""
        assert run.channel is not None
        return not any(
            other is not run and (other.turn or other.state is RUNNING) and self.needs_turn(other)
            for other in run.channel.active
        )

    # -- what the rules come to ---------------------------------------------------------------------------------------

    def _send(self, run: Run, channel: Channel, now: float) -> Send:
        if self.queue:
            self.queue.pop(run, None)
        if channel.unlabelled:
            run.turn = self.needs_turn(run)
        if not channel.primary:
            self._counters.spilled += 1
        run.state = RUNNING
        run.channel = channel
        run.sent_at = now
        run.due = None
        channel.sent(run)
        return Send(run, channel)

    def _resume(self, run: Run, now: float) -> Resume:
        self.resuming.pop(run, None)
        run.state = RUNNING
        if run.channel is not None:
            run.channel.goes_on(run)
        run.paused += now - run.suspended_at
        run.due = None
        run.turn = self._takes_turns(run)
        return Resume(run)
