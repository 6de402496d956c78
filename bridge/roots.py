"""Roots that an old server asks for outside any call.

Servers ask for them right after the handshake, wait a minute, and otherwise keep what they have until they are told of
a change. Only a call can carry the question to a client, and the first may come an hour later. So such an ask is
*held* for the next call; when it has lapsed by then, that call asks its client on the bridge's own account, and the
server is told ``notifications/roots/list_changed``, whereupon it asks again and gets the answer.

Values and rules; no I/O (the event is only there to be waited for).
"""

from __future__ import annotations

from typing import Any

import anyio

from legacy.messages import Ask
from legacy.session import Session

LAPSES = 55.0
"""Seconds after which a held ask is taken for lapsed: servers give up after 60."""


class Roots:
    """What one group's servers know of its client's roots.

    Invariant: ``held`` is an ask that its server still waits for, as far as we were told.
    """

    __slots__ = ("_age", "_answered_at", "_expected", "_fixed", "held", "last", "tell", "wanted")

    def __init__(self, age: float) -> None:
        self.held: Ask | None = None
        self.last: dict[str, Any] | None = None
        """The last answer of a client."""
        self.wanted = False
        """Whether the server asks for roots outside calls."""
        self.tell = False
        """Whether the server has to be told that there are other roots than it knows."""
        self._fixed = False
        self._age = age
        self._answered_at = 0.0
        self._expected: dict[Session, anyio.Event] = {}

    def fix(self, roots: dict[str, Any]) -> None:
        """These are the roots of all clients that are served here, and no other will be: nobody need be asked."""
        self.last = roots
        self._fixed = True

    def hold(self, ask: Ask) -> None:
        self.wanted = True
        self.held = ask

    def withdrawn(self, ask: Ask) -> None:
        if self.held is ask:
            self.held = None

    def lapsed(self, now: float) -> Ask | None:
        """The held ask, if its server has given up waiting by now; it is held no longer."""
        held = self.held
        if held is None or not self.too_late(held, now):
            return None
        self.held = None
        return held

    def due(self, now: float) -> Ask | None:
        """The ask that the next call carries before it is sent, or None: the server has what it needs."""
        if self.held is not None:
            return self.held
        if not self.wanted or self._fixed or (self.last is not None and now - self._answered_at < self._age):
            return None
        return Ask("roots/list", {}, server_id="", request_id=None, at=now)

    def answered(self, ask: Ask, result: dict[str, Any], now: float) -> None:
        """A client answered; ``tell`` if the server has not heard these roots and does not wait for them."""
        changed = result != self.last
        self.last = result
        self._answered_at = now
        if self.held is ask:
            self.held = None
        elif self.wanted and changed:
            self.tell = True

    def expect_ask(self, session: Session) -> anyio.Event:
        """This session's server was told of other roots: its next ask is answered with the last ones, and sets the
        event."""
        return self._expected.setdefault(session, anyio.Event())

    def expected(self, session: Session) -> bool:
        """Whether an ask that came there now is that one, or no call need carry any."""
        if self._fixed:
            return True
        if self.last is None or (waits := self._expected.pop(session, None)) is None:
            return False
        waits.set()
        return True

    def gone(self, session: Session) -> None:
        if (waits := self._expected.pop(session, None)) is not None:
            waits.set()

    def too_late(self, ask: Ask, now: float) -> bool:
        """Whether the ask's server has given up waiting by now, as far as one can know."""
        return not ask.open or now - ask.at >= LAPSES
