"""Whose ask is it, and who runs where: the rules for servers that ask without saying for which call.

A legacy server sends its asks (elicitation, sampling, roots) on its session. Over Streamable HTTP an ask may come on
the stream of the POST that caused it: that is a *label*, and an ask with a label goes to its run whatever else. On
stdio, on HTTP+SSE and on the GET stream there is none. An ask that reaches the wrong call is answered by a person who
was asked about something else, so nothing here is left to luck: runs are kept apart so that there is one possible
asker, evidence is waited for where there are several, and where there is none the ask is refused.

This is a pure state machine: no I/O, no clock, no tasks. Methods say what happened and when; the commands they return
(`bridge.runs`) say what to do about it, in order. Something has to call `tick` at `deadline`. Runs that ask for what
their client did not declare, or two principals, are kept apart by having groups of their own: one `Attribution` each.

Who runs where is `bridge.turns` (rules 1 and 2). What a run goes through, and what takes it there:

    state        place   suspended   wants_to_resume       answered   cancelled   time
    (new)        RUNNING or WAITING
    WAITING                                                DONE       DONE        RUNNING, if a session is free
    RUNNING              SUSPENDED   (resumed at once)     DONE       GHOST
    SUSPENDED                        RUNNING or RESUMING   DONE       GHOST
    RESUMING                                               DONE       GHOST       RUNNING, impatient
    GHOST                                                  DONE                   DONE, forgotten
    DONE

Everything else is a race that was lost and changes nothing. Whose ask it is, is judged here (rules 3 to 8):

*Candidates* of an unlabelled ask are the runs that were sent on its channel before it came and are not answered
since: plain ones and ghosts too. Those that waited for us when it came (suspended, resuming) count only if their tool
is known to ask several things at once, or if no other is left. An asker cannot finish before it has its answer, so
each run that finishes leaves the set, which is judged again at once:

    candidates                                               verdict
    none                                                     refuse
    only plain runs                                          refuse: nobody could carry it, and they wait for us  (6)
    one                                                      it is that one; a ghost's is refused                 (3, 8)
    several, 100 ms after it came, of which one may ask      that one, inferred (strict: refuse)                  (4)
    several, 100 ms after it came, the one is a ghost        keep waiting: there is no hurry to refuse
    the same, but another has run twice as long as ever      keep waiting: it may be that one, for all its quiet
    several, 2 s after it came                               refuse, and take each for a tool that asks           (5)

A run that ends while an ask of its own is open was not the asker, if anybody else can have been: its client is spared
the question, what it taught is unlearned, and the ask is judged again without it (7). The server never sees a wrong
answer for it, because answers go by the ask's own id.

Ghosts: a cancelled run counts as there until the server answers it, or for twice the longest that its tool ever ran,
within bounds; then it is forgotten (8).

Roots asks need no owner, for their answer belongs to the client: any running run of the session may carry one, or the
last known roots answer it, or it is held for the next run there that can. A held one that a plain run may be waiting
for lapses after 2 s (6).
"""

from __future__ import annotations

from enum import Enum

from bridge.knowledge import Kind, Knowledge
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
    Forgotten,
    Give,
    Hold,
    LastRoots,
    OpenSession,
    Refuse,
    Resume,
    Run,
    RunState,
    Send,
    Timers,
    Withdraw,
)
from bridge.turns import Turns
from legacy.messages import Ask

__all__ = [
    "Attribution",
    "Channel",
    "Command",
    "Counters",
    "Forgotten",
    "Give",
    "Hold",
    "LastRoots",
    "OpenSession",
    "Refuse",
    "Resume",
    "Run",
    "RunState",
    "Send",
    "Withdraw",
]


class _Verdict(Enum):
    PENDING = "pending"
    GIVEN = "given"
    HELD = "held"


class Asked:
    """An open ask and what is known of whose it is."""

    __slots__ = ("ask", "at", "candidates", "channel", "due", "inferred", "label", "overlap", "roots", "run", "verdict")

    def __init__(self, ask: Ask, channel: Channel, at: float, label: Run | None, *, roots: bool) -> None:
        self.ask = ask
        self.channel = channel
        self.at = at
        """When it came, or was judged anew."""
        self.label = label
        self.roots = roots
        self.candidates: dict[Run, bool] = {}
        """Who can have asked it, and whether that run waited for us when it came."""
        self.verdict = _Verdict.PENDING
        self.run: Run | None = None
        """Whom it was given to."""
        self.inferred = False
        self.overlap = 0
        """How many asks of that run were open already."""
        self.due: float | None = None


class Attribution:
    """The sessions that may serve the same calls: one server, one principal, one profile.

    Invariants, besides those of `Turns`: an open ask is in ``_asks`` from `asked` to its refusal, its answer with the
    last roots, or `ask_closed`; it is pending (and has a timer), given to exactly one run (and in that run's
    ``asks``) or held (and in its channel's ``held``). It is in its channel's ``doubts`` while it is pending or its
    verdict may still turn out wrong. A run that is DONE is referred to by nothing here.
    """

    def __init__(
        self,
        knowledge: Knowledge,
        *,
        max_sessions: int = 4,
        strict: bool = False,
        settle: float = 0.1,
        settle_max: float = 2.0,
        patience: float = 5.0,
        recently_suspended: float = 60.0,
        reopen_after: float = 30.0,
        ghost_min: float = 2.0,
        ghost_max: float = 60.0,
        ghost_unknown: float = 10.0,
    ) -> None:
        self.knowledge = knowledge
        self.counters = Counters()
        self._strict = strict
        self._settle = settle
        self._settle_max = settle_max
        self._ghost_min = ghost_min
        self._ghost_max = ghost_max
        self._ghost_unknown = ghost_unknown
        self._timers = Timers()
        self._turns = Turns(
            knowledge,
            self._timers,
            self.counters,
            max_sessions=max_sessions,
            patience=patience,
            recent=recently_suspended,
            reopen_after=reopen_after,
        )
        self._asks: dict[Ask, Asked] = {}
        self._held = 0
        self._last_roots = False

    # -- what can be seen ---------------------------------------------------------------------------------------------

    @property
    def is_idle(self) -> bool:
        """No run and no ask is remembered."""
        return not self._asks and not self._turns.queue and not any(channel.open for channel in self._turns.channels)

    def waiting(self) -> list[Run]:
        """Runs that no session was found for yet."""
        return list(self._turns.queue)

    def owner(self, ask: Ask) -> Run | None:
        """The run that the open ask was given to."""
        asked = self._asks.get(ask)
        return asked.run if asked is not None else None

    def deadline(self) -> float | None:
        """When `tick` has something to do."""
        return self._timers.next()

    # -- runs ---------------------------------------------------------------------------------------------------------

    def place(self, run: Run, now: float) -> list[Command]:
        """A run wants a session."""
        commands = self._turns.place(run, now)
        return self._carry_held(commands, now) if self._held else commands

    def suspended(self, run: Run, now: float) -> list[Command]:
        """The run waits for a client's answers; the wait for siblings is over."""
        if run.state is not RUNNING:
            return []
        return self._carry_held(self._turns.suspended(run, now), now)

    def wants_to_resume(self, run: Run, now: float) -> list[Command]:
        """Answers are there to be delivered."""
        if run.state is RUNNING:
            return [Resume(run)]
        if run.state is not SUSPENDED:
            return []
        return self._carry_held(self._turns.wants_to_resume(run, now), now)

    def answered(self, run: Run, now: float) -> list[Command]:
        """The server answered the run's request, with a result or an error."""
        state = run.state
        if state is GHOST or state is WAITING or state is DONE:
            return self.lost(run, now)
        changed = False
        if run.tool is not None:
            paused = run.paused if state is RUNNING else run.paused + now - run.suspended_at
            ran_for = now - run.sent_at - paused
            changed = self.knowledge.learned_done(run.tool, ran_for, askable=run.may_be_asked and not run.suspect)
        channel = run.channel
        if state is not RUNNING or run.turn or run.asks or changed or (channel is not None and channel.doubts):
            return self._over(run, now)
        turns = self._turns
        if (turns.queue or turns.resuming) and turns.needs_turn(run):
            return self._over(run, now)
        # Most runs end here: nothing waits for them and nothing was asked.
        if channel is not None:
            channel.open.pop(run, None)
        run.state = DONE
        return []

    def lost(self, run: Run, now: float) -> list[Command]:
        """The run is over without the server having answered it: nothing is learned."""
        return [] if run.state is DONE else self._over(run, now)

    def cancelled(self, run: Run, now: float) -> list[Command]:
        """The run was given up here. The caller answers what it has outstanding, except what is withdrawn."""
        if run.state is WAITING:
            return self._over(run, now)
        if run.state is GHOST or run.state is DONE:
            return []
        self._turns.haunts(run, now)
        self.counters.ghosts += 1
        self._timers.set(run, now + self._ghost_life(run))
        commands: list[Command] = []
        for asked in list(run.asks or ()):
            if asked.roots and asked.label is None:
                self._withdraw(asked, now, commands)
        return self._go_on(commands, now)

    def ghost_ended(self, run: Run, now: float) -> list[Command]:
        """The server said after all that it has done with a cancelled run."""
        return self._over(run, now) if run.state is GHOST else []

    # -- sessions -----------------------------------------------------------------------------------------------------

    def open_channel(self, channel: Channel, now: float) -> list[Command]:
        """A session is ready for requests."""
        return self._carry_held(self._turns.opened(channel, now), now)

    def close_channel(self, channel: Channel, now: float) -> list[Command]:
        """A session ended, and with it all its runs and asks."""
        for asked in [asked for asked in self._asks.values() if asked.channel is channel]:
            self._forget(asked)
        return self._carry_held(self._turns.closed(channel, now), now)

    def session_failed(self, now: float) -> list[Command]:
        """An `OpenSession` could not be carried out. If there is no session, `waiting` runs have to be given up."""
        return self._carry_held(self._turns.failed(now), now)

    # -- asks ---------------------------------------------------------------------------------------------------------

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
        asked = self._asks[ask] = Asked(ask, channel, now, label, roots=roots)
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
            self._refuse(asked, "The request that it was asked for cannot be asked about any more.", commands)
        else:
            asked.candidates = {run: run.state is SUSPENDED or run.state is RESUMING for run in channel.open}
            channel.doubts[asked] = None
            self._judge(asked, now, commands)
        return commands

    def ask_closed(self, ask: Ask, now: float) -> list[Command]:
        """The ask was answered or refused here, or withdrawn by the server."""
        asked = self._asks.get(ask)
        if asked is not None:
            self._forget(asked)
        return []

    # -- time ---------------------------------------------------------------------------------------------------------

    def tick(self, now: float) -> list[Command]:
        """Time has passed."""
        commands: list[Command] = []
        while (subject := self._timers.pop_due(now)) is not None:
            match subject:
                case Run(state=RunState.GHOST):
                    self._forget_ghost(subject, now, commands)
                case Run(state=RunState.RESUMING):
                    commands += self._carry_held([self._turns.hurry(subject, now)], now)
                case Asked(verdict=_Verdict.HELD):
                    self._lapse(subject, now, commands)
                case Asked(verdict=_Verdict.PENDING):
                    self._judge(subject, now, commands)
        return self._go_on(commands, now)

    # -- rules 3 to 5 -------------------------------------------------------------------------------------------------

    def _judge(self, asked: Asked, now: float, commands: list[Command]) -> None:
        candidates = self._candidates(asked)
        tools = [run for run in candidates if run.tool is not None]
        if not candidates:
            return self._refuse(asked, "No call is open that can have asked it.", commands)
        if not tools:
            return self._refuse(asked, "Only requests are open that cannot be asked about.", commands)
        if len(candidates) == 1:
            self._haunted_by(tools, now)
            return self._give(asked, tools[0], commands, inferred=False)
        settled = now >= asked.at + self._settle
        if settled:
            may_ask = [run for run in tools if run.may_be_asked and run.tool and self.knowledge.may_ask(run.tool)]
            overrun = any(self._overran(run, now) for run in tools if run not in may_ask)
            if len(may_ask) == 1 and may_ask[0].state is not GHOST and not overrun:
                if self._strict:
                    return self._refuse(asked, "It can only be inferred which call asked it.", commands)
                return self._give(asked, may_ask[0], commands, inferred=True)
            if now >= asked.at + self._settle_max:
                ghost = len(may_ask) == 1
                for run in may_ask or tools:
                    run.suspect = True
                    self.knowledge.suspected(run.tool or "")
                self._haunted_by(candidates, now)
                reason = "It came from a call that was cancelled." if ghost else "Several calls can have asked it."
                return self._refuse(asked, reason, commands)
        self._timers.set(asked, asked.at + (self._settle_max if settled else self._settle))
        return None

    def _candidates(self, asked: Asked) -> list[Run]:
        kind = self.knowledge.kind
        first = [run for run, waited in asked.candidates.items() if not waited or kind(run.tool or "") is Kind.MANY]
        return first or list(asked.candidates)

    def _overran(self, run: Run, now: float) -> bool:
        """The run of a quiet tool takes twice as long as any before it: as if it waited for something."""
        longest = self.knowledge.longest_run(run.tool) if run.tool is not None else None
        return longest is not None and run.state is RUNNING and now - run.sent_at - run.paused > 2 * longest

    # -- verdicts -----------------------------------------------------------------------------------------------------

    def _give(self, asked: Asked, run: Run, commands: list[Command], *, inferred: bool) -> None:
        if not asked.roots:
            self._learn(asked, run)
        if run.state is GHOST:
            return self._refuse(asked, "It came from a call that was cancelled.", commands)
        asked.verdict = _Verdict.GIVEN
        asked.run = run
        asked.inferred = inferred
        asked.due = None
        if run.asks is None:
            run.asks = {}
        run.asks[asked] = None
        self.counters.given += 1
        self.counters.inferred += inferred
        asked.candidates.pop(run, None)
        if not inferred and not asked.candidates:
            asked.channel.doubts.pop(asked, None)
        commands.append(Give(asked.ask, run, inferred))
        return None

    def _refuse(self, asked: Asked, reason: str, commands: list[Command], *, lapsed: bool = False) -> None:
        self._forget(asked)
        self.counters.refused += 1
        self.counters.lapsed += lapsed
        commands.append(Refuse(asked.ask, reason, lapsed))

    def _forget(self, asked: Asked) -> None:
        self._asks.pop(asked.ask, None)
        if asked.run is not None and asked.run.asks is not None:
            asked.run.asks.pop(asked, None)
        asked.channel.doubts.pop(asked, None)
        if asked in asked.channel.held:
            del asked.channel.held[asked]
            self._held -= 1
        asked.run = None
        asked.candidates = {}
        asked.due = None

    def _learn(self, asked: Asked, run: Run) -> None:
        assert run.tool is not None
        waits = run.state is SUSPENDED or run.state is RESUMING
        asked.overlap = max(len(run.asks or ()), int(waits))
        self.knowledge.learned_ask(run.tool, asked.overlap)
        if asked.label is None:
            self.knowledge.learned_unlabelled(run.tool)
        elif asked.ask.request_id is not None:  # a task's label says nothing about streams
            self.knowledge.learned_label(run.tool)

    # -- rules 7 and 8 ------------------------------------------------------------------------------------------------

    def _over(self, run: Run, now: float) -> list[Command]:
        """The run ended, and everything that follows from it."""
        self._turns.gone(run)
        commands: list[Command] = []
        if run.channel is not None:
            for doubt in list(run.channel.doubts):
                if doubt.candidates.pop(run, None) is None:
                    continue
                if doubt.verdict is _Verdict.PENDING:
                    self._judge(doubt, now, commands)
                elif not doubt.inferred and not doubt.candidates:
                    run.channel.doubts.pop(doubt, None)
        for asked in list(run.asks or ()):
            if asked.roots and asked.label is None:
                self._withdraw(asked, now, commands)
            elif asked in asked.channel.doubts:
                self.counters.mended += 1
                assert run.tool is not None
                self.knowledge.unlearned_ask(run.tool, asked.overlap)
                self._withdraw(asked, now, commands)
            else:
                self._refuse(asked, "The call that asked it is over.", commands)
        return self._go_on(commands, now)

    def _withdraw(self, asked: Asked, now: float, commands: list[Command]) -> None:
        """Take the ask back from whom it was given to, and judge it anew."""
        run = asked.run
        assert run is not None
        assert run.asks is not None
        run.asks.pop(asked, None)
        asked.run = None
        asked.verdict = _Verdict.PENDING
        asked.inferred = False
        asked.at = now
        commands.append(Withdraw(asked.ask, run))
        if asked.roots:
            self._judge_roots(asked, now, commands)
        else:
            self._judge(asked, now, commands)

    def _ghost_life(self, run: Run) -> float:
        longest = self.knowledge.longest_run(run.tool) if run.tool is not None else None
        if longest is None:
            return self._ghost_unknown
        return min(max(2 * longest, self._ghost_min), self._ghost_max)

    def _haunted_by(self, runs: list[Run], now: float) -> None:
        """Ghosts among the runs may have asked just now, so they go on from now."""
        for run in runs:
            if run.state is GHOST:
                until = min(now + self._ghost_life(run), run.since + self._ghost_max)
                if run.due is None or until > run.due:
                    self._timers.set(run, until)

    def _forget_ghost(self, run: Run, now: float, commands: list[Command]) -> None:
        assert run.channel is not None
        asked_at = [d.at for d in run.channel.doubts if d.verdict is _Verdict.PENDING and run in d.candidates]
        if asked_at:  # time alone does not clear it of an ask that came while it was there
            return self._timers.set(run, max(asked_at) + self._settle_max + self._settle)
        self.counters.ghosts_forgotten += 1
        commands.append(Forgotten(run))
        commands += self._over(run, now)
        return None

    # -- roots, and rule 6 for them -----------------------------------------------------------------------------------

    def _judge_roots(self, asked: Asked, now: float, commands: list[Command]) -> None:
        carrier: Run | None = None
        for run in reversed(asked.channel.open):
            if run.state is RUNNING and run.tool is not None and run.carries_roots:
                if run.turn:
                    carrier = run
                    break
                carrier = carrier or run
        if carrier is not None:
            return self._give(asked, carrier, commands, inferred=False)
        if self._last_roots:
            self._forget(asked)
            commands.append(LastRoots(asked.ask))
            return None
        asked.verdict = _Verdict.HELD
        asked.channel.held[asked] = None
        self._held += 1
        self.counters.held += 1
        commands.append(Hold(asked.ask))
        return self._lapse(asked, now, commands)

    def _lapse(self, asked: Asked, now: float, commands: list[Command]) -> None:
        """A plain run may be waiting for the held ask's answer, which only another could bring: not for long."""
        plain = [run.sent_at for run in asked.channel.open if run.tool is None and run.state is RUNNING]
        if not plain:
            return None
        lapses_at = max(asked.at, min(plain)) + self._settle_max
        if now >= lapses_at:
            return self._refuse(asked, "Nobody could be asked for roots in time.", commands, lapsed=True)
        return self._timers.set(asked, lapses_at)

    def _carry_held(self, commands: list[Command], now: float) -> list[Command]:
        """Have runs that just went on carry the roots asks that are held on their channel."""
        if not self._held:
            return commands
        carried: list[Command] = []
        for command in commands:
            if not isinstance(command, Send | Resume) or (channel := command.run.channel) is None:
                continue
            for asked in list(channel.held):
                if command.run.tool is None:
                    if asked.due is None:
                        self._lapse(asked, now, carried)
                elif command.run.carries_roots:
                    channel.held.pop(asked)
                    self._held -= 1
                    self._give(asked, command.run, carried, inferred=False)
        return commands + carried

    def _go_on(self, commands: list[Command], now: float) -> list[Command]:
        return commands + self._carry_held(self._turns.pump(now), now)
