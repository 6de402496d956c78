"""What a group sends for somebody: the run and channel of `bridge.runs`, with the errand and session they stand for.

An *errand* is a call or a plain request: something that wants a request sent and hears what the server makes of it.
"""

from __future__ import annotations

from typing import Any, Protocol

from bridge import runs as rules
from legacy.messages import Ask
from legacy.session import Session
from modern.errors import ProtocolError


class Errand(Protocol):
    """Something that wants a request sent and hears what the server makes of it: a call, or a plain request."""

    client_name: str | None

    def send_on(self, session: Session) -> int:
        """Send the request; its id. Raises SessionClosed."""

    def unserved(self, error: ProtocolError) -> None: ...

    def given(self, ask: Ask) -> None: ...

    def taken_back(self, ask: Ask) -> None: ...

    def lacks(self, required: dict[str, Any]) -> None:
        """The server was refused something for want of these client capabilities."""

    def resumed(self) -> None: ...

    def notified(self, method: str, params: dict[str, Any]) -> None: ...


class Nobody:
    """The errand of a run that is over: it hears nothing any more, and keeps nothing alive."""

    client_name: str | None = None

    def send_on(self, session: Session) -> int:
        raise AssertionError("a run that is over is not sent")

    def unserved(self, error: ProtocolError) -> None: ...

    def given(self, ask: Ask) -> None: ...

    def taken_back(self, ask: Ask) -> None: ...

    def lacks(self, required: dict[str, Any]) -> None:
        """The server was refused something for want of these client capabilities."""

    def resumed(self) -> None: ...

    def notified(self, method: str, params: dict[str, Any]) -> None: ...


NOBODY = Nobody()


class Run(rules.Run):
    """A run, and whose it is."""

    __slots__ = ("earlier_ids", "errand", "request_id", "session", "task_id")

    def __init__(self, errand: Errand, tool: str | None, *, may_be_asked: bool, carries_roots: bool) -> None:
        super().__init__(tool, may_be_asked=may_be_asked, carries_roots=carries_roots)
        self.errand = errand
        self.session: Session | None = None
        self.request_id = 0
        self.earlier_ids: tuple[int, ...] = ()
        """Ids of its requests that were answered, but by which the server still names it."""
        self.task_id: str | None = None

    def again(self) -> Run:
        """A fresh run of the same errand, for a request that was refused unprocessed."""
        return Run(self.errand, self.tool, may_be_asked=self.may_be_asked, carries_roots=self.carries_roots)


class Channel(rules.Channel):
    """A channel, and its session."""

    __slots__ = ("session",)

    def __init__(self, session: Session) -> None:
        super().__init__(unlabelled=session.unlabelled)
        self.session = session
