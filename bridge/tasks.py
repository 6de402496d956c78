"""Tasks of 2025-11-25, as their requestor [2025-11-25, basic/utilities/tasks].

A tool that an old server runs as a task (``execution.taskSupport``) is to everybody above this module a call like any
other: `TaskRun` creates the task, waits for its result with ``tasks/result`` (that is also when the server asks what it
has to ask, naming the task in ``_meta``), looks after it with ``tasks/get``, and ends it with ``tasks/cancel``. What
modern clients see as a task is in `bridge.tasks_serving`, and need not be one of the old server's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal

from bridge.translate.meta import RELATED_TASK, without
from legacy.errors import SessionClosed
from legacy.messages import Failure, Lost, Reply, Result
from legacy.session import Session
from modern.errors import INTERNAL_ERROR, INVALID_PARAMS

USUAL_POLL: Final = 5.0
"""Seconds between two looks at a task whose server names no interval."""
POLL_BOUNDS: Final = (1.0, 60.0)
TERMINAL: Final = frozenset({"completed", "failed", "cancelled"})

Support = Literal["required", "optional"]


def runs_tasks(capabilities: Mapping[str, Any]) -> bool:
    """Whether a server with these capabilities has tools that are tasks."""
    return _declared(capabilities, "requests", "tools", "call")


def task_support(tool: Mapping[str, Any]) -> Support | None:
    """Whether the tool's definition says that it has to be, or can be, called as a task."""
    execution = tool.get("execution")
    support = execution.get("taskSupport") if isinstance(execution, Mapping) else None
    return support if support in ("required", "optional") else None


def task_of(params: Mapping[str, Any]) -> str | None:
    """The task that an ask belongs to, if it says so."""
    meta = params.get("_meta")
    related = meta.get(RELATED_TASK) if isinstance(meta, Mapping) else None
    task_id = related.get("taskId") if isinstance(related, Mapping) else None
    return task_id if isinstance(task_id, str) else None


def created_task(reply: Reply) -> str | None:
    """The task that a request has become, if its answer says so."""
    task = _task_in(reply)
    task_id = task.get("taskId") if task is not None else None
    return task_id if isinstance(task_id, str) else None


def cancel_task_of(session: Session, reply: Reply) -> None:
    """A request was cancelled before the server said that it is a task now: end that task, since nobody waits for
    it."""
    task_id = created_task(reply)
    if task_id is not None:
        _cancel(session, task_id)


def _task_in(reply: Reply) -> Mapping[str, Any] | None:
    task = reply.value.get("task") if isinstance(reply, Result) else None
    return task if isinstance(task, Mapping) else None


def _cancel(session: Session, task_id: str) -> bool:
    if session.closed or not _declared(session.capabilities, "cancel"):
        return False
    session.send_plain("tasks/cancel", {"taskId": task_id}, _unheard)
    return True


def _declared(capabilities: Mapping[str, Any], *path: str) -> bool:
    node: Any = capabilities.get("tasks")
    for key in path:
        node = node.get(key) if isinstance(node, Mapping) else None
    return node is not None


class TaskRun:
    """One request, sent as a task.

    ``created`` is told the task's id, and the id of the request that waits for its result; ``ended`` what it has come
    to, and whether it was cancelled; ``heard`` that the server said something of it: `status` and `message` may be
    others.

    Invariant: at most one look at the task is on its way; none once `stop` was called.
    """

    __slots__ = (
        "_created",
        "_ended",
        "_heard",
        "_looks",
        "_loop",
        "_missed",
        "_over",
        "_session",
        "_timer",
        "_waiting",
        "id",
        "message",
        "meta",
        "poll",
        "status",
    )

    def __init__(
        self,
        session: Session,
        loop: asyncio.AbstractEventLoop,
        *,
        created: Callable[[str, int], None],
        ended: Callable[[Reply, bool], None],
        heard: Callable[[], None],
        looks: bool = True,
    ) -> None:
        self.id: str | None = None
        self.meta: dict[str, Any] = {}
        """What the server said beside the task when it was created, such as what to tell a model meanwhile."""
        self.status = "working"
        self.message: str | None = None
        """What the server says about the status, for people."""
        self.poll: float | None = None
        """The server's polling interval in seconds, if it named one."""
        self._session = session
        self._loop = loop
        self._created = created
        self._ended = ended
        self._heard = heard
        self._looks = looks
        """Whether the server can be asked how the task is while it works on it."""
        self._waiting = 0
        self._missed = 0
        self._over = False
        self._timer: asyncio.TimerHandle | None = None

    def send(self, method: str, params: dict[str, Any], ttl: float) -> int:
        """Create the task, to be kept for ``ttl`` seconds; the id of the request that does it."""
        return self._session.send(method, {**params, "task": {"ttl": int(ttl * 1000)}}, self._replied)

    def told(self, task: Mapping[str, Any]) -> None:
        """The server says how the task is: in an answer, or in ``notifications/tasks/status``."""
        status, message, poll = task.get("status"), task.get("statusMessage"), task.get("pollInterval")
        self.status = status if isinstance(status, str) else self.status
        self.message = message if isinstance(message, str) else None
        if isinstance(poll, int | float) and not isinstance(poll, bool) and poll > 0:
            self.poll = poll / 1000
        self._missed = 0
        self._heard()

    def cancel(self) -> bool:
        """End the task at the server; whether that could be asked for. The request that waits for its result is then
        answered, and not cancelled too [2025-11-25, basic/utilities/cancellation]; SDK servers break down over both."""
        self.stop()
        return self.id is not None and self.status not in TERMINAL and _cancel(self._session, self.id)

    def stop(self) -> None:
        """Nobody wants to know any more."""
        self._over = True
        self._look_no_more()

    # -- its life -----------------------------------------------------------------------------------------------------

    def _replied(self, reply: Reply) -> None:
        task, task_id = _task_in(reply), created_task(reply)
        if task is None or task_id is None:
            self._ended(reply, False)  # an error, or a server that answered at once after all
            return
        self.id = task_id
        if isinstance(reply, Result):
            meta = without({"_meta": reply.value.get("_meta")}, {RELATED_TASK}).get("_meta")
            self.meta = meta if isinstance(meta, dict) else {}
        if self._wait():
            self.told(task)
            self._look_later()

    def _wait(self) -> bool:
        """Wait for the result; whether there is a session to do that on, which else tells its end by itself."""
        assert self.id is not None
        try:
            self._waiting = self._session.send("tasks/result", {"taskId": self.id}, self._result)
        except SessionClosed:
            return False
        self._created(self.id, self._waiting)
        return True

    def _look_later(self) -> None:
        if not self._over and self._looks and self.status not in TERMINAL:
            self._timer = self._loop.call_later(self._interval, self._look)

    @property
    def _interval(self) -> float:
        least, most = POLL_BOUNDS
        return min(max(self.poll or USUAL_POLL, least), most)

    def _look_no_more(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        self._timer = None
        try:
            self._session.send_plain("tasks/get", {"taskId": self.id}, self._looked)
        except SessionClosed:
            return

    def _looked(self, reply: Reply) -> None:
        if self._over:
            return
        match reply:
            case Result(value=value):
                self.told(value)
            case Failure(code=code) if code == INVALID_PARAMS:
                self._missed += 1
                if self._missed > 1:  # the first may have crossed its result
                    self._session.cancel(self._waiting, "The task is gone.")
                    self._session.forget(self._waiting)
                    self._end(reply, cancelled=False)
                    return
            case Failure() | Lost():
                pass
        self._look_later()

    def _result(self, reply: Reply) -> None:
        """What ``tasks/result`` says. Of a task that was cancelled, or failed for other reasons than its tool's, SDK
        servers return an empty result or any error: then its status decides."""
        if isinstance(reply, Lost):
            self._explain(reply, self._lost)
        elif isinstance(reply, Result) and "content" in reply.value:
            self._end(reply, cancelled=False)
        elif self.status in TERMINAL:
            self._decide(reply)
        else:
            self._explain(reply, self._decide)

    def _explain(self, reply: Reply, then: Callable[[Reply, bool], None]) -> None:
        """Ask how the task is before anything is made of a reply; ``then`` gets it, and whether that was answered."""
        if isinstance(reply, Lost):  # whether the server took that request up or not: the task was begun
            reply = Lost(reply.reason, processed=True)
        self._look_no_more()

        def seen(shown: Reply) -> None:
            if self._over:
                return
            if isinstance(shown, Result):
                self.told(shown.value)
            then(reply, isinstance(shown, Result))

        try:
            self._session.send_plain("tasks/get", {"taskId": self.id}, seen)
        except SessionClosed:
            then(reply, False)

    def _lost(self, reply: Reply, answered: bool) -> None:
        """A connection that is quiet for long may be cut on its way. The task goes on without it."""
        if answered:
            self._timer = self._loop.call_later(self._interval, self._wait_again)
        else:
            self._end(reply, cancelled=False)

    def _wait_again(self) -> None:
        self._timer = None
        if self._wait():
            self._look_later()

    def _decide(self, reply: Reply, answered: bool = True) -> None:
        if self.status == "failed" and isinstance(reply, Result):
            reply = Failure(INTERNAL_ERROR, self.message or "The task failed at the server, which did not say why.")
        self._end(reply, cancelled=self.status == "cancelled")

    def _end(self, reply: Reply, *, cancelled: bool) -> None:
        if self._over:
            return
        self.stop()
        if isinstance(reply, Result):
            reply = Result(without(reply.value, {RELATED_TASK}))
        self._ended(reply, cancelled)


def _unheard(reply: Reply) -> None:
    """Whether the server could still cancel changes nothing for anybody."""
