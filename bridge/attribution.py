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

Everything else is a race that was lost and changes nothing.

Whose ask it is, is judged in `bridge.verdicts` (rules 3 to 8), on what `bridge.evidence` says.

*Candidates* of an unlabelled ask are the runs that were sent on its channel before it came and are not answered
since: plain ones and ghosts too. Those that waited for us when it came (suspended, resuming) count only if they may
have asked something else meanwhile, or if no other is left. For how long after their last ask they may is learned:
three times the longest gap that was seen between two asks of one call, at least a second; a second too for a tool that
is hardly known (without limit where nothing may be inferred); not at all for one that asks one by one. An asker cannot
finish before it has its answer, so each run that finishes leaves the set, which is judged again at once:

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

Where several principals share the sessions (`shared`), evidence that would do between two calls of one is not enough
between two of them. Nothing is inferred. An ask is refused if a call of another that may ask was a candidate and has
ended since: some servers end a call that has asked without waiting for the answer. And ghosts last as long as they may.

Servers that read answers inline (`one_call`) have one run on a session at a time, of whatever kind, until it is
answered: such a session is no use while a ghost lives, and is ended when the ghost has outlived its time.

Roots asks need no owner, for their answer belongs to the client: any running run of the session may carry one, or the
last known roots answer it, or it is held for the next run there that can. A held one that a plain run may be waiting
for lapses after 2 s (6).
"""

from __future__ import annotations

from bridge.evidence import Evidence
from bridge.knowledge import Knowledge
from bridge.runs import (
    DONE,
    GHOST,
    RUNNING,
    SUSPENDED,
    WAITING,
    Channel,
    Command,
    Counters,
    EndSession,
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
from bridge.verdicts import Asked, Verdict, Verdicts
from legacy.messages import Ask

__all__ = [
    "Attribution",
    "Channel",
    "Command",
    "Counters",
    "EndSession",
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


class Attribution:
    """The sessions that may serve the same calls: one server, one principal, one profile.

    Invariants, besides those of `Turns` and of `Verdicts`: after each method nothing is left to do until something else
    happens or `deadline` comes; a run that is DONE is referred to by nothing here (but for stale timers).
    """

    def __init__(
        self,
        knowledge: Knowledge,
        *,
        max_sessions: int = 4,
        strict: bool = False,
        shared: bool = False,
        one_call: bool = False,
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
        self._timers = Timers()
        self._turns = Turns(
            knowledge,
            self._timers,
            self.counters,
            max_sessions=max_sessions,
            one_call=one_call,
            patience=patience,
            recent=recently_suspended,
            reopen_after=reopen_after,
        )
        self._evidence = Evidence(
            knowledge,
            self._timers,
            trusting=not (strict or shared),
            shared=shared,
            ghost_min=ghost_min,
            ghost_max=ghost_max,
            ghost_unknown=ghost_unknown,
        )
        self._verdicts = Verdicts(
            knowledge,
            self._evidence,
            self._timers,
            self.counters,
            strict=strict,
            shared=shared,
            settle=settle,
            settle_max=settle_max,
        )

    # -- what can be seen ---------------------------------------------------------------------------------------------

    @property
    def is_idle(self) -> bool:
        """No run and no ask is remembered."""
        return not (self._verdicts.asks or self._turns.queue or any(channel.open for channel in self._turns.channels))

    @property
    def is_at_rest(self) -> bool:
        """The same, but for roots that somebody may be asked for some day."""
        asks = len(self._verdicts.asks) - self._verdicts.held
        return not (asks or self._turns.queue or any(channel.open for channel in self._turns.channels))

    def waiting(self) -> list[Run]:
        """Runs that no session was found for yet."""
        return list(self._turns.queue)

    def owner(self, ask: Ask) -> Run | None:
        """The run that the open ask was given to."""
        asked = self._verdicts.asks.get(ask)
        return asked.run if asked is not None else None

    def deadline(self) -> float | None:
        """When `tick` has something to do."""
        return self._timers.next()

    # -- runs ---------------------------------------------------------------------------------------------------------

    def place(self, run: Run, now: float) -> list[Command]:
        """A run wants a session."""
        commands = self._turns.place(run, now)
        return self._verdicts.carry_held(commands, now) if self._verdicts.held else commands

    def suspended(self, run: Run, now: float) -> list[Command]:
        """The run waits for a client's answers; the wait for siblings is over."""
        if run.state is not RUNNING:
            return []
        return self._verdicts.carry_held(self._turns.suspended(run, now), now)

    def wants_to_resume(self, run: Run, now: float) -> list[Command]:
        """Answers are there to be delivered."""
        if run.state is RUNNING:
            return [Resume(run)]
        if run.state is not SUSPENDED:
            return []
        return self._verdicts.carry_held(self._turns.wants_to_resume(run, now), now)

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
            channel.active.pop(run, None)
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
        self._timers.set(run, now + self._evidence.ghost_life(run))
        return self._go_on(self._verdicts.taken_over(run, now), now)

    def ghost_ended(self, run: Run, now: float) -> list[Command]:
        """The server said after all that it has done with a cancelled run."""
        return self._over(run, now) if run.state is GHOST else []

    # -- sessions -----------------------------------------------------------------------------------------------------

    def only_one_session(self) -> None:
        """The server can have no further session."""
        self._turns.max_sessions = 1

    def open_channel(self, channel: Channel, now: float) -> list[Command]:
        """A session is ready for requests."""
        return self._verdicts.carry_held(self._turns.opened(channel, now), now)

    def close_channel(self, channel: Channel, now: float) -> list[Command]:
        """A session ended, and with it all its runs and asks."""
        for asked in [asked for asked in self._verdicts.asks.values() if asked.channel is channel]:
            self._verdicts.forget(asked)
        return self._verdicts.carry_held(self._turns.closed(channel, now), now)

    def session_failed(self, now: float) -> list[Command]:
        """An `OpenSession` could not be carried out. If there is no session, `waiting` runs have to be given up."""
        return self._verdicts.carry_held(self._turns.failed(now), now)

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
        return self._verdicts.asked(channel, ask, now, label=label, roots=roots, last_roots=last_roots)

    def roots_known(self) -> list[Command]:
        """A client answered for its roots: whatever is held can have them."""
        return self._verdicts.roots_known() if self._verdicts.held else []

    def ask_closed(self, ask: Ask, now: float) -> list[Command]:
        """The ask was answered or refused here, or withdrawn by the server."""
        asked = self._verdicts.asks.get(ask)
        if asked is not None:
            self._verdicts.forget(asked)
        return []

    # -- time ---------------------------------------------------------------------------------------------------------

    def tick(self, now: float) -> list[Command]:
        """Time has passed."""
        commands: list[Command] = []
        while (subject := self._timers.pop_due(now)) is not None:
            match subject:
                case Run(state=RunState.GHOST):
                    commands += self._forget_ghost(subject, now)
                case Run(state=RunState.SUSPENDED):
                    commands += self._verdicts.carry_held(self._turns.let_go(subject, now), now)
                case Run(state=RunState.RESUMING):
                    commands += self._verdicts.carry_held([self._turns.hurry(subject, now)], now)
                case Asked(verdict=Verdict.HELD):
                    self._verdicts.lapse(subject, now, commands)
                case Asked(verdict=Verdict.PENDING):
                    self._verdicts.judge(subject, now, commands)
        return self._go_on(commands, now)

    # -- what follows -------------------------------------------------------------------------------------------------

    def _over(self, run: Run, now: float) -> list[Command]:
        """The run ended, and everything that follows from it."""
        self._turns.gone(run)
        return self._go_on(self._verdicts.left(run, now), now)

    def _forget_ghost(self, run: Run, now: float) -> list[Command]:
        until = self._verdicts.suspected_until(run)
        if until is not None:
            self._timers.set(run, until)
            return []
        self.counters.ghosts_forgotten += 1
        if self._turns.one_call and run.channel is not None:
            return [EndSession(run.channel)]
        return [Forgotten(run), *self._over(run, now)]

    def _go_on(self, commands: list[Command], now: float) -> list[Command]:
        return commands + self._verdicts.carry_held(self._turns.pump(now), now)
