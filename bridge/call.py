"""The heart: a call that suspends while its client finds the answers.

Theory of operation
===================

A *call* is one modern request over all its rounds. The old server sees one request that takes long; the new client
sees one, two or ten short ones (*legs*). Between them stands a coroutine, `Call._serve`, that is suspended wherever
the call has to wait. It does no I/O and knows no clock: it is fed events (`Call.feed`) and hands out commands. Whoever
feeds it carries them out in their order.

    waiting ──Sent──▶ running ──Asked──▶ gathering ──(sibling wait)──▶ suspended ──answers──▶ resuming ──▶ running …
       ▲                 └───────────────Replied / Unserved / nobody waits any more / expired───────────────▶ done
       └──answers── lapsed ◀──(the attempt ended while its client was finding answers)

* **waiting**: no session yet, or not this call's turn. Time does not count against the server.
* **running**: the server works. When it says nothing for ``limits.silence`` the call fails.
* **gathering**: the server asked. Asks that arrive together are asked together, since clients count rounds; how long
  to wait for siblings is known to `sibling_wait`, per tool.
* **suspended**: the client was shown the round and its leg has ended; no leg is open. Whatever the server does
  meanwhile is kept for the retry: a further ask joins the next round, a result is what the retry comes to.
* **resuming**: answers are here; the call waits for its session's turn, then delivers them.

Roots that a server asked for outside any call come first: such a call is suspended before it is sent at all.

**Attempts.** The request that the old server sees is an *attempt*. One attempt is the rule. A further one is made where
running again is harmless (``replayable``) and the server did not wait for its answers: it took its ask back, ended the
request, died, or the round expired. The call is then *lapsed* until its client comes back; the server's asks are
answered from the journal, and the person is asked nothing twice. Nowhere else: the retry gets what the call came to.
A server that refuses with ``-32042`` until its person has signed in at some URL wants exactly that of its client: to
show the URLs and to send the request again. Those URLs make a round like any other.

**Steps.** The round that a client can answer now is ``step``; its token names it. A step is consumed when an answer of
it goes to the server. The same token with the same answers then means the same leg once more: it gets the same
outcome, and waits for it if need be. With other answers, or a step later, the token is spent [basic/patterns/mrtr,
single use].

**A call may become a task** [the tasks extension] if its client takes tasks: when the server made a task of it, or when
it has taken ``limits.task_after``. Its open leg is told so (`outcomes.BecameTask`), and from then on there is none: the
questions stand until `update` brings answers, some or all of them, in any phase; clients look for themselves at what
the call has come to. It is the same coroutine; only nobody need be there. Before, it asks by rounds. A task has
``limits.task_ttl`` instead of every limit below.

**Nothing waits for ever.** A round expires with the longest of its asks, a call with ``limits.call_ttl``. At its end
the server hears ``notifications/cancelled`` for the call first, then `cancel` for elicitations and an error for the
rest.

**A client that goes away cancels** [basic/patterns/cancellation]: when the last open leg is gone, the call is, after
``limits.disconnect_grace``. A suspended call has no open leg to lose.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Generator
from math import inf
from typing import Any

from bridge import outcomes as o
from bridge import signing_in
from bridge.journal import Journal
from bridge.rounds import Delivery, Outstanding, Refusal
from bridge.settings import Limits
from bridge.timing import Overdue, Phase, Timing
from bridge.translate import errors
from bridge.translate.capabilities import Profile
from legacy.messages import Ask, Failure, Lost, Reply, Result
from modern.errors import INTERNAL_ERROR, ProtocolError

CANCELLED_ANSWER = {"action": "cancel"}
NO_ANSWER = -32603
NO_ANSWER_MESSAGE = "The client did not answer."


class StepUsed(Exception):
    """The token's step was consumed already, with other answers or too long ago."""


class _Over(Exception):
    """The call has come to its end; ``outcome`` None when nobody is left to hear it."""

    def __init__(self, outcome: o.Final | None, *, cancel: str | None = None, keep: bool = False) -> None:
        self.outcome = outcome
        self.cancel = cancel
        self.keep = keep
        """Keep the outcome for a retry, also where the call was cancelled with no leg open."""


class _AttemptEnded(Exception):
    """The server replied, or it was given up: ``cancel``."""

    def __init__(self, reply: Reply | None, cancel: str | None = None) -> None:
        self.reply = reply
        self.cancel = cancel


@types.coroutine
def _next_event() -> Generator[None, o.Event, o.Event]:
    """Suspend the call's coroutine until something happens to it."""
    return (yield)


class Call:
    """One modern request being served.

    Invariants: at most one outcome per leg; ``step`` only rises; once done, nothing is outstanding and every event is
    ignored; ``deadline`` is always finite until then.
    """

    __slots__ = (
        "_consumed",
        "_coroutine",
        "_declared",
        "_delivering",
        "_journal",
        "_last",
        "_legs",
        "_limits",
        "_missing",
        "_now",
        "_out",
        "_replayable",
        "_signed_in",
        "_takes_tasks",
        "_timing",
        "_turn_given",
        "_version",
        "_wait",
        "attempting",
        "method",
        "outcome",
        "outstanding",
        "phase",
        "profile",
        "step",
    )

    def __init__(
        self,
        method: str,
        profile: Profile,
        limits: Limits,
        sibling_wait: Callable[[], float],
        declared: Callable[[], dict[str, Any]],
        now: float,
        *,
        replayable: Callable[[], bool] = lambda: False,
        takes_tasks: bool = False,
    ) -> None:
        self.method = method
        self.profile = profile
        """What the client of the latest leg declared."""
        self.phase = Phase.WAITING
        self.outcome: o.Final | None = None
        self.outstanding = Outstanding()
        self.step = 1
        self.attempting = False
        """Whether the server has, or is about to get, a request of this call that is not over."""
        self._limits = limits
        self._wait = sibling_wait
        self._declared = declared
        self._legs: list[o.LegId] = []
        self._last: o.Outcome | None = None
        """What the consumed step has come to, once it has."""
        self._consumed: tuple[int, object] | None = None
        self._delivering: list[Delivery | Refusal] = []
        self._missing: dict[str, Any] = {}
        """Capabilities that the server asked for and the client lacks."""
        self._version = ""
        self._replayable = replayable
        self._journal = Journal()
        self._signed_in: set[str] = set()
        """URLs' ids whose completion the server has announced."""
        self._turn_given = False
        self._takes_tasks = takes_tasks
        """Whether its client declared the tasks extension with the first leg."""
        self._timing = Timing(limits, now)
        if takes_tasks and limits.task_after is not None:
            self._timing.task_from = now + limits.task_after
        self._out: list[o.Command] = []
        self._now = now
        self._coroutine = self._serve()

    # -- what drives a call -------------------------------------------------------------------------------------------

    def start(self, leg: o.LegId, now: float, roots_first: Ask | None = None) -> list[o.Command]:
        """Begin; with ``roots_first``, the client is asked for its roots before the server hears of the call."""
        self._now = now
        self._legs.append(leg)
        if roots_first is not None:
            self.outstanding.add(roots_first)
        return self._advance(None)

    def feed(self, event: o.Event, now: float) -> list[o.Command]:
        """Tell the call what happened; what it wants done about it."""
        if self.phase is Phase.DONE:
            return []
        self._now = now
        return self._advance(event)

    def retry(self, leg: o.LegId, step: int, responses: object, profile: Profile, now: float) -> list[o.Command]:
        """A leg came back with the token of ``step``.

        Raises:
            StepUsed: the step was consumed with other answers, or is forgotten.
            ProtocolError: an answer has the wrong shape; nothing was taken, the token stays good.
        """
        if self._consumed is not None and step == self._consumed[0]:
            if responses != self._consumed[1]:
                raise StepUsed
            if self._last is not None:
                return [o.Settle(leg, self._last)]
            if self.phase is Phase.DONE:
                raise StepUsed
            return self.feed(o.LegJoined(leg), now)
        if step != self.step or self.is_task:
            raise StepUsed
        if self.outcome is not None:
            return [o.Settle(leg, self.outcome)]
        if self.phase is Phase.DONE:
            raise StepUsed
        self._take(step, responses, profile)
        commands = self.feed(o.LegJoined(leg), now)
        if self.phase is Phase.SUSPENDED:
            commands += self.feed(o.AnswersTaken(), now)
        return commands

    def _take(self, step: int, responses: object, profile: Profile) -> None:
        """Take the answers that a retry brings, where any can be taken now.

        Raises:
            ProtocolError: see `retry`.
        """
        if self.phase is not Phase.SUSPENDED and not (
            self._replayable() and self.phase in (Phase.RUNNING, Phase.LAPSED)
        ):
            return
        taken = self.outstanding.take(responses, self._version, lapsed=self._replayable())
        self.profile = profile
        if not taken:
            return
        if self._replayable() and self._version:
            self._journal.record(taken)
        if self.phase is Phase.SUSPENDED:
            self._delivering = taken
        self._consumed = (step, responses)
        self._last = None
        self.step += 1

    def update(self, responses: object, now: float) -> list[o.Command]:
        """Answers for a call that is a task, some or all; those for keys that are not asked now are ignored.

        Raises:
            ProtocolError: an answer has the wrong shape; nothing was taken.
        """
        if not self.is_task or self.phase is Phase.DONE:
            return []
        taken = self.outstanding.take(responses, self._version, lapsed=self._replayable())
        if self._replayable() and self._version:
            self._journal.record(taken)
        if self.phase not in (Phase.RUNNING, Phase.LAPSED):
            self._delivering += taken
        return self.feed(o.AnswersTaken(), now)

    def lacks(self, required: dict[str, Any]) -> None:
        """The server was refused something for want of these capabilities."""
        _merge(self._missing, required)

    @property
    def deadline(self) -> float:
        """Monotonic seconds when the call wants a `Tick` at the latest."""
        return self._timing.deadline(self.phase, len(self._legs))

    @property
    def is_task(self) -> bool:
        return self._timing.task

    @property
    def input_requests(self) -> dict[str, dict[str, Any]]:
        """What the client of a task is asked now, by key; also what its server would no longer wait for, where the
        answer still counts."""
        return self.outstanding.input(lapsed=self._replayable())

    @property
    def becomes_task_at(self) -> float:
        """Monotonic seconds when the open leg is told that the call is a task."""
        return self._timing.leg_ends_by_task_at(len(self._legs)) if self.phase is not Phase.DONE else inf

    @property
    def expires_at(self) -> float:
        """Monotonic seconds until when a token of the current step is good."""
        return min(self._timing.expires_at, self._timing.ends_at)

    def _advance(self, event: o.Event | None) -> list[o.Command]:
        out: list[o.Command] = []
        self._out = out
        try:
            self._coroutine.send(event)
        except StopIteration:
            pass
        self._out = []
        return out

    # -- the coroutine ------------------------------------------------------------------------------------------------

    async def _serve(self) -> None:
        try:
            if self.outstanding:
                await self._ask()
                self._out.append(o.SettleRoots())
                await self._until(o.RootsSettled)
            while True:
                try:
                    await self._attempt()
                except _AttemptEnded as ended:
                    await self._after(ended)
        except _Over as over:
            self._end(over)

    async def _attempt(self) -> None:
        """Have the server do it, until `_AttemptEnded`."""
        self.attempting = True
        self._turn_given = False
        self._out.append(o.Begin())
        sent = await self._until(o.Sent)
        self._version = sent.protocol_version
        while True:
            self.phase = Phase.RUNNING
            self._timing.heard_at = self._now
            while not self.outstanding:
                await self._event()
            await self._gather()
            await self._ask()

    async def _after(self, ended: _AttemptEnded) -> None:
        """What an attempt's end means: returns when there is to be another.

        Raises:
            _Over: it was the last.
        """
        pages = signing_in.pages(ended.reply, self._now) if isinstance(ended.reply, Failure) else []
        outcome = None if ended.reply is None else self._final(ended.reply)
        unheard = self._replayable() and self._journal.unread
        awaited = self._replayable() and not self._legs and self.outstanding.shown
        if self.is_task and isinstance(outcome, o.Complete) and outcome.result.get("isError") is not True:
            awaited = False  # nobody may ever come; what went well is not held back for them
        if not (pages or unheard or awaited):
            raise _Over(outcome, cancel=ended.cancel)
        if ended.cancel is not None:
            self._out.append(o.Cancel(ended.cancel))
        self._close(self.outstanding.lapse_all() + [item.ask for item in self._delivering])
        self._delivering = []
        self.attempting = False
        if pages:
            await self._sign_in(pages)
        elif not unheard:
            await self._lapsed(outcome)
        self._missing = {}
        self._journal.rewind()

    async def _lapsed(self, outcome: o.Complete | o.Failed | None) -> None:
        """Until the client is back. Without an answer that counts it gets what the attempt came to, if to anything."""
        self.phase = Phase.LAPSED
        self._timing.lapsed()
        while not isinstance(await self._event(), o.LegJoined) and not (self.is_task and self._journal.unread):
            pass
        if outcome is not None and not self._journal.unread:
            raise _Over(outcome)

    async def _sign_in(self, pages: list[Ask]) -> None:
        """Have the client's person open the pages, and wait, not for ever, until they have done there what they had to
        do: to accept means to consent, not to have done it [client/elicitation, URL Mode Flow]."""
        if not self.profile.url:
            raise _Over(o.Failed(errors.missing_capability({"elicitation": {"url": {}}})))
        wanted = signing_in.ids(pages)
        self._out.append(o.AwaitSignIn(wanted))
        for page in pages:
            self.outstanding.add(page)
        await self._ask()
        if self._missing:
            raise _Over(o.Failed(errors.missing_capability(self._missing)))
        self.phase = Phase.SIGNING_IN
        self._timing.signing_in(self._now)
        while not wanted <= self._signed_in and self._now < self._timing.signed_in_by:
            await self._event()

    async def _until(self, kind: type[Any]) -> Any:
        self.phase = Phase.WAITING
        while not isinstance(event := await self._event(), kind):
            pass
        return event

    async def _gather(self) -> None:
        """Wait for asks that belong together with the one that has come."""
        self.phase = Phase.GATHERING
        self._timing.siblings_until = self._now + self._wait()
        while self.outstanding and self._now < self._timing.siblings_until:
            await self._event()

    async def _ask(self) -> None:
        """Round after round, until the server has an answer to everything it asked."""
        while self.outstanding or self._delivering:
            if not self._delivering:
                if self._legs and self._timing.task_due(self.step, self._now):
                    self._become_task()
                if (self._legs or self.is_task) and not self._show():
                    return  # nothing that this client could be asked
                await self._suspended()
            if self._delivering:
                await self._deliver()
                if self.outstanding:  # answers may make the server ask more; what is left waits for it
                    await self._gather()

    def _show(self) -> bool:
        """End the open legs with a round or, where the call is a task, show it to whoever looks; False when there was
        nothing to ask this client."""
        requests, refusals = self.outstanding.present(self.profile)
        for refusal in refusals:
            self._refuse(refusal)
        if not requests or self.is_task:
            return bool(requests)
        expires_at = self._timing.round_shown(self.outstanding.asks, self._now)
        if self._replayable() and self.attempting:
            expires_at = self._timing.ends_at  # a later answer still counts: the call is run again with it
        self._settle(o.InputRequired(requests, self.step, expires_at))
        return True

    async def _suspended(self) -> None:
        """Until there are answers to deliver, a client to be shown the rest, or nothing left to ask."""
        self.phase = Phase.SUSPENDED
        if self.attempting and not self._turn_given:
            self._turn_given = True
            self._out.append(o.Suspend())
        self._timing.beating(self._wants_beats(), self._now)
        if self._timing.expires_at == inf and not self.is_task:
            self._timing.round_shown(self.outstanding.asks, self._now)
        while self.outstanding:
            event = await self._event()
            if isinstance(event, o.AnswersTaken) or (self.is_task and isinstance(event, o.Asked)):
                return
            if isinstance(event, o.Tick) and self._now >= self._timing.beat_at:
                self._beat()
        if self.attempting and not self._delivering:  # the server took everything back and goes on by itself
            self._turn_given = False
            self._out.append(o.Resume())

    async def _deliver(self) -> None:
        """Take the turn again, then give the server its answers."""
        if self._turn_given:
            self._turn_given = False
            self.phase = Phase.RESUMING
            self._out.append(o.Resume())
            while not isinstance(await self._event(), o.Resumed):
                pass
        self.phase = Phase.RUNNING
        self._timing.heard_at = self._now
        delivering, self._delivering = self._delivering, []
        for item in delivering:
            if item.ask.open:
                self._tell(item)
                self._journal.delivered(item)
            elif signing_in.is_page(item.ask) and not signing_in.consented(item):
                raise _Over(_failed(signing_in.DECLINED))

    def _tell(self, item: Delivery | Refusal) -> None:
        if isinstance(item, Delivery):
            self._out.append(o.Answer(item.ask, item.result))
        else:
            self._refuse(item)

    async def _event(self) -> o.Event:
        """The next event, after what holds in every phase was done about it."""
        event = await _next_event()
        match event:
            case o.Replied(cancelled=True):
                raise _Over(o.Cancelled() if self.is_task else _failed("The server cancelled its task."))
            case o.Replied(reply=reply):
                raise _AttemptEnded(reply)
            case o.Unserved(error=error):
                raise _Over(o.Failed(error))
            case o.Asked(ask=ask):
                self._timing.heard_at = self._now
                if (answer := self._journal.recall(ask)) is not None:
                    self._tell(answer)
                else:
                    self.outstanding.add(ask)
            case o.Withdrawn(ask=ask):
                self._withdrawn(ask)
            case o.SignedIn(id=id):
                self._signed_in.add(id)
            case o.Heard():
                self._timing.heard_at = self._now
            case o.LegJoined(leg=leg):
                self._legs.append(leg)
                self._timing.leg_joined(self._now)
            case o.LegGone(leg=leg):
                self._leg_gone(leg)
            case o.MadeTask():
                if self._takes_tasks and not self.is_task:
                    self._timing.task_from = min(self._timing.task_from, self._now)
            case o.TaskCancelled():
                raise _Over(o.Cancelled(), cancel="The client cancelled the task.")
            case o.GivenUp(reason=reason):
                raise _Over(_failed(reason), cancel=reason)
            case o.Tick():
                self._check_time()
        return event

    def _withdrawn(self, ask: Ask) -> None:
        if ask.open:  # another call's: whatever it is answered says nothing about this one
            self.outstanding.discard(ask)
            self.outstanding.forget_lapsed(ask)
            self._journal.forget(ask)
        else:
            self.outstanding.lapse(ask)
        self._delivering = [item for item in self._delivering if item.ask is not ask]

    def _leg_gone(self, leg: o.LegId) -> None:
        if leg not in self._legs:
            return
        self._legs.remove(leg)
        if not self._legs:
            self._timing.last_leg_gone(self._now)
            self._check_time()

    def _check_time(self) -> None:
        match self._timing.overdue(self.phase, len(self._legs), self._now):
            case Overdue.CLIENT:
                raise _Over(None, cancel="The client went away.")
            case Overdue.ROUND:
                late = "The call was not continued in time."
                if self._replayable() and self.attempting and self._now < self._timing.ends_at:
                    raise _AttemptEnded(None, late)
                raise _Over(None, cancel=late)
            case Overdue.CALL:
                message = "The call took longer than it may (--call-ttl); it was cancelled."
                raise _Over(_failed(message), cancel="The call took too long.")
            case Overdue.SERVER:
                message = (
                    f"The server said nothing for {self._limits.silence:g} s (--timeout); the call was cancelled."
                    " Whether it had an effect is unknown."
                )
                raise _Over(_failed(message), cancel="The server was silent for too long.", keep=True)
            case Overdue.TASK:
                message = "The task took longer than it may (--task-ttl); it was cancelled."
                raise _Over(_failed(message), cancel="The task took too long.")
            case Overdue.LEG if self._now >= self.becomes_task_at:
                self._become_task()
            case Overdue.LEG:
                self._settle(o.InputRequired({}, self.step, self._timing.parked(self._now)))

    # -- small things -------------------------------------------------------------------------------------------------

    def _become_task(self) -> None:
        self._timing.became_task(self._now)
        self._settle(o.BecameTask())

    def _settle(self, outcome: o.Outcome) -> None:
        self._last = outcome
        for leg in self._legs:
            self._out.append(o.Settle(leg, outcome))
        self._legs.clear()

    def _refuse(self, refusal: Refusal) -> None:
        if refusal.required:
            _merge(self._missing, refusal.required)
        self._out.append(o.Refuse(refusal.ask, refusal.code, refusal.message))

    def _wants_beats(self) -> bool:
        return any(ask.progress_token is not None for ask in self.outstanding.asks)

    def _beat(self) -> None:
        timing = self._timing
        timing.beats += 1
        timing.beating(True, self._now)
        self._out += [o.AskProgress(a, timing.beats) for a in self.outstanding.asks if a.progress_token is not None]

    def _final(self, reply: Result | Failure | Lost) -> o.Complete | o.Failed:
        """What the server's reply means to the client, given what it could not be asked."""
        match reply:
            case Result(value=value):
                if self._missing and value.get("isError") is True:
                    return o.Failed(errors.missing_capability(self._missing))
                return o.Complete(value)
            case Failure():
                if self._missing:
                    return o.Failed(errors.missing_capability(self._missing))
                return o.Failed(errors.to_modern(self.method, reply, declared=self._declared()))
            case Lost(reason=reason):
                return o.Failed(errors.lost(reason))

    def _end(self, over: _Over) -> None:
        """Cancel first, then answer what is still asked; then tell whoever waits."""
        left = self.outstanding.clear() + [item.ask for item in self._delivering]
        self._delivering = []
        if over.cancel is not None and self.attempting:
            self._out.append(o.Cancel(over.cancel))
        self._close(left)
        self.attempting = False
        self.phase = Phase.DONE
        if over.outcome is not None and (over.cancel is None or self._legs or over.keep or self.is_task):
            self.outcome = over.outcome
            if not self.is_task:
                self._settle(over.outcome)
        else:
            self._last = None  # what was consumed came to nothing

    def _close(self, left: list[Ask]) -> None:
        """Answer what the server still asks and nobody will answer any more."""
        for ask in left:
            if not ask.open:
                continue
            if not self.attempting:
                self._out.append(o.GiveBack(ask))
            elif ask.method == "elicitation/create":
                self._out.append(o.Answer(ask, dict(CANCELLED_ANSWER)))
            else:
                self._out.append(o.Refuse(ask, NO_ANSWER, NO_ANSWER_MESSAGE))


def _failed(message: str) -> o.Failed:
    return o.Failed(ProtocolError(INTERNAL_ERROR, message))


def _merge(into: dict[str, Any], more: Any) -> None:
    for name, value in more.items():
        if isinstance(value, dict) and isinstance(into.get(name), dict):
            _merge(into[name], value)
        else:
            into[name] = dict(value) if isinstance(value, dict) else value
