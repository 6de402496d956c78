"""The errand that cannot be asked about: lists, completion and the like [basic/patterns/mrtr, Supported Requests]."""

from __future__ import annotations

import asyncio
from typing import Any

from bridge.cursors import Page
from bridge.errands import Run
from bridge.group import Group
from bridge.legs import OpenLeg, client_name, deliver
from bridge.translate import errors, notifications
from bridge.translate.trace import trace_id
from legacy.messages import Ask, Lost, Reply
from legacy.session import Session
from modern.errors import ProtocolError


class PlainRequest:
    """A request that cannot be asked about: sent, answered, or given up."""

    __slots__ = (
        "_leg",
        "_method",
        "_page",
        "_params",
        "_patience",
        "_progress",
        "_reply",
        "_silence",
        "client_name",
        "run",
        "trace_id",
    )

    def __init__(
        self, method: str, params: dict[str, Any], leg: OpenLeg | None = None, page: Page | None = None
    ) -> None:
        self.client_name = client_name(leg.request) if leg is not None else None
        self.trace_id = trace_id(leg.request.params.get("_meta")) if leg is not None else None
        owner = leg.request.principal if leg is not None else ""
        self.run = Run(self, None, may_be_asked=False, carries_roots=False, owner=owner)
        self._leg = leg
        """Where its notifications go; None: the request is on the bridge's own account."""
        self._method = method
        self._params = params
        self._page = page
        self._progress = notifications.ProgressGate()
        self._silence = 0.0
        self._patience: asyncio.Timeout | None = None
        """Until when the server may be silent, while it is waited for."""
        self._reply: asyncio.Future[Reply | ProtocolError] = asyncio.get_running_loop().create_future()

    async def ask(self, group: Group, silence: float) -> Reply:
        """The server's reply.

        Raises:
            ProtocolError: no session could be had, its cursors are others, or the server said nothing for ``silence``
                seconds.
        """
        self._silence = silence
        for left in range(group.most_resent, -1, -1):
            await group.ready()
            group.place(self.run)
            try:
                async with asyncio.timeout(group.server.limits.call_ttl), asyncio.timeout(silence) as self._patience:
                    reply = await self._reply
            except TimeoutError:
                group.cancel(self.run, "The server was silent for too long.")
                raise errors.lost(
                    f"The server did not answer {self._method} within {silence:g} s (--timeout)."
                ) from None
            except BaseException:
                group.cancel(self.run, "The client went away.")
                raise
            if isinstance(reply, ProtocolError):
                raise reply
            refused = isinstance(reply, Lost) and not reply.processed and left > 0
            run = self.run
            if refused:
                self.run = run.again()
                self._reply = asyncio.get_running_loop().create_future()
            group.finished(run, reply)
            if not refused:
                return reply
        raise AssertionError("unreachable: the last try returns")

    def send_on(self, session: Session) -> int:
        params = self._params if self._page is None else {**self._params, **self._page.asked_of(session.name)}
        return session.send(self._method, params, self._replied)

    def _replied(self, reply: Reply) -> None:
        if not self._reply.done():
            self._reply.set_result(reply)

    def unserved(self, error: ProtocolError) -> None:
        if not self._reply.done():
            self._reply.set_result(error)

    def given(self, ask: Ask) -> None:
        raise AssertionError("a plain request cannot carry an ask")

    def taken_back(self, ask: Ask) -> None:
        raise AssertionError("a plain request cannot carry an ask")

    def lacks(self, required: dict[str, Any]) -> None:
        """A plain request fails for reasons of its own."""

    def resumed(self) -> None:
        raise AssertionError("a plain request is never suspended")

    def notified(self, method: str, params: dict[str, Any]) -> bool:
        if self._leg is None:
            return False
        if self._patience is not None and not self._patience.expired() and not self._reply.done():
            loop = asyncio.get_running_loop()
            self._patience.reschedule(loop.time() + self._silence)
        return deliver(self._leg, method, params, self._progress)
