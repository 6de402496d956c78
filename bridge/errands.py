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
    trace_id: str | None
    """The trace that its client's request belongs to."""

    def send_on(self, session: Session) -> int:
        """Send the request; its id.

        Raises:
            SessionClosed: nothing was sent.
            ProtocolError: it cannot be sent on this session.
        """

    def unserved(self, error: ProtocolError) -> None: ...

    def given(self, ask: Ask) -> None: ...

    def taken_back(self, ask: Ask) -> None: ...

    def lacks(self, required: dict[str, Any]) -> None:
        """The server was refused something for want of these client capabilities."""

    def resumed(self) -> None: ...

    def notified(self, method: str, params: dict[str, Any]) -> bool:
        """Whether its client gets it."""


class Nobody:
    """The errand of a run that is over: it hears nothing any more, and keeps nothing alive."""

    client_name: str | None = None
    trace_id: str | None = None

    def send_on(self, session: Session) -> int:
        raise AssertionError("a run that is over is not sent")

    def unserved(self, error: ProtocolError) -> None: ...

    def given(self, ask: Ask) -> None: ...

    def taken_back(self, ask: Ask) -> None: ...

    def lacks(self, required: dict[str, Any]) -> None:
        """The server was refused something for want of these client capabilities."""

    def resumed(self) -> None: ...

    def notified(self, method: str, params: dict[str, Any]) -> bool:
        return False


NOBODY = Nobody()


class Run(rules.Run):
    """A run, and whose it is."""

    __slots__ = ("becomes_task", "earlier_ids", "errand", "request_id", "session", "task_id")

    def __init__(
        self, errand: Errand, tool: str | None, *, may_be_asked: bool, carries_roots: bool, owner: str
    ) -> None:
        super().__init__(tool, may_be_asked=may_be_asked, carries_roots=carries_roots, owner=owner)
        self.errand = errand
        self.session: Session | None = None
        self.request_id = 0
        self.earlier_ids: tuple[int, ...] = ()
        """Ids of its requests that were answered, but by which the server still names it."""
        self.becomes_task = False
        """Whether its request asked for a task, whose id is not known yet."""
        self.task_id: str | None = None

    def again(self) -> Run:
        """A fresh run of the same errand, for a request that was refused unprocessed."""
        return Run(
            self.errand,
            self.tool,
            may_be_asked=self.may_be_asked,
            carries_roots=self.carries_roots,
            owner=self.owner,
        )


class Channel(rules.Channel):
    """A channel, and its session."""

    __slots__ = ("session",)

    def __init__(self, session: Session) -> None:
        super().__init__(unlabelled=session.unlabelled)
        self.session = session


class Runs:
    """The runs that are open on a group's sessions, by the names that the wire has for them.

    Invariant: a run is found by the id of each request that was sent for it, and by its task's id, until it is removed.
    """

    __slots__ = ("_by_id", "_by_task")

    def __init__(self) -> None:
        self._by_id: dict[tuple[Session, int], Run] = {}
        self._by_task: dict[tuple[Session, str], Run] = {}

    def __bool__(self) -> bool:
        return bool(self._by_id)

    def add(self, run: Run, session: Session, request_id: int) -> None:
        run.session, run.request_id = session, request_id
        self._by_id[session, request_id] = run

    def became_task(self, run: Run, task_id: str, request_id: int) -> None:
        """The run's request created a task, and another request waits for what it comes to."""
        assert run.session is not None
        run.earlier_ids += (run.request_id,)
        run.task_id = task_id
        run.becomes_task = False
        self.add(run, run.session, request_id)
        self._by_task[run.session, task_id] = run

    def remove(self, run: Run) -> None:
        if run.session is None:
            return
        for request_id in (run.request_id, *run.earlier_ids):
            self._by_id.pop((run.session, request_id), None)
        if run.task_id is not None:
            self._by_task.pop((run.session, run.task_id), None)

    def find(self, session: Session, request_id: int | None, task_id: str | None = None) -> Run | None:
        """The run that the wire names, if it names one that is open."""
        run = self._by_task.get((session, task_id)) if task_id is not None else None
        return run if run is not None or request_id is None else self._by_id.get((session, request_id))

    def on(self, session: Session) -> list[Run]:
        return [run for (on, _), run in self._by_id.items() if on is session]

    def client_names(self) -> set[str | None]:
        return {run.errand.client_name for run in self._by_id.values()}
