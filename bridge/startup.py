"""What servers ask outside any call, carried out: the start of a session, and roots.

The rules for roots are `bridge.roots`; here is what has to be sent and waited for, in bounded time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio

from bridge.roots import Roots
from legacy.errors import SessionClosed
from legacy.messages import Ask
from legacy.session import Session

if TYPE_CHECKING:
    from bridge.group import Group

BARRIER = 2.0
"""Seconds that a new session gets to ask for roots before its first call."""
QUIET = 0.3
"""The same for a server that reads answers inline, whose silence is all there is to go by."""
TAKEN_IN = 0.05
NOBODY_ASKED = -32603


class StartUp:
    """The sessions of one group that do not take calls yet, and what its servers know of its client's roots.

    Invariant: an ask of a session that has shaken hands and takes no calls yet is in ``_early``.
    """

    def __init__(self, group: Group, roots: Roots) -> None:
        self._group = group
        self._roots = roots
        self._early: dict[Session, list[Ask]] = {}
        self._settling = 0
        self._settled = anyio.Event()

    def asked(self, session: Session, ask: Ask) -> None:
        """A session that takes no calls yet was asked something."""
        self._early.setdefault(session, []).append(ask)

    async def settle(self, session: Session) -> None:
        """Let a new session ask for roots, and have them, before it takes calls.

        Raises:
            SessionClosed: the session ended meanwhile.
        """
        if self._group.profile.roots and session not in self._early:
            if self._group.server.limits.one_call is None:
                await session.ping(BARRIER)
            else:  # which would take the ping for an answer
                await anyio.sleep(QUIET)
        if session.closed:
            raise SessionClosed("The server ended right after the handshake.")
        if self._answer_early(session):
            await self._taken_in(session)
            if session.closed:
                raise SessionClosed("The server ended when it was told of the roots.")

    def _answer_early(self, session: Session) -> bool:
        """Answer what a new session's server asked before any call; whether it was told of roots."""
        told = False
        for ask in self._early.get(session, []):
            if ask.open and ask.method != "roots/list":
                self._group.refuse(ask, NOBODY_ASKED, "No call is open that can have asked it.")
            elif ask.open and self._roots.last is not None:  # a further session, or one in a lost one's place
                self._group.tell(ask, self._roots.last)
                told = True
        return told

    def left_open(self, session: Session) -> list[Ask]:
        """The session takes calls from now on: what it asked before, and was not answered."""
        return [ask for ask in self._early.pop(session, []) if ask.open]

    def lost(self, session: Session) -> None:
        self._early.pop(session, None)
        self._roots.gone(session)

    def settling(self) -> None:
        """A call's client has answered with its roots; `settle_roots` follows."""
        self._settling += 1

    @property
    def is_settling(self) -> bool:
        """Whether `settled` would wait."""
        return self._settling > 0

    async def settled(self) -> None:
        """Until no server is taking in roots: a call that came meanwhile must not overtake them."""
        while self._settling:
            await self._settled.wait()

    async def settle_roots(self) -> None:
        """Until every server has taken in the roots that were answered last; not for long."""
        try:
            await self._settle_all()
        finally:
            self._settling -= 1
            settled, self._settled = self._settled, anyio.Event()
            settled.set()

    async def _settle_all(self) -> None:
        tell, self._roots.tell = self._roots.tell, False
        with anyio.move_on_after(BARRIER):
            async with anyio.create_task_group() as each:
                for session in self._group.reachable():
                    each.start_soon(self._settle_roots, session, tell)

    async def _settle_roots(self, session: Session, tell: bool) -> None:
        if tell:
            await self.tell_again(session).wait()
        await self._taken_in(session)

    def tell_again(self, session: Session) -> anyio.Event:
        """Have the session's server ask for roots that it does not know; set when it has."""
        asked_again = self._roots.expect_ask(session)
        session.notify("notifications/roots/list_changed")
        return asked_again

    async def _taken_in(self, session: Session) -> None:
        """Until the server has most likely made something of an answer about roots, which it does after reading it."""
        await session.ping(BARRIER)
        await anyio.sleep(TAKEN_IN)
