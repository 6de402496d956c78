"""Calls that have become tasks, as their clients see them: `tasks/get`, `update`, `cancel` [the tasks extension].

A task is a call with no leg (`bridge.call`): its status is what phase the call is in, its questions those that are
outstanding, its result what the call has come to. Whether the old server made a task of it or only takes long is the
same here.

A task's id is sealed like a ``requestState`` and bound to its principal: to anybody else it names nothing. Not here:
which calls become tasks, and when; and for how long a call that is over is kept.
"""

from __future__ import annotations

import logging
import struct
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from bridge import outcomes as o
from bridge import state as states
from bridge.conduct import LiveCall
from bridge.keyring import Box, BoxError, KeyRing
from bridge.settings import Limits
from modern import listen, tasks
from modern.envelope import Request
from modern.serving import Leg
from modern.tasks import Status

log = logging.getLogger("mrtr.tasks")

FORMAT: Final = 1
LONGEST: Final = 128
"""Characters of the longest id; what is longer is refused before it is decoded."""
MOST: Final = 1000
"""Tasks of one principal. A call beyond them stays a call, which every client takes."""
_CONTENT: Final = struct.Struct(f">{states.INSTANCE_SIZE}s{states.CALL_SIZE}sQ")


class Task:
    """One call that has become a task. A `bridge.conduct.ClientsTask`.

    Invariant: each stream that was promised this task has been told how it is, as it was last looked at.
    """

    __slots__ = ("_complete", "_limits", "_live", "_seen", "_streams", "created_at", "id", "updated_at")

    def __init__(
        self, id: str, live: LiveCall, created_at: float, complete: Callable[[LiveCall, dict[str, Any]], dict[str, Any]]
    ) -> None:
        self.id = id
        self.created_at = self.updated_at = created_at
        self._live = live
        self._limits: Limits = live.group.server.limits
        self._complete = complete
        """Brings a result of the old server's to this revision."""
        self._streams: dict[object, tuple[str | int, Leg]] = {}
        self._seen = self._features()

    def now(self) -> tasks.Task:
        """What the client sees at this moment."""
        live = self._live
        message, result, error, requests = live.status_message, None, None, None
        match live.call.outcome:
            case o.Complete(result=value):
                status, result = Status.COMPLETED, self._complete(live, value)
            case o.Failed(error=failure):
                status, error, message = Status.FAILED, failure.body(), failure.message
            case o.Cancelled():
                status = Status.CANCELLED
            case None:
                requests = live.call.input_requests
                status = Status.INPUT_REQUIRED if requests else Status.WORKING
        poll = live.poll or self._limits.task_poll
        return tasks.Task(
            self.id,
            status,
            message,
            self.created_at,
            self.updated_at,
            ttl_ms=_milliseconds(self._limits.task_ttl),
            poll_interval_ms=_milliseconds(poll),
            requests=requests,
            result=result,
            error=error,
        )

    def look(self) -> None:
        """Something may have changed; if it has, those who listen are told."""
        features = self._features()
        if features == self._seen:
            return
        self._seen = features
        self.updated_at = time.time()
        if self._streams:
            params = self.now().detailed()
            for stream, leg in list(self._streams.values()):
                leg.notify(tasks.NOTIFICATION, listen.stamped(stream, params))

    def _features(self) -> tuple[object, ...]:
        call = self._live.call
        return call.outcome, tuple(call.input_requests), self._live.status_message

    def tell(self, key: object, stream: str | int, leg: Leg) -> None:
        """Tell a stream how the task is, now and whenever that changes."""
        self._streams[key] = stream, leg
        leg.notify(tasks.NOTIFICATION, listen.stamped(stream, self.now().detailed()))

    def tell_no_more(self, key: object) -> None:
        self._streams.pop(key, None)


class Tasks:
    """The tasks of one process.

    Invariant: a task can be found by its id as long as its call is in ``calls``, which is not ours.
    """

    __slots__ = ("_box", "_calls", "_complete", "_instance", "_server")

    def __init__(
        self,
        ring: KeyRing,
        instance: bytes,
        server_name: str,
        calls: Mapping[bytes, LiveCall],
        complete: Callable[[LiveCall, dict[str, Any]], dict[str, Any]],
    ) -> None:
        self._box = Box(ring, "task id")
        self._instance = instance
        self._server = server_name
        self._calls = calls
        self._complete = complete

    def has_room(self, principal: str) -> bool:
        """Whether this principal may have one more task."""
        if len(self._calls) < MOST:
            return True
        return sum(live.task is not None and live.principal == principal for live in self._calls.values()) < MOST

    def created(self, live: LiveCall, call_id: bytes) -> dict[str, Any]:
        """The result for a leg whose call, found by ``call_id`` in ``calls``, has become a task."""
        if live.task is None:
            created_at = time.time()
            expires = int(created_at + live.group.server.limits.task_ttl) + 1
            content = _CONTENT.pack(self._instance, call_id, expires)
            task_id = self._box.seal(content, self._bound(live.principal))
            live.task = Task(task_id, live, created_at, self._complete)
        assert isinstance(live.task, Task)
        return tasks.created(live.task.now(), live.group.server_info, live.task_meta)

    def serve(self, request: Request) -> dict[str, Any]:
        """``tasks/get``, ``tasks/update`` or ``tasks/cancel``.

        Raises:
            ProtocolError: the client did not declare the extension, the id names no task of its, or an answer has the
                wrong shape.
        """
        if not tasks.declared(request.capabilities):
            raise tasks.undeclared(request.method)
        live = self._find(request)
        assert isinstance(live.task, Task)
        server_info = live.group.server_info
        match request.method:
            case "tasks/get":
                return tasks.shown(live.task.now(), server_info)
            case "tasks/update":
                live.update(request.params.get("inputResponses"))
            case "tasks/cancel":
                live.cancel_task()
        return tasks.acknowledged(server_info)

    @contextmanager
    def listening(self, request: Request, leg: Leg) -> Iterator[tuple[tuple[str, ...], Callable[[], None]]]:
        """The ids, among those that a stream asks for, of tasks that it can have; and what begins to tell it of them,
        to be called once it was acknowledged [Task Status Notifications].

        Raises:
            ProtocolError: ids were given by a client that did not declare the extension.
        """
        wanted = listen.Filter.read(request.params).tasks
        if wanted is not None and not tasks.declared(request.capabilities):
            raise tasks.undeclared("the filter 'taskIds'")
        key = object()
        found: list[Task] = []
        for task_id in wanted or ():
            live, _ = self._look_up(task_id, request.principal)
            if live is not None and isinstance(live.task, Task):
                found.append(live.task)

        def begin() -> None:
            for task in found:
                task.tell(key, request.id, leg)

        try:
            yield tuple(task.id for task in found), begin
        finally:
            for task in found:
                task.tell_no_more(key)

    # -- ids ----------------------------------------------------------------------------------------------------------

    def _find(self, request: Request) -> LiveCall:
        live, reason = self._look_up(request.params["taskId"], request.principal)
        if live is not None:
            return live
        log.info("%s was refused: %s", request.method, reason, extra={"reason": reason})
        raise tasks.not_found(request.method, expired=reason is states.Reason.EXPIRED)

    def _look_up(self, task_id: object, principal: str) -> tuple[LiveCall | None, states.Reason]:
        """The call whose task this is, or why there is none."""
        try:
            content, _ = self._box.open(task_id, self._bound(principal), longest=LONGEST)
            instance, call_id, expires = _CONTENT.unpack(content)
        except BoxError as error:
            return None, states.Reason(error.reason.value)
        except struct.error:
            return None, states.Reason.MALFORMED
        live = self._calls.get(call_id) if instance == self._instance else None
        if live is not None and live.task is not None:
            return live, states.Reason.CALL_GONE
        return None, states.Reason.EXPIRED if time.time() >= expires else states.Reason.CALL_GONE

    def _bound(self, principal: str) -> bytes:
        words = [word.encode("utf-8", "surrogatepass") for word in (self._server, principal)]
        return b"%d" % FORMAT + b"".join(b" %d:%b" % (len(word), word) for word in words)


def _milliseconds(seconds: float) -> int:
    return max(int(seconds * 1000), 1)
