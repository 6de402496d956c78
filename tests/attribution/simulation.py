"""A day of calls against the real rules: a discrete-event simulation of one principal's calls to a server on stdio.

It knows who really asked, so it can say how often the rules gave an ask to the wrong call, or refused one. The tools,
how often they are called, and how long people take to answer are those of the model in which the rules were first
tried.
"""

from __future__ import annotations

import heapq
import itertools
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from bridge import attribution as rules
from bridge.knowledge import Knowledge
from legacy.messages import Ask


@dataclass(frozen=True)
class Tool:
    share: int
    work: tuple[float, float]
    """Seconds from the call, shortest and longest, to its ask or its end."""
    asks: float = 0
    """How likely a call is to ask."""
    rounds: int = 1
    parallel: float | None = None
    """Seconds between two asks that are open at the same time; None: it asks one thing at a time."""


TOOLS = {
    "quick": Tool(60, (0.002, 0.02)),
    "long": Tool(6, (1, 60)),
    "ask": Tool(12, (0.002, 0.02), asks=1, rounds=2),
    "slow_ask": Tool(6, (2, 5), asks=1),
    "maybe": Tool(12, (0.005, 0.05), asks=0.05),
    "many": Tool(3, (0.005, 0.01), asks=1, parallel=0.002),
    "gappy": Tool(1, (0.005, 0.01), asks=1, parallel=0.3),
}


class Call(rules.Run):
    """A run, what the server makes of it and what its client was asked."""

    __slots__ = ("born", "cancelled", "outstanding", "parallel", "rounds", "unanswered", "work")

    def __init__(self, name: str, rng: random.Random, now: float) -> None:
        super().__init__(name, may_be_asked=True, carries_roots=False)
        tool = TOOLS[name]
        self.work = rng.uniform(*tool.work)
        self.rounds = tool.rounds if rng.random() < tool.asks else 0
        self.parallel = tool.parallel
        self.cancelled = False
        self.born = now
        self.unanswered: set[Ask] = set()
        """At the server: asks of this call that wait for an answer."""
        self.outstanding: dict[Ask, bool] = {}
        """Here: asks that were given to this call, and whether its client has answered them."""


@dataclass
class Score:
    calls: int = 0
    asks: int = 0
    wrong: int = 0
    refused: int = 0
    start_waits: list[float] = field(default_factory=list)


class Simulation:
    """``rate`` calls a second until ``calls`` were made; then until everything has ended."""

    def __init__(self, *, rate: float, calls: int, seed: int, max_sessions: int, cancel: float = 0.03) -> None:
        self.rules = rules.Attribution(Knowledge(), max_sessions=max_sessions)
        self.score = Score()
        self._rng = random.Random(seed)
        self._rate = rate
        self._left = calls
        self._cancel = cancel
        self._now = 0.0
        self._count = itertools.count()
        self._events: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._askers: dict[Ask, Call] = {}
        self._wake = float("inf")

    def run(self) -> Score:
        self._arrive()
        while self._events:
            self._now, _, happen, args = heapq.heappop(self._events)
            happen(*args)
            deadline = self.rules.deadline()
            if deadline is not None and deadline < self._wake:
                self._wake = deadline
                self._in(deadline - self._now, self._tick)
        assert self.rules.is_idle
        return self.score

    def _in(self, seconds: float, happen: Callable[..., None], *args: Any) -> None:
        heapq.heappush(self._events, (self._now + max(0, seconds), next(self._count), happen, args))

    def _tick(self) -> None:
        self._wake = float("inf")
        # Adding the difference of two times to the earlier one may miss the later one by a hair.
        self._carry_out(self.rules.tick(self._now + 1e-9))

    # What clients do.

    def _arrive(self) -> None:
        if not self._left:
            return
        self._left -= 1
        self.score.calls += 1
        name = self._rng.choices(list(TOOLS), [tool.share for tool in TOOLS.values()])[0]
        self._carry_out(self.rules.place(Call(name, self._rng, self._now), self._now))
        self._in(self._rng.expovariate(self._rate), self._arrive)

    def _gives_up(self, call: Call) -> None:
        if call.state is rules.RunState.RUNNING and not call.outstanding:
            call.cancelled = True
            self._carry_out(self.rules.cancelled(call, self._now))

    def _suspends(self, call: Call) -> None:
        if call.outstanding:
            self._carry_out(self.rules.suspended(call, self._now))

    def _user_answers(self, call: Call, ask: Ask) -> None:
        if ask in call.outstanding:
            call.outstanding[ask] = True
            self._resume_if_answered(call)

    def _resume_if_answered(self, call: Call) -> None:
        if all(call.outstanding.values()):
            self._carry_out(self.rules.wants_to_resume(call, self._now))

    # What the server does.

    def _works(self, call: Call) -> None:
        if call.rounds:
            call.rounds -= 1
            asks = [
                Ask("elicitation/create", {}, next(self._count), None, self._now)
                for _ in range(1 + (call.parallel is not None))
            ]
            call.unanswered.update(asks)
            for i, ask in enumerate(asks):
                self._in(i * (call.parallel or 0), self._asks, call, ask)
        else:
            self._carry_out(self.rules.answered(call, self._now))

    def _asks(self, call: Call, ask: Ask) -> None:
        self._askers[ask] = call
        self.score.asks += not call.cancelled
        assert call.channel is not None
        self._carry_out(self.rules.asked(call.channel, ask, self._now))

    def _hears(self, ask: Ask) -> None:
        call = self._askers.pop(ask)
        call.unanswered.remove(ask)
        if not call.unanswered:
            self._in(0.005, self._works, call)

    # What the rules want done.

    def _carry_out(self, commands: list[rules.Command]) -> None:
        for command in commands:
            match command:
                case rules.OpenSession():
                    self._carry_out(self.rules.open_channel(rules.Channel(unlabelled=True), self._now))
                case rules.Send(run=Call() as call):
                    self.score.start_waits.append(self._now - call.born)
                    if self._rng.random() < self._cancel:
                        self._in(call.work * self._rng.random(), self._gives_up, call)
                    self._in(call.work, self._works, call)
                case rules.Give(ask=ask, run=Call() as call):
                    self.score.wrong += call is not self._askers[ask]
                    call.outstanding[ask] = False
                    assert call.tool is not None
                    self._in(self.rules.knowledge.sibling_wait(call.tool), self._suspends, call)
                    self._in(self._rng.uniform(1, 40), self._user_answers, call, ask)
                case rules.Resume(run=Call() as call):
                    delivered, call.outstanding = call.outstanding, {}
                    for ask in delivered:
                        self.rules.ask_closed(ask, self._now)
                        self._hears(ask)
                case rules.Refuse(ask=ask):
                    self.score.refused += not self._askers[ask].cancelled
                    self._hears(ask)
                case rules.Withdraw(ask=ask, run=Call() as call):
                    del call.outstanding[ask]
                    if call.state is rules.RunState.SUSPENDED:
                        self._resume_if_answered(call)
                case rules.Forgotten():
                    pass
                case _:
                    raise AssertionError(command)
