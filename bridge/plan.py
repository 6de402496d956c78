"""Where one call runs and how: what its request, its server's definitions and its operator say about it.

Asked anew for every attempt, since sessions come and go and so do tools.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bridge import replay
from bridge.pool import Pool
from bridge.tasks import runs_tasks
from bridge.toolbook import learn_tools
from bridge.translate.capabilities import Profile
from modern import tasks
from modern.envelope import Request
from modern.errors import ProtocolError


class Plan:
    """See the module."""

    __slots__ = ("_declares_tasks", "_method", "_name", "_pool", "_principal", "group", "key", "takes_tasks")

    def __init__(self, pool: Pool, request: Request, profile: Profile, room_for_task: Callable[[str], bool]) -> None:
        """
        Raises:
            ProtocolError: see `Pool.group`.
        """
        self._pool = pool
        self._principal = request.principal
        self._method = request.method
        self._declares_tasks = request.method == "tools/call" and tasks.declared(request.capabilities)
        self.takes_tasks = self._declares_tasks and room_for_task(request.principal)
        """Whether the call may become a task for its client: the extension is about tools alone."""
        self._name = str(request.params.get("name") or request.params.get("uri"))
        self.key = f"{request.method}:{self._name}"
        """What is learned about the tool, prompt or resource is kept under this name."""
        self.group = pool.group(request.principal, profile)
        """The group on whose sessions the call runs."""

    def move(self, profile: Profile) -> None:
        """The client of the next attempt declares this.

        Raises:
            ProtocolError: see `Pool.group`.
        """
        self.group = self._pool.group(self._principal, profile)

    @property
    def unprepared(self) -> bool:
        """Whether `prepare` has something to do."""
        group = self.group
        return (
            group.tools is None
            and self._method == "tools/call"
            and not group.roots_come_first
            and (runs_tasks(group.capabilities) or group.profile.asks_anything)
        )

    async def prepare(self) -> None:
        """Have the tools' definitions fetched where what they say of this call could matter; a server that waits for
        roots gets those first.

        Raises:
            ProtocolError: no session could be had.
        """
        if self.unprepared:
            await learn_tools(self.group)

    def as_task(self) -> bool:
        """Whether the old server is to run the call as a task of its own."""
        support = self.group.task_tools.get(self._name)
        if support is None or self._method != "tools/call" or not runs_tasks(self.group.capabilities):
            return False  # whatever its tools say [2025-11-25, basic/utilities/tasks, Tool-Level Negotiation]
        return support == "required" or (support == "optional" and self.takes_tasks)

    def refusal(self) -> ProtocolError | None:
        """Why the call is not made, if it is not."""
        if self._pool.server.strict_tasks and not self._declares_tasks and self.as_task():
            return tasks.undeclared("a tool that runs only as a task")
        return None

    def replayable(self) -> bool:
        """Whether running the call again is harmless."""
        operator, tools = self._pool.server.replay, self.group.repeatable_tools
        return replay.replayable(self._method, self._name, repeatable_tools=tools, operator=operator)

    def capabilities(self) -> dict[str, Any]:
        """What the old server said it can do."""
        return self.group.capabilities

    def sibling_wait(self) -> float:
        """Seconds to wait for further asks after one; see `bridge.knowledge`."""
        return self.group.attribution.knowledge.sibling_wait(self.key)
