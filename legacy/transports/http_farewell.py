"""How a session ends that its server does not know any more, on both HTTP transports.

The rule: a request is called unprocessed only if the server refused it with the session, and each such request is told
so before the session is lost, so that it may safely be sent elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable

import anyio
from anyio.abc import TaskGroup

from legacy.targets import Limits
from legacy.transports.base import Receiver


class Farewell:
    """The end of one session.

    Invariant: ``undecided`` are the requests that were sent and whose answer has not begun; ``_refused`` those that
    were refused because the session is gone.
    """

    def __init__(
        self, name: str, receiver: Receiver, tasks: TaskGroup, limits: Limits, gone: Callable[[], None] | None = None
    ) -> None:
        """``gone`` is called before anybody is told."""
        self.undecided: set[int] = set()
        self.begun = False
        self._gone = gone
        self._reason = f"The server {name!r} does not know the session any more."
        self._receiver = receiver
        self._tasks = tasks
        self._limits = limits
        self._refused: list[int] = []

    def begin(self, refused: int | None = None) -> None:
        """The server does not know the session any more, and has refused this request for it."""
        if refused is not None:
            self._refused.append(refused)
        if not self.begun:
            self.begun = True
            self._tasks.start_soon(self._end)

    async def _end(self) -> None:
        """Let requests that are on their way be refused too."""
        with anyio.move_on_after(self._limits.order_wait):
            while self.undecided:  # noqa: ASYNC110 (rare, and short)
                await anyio.sleep(0.01)
        if self._gone is not None:
            self._gone()
        for request_id in self._refused:
            self._receiver.request_lost(request_id, self._reason, processed=False)
        self._receiver.lost(self._reason)
