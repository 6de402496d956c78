"""A task of 2025-11-25 as its requestor: what each answer of a server means, and what is asked of it next."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bridge.tasks import TaskRun, runs_tasks, task_support
from legacy.errors import SessionClosed
from legacy.messages import Failure, Lost, Reply, Result

CREATED = Result({"task": {"taskId": "t", "status": "working", "pollInterval": 3000}, "_meta": {"x": 1}})
DONE = Result({"content": [], "_meta": {"io.modelcontextprotocol/related-task": {"taskId": "t"}, "y": 2}})


class Server:
    """A session and a clock in one: what is sent waits for the test to answer it."""

    def __init__(self, *, can_cancel: bool = True) -> None:
        self.capabilities: dict[str, Any] = {"tasks": {"cancel": {}} if can_cancel else {}}
        self.closed = False
        self.sent: list[tuple[str, dict[str, Any]]] = []
        self.waiting: dict[str, Callable[[Reply], None]] = {}
        self.cancelled: list[int] = []
        self.timer: tuple[float, Callable[[], None]] | None = None
        self.ended: list[tuple[Reply, bool]] = []
        self.made: list[tuple[str, int]] = []
        self.run = TaskRun(
            self,  # type: ignore[arg-type]
            self,  # type: ignore[arg-type]
            created=lambda task_id, request_id: self.made.append((task_id, request_id)),
            ended=lambda reply, cancelled: self.ended.append((reply, cancelled)),
            heard=lambda: None,
        )

    def send(self, method: str, params: dict[str, Any], on_reply: Callable[[Reply], None]) -> int:
        if self.closed:
            raise SessionClosed("closed")
        self.sent.append((method, params))
        self.waiting[method] = on_reply
        return len(self.sent)

    send_plain = send

    def cancel(self, request_id: int, reason: str) -> None:
        self.cancelled.append(request_id)

    def forget(self, request_id: int) -> None: ...

    def call_later(self, seconds: float, do: Callable[[], None]) -> Server.Timer:
        self.timer = seconds, do
        return Server.Timer(self)

    class Timer:
        def __init__(self, server: Server) -> None:
            self.server = server

        def cancel(self) -> None:
            self.server.timer = None

    def passes(self) -> None:
        assert self.timer is not None
        _, do = self.timer
        self.timer = None
        do()

    def answers(self, method: str, reply: Reply) -> None:
        self.waiting.pop(method)(reply)

    @property
    def methods(self) -> list[str]:
        return [method for method, _ in self.sent]


def created(**options: Any) -> Server:
    server = Server(**options)
    server.run.send("tools/call", {"name": "x"}, 60)
    assert server.sent == [("tools/call", {"name": "x", "task": {"ttl": 60_000}})]
    server.answers("tools/call", CREATED)
    return server


def test_its_result_is_waited_for_and_it_is_looked_after_as_often_as_the_server_wants() -> None:
    server = created()
    assert server.methods == ["tools/call", "tasks/result"]
    assert server.timer is not None
    assert server.timer[0] == 3.0
    server.passes()
    assert server.methods[-1] == "tasks/get"
    assert server.timer is None  # one look at a time
    server.answers("tasks/get", Result({"status": "working", "statusMessage": "half", "pollInterval": 1}))
    assert (server.run.message, server.run.poll) == ("half", 0.001)
    assert server.timer is not None
    assert server.timer[0] == 1.0  # but not more often than is sane
    server.answers("tasks/result", DONE)
    assert server.ended == [(Result({"content": [], "_meta": {"y": 2}}), False)]
    assert server.timer is None


def test_a_server_that_answers_at_once_made_no_task() -> None:
    for reply in (Result({"content": []}), Failure(-32601, "no tasks"), Result({"task": "x"}), Result({"task": {}})):
        server = Server()
        server.run.send("tools/call", {}, 1)
        server.answers("tools/call", reply)
        assert server.ended == [(reply, False)]
        assert server.methods == ["tools/call"]


def test_what_is_lost_after_the_task_was_made_is_never_sent_again() -> None:
    lost = Lost("The server forgot the session.", processed=False)
    for closed in (True, False):
        server = created()
        server.closed = closed
        server.answers("tasks/result", lost)
        if not closed:
            server.answers("tasks/get", lost)
        assert server.ended == [(Lost("The server forgot the session.", processed=True), False)]


def test_a_task_goes_on_when_the_connection_is_cut_that_waits_for_its_result() -> None:
    server = created()
    for _ in range(2):
        server.answers("tasks/result", Lost("The connection was cut.", processed=True))
        assert server.timer is None
        server.answers("tasks/get", Result({"status": "working"}))
        assert server.timer is not None  # not at once: it may be cut again
        server.passes()
        assert server.methods[-1] == "tasks/result"
    server.answers("tasks/result", DONE)
    assert [outcome for _, outcome in server.ended] == [False]
    assert server.made == [("t", 2), ("t", 4), ("t", 6)]


def test_an_answer_that_says_nothing_is_explained_by_the_status() -> None:
    nothing = Result({})
    for status, outcome in {
        "failed": (Failure(-32603, "Because."), False),
        "cancelled": (nothing, True),
        "completed": (nothing, False),
    }.items():
        server = created()
        server.answers("tasks/result", nothing)
        assert not server.ended
        assert server.timer is None  # this is the look
        server.answers("tasks/get", Result({"status": status, "statusMessage": "Because."}))
        assert server.ended == [outcome]


def test_an_error_is_itself_unless_the_task_was_cancelled() -> None:
    for status, cancelled in {"failed": False, "cancelled": True}.items():
        server = created()
        server.run.told({"status": status})
        server.answers("tasks/result", Failure(-32000, "no"))
        assert server.ended == [(Failure(-32000, "no"), cancelled)]


def test_a_task_that_is_not_found_twice_is_gone() -> None:
    server = created()
    gone = Failure(-32602, "Task not found")
    for _ in range(2):
        assert not server.ended
        server.passes()
        server.answers("tasks/get", gone)
    assert server.ended == [(gone, False)]
    assert server.cancelled == [2]  # nobody waits for its result any more


def test_a_server_that_cannot_be_asked_how_a_task_is_may_still_end_it() -> None:
    server = created()
    for reply in (Failure(-32601, "no such method"), Lost("lost", processed=False), Failure(-32603, "busy")) * 2:
        server.passes()
        server.answers("tasks/get", reply)
    server.answers("tasks/result", DONE)
    assert len(server.ended) == 1


def test_what_a_server_says_of_the_wrong_type_is_not_believed() -> None:
    server = created()
    server.run.told({"status": 7, "statusMessage": {"a": 1}, "pollInterval": "soon"})
    server.run.told({"status": None, "pollInterval": -1})
    assert (server.run.status, server.run.message, server.run.poll) == ("working", None, 3.0)


def test_a_task_is_cancelled_once_and_only_where_that_can_be_asked_for() -> None:
    server = created()
    assert server.run.cancel()
    assert server.sent[-1] == ("tasks/cancel", {"taskId": "t"})
    server.answers("tasks/result", Failure(-32000, "cancelled"))
    assert not server.ended
    assert server.timer is None
    assert not created(can_cancel=False).run.cancel()
    ended = created()
    ended.run.told({"status": "completed"})
    assert not ended.run.cancel()
    assert not Server().run.cancel()


def test_a_session_that_ends_meanwhile_is_told_by_itself() -> None:
    server = created()
    server.closed = True
    server.passes()
    assert not server.ended
    server = created()
    server.closed = True
    server.answers("tasks/result", Result({}))
    assert server.ended == [(Result({}), False)]


def test_only_a_server_that_says_so_runs_tasks() -> None:
    assert runs_tasks({"tasks": {"requests": {"tools": {"call": {}}}}})
    for other in ({}, {"tasks": {}}, {"tasks": {"requests": {"tools": {}}}}, {"tasks": {"requests": 1}}, {"tasks": 1}):
        assert not runs_tasks(other)
    assert task_support({"execution": {"taskSupport": "optional"}}) == "optional"
    for none in ({}, {"execution": 1}, {"execution": {"taskSupport": "forbidden"}}, {"execution": {"taskSupport": 1}}):
        assert task_support(none) is None
