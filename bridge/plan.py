"""Where one call runs and how: what its request, its server's definitions and its operator say about it.

Asked anew for every attempt, since sessions come and go and so do tools.
"""

from __future__ import annotations

from bridge import replay
from bridge.group import Group
from bridge.pool import Pool
from bridge.tasks import runs_tasks
from bridge.toolbook import learn_tools
from bridge.translate.capabilities import Profile
from modern.envelope import Request


class Plan:
    """See the module."""

    __slots__ = ("_method", "_name", "_pool", "_principal")

    def __init__(self, pool: Pool, request: Request) -> None:
        self._pool = pool
        self._principal = request.principal
        self._method = request.method
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
        """Whether the tool runs as a task only."""
        return self._method == "tools/call" and self._name in group.task_tools

    def replayable(self, group: Group) -> bool:
        """Whether running the call again is harmless."""
        operator = self._pool.server.replay
        return replay.replayable(self._method, self._name, repeatable_tools=group.repeatable_tools, operator=operator)
