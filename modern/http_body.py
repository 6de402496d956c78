"""Bodies that take too long to begin: one look at all of them now and then, instead of a timer for each.

Nearly every body is there when it is asked for; a timer, or a context manager, for each would cost more than all else
that is done to read it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Message = MutableMapping[str, Any]
LOOK_EVERY = 1.0
"""Seconds between two looks; a body may take this much longer than it is allowed."""


class Readers:
    """The requests of one face whose bodies have not begun.

    Invariant: while ``_waiting`` holds anything, a look is scheduled; a task is in ``_late`` only between our
    cancelling it and its noticing.
    """

    __slots__ = ("_late", "_looking", "_waiting")

    def __init__(self) -> None:
        self._waiting: dict[asyncio.Task[Any], float] = {}
        self._late: set[asyncio.Task[Any]] = set()
        self._looking = False

    async def first_part(
        self, receive: Callable[[], Awaitable[Message]], loop: asyncio.AbstractEventLoop, deadline: float
    ) -> Message | None:
        """The first part of a body, or None if it did not come by ``deadline`` (in the loop's time)."""
        task = asyncio.current_task(loop)
        assert task is not None, "an ASGI application runs in a task"
        self._waiting[task] = deadline
        if not self._looking:
            self._looking = True
            loop.call_at(min(deadline, loop.time() + LOOK_EVERY), self._look, loop)
        try:
            return await receive()
        except asyncio.CancelledError:
            if task not in self._late or task.uncancel() > 0:
                raise
            return None
        finally:
            self._waiting.pop(task, None)
            self._late.discard(task)

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        now = loop.time()
        for task in [task for task, deadline in self._waiting.items() if deadline <= now]:
            del self._waiting[task]
            self._late.add(task)
            task.cancel()
        self._looking = bool(self._waiting)
        if self._looking:
            loop.call_at(min(min(self._waiting.values()), now + LOOK_EVERY), self._look, loop)
