"""The asks of one call that still want an answer, and how they become rounds.

Pure: asks come in, rounds (what a client is shown) and deliveries (what the server is told) come out. The rules are
those of multi round-trip requests [basic/patterns/mrtr]: only what this request's client declared; keys unique within
the call, kept while unanswered, never used again after an answer; unknown keys ignored; what is missing is asked
again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from bridge.translate import asks
from bridge.translate.capabilities import Profile
from bridge.translate.methods import ASK_PREFIX
from legacy.messages import Ask
from modern.errors import INVALID_PARAMS, ProtocolError

ASK_AGAIN = 1
"""How often content that breaks the form's schema is asked again; after that the server judges it itself."""


@dataclass(slots=True)
class Entry:
    """One ask that is open: as the server sent it, and as the client was shown it."""

    ask: Ask
    key: str
    presented: asks.Presented | None = None
    """What the client was shown under ``key``; None until then."""
    asked_again: int = 0
    note: str | None = None
    """Why it is asked again."""

    @property
    def shown(self) -> dict[str, Any] | None:
        """The request as the client was shown it."""
        if self.presented is None:
            return None
        return self.presented.with_note(self.note) if self.note else self.presented.request


@dataclass(frozen=True, slots=True)
class Refusal:
    """The server is told no; ``required`` names the capability that was missing, if that is the reason."""

    ask: Ask
    code: int
    message: str
    required: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Delivery:
    """The server is told the answer. (Never in a ``repr``: it may be a secret.)"""

    ask: Ask
    result: dict[str, Any] = field(repr=False)


class Outstanding:
    """The open asks of one call, by key, in the order in which they came.

    A server may give an ask up that a client was shown already. Its answer may still count: it has *lapsed*, and keeps
    its key if the same is asked again.

    Invariant: every entry's ask is open at the server, and its key was never used for another question of this call.
    """

    __slots__ = ("_entries", "_keys", "_lapsed", "_number")

    def __init__(self) -> None:
        self._entries: dict[str, Entry] = {}
        self._lapsed: dict[str, Entry] = {}
        self._keys: set[str] = set()
        self._number = 0

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def asks(self) -> list[Ask]:
        return [entry.ask for entry in self._entries.values()]

    @property
    def used(self) -> bool:
        """Whether there ever was an ask."""
        return bool(self._keys)

    @property
    def shown(self) -> bool:
        """Whether a client may be finding an answer to anything that was asked, lapsed or not."""
        return bool(self._lapsed) or any(entry.presented is not None for entry in self._entries.values())

    def add(self, ask: Ask) -> None:
        if (before := self._asked_before(ask)) is not None:
            self._entries[before.key] = replace(before, ask=ask)
            return
        key = asks.suggested_key(ask.params)
        if key is None or key in self._keys:
            key = self._new_key(ask.method)
        self._keys.add(key)
        self._entries[key] = Entry(ask, key)

    def discard(self, ask: Ask) -> bool:
        """Take an ask out that wants no answer any more; whether it was here."""
        for key, entry in self._entries.items():
            if entry.ask is ask:
                del self._entries[key]
                return True
        return False

    def lapse(self, ask: Ask) -> None:
        """The server gave an ask up."""
        for key, entry in self._entries.items():
            if entry.ask is ask:
                del self._entries[key]
                if entry.presented is not None:
                    self._lapsed[key] = entry
                return

    def lapse_all(self) -> list[Ask]:
        """The server gave up whatever it had asked; the asks."""
        left = self.asks
        for ask in left:
            self.lapse(ask)
        return left

    def forget_lapsed(self, ask: Ask) -> None:
        """What a client was shown was not this call's question."""
        self._lapsed = {key: entry for key, entry in self._lapsed.items() if entry.ask is not ask}

    def clear(self) -> list[Ask]:
        left = self.asks
        self._entries.clear()
        self._lapsed.clear()
        return left

    def present(self, profile: Profile) -> tuple[dict[str, dict[str, Any]], list[Refusal]]:
        """The next round for a client of this profile, and what no such client can be asked (taken out)."""
        requests: dict[str, dict[str, Any]] = {}
        refusals: list[Refusal] = []
        for key, entry in list(self._entries.items()):
            match asks.present(entry.ask.method, entry.ask.params, profile):
                case asks.Presented() as presented:
                    entry.presented = presented
                    assert entry.shown is not None
                    requests[key] = entry.shown
                case asks.Undeclared(code=code, message=message, required=required):
                    refusals.append(Refusal(entry.ask, code, message, required))
                    del self._entries[key]
                case asks.Unpresentable(message=message):
                    refusals.append(Refusal(entry.ask, INVALID_PARAMS, message))
                    del self._entries[key]
        return requests, refusals

    def input(self, *, lapsed: bool) -> dict[str, dict[str, Any]]:
        """What can be answered now, as the client was shown it, by key; with what has lapsed if that still counts."""
        entries = [*self._entries.values(), *(self._lapsed.values() if lapsed else ())]
        return {entry.key: entry.shown for entry in entries if entry.shown is not None}

    def take(self, responses: object, protocol_version: str, *, lapsed: bool = False) -> list[Delivery | Refusal]:
        """Take the answers out of a retry's ``inputResponses``, those to lapsed asks too if they still count; what
        stays is asked again.

        Raises:
            ProtocolError: ``inputResponses`` is no object, or an answer has the wrong shape; nothing was taken.
        """
        if not isinstance(responses, dict):
            raise ProtocolError(INVALID_PARAMS, "inputResponses must be an object with one answer for each key.")
        judged = []
        for key, entry in [*self._entries.items(), *(self._lapsed.items() if lapsed else ())]:
            if entry.presented is None or key not in responses:
                continue
            verdict = asks.answer_back(entry.presented, responses[key], protocol_version)
            if isinstance(verdict, asks.Malformed):
                raise ProtocolError(INVALID_PARAMS, f"inputResponses[{key!r}]: {verdict.message}")
            judged.append((entry, verdict))
        taken: list[Delivery | Refusal] = []
        for entry, verdict in judged:
            match verdict:
                case asks.Accepted(result=result):
                    taken.append(Delivery(entry.ask, result))
                case asks.Refused(code=code, message=message):
                    taken.append(Refusal(entry.ask, code, message))
                case asks.Mismatch(reason=reason, raw=raw):
                    if entry.asked_again < ASK_AGAIN and entry.key in self._entries:
                        self._ask_again(entry, reason)
                        continue
                    taken.append(Delivery(entry.ask, raw))
            (self._entries if entry.key in self._entries else self._lapsed).pop(entry.key)
        return taken

    def _asked_before(self, ask: Ask) -> Entry | None:
        """The lapsed entry of the same question, taken out."""
        if not self._lapsed:
            return None
        wanted = asks.digest(ask.method, ask.params)
        for key, entry in self._lapsed.items():
            if asks.digest(entry.ask.method, entry.ask.params) == wanted:
                return self._lapsed.pop(key)
        return None

    def _ask_again(self, entry: Entry, reason: str) -> None:
        """Under a new key, in the same place: an answered key is never used again."""
        new_key = self._new_key(entry.ask.method)
        self._keys.add(new_key)
        again = Entry(entry.ask, new_key, None, entry.asked_again + 1, reason)
        self._entries = {
            (new_key if key == entry.key else key): (again if key == entry.key else old)
            for key, old in self._entries.items()
        }

    def _new_key(self, method: str) -> str:
        while True:
            self._number += 1
            key = f"{ASK_PREFIX[method]}-{self._number}"
            if key not in self._keys:
                return key
