"""What was asked and answered in a call, so that running it again asks nobody twice.

A call whose server gave up before its person answered is run again from the start, where that is harmless. Its asks are
then answered from here as long as they come as they came: round by round, each with the same digest (within a round in
any order, since asks of one round may overtake each other). The first that differs ends that: it and all that follow
are asked, because an answer given in another context may mean another thing.

Pure, and in memory only. Answers may be secrets: nothing here has a ``repr`` that shows one, and nothing logs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from bridge.rounds import Delivery, Refusal
from bridge.translate import asks
from legacy.messages import Ask


@dataclass(slots=True, eq=False)
class _Entry:
    digest: bytes
    item: Delivery | Refusal
    read: bool = False
    """Whether the attempt that it was given for took it (or could have)."""
    used: bool = False
    """Whether the present attempt was given it from here."""


class Journal:
    """The answers of one call, in the order of their rounds.

    Invariant: an attempt is given each answer at most once, and none after an ask that is not in the journal's order.
    """

    __slots__ = ("_current", "_rounds")

    def __init__(self) -> None:
        self._rounds: list[list[_Entry]] = []
        self._current: int | None = None
        """The round that the present attempt has come to; None when it is answered by its client alone."""

    def record(self, items: list[Delivery | Refusal]) -> None:
        """The client answered a round."""
        if items:
            self._rounds.append([_Entry(asks.digest(item.ask.method, item.ask.params), item) for item in items])

    def delivered(self, item: Delivery | Refusal) -> None:
        """The server was told."""
        for entry in self._of(item.ask):
            entry.read = True

    def forget(self, ask: Ask) -> None:
        """The ask turned out not to be this call's: what was answered to it says nothing here."""
        strange = self._of(ask)
        self._rounds = [left for answers in self._rounds if (left := [e for e in answers if e not in strange])]

    @property
    def unread(self) -> bool:
        """Whether there are answers that the present attempt did not get to hear."""
        return any(not entry.read for answers in self._rounds for entry in answers)

    def rewind(self) -> None:
        """A new attempt begins: everything that was answered is there for it."""
        for answers in self._rounds:
            for entry in answers:
                entry.read, entry.used = True, False
        self._current = 0

    def recall(self, ask: Ask) -> Delivery | Refusal | None:
        """The answer to an ask of the present attempt: given in an earlier one, or in this one too late for the server,
        which now asks the same thing again."""
        if not self._rounds:
            return None
        wanted = asks.digest(ask.method, ask.params)
        for answers in self._rounds:
            for entry in answers:
                if not entry.read and entry.digest == wanted:
                    entry.read = entry.used = True
                    return replace(entry.item, ask=ask)
        if self._current is None:
            return None
        if self._current < len(self._rounds):
            answers = self._rounds[self._current]
            found = next((entry for entry in answers if not entry.used and entry.digest == wanted), None)
            if found is not None:
                found.used = True
                if all(entry.used for entry in answers):
                    self._current += 1
                return replace(found.item, ask=ask)
        self._diverge()
        return None

    def _diverge(self) -> None:
        """From here on the client is asked again; what it answered so far in this attempt stays."""
        assert self._current is not None
        kept = [[entry for entry in answers if entry.used] for answers in self._rounds[: self._current + 1]]
        self._rounds = [answers for answers in kept if answers]
        self._current = None

    def _of(self, ask: Ask) -> list[_Entry]:
        return [entry for answers in self._rounds for entry in answers if entry.item.ask is ask]
