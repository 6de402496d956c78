"""The heart: a call that suspends while its client finds the answers.

Theory of operation
===================

A *call* is one modern request over all its rounds. The old server sees one request that takes long; the new client
sees one, two or ten short ones (*legs*). Between them stands a coroutine (`bridge.course`) that is suspended wherever
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

from typing import Any

from bridge import outcomes as o
from bridge.course import Course
from bridge.timing import Phase
from bridge.translate.capabilities import Profile
from legacy.messages import Ask


class StepUsed(Exception):
    """The token's step was consumed already, with other answers or too long ago."""


class Call(Course):
    """One modern request being served: what drives it.

    Invariants, besides its course's: once done, every event is ignored; ``deadline`` is always finite until then.
    """

    __slots__ = ()

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
        self._missing.add(required)

    @property
    def deadline(self) -> float:
        """Monotonic seconds when the call wants a `Tick` at the latest."""
        return self._timing.deadline(self.phase, len(self._legs))

    @property
    def input_requests(self) -> dict[str, dict[str, Any]]:
        """What the client of a task is asked now, by key; also what its server would no longer wait for, where the
        answer still counts."""
        return self.outstanding.input(lapsed=self._replayable())

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
