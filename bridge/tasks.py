"""A tool that old servers run only as a task (``execution.taskSupport: required`` of 2025-11-25), run to its end.

To the client it is a call like any other: the bridge creates the task, waits for its result with ``tasks/result`` (that
is also when the server asks what it has to ask, naming the task in ``_meta``), and cancels it with ``tasks/cancel``.
Modern tasks, for clients that declare the extension, are not here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from bridge.translate.meta import RELATED_TASK
from legacy.errors import SessionClosed
from legacy.messages import Reply, Result
from legacy.session import Session


def runs_tasks(capabilities: Mapping[str, Any]) -> bool:
    """Whether a server with these capabilities has tools that are tasks."""
    node: Any = capabilities
    for key in ("tasks", "requests", "tools", "call"):
        node = node.get(key) if isinstance(node, Mapping) else None
    return node is not None


def must_be_task(tool: Mapping[str, Any]) -> bool:
    """Whether the tool's definition says that it has to be called as a task."""
    execution = tool.get("execution")
    return isinstance(execution, Mapping) and execution.get("taskSupport") == "required"


def task_of(params: Mapping[str, Any]) -> str | None:
    """The task that an ask belongs to, if it says so."""
    meta = params.get("_meta")
    related = meta.get(RELATED_TASK) if isinstance(meta, Mapping) else None
    task_id = related.get("taskId") if isinstance(related, Mapping) else None
    return task_id if isinstance(task_id, str) else None


def created_task(reply: Reply) -> str | None:
    """The task that a request has become, if its answer says so."""
    task = reply.value.get("task") if isinstance(reply, Result) else None
    task_id = task.get("taskId") if isinstance(task, Mapping) else None
    return task_id if isinstance(task_id, str) else None


def cancel_task_of(session: Session, reply: Reply) -> None:
    """A request was cancelled before the server said that it is a task now: end that task, since nobody waits for
    it."""
    task_id = created_task(reply)
    if task_id is not None:
        _cancel(session, task_id)


def _cancel(session: Session, task_id: str) -> None:
    if not session.closed:
        session.send("tasks/cancel", {"taskId": task_id}, _unheard)


class TaskRun:
    """One request, sent as a task; ``on_reply`` gets what the task comes to."""

    __slots__ = ("_created", "_on_reply", "_session", "id")

    def __init__(
        self, session: Session, created: Callable[[str, int], None], on_reply: Callable[[Reply], None]
    ) -> None:
        self.id: str | None = None
        self._session = session
        self._created = created
        """Told the task's id, and the id of the request that waits for its result."""
        self._on_reply = on_reply

    def send(self, method: str, params: dict[str, Any], ttl: float) -> int:
        """Create the task, to be kept for ``ttl`` seconds; the id of the request that does it."""
        return self._session.send(method, {**params, "task": {"ttl": int(ttl * 1000)}}, self._replied)

    def _replied(self, reply: Reply) -> None:
        task_id = created_task(reply)
        if task_id is None:
            self._on_reply(reply)  # an error, or a server that answered at once after all
            return
        self.id = task_id
        try:
            waiting = self._session.send("tasks/result", {"taskId": task_id}, self._on_reply)
        except SessionClosed:
            return  # the session tells its end by itself
        self._created(task_id, waiting)

    def cancel(self) -> None:
        """End the task at the server; the request that waits for it is cancelled by whoever sent it."""
        if self.id is not None:
            _cancel(self._session, self.id)


def _unheard(reply: Reply) -> None:
    """Whether the server could still cancel changes nothing for anybody."""
