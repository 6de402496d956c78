"""The log messages of a wrapped server [server/utilities/logging]: how much it is told to send, and what becomes of
those that no client gets.

To a client goes only what its own request asked for and what is certain to be that request's.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable
from typing import Any, Final
from weakref import WeakKeyDictionary

import anyio

from bridge.translate import notifications
from legacy.errors import SessionClosed
from legacy.messages import Lost
from legacy.session import Session

log = logging.getLogger("mrtr.group")

PATIENCE: Final = 2.0
"""Seconds that a server gets to take up a level before the request that wants it goes on."""


class LogLevel:
    """What the sessions of one group were told to log at: the lowest level that any request has wanted.

    An old server has one level for a whole session, so it is never raised again.
    """

    def __init__(self) -> None:
        self._wanted: str | None = None
        self._told: WeakKeyDictionary[Session, str | None] = WeakKeyDictionary()
        self._telling: WeakKeyDictionary[Session, anyio.Lock] = WeakKeyDictionary()

    async def want(self, level: str, sessions: Iterable[Session]) -> None:
        """Have the servers of these sessions log at ``level``, if they do not log more already."""
        if self._wanted is None or not notifications.admits(self._wanted, level):
            self._wanted = level
        untold = [session for session in sessions if self._has_to_hear(session) or self._is_hearing(session)]
        if untold:
            async with anyio.create_task_group() as each:
                for session in untold:
                    each.start_soon(self.tell, session)

    async def tell(self, session: Session) -> None:
        """Until the session's server logs at the level that is wanted by now, in bounded time."""
        async with self._telling.setdefault(session, anyio.Lock()):
            while self._has_to_hear(session):
                level = self._wanted
                try:
                    reply = await session.request("logging/setLevel", {"level": level}, timeout=PATIENCE)
                except SessionClosed:
                    return
                self._told[session] = level
                if isinstance(reply, Lost):
                    log.info("session %s did not answer logging/setLevel", session.name)

    def _has_to_hear(self, session: Session) -> bool:
        if self._wanted is None or session.closed or "logging" not in session.capabilities:
            return False
        return self._told.get(session) != self._wanted

    def _is_hearing(self, session: Session) -> bool:
        telling = self._telling.get(session)
        return telling is not None and telling.locked()


class Unclaimed:
    """The messages of one server that no client gets: counted, and noted in our log.

    Not their text: servers log what they were told, a person's answers too, and only who asked for that may read it.
    """

    def __init__(self, server: str) -> None:
        self.by_level: Counter[str] = Counter()
        """How many there were so far."""
        self._log = logging.getLogger(f"mrtr.server.{server}")

    def take(self, params: dict[str, Any]) -> None:
        said = params.get("level")
        level = said if isinstance(said, str) and said in notifications.LEVELS else "unknown"
        self.by_level[level] += 1
        if self.by_level[level] & (self.by_level[level] - 1) == 0:  # the first, and then ever more rarely
            self._log.debug("logged, at level %s, what no client gets (%d so far)", level, self.by_level[level])
