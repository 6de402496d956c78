"""What the bridge has to know of a server's tools before it may call them.

Their ``inputSchema``, since parameters that it marks are mirrored in headers that must match
[basic/transports/streamable-http, Custom Headers], which of them can, or must, run as tasks, and which may be run
again. Fetched when first needed, all pages, and again when the list has changed.
"""

from __future__ import annotations

import logging
import time
from typing import Any

import anyio

from bridge.group import Group
from bridge.plain import PlainRequest
from bridge.replay import may_repeat
from bridge.tasks import Support, task_support
from legacy.messages import Result
from modern.errors import ProtocolError

log = logging.getLogger("mrtr.bridge")

PATIENCE = 10.0
PAUSE = 5.0
"""Seconds until tools are fetched again that could not be."""


async def learn_tools(group: Group) -> None:
    """Have ``group.tools`` known, if that is possible.

    Raises:
        ProtocolError: no session could be had.
    """
    session = await group.ready()
    if time.monotonic() < group.tools_again_at:
        return
    if group.server.limits.one_call is not None and group.roots_come_first:
        return  # it would take the list for the answer
    tools: dict[str, dict[str, Any]] = {}
    task_tools: dict[str, Support] = {}
    repeatable: set[str] = set()
    seen: set[str] = set()
    cursor: str | None = None
    patience = min(PATIENCE, group.server.limits.silence)
    complete = "tools" not in session.capabilities
    with anyio.move_on_after(patience):
        while not complete:
            params = {} if cursor is None else {"cursor": cursor}
            try:
                reply = await PlainRequest("tools/list", params).ask(group, patience)
            except ProtocolError:
                break
            if not isinstance(reply, Result):
                break
            listed = reply.value.get("tools")
            for tool in listed if isinstance(listed, list) else ():
                if not isinstance(tool, dict) or not isinstance(name := tool.get("name"), str):
                    continue
                schema = tool.get("inputSchema")
                tools[name] = schema if isinstance(schema, dict) else {}
                if (support := task_support(tool)) is not None:
                    task_tools[name] = support
                if may_repeat(tool):
                    repeatable.add(name)
            cursor = reply.value.get("nextCursor")
            if not isinstance(cursor, str) or cursor in seen:
                complete = True
            else:
                seen.add(cursor)
    if complete:
        group.tools, group.task_tools = tools, task_tools
        group.repeatable_tools = frozenset(repeatable)
    else:  # what was known of tools that are tasks stays true enough; a half list says nothing about the others
        group.tools_again_at = time.monotonic() + PAUSE
        log.warning("the tools could not be listed; calls go on without a look at their definitions")
