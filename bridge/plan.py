"""Where one call runs and how: what its request, its server's definitions and its operator say about it.

Asked anew for every attempt, since sessions come and go and so do tools.
"""

from __future__ import annotations

from collections.abc import Callable

from bridge import replay
from bridge.group import Group
from bridge.pool import Pool
from bridge.tasks import runs_tasks
from bridge.toolbook import learn_tools
from bridge.translate.capabilities import Profile
from modern import tasks
from modern.envelope import Request
from modern.errors import ProtocolError


class Plan:
    """See the module."""

    __slots__ = ("_declares_tasks", "_method", "_name", "_pool", "_principal", "takes_tasks")

    def __init__(self, pool: Pool, request: Request, room_for_task: Callable[[str], bool]) -> None:
        self._pool = pool
        self._principal = request.principal
        self._method = request.method
        self._declares_tasks = request.method == "tools/call" and tasks.declared(request.capabilities)
        self.takes_tasks = self._declares_tasks and room_for_task(request.principal)
        """Whether the call may become a task for its client: the extension is about tools alone."""
        self._name = str(request.params.get("name") or request.params.get("uri"))

    @property
    def key(self) -> str:
        """What is learned about the tool, prompt or resource is kept under this name."""
        return f"{self._method}:{self._name}"

    def home(self, profile: Profile) -> Group:
        """The group that serves the call of a client that declares this.

        Raises:
            ProtocolError: see `Pool.group`.
        """
        return self._pool.group(self._principal, profile)

    async def prepare(self, group: Group) -> None:
        """Have the tools' definitions fetched where what they say of this call could matter; a server that waits for
        roots gets those first.

        Raises:
            ProtocolError: no session could be had.
        """
        unknown = self._method == "tools/call" and group.tools is None and not group.roots_come_first
        if unknown and (runs_tasks(group.capabilities) or group.profile.asks_anything):
            await learn_tools(group)

    def as_task(self, group: Group) -> bool:
        """Whether the old server is to run the call as a task of its own."""
        if self._method != "tools/call" or not runs_tasks(group.capabilities):
            return False  # whatever its tools say [2025-11-25, basic/utilities/tasks, Tool-Level Negotiation]
        support = group.task_tools.get(self._name)
        return support == "required" or (support == "optional" and self.takes_tasks)

    def refusal(self, group: Group) -> ProtocolError | None:
        """Why the call is not made, if it is not."""
        if self._pool.server.strict_tasks and not self._declares_tasks and self.as_task(group):
            return tasks.undeclared("a tool that runs only as a task")
        return None

    def replayable(self, group: Group) -> bool:
        """Whether running the call again is harmless."""
        operator = self._pool.server.replay
        return replay.replayable(self._method, self._name, repeatable_tools=group.repeatable_tools, operator=operator)
