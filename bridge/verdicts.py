"""Whose ask it is: rules 3 to 8 of attribution (see `bridge.attribution` for the whole theory)."""

from __future__ import annotations

from enum import Enum

from bridge.evidence import Evidence
from bridge.knowledge import Knowledge
from bridge.runs import (
    DONE,
    GHOST,
    RESUMING,
    RUNNING,
    SUSPENDED,
    Channel,
    Command,
    Counters,
    Give,
    Hold,
    LastRoots,
    Refuse,
    Resume,
    Run,
    Send,
    Timers,
    Withdraw,
)
from legacy.messages import Ask

MOST_CANDIDATES = 64
"""With more calls that can have asked, nothing will tell which did; and each ask remembers its candidates."""


class Verdict(Enum):
    PENDING = "pending"
    GIVEN = "given"
    HELD = "held"


class Asked:
    """An open ask and what is known of whose it is."""

    __slots__ = (
        *("ask", "at", "candidates", "channel", "due", "inferred", "label", "left", "overlap", "roots", "run"),
        "verdict",
    )

    def __init__(self, ask: Ask, channel: Channel, at: float, label: Run | None, *, roots: bool) -> None:
        self.ask = ask
        self.channel = channel
        self.at = at
        """When it came, or was judged anew."""
        self.label = label
        self.roots = roots
        self.candidates: dict[Run, None] = {}
        """Who can have asked it."""
        self.left: set[str] = set()
        """Owners of runs that could, may ask, and have ended since."""
        self.verdict = Verdict.PENDING
        self.run: Run | None = None
        """Whom it was given to."""
        self.inferred = False
        self.overlap = 0
        """How many asks of that run were open already."""
        self.due: float | None = None


class Verdicts:
    """The open asks of one group, and what was decided of each.

    Invariants: an open ask is in ``asks`` from `asked` to its refusal, its answer with the last roots, or `forget`; it
    is pending (and has a timer), given to exactly one run (and in that run's ``asks``) or held (and in its channel's
    ``held``; ``held`` here counts those). It is in its channel's ``doubts`` while it is pending or its verdict may
    still turn out wrong.
    """

    __slots__ = (
        "_counters",
        "_evidence",
        "_knowledge",
        "_last_roots",
        "_settle",
        "_settle_max",
        "_shared",
        "_strict",
        "_timers",
        "asks",
        "held",
    )

    def __init__(
        self,
        knowledge: Knowledge,
        evidence: Evidence,
        timers: Timers,
        counters: Counters,
        *,
        strict: bool,
        shared: bool,
        settle: float,
        settle_max: float,
    ) -> None:
        self._knowledge = knowledge
        self._evidence = evidence
        self._timers = timers
        self._counters = counters
        self._strict = strict or shared
        self._shared = shared
        self._settle = settle
        self._settle_max = settle_max
        self._last_roots = False
        self.asks: dict[Ask, Asked] = {}
        self.held = 0

    def asked(
        self,
        channel: Channel,
        ask: Ask,
        now: float,
        *,
        label: Run | None = None,
        roots: bool = False,
        last_roots: bool = False,
    ) -> list[Command]:
        """The server asked. `label`: the run that the wire names; `last_roots`: whether roots were answered before."""
        self._last_roots = last_roots
        asked = self.asks[ask] = Asked(ask, channel, now, label, roots=roots)
        commands: list[Command] = []
        if label is None and ask.request_id is not None and not roots:
            self._refuse(asked, "The request that it was asked for is not open any more.", commands)
        elif label is not None and label.tool is not None and label.state not in (GHOST, DONE):
            self._give(asked, label, commands, inferred=False)
        elif roots:
            asked.label = None
            self._judge_roots(asked, now, commands)
        elif label is not None:
            if label.state is GHOST and label.tool is not None:
                self._learn(asked, label)
                self._evidence.haunted_by([label], now)
            self._refuse(asked, "The request that it was asked for cannot be asked about any more.", commands)
        else:
            asked.candidates = self._evidence.who_can_have_asked(channel, ask.at)
            channel.doubts[asked] = None
            if len(asked.candidates) > MOST_CANDIDATES:
                self._refuse(asked, "Too many calls are open that can have asked it.", commands)
            else:
                self.judge(asked, now, commands)
        return commands

    def left(self, run: Run, now: float) -> list[Command]:
        """The run is over: it cannot have asked what is still open, whoever that was taken for (rule 7)."""
        commands: list[Command] = []
        if run.channel is not None:
            for doubt in list(run.channel.doubts):
                if run not in doubt.candidates:
                    continue
                del doubt.candidates[run]
                if self._evidence.may_ask(run):
                    doubt.left.add(run.owner)
                if doubt.verdict is Verdict.PENDING:
                    self.judge(doubt, now, commands)
                elif not doubt.inferred and not doubt.candidates:
                    run.channel.doubts.pop(doubt, None)
        for asked in list(run.asks or ()):
            if asked.roots and asked.label is None:
                self.withdraw(asked, now, commands)
            elif asked in asked.channel.doubts:
                self._counters.mended += 1
                assert run.tool is not None
                self._knowledge.unlearned_ask(run.tool, asked.overlap)
                self.withdraw(asked, now, commands)
            else:
                self._refuse(asked, "The call that asked it is over.", commands)
        return commands

    def taken_over(self, run: Run, now: float) -> list[Command]:
        """The run was cancelled: roots that it carried, which may be asked for another's sake, go to another."""
        commands: list[Command] = []
        for asked in list(run.asks or ()):
            if asked.roots and asked.label is None:
                self.withdraw(asked, now, commands)
        return commands

    # -- rules 3 to 5 -------------------------------------------------------------------------------------------------

    def judge(self, asked: Asked, now: float, commands: list[Command]) -> None:
        candidates = list(asked.candidates)
        tools = [run for run in candidates if run.tool is not None]
        if not candidates:
            return self._refuse(asked, "No call is open that can have asked it.", commands)
        if not tools:
            return self._refuse(asked, "Only requests are open that cannot be asked about.", commands)
        if len(candidates) == 1:
            if self._shared and not asked.left <= {tools[0].owner}:
                return self._refuse(asked, "A call of another client can have asked it, and has ended.", commands)
            self._evidence.haunted_by(tools, now)
            return self._give(asked, tools[0], commands, inferred=False)
        settled = now >= asked.at + self._settle
        if settled:
            may_ask = [run for run in tools if self._evidence.may_ask(run)]
            overrun = [run for run in tools if run not in may_ask and self._evidence.overran(run, now)]
            if len(may_ask) == 1 and may_ask[0].state is not GHOST and not overrun:
                if self._strict:
                    return self._refuse(asked, "It can only be inferred which call asked it.", commands)
                return self._give(asked, may_ask[0], commands, inferred=True)
            if now >= asked.at + self._settle_max:
                for run in may_ask + overrun or tools:
                    run.suspect = True
                    self._knowledge.suspected(run.tool or "")
                self._evidence.haunted_by(candidates, now)
                return self._refuse(asked, "Several calls can have asked it.", commands)
        self._timers.set(asked, asked.at + (self._settle_max if settled else self._settle))
        return None

    # -- what the rules come to ---------------------------------------------------------------------------------------

    def _give(self, asked: Asked, run: Run, commands: list[Command], *, inferred: bool) -> None:
        if not asked.roots:
            self._learn(asked, run)
        if run.state is GHOST:
            return self._refuse(asked, "It came from a call that was cancelled.", commands)
        asked.verdict = Verdict.GIVEN
        asked.run = run
        asked.inferred = inferred
        asked.due = None
        if run.asks is None:
            run.asks = {}
        run.asks[asked] = None
        self._counters.given += 1
        self._counters.inferred += inferred
        asked.candidates.pop(run, None)
        if not inferred and not asked.candidates:
            asked.channel.doubts.pop(asked, None)
        commands.append(Give(asked.ask, run, inferred))
        return None

    def _refuse(self, asked: Asked, reason: str, commands: list[Command], *, lapsed: bool = False) -> None:
        self.forget(asked)
        self._counters.refused += 1
        self._counters.lapsed += lapsed
        commands.append(Refuse(asked.ask, reason, lapsed))

    def forget(self, asked: Asked) -> None:
        self.asks.pop(asked.ask, None)
        if asked.run is not None and asked.run.asks is not None:
            asked.run.asks.pop(asked, None)
        asked.channel.doubts.pop(asked, None)
        if asked in asked.channel.held:
            del asked.channel.held[asked]
            self.held -= 1
        asked.run = None
        asked.candidates = {}
        asked.due = None

    def _learn(self, asked: Asked, run: Run) -> None:
        assert run.tool is not None
        waits = run.state is SUSPENDED or run.state is RESUMING
        asked.overlap = max(len(run.asks or ()), int(waits))
        self._knowledge.learned_ask(run.tool, asked.overlap, asked.ask.at - run.asked_at)
        run.asked_at = max(run.asked_at, asked.ask.at)
        if run.channel is not None and run.state is SUSPENDED and run not in run.channel.active:
            run.channel.waits(run)
        if asked.label is None:
            self._knowledge.learned_unlabelled(run.tool)
        elif asked.ask.request_id is not None:  # a task's label says nothing about streams
            self._knowledge.learned_label(run.tool)

    def withdraw(self, asked: Asked, now: float, commands: list[Command]) -> None:
        """Take the ask back from whom it was given to, and judge it anew."""
        run = asked.run
        assert run is not None
        assert run.asks is not None
        run.asks.pop(asked, None)
        asked.run = None
        asked.verdict = Verdict.PENDING
        asked.inferred = False
        asked.at = now
        commands.append(Withdraw(asked.ask, run))
        if asked.roots:
            self._judge_roots(asked, now, commands)
        else:
            self.judge(asked, now, commands)

    def suspected_until(self, ghost: Run) -> float | None:
        """A ghost is not forgotten before then: time alone does not clear it of an ask that came while it was there."""
        assert ghost.channel is not None
        at = [d.at for d in ghost.channel.doubts if d.verdict is Verdict.PENDING and ghost in d.candidates]
        return max(at) + self._settle_max + self._settle if at else None

    # -- roots, and rule 6 for them -----------------------------------------------------------------------------------

    def _judge_roots(self, asked: Asked, now: float, commands: list[Command]) -> None:
        carrier: Run | None = None
        for run in reversed(asked.channel.active):
            if run.state is RUNNING and _can_carry(run):
                if run.turn:
                    carrier = run
                    break
                carrier = carrier or run
        if carrier is None and not self._last_roots:
            carrier = self._only_one_without(asked.channel)
        if carrier is not None:
            return self._give(asked, carrier, commands, inferred=False)
        if self._last_roots:
            self.forget(asked)
            commands.append(LastRoots(asked.ask))
            return None
        asked.verdict = Verdict.HELD
        asked.channel.held[asked] = None
        self.held += 1
        self._counters.held += 1
        commands.append(Hold(asked.ask))
        return self.lapse(asked, now, commands)

    def _only_one_without(self, channel: Channel) -> Run | None:
        """The call that must have asked for roots which its client has not, where clients of all kinds share a session:
        it is for the call to refuse them."""
        tools = [run for run in channel.active if run.state is RUNNING and run.tool is not None]
        takers = [run for run in tools if run.turn] or tools
        return takers[0] if len(takers) == 1 else None

    def roots_known(self) -> list[Command]:
        """Let the last roots answer every ask that is held."""
        held = [asked for asked in self.asks.values() if asked.verdict is Verdict.HELD]
        for asked in held:
            self.forget(asked)
        return [LastRoots(asked.ask) for asked in held]

    def lapse(self, asked: Asked, now: float, commands: list[Command]) -> None:
        """A run that cannot carry it may be waiting for the held ask's answer: not for long."""
        plain = [run.sent_at for run in asked.channel.active if run.state is RUNNING and not _can_carry(run)]
        if not plain:
            return None
        lapses_at = max(asked.at, min(plain)) + self._settle_max
        if now >= lapses_at:
            return self._refuse(asked, "Nobody could be asked for roots in time.", commands, lapsed=True)
        return self._timers.set(asked, lapses_at)

    def carry_held(self, commands: list[Command], now: float) -> list[Command]:
        """Have runs that just went on carry the roots asks that are held on their channel."""
        if not self.held:
            return commands
        carried: list[Command] = []
        for command in commands:
            if not isinstance(command, Send | Resume) or (channel := command.run.channel) is None:
                continue
            for asked in list(channel.held):
                if not _can_carry(command.run):
                    if asked.due is None:
                        self.lapse(asked, now, carried)
                    continue
                channel.held.pop(asked)
                self.held -= 1
                self._give(asked, command.run, carried, inferred=False)
        return commands + carried


def _can_carry(run: Run) -> bool:
    """Its client can be asked for roots with it."""
    return run.carries_roots and run.tool is not None
