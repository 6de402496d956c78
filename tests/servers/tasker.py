"""The asker with tasks of 2025-11-25: the same wire, habits and environment, and tools that run as tasks.

Tools that must be called as tasks
    ``job(seconds)`` (says how far it is), ``asks``, ``asks_both`` (two at once), ``asks_many(n)``, ``fails``
    (``isError``, status ``failed``), ``breaks`` (a JSON-RPC error), ``breaks_empty`` (``failed``, and ``tasks/result``
    has nothing, as in the Python SDK), ``gives_up`` (cancels itself), ``forgets`` (the task is gone, ``tasks/result``
    stays silent), ``dies``, ``slow_start(seconds)`` (its creation takes that long), ``asks_first`` (asks, then becomes
    a task), ``ghost(seconds)`` (goes on after a cancel and asks).
Tools that may be
    ``quick``, ``maybe(seconds)``.

A task asks only while its ``tasks/result`` is open, and names itself in ``_meta``. ``TASKER_NO_CANCEL=1``: there is no
``tasks/cancel``; ``TASKER_NO_TASKS=1``: the server says of its tools that they are tasks, but not of itself that it
runs any. Plain tools are the asker's.
"""

from __future__ import annotations

import itertools
import os
import sys
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import asker

Json = dict[str, Any]

RELATED = "io.modelcontextprotocol/related-task"
CAN_CANCEL = os.environ.get("TASKER_NO_CANCEL") != "1"
TERMINAL = ("completed", "failed", "cancelled")

numbers = itertools.count(1)
tasks: dict[str, Task] = {}


class Cancelled(Exception):
    """The task was cancelled."""


class Task:
    """One task and the thread that works on it."""

    def __init__(self, call: asker.Call, work: Callable[[Task, Json], str], arguments: Json) -> None:
        self.id = f"task-{next(numbers)}"
        self.wire = call.wire
        self.status = "working"
        self.message: str | None = None
        self.ttl = call.params["task"].get("ttl")
        self.created = self.updated = datetime.now(UTC).isoformat()
        self.result: Json | None = None
        self.error: Json | None = None
        self.done = threading.Event()
        self.opened = threading.Event()
        self.waiter: asker.Call | None = None
        self.silent = False
        self.deaf = False
        tasks[self.id] = self
        threading.Thread(target=self.run, args=(work, arguments), daemon=True).start()

    def run(self, work: Callable[[Task, Json], str], arguments: Json) -> None:
        try:
            self.end("completed", {"content": [{"type": "text", "text": work(self, arguments)}]})
        except (Cancelled, asker.Cancelled):
            return
        except asker.Failed as failed:
            self.error = {"code": failed.code, "message": str(failed)}
            self.end("failed", None)
        except RuntimeError as problem:
            self.end("failed", {"content": [{"type": "text", "text": str(problem)}], "isError": True})

    def end(self, status: str, result: Json | None) -> None:
        if self.status in TERMINAL:
            return
        self.result = result
        self.tell(status)
        self.done.set()

    def tell(self, status: str, message: str | None = None) -> None:
        """A new status, announced."""
        if self.status in TERMINAL:
            return
        self.status, self.message, self.updated = status, message or self.message, datetime.now(UTC).isoformat()
        self.wire.send({"method": "notifications/tasks/status", "params": self.shown()})

    def shown(self) -> Json:
        task = {
            "taskId": self.id,
            "status": self.status,
            "createdAt": self.created,
            "lastUpdatedAt": self.updated,
            "ttl": self.ttl,
            "pollInterval": 1500,
        }
        return {**task, "statusMessage": self.message} if self.message else task

    def sleep(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if self.status == "cancelled" and not self.deaf:
                raise Cancelled
            time.sleep(0.01)

    def elicit(self, message: str) -> Json:
        self.opened.wait(10)
        assert self.waiter is not None
        self.tell("input_required")
        params = {"message": message, "requestedSchema": asker.NAME_FORM, "_meta": {RELATED: {"taskId": self.id}}}
        answer = asker.Call(self.wire, {"id": None}).ask("elicitation/create", params)
        self.tell("working")
        return answer


def job(task: Task, a: Json) -> str:
    task.tell("working", "half done")
    task.sleep(a.get("seconds", 0.2))
    return "the job is done"


def asks(task: Task, a: Json) -> str:
    answer = task.elicit(a.get("message", "Who?"))
    return asker.text_of(answer)


def asks_both(task: Task, a: Json) -> str:
    answers: Json = {}

    def one(message: str) -> None:
        answers[message] = task.elicit(message)

    threads = [threading.Thread(target=one, args=(message,), daemon=True) for message in ("first", "second")]
    for thread in threads:
        thread.start()
        time.sleep(0.02)
    for thread in threads:
        thread.join()
    return asker.text_of(answers)


def asks_many(task: Task, a: Json) -> str:
    names = [(task.elicit(f"name {n}").get("content") or {}).get("name") for n in range(a.get("n", 3))]
    return ", ".join(map(str, names))


def fails(task: Task, a: Json) -> str:
    task.sleep(a.get("seconds", 0.1))
    raise RuntimeError("The tool failed.")


def breaks(task: Task, a: Json) -> str:
    task.sleep(a.get("seconds", 0.1))
    raise asker.Failed(-32050, "Something broke.")


def breaks_empty(task: Task, a: Json) -> str:
    task.sleep(a.get("seconds", 0.1))
    task.tell("failed", "The disk is full.")
    task.done.set()
    raise Cancelled


def gives_up(task: Task, a: Json) -> str:
    task.sleep(a.get("seconds", 0.1))
    task.tell("cancelled", "Superseded.")
    task.done.set()
    raise Cancelled


def forgets(task: Task, a: Json) -> str:
    task.sleep(a.get("seconds", 0.1))
    task.silent = True
    del tasks[task.id]
    raise Cancelled


def dies(task: Task, a: Json) -> str:
    task.sleep(a.get("seconds", 0.2))
    os._exit(7)


def ghost(task: Task, a: Json) -> str:
    task.deaf = True
    task.sleep(a.get("seconds", 0.5))
    params = {"message": "Still there?", "requestedSchema": asker.NAME_FORM, "_meta": {RELATED: {"taskId": task.id}}}
    try:
        asker.Call(task.wire, {"id": None}).ask("elicitation/create", params)
    except asker.Refused:
        return "refused"
    return "answered"


REQUIRED: dict[str, Callable[[Task, Json], str]] = {
    "job": job,
    "asks": asks,
    "asks_both": asks_both,
    "asks_many": asks_many,
    "fails": fails,
    "breaks": breaks,
    "breaks_empty": breaks_empty,
    "gives_up": gives_up,
    "forgets": forgets,
    "dies": dies,
    "slow_start": job,
    "asks_first": job,
    "ghost": ghost,
}
OPTIONAL: dict[str, Callable[[Task, Json], str]] = {"quick": lambda task, a: "quick", "maybe": job}


def call_tool(call: asker.Call) -> Json:
    name, arguments = call.params.get("name", ""), call.params.get("arguments") or {}
    work = REQUIRED.get(name) or OPTIONAL.get(name)
    if work is None:
        return asker.call_tool(call)
    if "task" not in call.params:
        if name in REQUIRED:
            raise asker.Failed(-32601, f"{name} must be called as a task")
        call.sleep(arguments.get("seconds", 0))
        return {"content": [{"type": "text", "text": f"{name}, not as a task"}]}
    if name == "slow_start":
        try:
            call.sleep(arguments.get("seconds", 0.3))
        except asker.Cancelled:  # too late: the task exists
            call.cancelled.clear()
    if name == "asks_first":
        call.elicit("Before it starts?")
    return {"task": Task(call, work, arguments).shown(), "_meta": {"said": "beside the task"}}


def list_tools(call: asker.Call) -> Json:
    listed = asker.list_tools(call)["tools"]
    for name in (*REQUIRED, *OPTIONAL):
        support = "required" if name in REQUIRED else "optional"
        listed.append({"name": name, "inputSchema": {"type": "object"}, "execution": {"taskSupport": support}})
    return {"tools": listed}


def found(call: asker.Call) -> Task:
    task = tasks.get(call.params.get("taskId", ""))
    if task is None:
        raise asker.Failed(-32602, "Failed to retrieve task: Task not found")
    return task


def task_result(call: asker.Call) -> Json:
    task = found(call)
    task.waiter = call
    task.opened.set()
    while not task.done.wait(0.01) or task.silent:
        if call.cancelled.is_set():
            raise asker.Cancelled
    if task.error is not None:
        raise asker.Refused(task.error)
    return {**(task.result or {}), "_meta": {RELATED: {"taskId": task.id}}}


def cancel_task(call: asker.Call) -> Json:
    if not CAN_CANCEL:
        raise asker.Failed(-32601, "Method not found: tasks/cancel")
    task = found(call)
    if task.status in TERMINAL:
        raise asker.Failed(-32602, f"Cannot cancel task: already in terminal status {task.status!r}")
    task.tell("cancelled", "Cancelled by request.")
    task.done.set()
    return task.shown()


def initialize(call: asker.Call) -> Json:
    made = asker.initialize(call)
    tasks_capability: Json = {"list": {}, "requests": {"tools": {"call": {}}}}
    if CAN_CANCEL:
        tasks_capability["cancel"] = {}
    if os.environ.get("TASKER_NO_TASKS") != "1":
        made["capabilities"]["tasks"] = tasks_capability
    return made


asker.PROTOCOL = "2025-11-25"
asker.METHODS |= {
    "initialize": initialize,
    "tools/list": list_tools,
    "tools/call": call_tool,
    "tasks/get": lambda call: found(call).shown(),
    "tasks/result": task_result,
    "tasks/cancel": cancel_task,
    "tasks/list": lambda call: {"tasks": [task.shown() for task in tasks.values()]},
}

if __name__ == "__main__":
    asker.main()
