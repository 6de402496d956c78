"""The course of one call: the coroutine that is suspended wherever the call has to wait.

What it means is told in `bridge.call`, which drives it: events come in by `_next_event`, commands go out by ``_out``.
No I/O, and no clock but ``_now``.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Generator
from math import inf
from typing import Any

from bridge import endings, signing_in
from bridge import outcomes as o
from bridge.endings import TOO_LATE, AttemptEnded, Missing, Over, closing, failed
from bridge.journal import Journal
from bridge.rounds import Delivery, Outstanding, Refusal
from bridge.settings import Limits
from bridge.timing import Overdue, Phase, Timing
from bridge.translate import errors
from bridge.translate.capabilities import Profile
from legacy.messages import Ask, Failure, Result


@types.coroutine
def _next_event() -> Generator[None, o.Event, o.Event]:
    """Suspend the call's coroutine until something happens to it."""
    return (yield)


class Course:
    """The state of one call and the coroutine that changes it.

    Invariants: at most one outcome per leg; ``step`` only rises; once done, nothing is outstanding.
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
        "_sure",
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
        self._missing = Missing()
        self._version = ""
        self._replayable = replayable
        self._journal = Journal()
        self._signed_in: set[str] = set()
        """URLs' ids whose completion the server has announced."""
        self._sure = True
        """Whether every answer found the one who asked, as far as is known (`legacy.messages.Ask.sure`)."""
        self._turn_given = False
        self._takes_tasks = takes_tasks
        """Whether its client declared the tasks extension with the first leg."""
        self._timing = Timing(limits, now)
        if takes_tasks and limits.task_after is not None:
            self._timing.task_from = now + limits.task_after
        self._out: list[o.Command] = []
        self._now = now
        self._coroutine = self._serve()

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
                except AttemptEnded as ended:
                    await self._after(ended)
        except Over as over:
            self._end(over)

    async def _attempt(self) -> None:
        """Have the server do it, until `AttemptEnded`."""
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

    async def _after(self, ended: AttemptEnded) -> None:
        """What an attempt's end means: returns when there is to be another.

        Raises:
            Over: it was the last.
        """
        pages = signing_in.pages(ended.reply, self._now) if isinstance(ended.reply, Failure) else []
        outcome = (
            None if ended.reply is None else endings.of_reply(self.method, ended.reply, self._missing, self._declared())
        )
        unheard = self._replayable() and self._journal.unread
        awaited = self._replayable() and not self._legs and self.outstanding.shown
        if self.is_task and isinstance(outcome, o.Complete) and outcome.result.get("isError") is not True:
            awaited = False  # nobody may ever come; what went well is not held back for them
        if not (pages or unheard or awaited):
            raise Over(outcome, cancel=ended.cancel)
        if ended.cancel is not None:
            self._out.append(o.Cancel(ended.cancel))
        left = self.outstanding.lapse_all() + [item.ask for item in self._delivering]
        self._out += closing(left, attempting=True)
        self._delivering = []
        self.attempting = False
        if pages:
            await self._sign_in(pages)
        elif not unheard:
            await self._lapsed(outcome)
        self._missing.clear()
        self._journal.rewind()

    async def _lapsed(self, outcome: o.Complete | o.Failed | None) -> None:
        """Until the client is back. Without an answer that counts it gets what the attempt came to, if to anything."""
        self.phase = Phase.LAPSED
        self._timing.lapsed()
        while not isinstance(await self._event(), o.LegJoined) and not (self.is_task and self._journal.unread):
            pass
        if outcome is not None and not self._journal.unread:
            raise Over(outcome)

    async def _sign_in(self, pages: list[Ask]) -> None:
        """Have the client's person open the pages, and wait, not for ever, until they have done there what they had to
        do: to accept means to consent, not to have done it [client/elicitation, URL Mode Flow]."""
        if not self.profile.url:
            raise Over(o.Failed(errors.missing_capability({"elicitation": {"url": {}}})))
        wanted = signing_in.ids(pages)
        self._out.append(o.AwaitSignIn(wanted))
        for page in pages:
            self.outstanding.add(page)
        await self._ask()
        if self._missing:
            raise Over(self._missing.failed())
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
                raise Over(failed(signing_in.DECLINED))

    def _tell(self, item: Delivery | Refusal) -> None:
        if isinstance(item, Delivery):
            self._out.append(o.Answer(item.ask, item.result))
            self._sure = self._sure and item.ask.sure
        else:
            self._refuse(item)

    async def _event(self) -> o.Event:
        """The next event, after what holds in every phase was done about it."""
        event = await _next_event()
        match event:
            case o.Sent() | o.Resumed() | o.RootsSettled() | o.AnswersTaken():
                pass  # waited for where it matters
            case o.Replied(cancelled=True):
                raise Over(o.Cancelled() if self.is_task else failed("The server cancelled its task."))
            case o.Replied(reply=reply):
                if isinstance(reply, Result) and not self.outstanding.used:  # nothing was asked: the end of most calls
                    raise Over(endings.of_reply(self.method, reply, self._missing, {}))
                raise AttemptEnded(reply)
            case o.Unserved(error=error):
                raise Over(o.Failed(error))
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
                raise Over(o.Cancelled(), cancel="The client cancelled the task.")
            case o.GivenUp(reason=reason):
                raise Over(failed(reason), cancel=reason)
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
        overdue = self._timing.overdue(self.phase, len(self._legs), self._now)
        match overdue:
            case None:
                return
            case Overdue.LEG if self._now >= self.becomes_task_at:
                self._become_task()
            case Overdue.LEG:
                self._settle(o.InputRequired({}, self.step, self._timing.parked(self._now)))
            case Overdue.ROUND if self._replayable() and self.attempting and self._now < self._timing.ends_at:
                raise AttemptEnded(None, TOO_LATE)
            case _:
                raise endings.of_time(overdue, self._limits, sure=self._sure or self.phase is not Phase.RUNNING)

    @property
    def is_task(self) -> bool:
        return self._timing.task

    @property
    def becomes_task_at(self) -> float:
        """Monotonic seconds when the open leg is told that the call is a task."""
        return self._timing.leg_ends_by_task_at(len(self._legs)) if self.phase is not Phase.DONE else inf

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
            self._missing.add(refusal.required)
        self._out.append(o.Refuse(refusal.ask, refusal.code, refusal.message))

    def _wants_beats(self) -> bool:
        return any(ask.progress_token is not None for ask in self.outstanding.asks)

    def _beat(self) -> None:
        timing = self._timing
        timing.beats += 1
        timing.beating(True, self._now)
        self._out += [o.AskProgress(a, timing.beats) for a in self.outstanding.asks if a.progress_token is not None]

    def _end(self, over: Over) -> None:
        """Cancel first, then answer what is still asked; then tell whoever waits."""
        left = self.outstanding.clear() + [item.ask for item in self._delivering]
        self._delivering = []
        if over.cancel is not None and self.attempting:
            self._out.append(o.Cancel(over.cancel))
        self._out += closing(left, attempting=self.attempting)
        self.attempting = False
        self.phase = Phase.DONE
        if over.outcome is not None and (over.cancel is None or self._legs or over.keep or self.is_task):
            self.outcome = over.outcome
            if not self.is_task:
                self._settle(over.outcome)
        else:
            self._last = None  # what was consumed came to nothing
