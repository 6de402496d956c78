"""What the bridge has learned about each tool of one server: does it ask, and how.

Attribution (see `bridge.attribution`) and calls ask here before they decide who runs where and how long to wait
for siblings. It is *not* a record of calls and knows no people: one `Knowledge` serves all sessions of a server.

Kinds of a tool (a "tool" is whatever can ask: a tool, a prompt, a resource template):

- *unknown*: nothing seen yet; treated as one that may ask.
- *quiet*: five calls were answered whose clients could have been asked, and it never asked.
- *one*: it asks one thing after the other.
- *many*: it had several asks outstanding at once.

An operator's hint overrides what was learned. Roots are not learned from: their asks need no owner.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from math import inf
from typing import Literal

Hint = Literal["never", "one", "many"]

QUIET_AFTER = 5
"""Answered calls without an ask after which a tool counts as quiet."""
NEVER_MORE = 640
"""The most that it can come to for tools under suspicion."""
KNOWN_AFTER = 3
"""Asks after which we trust what we saw of how a tool asks."""
GAPS = 3.0
"""How many times the longest gap that was seen between two asks of one call a gap may last, as far as we believe."""
GAP_MIN = 1.0
"""The same of tools that we hardly know, and the least that we believe of any."""


class Kind(Enum):
    UNKNOWN = "unknown"
    QUIET = "quiet"
    ONE = "one"
    MANY = "many"


_HINTED = {"never": Kind.QUIET, "one": Kind.ONE, "many": Kind.MANY}
_SIBLINGS = {Kind.UNKNOWN: 0.050, Kind.QUIET: 0.050, Kind.ONE: 0.0, Kind.MANY: 0.005}


@dataclass(slots=True)
class _Tool:
    kind: Kind
    hinted: bool
    answered: int = 0
    quiet_after: int = QUIET_AFTER
    asks: int = 0
    overlaps: int = 0
    gap: float = 0.0
    """The longest between two asks of one call of which the first was still open when the second came."""
    longest: float | None = None
    labelled: bool | None = None
    """Where its elicitation and sampling asks came: on its POST's stream (True); without a label, ever (False)."""

    def judge(self) -> None:
        if self.hinted:
            return
        if self.asks:
            self.kind = Kind.MANY if self.overlaps else Kind.ONE
        else:
            self.kind = Kind.QUIET if self.answered >= self.quiet_after else Kind.UNKNOWN


class Knowledge:
    """Per server, shared by all its sessions.

    Invariants: at most `limit` tools are remembered, the least recently used is forgotten first (and is then unknown
    again); ``asks`` and ``overlaps`` are never negative; every method is O(1).
    """

    __slots__ = ("_hints", "_limit", "_tools")

    def __init__(self, hints: Mapping[str, Hint] | None = None, *, limit: int = 10_000) -> None:
        self._hints = {tool: _HINTED[hint] for tool, hint in (hints or {}).items()}
        self._limit = limit
        self._tools: OrderedDict[str, _Tool] = OrderedDict()

    # What is known.

    def kind(self, tool: str) -> Kind:
        known = self._tools.get(tool)
        return known.kind if known is not None else self._hints.get(tool, Kind.UNKNOWN)

    def asks_again_within(self, tool: str, *, trusting: bool = True) -> float:
        """Seconds after an ask within which a call of it may ask something else while it waits, as far as we know: -1
        if it will not, for which a tool has to have shown several times that it asks one thing after the other.

        ``trusting``: a tool that is hardly known would do so soon, if at all.
        """
        hint = self._hints.get(tool)
        known = self._tools.get(tool)
        if self.kind(tool) is Kind.MANY:
            return max(GAPS * known.gap, GAP_MIN) if known is not None and known.overlaps >= KNOWN_AFTER else inf
        if hint is not None or (known is not None and known.asks >= KNOWN_AFTER):
            return -1.0
        return GAP_MIN if trusting else inf

    def may_ask(self, tool: str) -> bool:
        return self.kind(tool) is not Kind.QUIET

    def labelled(self, tool: str) -> bool:
        """Its asks come on its POST's stream, as far as we have seen: it needs no turn where there are such streams."""
        known = self._tools.get(tool)
        return known is not None and known.labelled is True

    def needs_turn(self, tool: str) -> bool:
        """It may ask, and the ask may come without a label."""
        known = self._tools.get(tool)
        if known is None:
            return self._hints.get(tool) is not Kind.QUIET
        return known.kind is not Kind.QUIET and known.labelled is not True

    def sibling_wait(self, tool: str) -> float:
        """Seconds to wait after an ask for others that should be asked together with it."""
        known = self._tools.get(tool)
        if known is None or (known.asks < KNOWN_AFTER and not known.hinted):
            return _SIBLINGS[self._hints.get(tool, Kind.UNKNOWN)]
        return _SIBLINGS[known.kind]

    def longest_run(self, tool: str) -> float | None:
        """The longest that an answered call of it ran, without the time it was suspended."""
        known = self._tools.get(tool)
        return None if known is None else known.longest

    # What is learned.

    def learned_done(self, tool: str, ran_for: float, *, askable: bool = True) -> bool:
        """The server answered a call of `tool`. True if that changed its kind.

        A call whose client could not have been asked says nothing about whether the tool asks.
        """
        known = self._tools.get(tool)
        if known is None:
            known = self._remember(tool)
        else:
            self._tools.move_to_end(tool)
        if known.longest is None or ran_for > known.longest:
            known.longest = ran_for
        if askable and known.answered < known.quiet_after:
            known.answered += 1
            if known.answered == known.quiet_after:
                before = known.kind
                known.judge()
                return known.kind is not before
        return False

    def learned_ask(self, tool: str, outstanding_before: int, gap: float = 0.0) -> None:
        """A call of `tool` asked for an elicitation or sampling, with that many asks of its own still open, the last of
        which came `gap` seconds ago."""
        known = self._touch(tool)
        known.asks += 1
        if outstanding_before > 0:
            known.overlaps += 1
            known.gap = max(known.gap, gap)
        known.judge()

    def unlearned_ask(self, tool: str, outstanding_before: int) -> None:
        """That ask was not its own after all: takes back exactly what `learned_ask` added."""
        known = self._tools.get(tool)
        if known is None:
            return
        known.asks = max(0, known.asks - 1)
        known.overlaps = max(0, known.overlaps - (outstanding_before > 0))
        known.judge()

    def suspected(self, tool: str) -> None:
        """An ask may have come from a call of `tool`, or of another that ran beside it: from now on it takes turns.

        Not counted as an ask: the next shows, for it has the turn then, and most suspects are innocent. A tool that was
        quiet is so again after twice as many calls as the last time.
        """
        known = self._touch(tool)
        if known.kind is Kind.QUIET:
            known.quiet_after = min(2 * known.quiet_after, NEVER_MORE)
            known.answered = 0
        known.labelled = False
        known.judge()

    def learned_label(self, tool: str) -> None:
        """An elicitation or sampling ask of `tool` came on its POST's stream."""
        known = self._touch(tool)
        if known.labelled is None:
            known.labelled = True

    def learned_unlabelled(self, tool: str) -> None:
        """One came elsewhere: from now on it needs turns, whatever else it does."""
        self._touch(tool).labelled = False

    def _touch(self, tool: str) -> _Tool:
        known = self._tools.get(tool)
        if known is None:
            return self._remember(tool)
        self._tools.move_to_end(tool)
        return known

    def _remember(self, tool: str) -> _Tool:
        hint = self._hints.get(tool)
        known = self._tools[tool] = _Tool(hint or Kind.UNKNOWN, hinted=hint is not None)
        if len(self._tools) > self._limit:
            self._tools.popitem(last=False)
        return known
