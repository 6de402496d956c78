"""Subscription streams that a test keeps open beside what it does."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio

from bridge.serving import Bridge
from modern.listen import UPDATED
from tests.bridge.harness import Client, Leg, Result, until

ANNOUNCER = Path(__file__).parents[1] / "servers" / "announcer.py"

CHANGES = {
    "toolsListChanged": "notifications/tools/list_changed",
    "promptsListChanged": "notifications/prompts/list_changed",
    "resourcesListChanged": "notifications/resources/list_changed",
}


def announcer(*arguments: str) -> tuple[str, ...]:
    """The command of the server that has much to say; its Python, with the old SDK, is MRTR_TEST_LEGACY_PYTHON."""
    return os.environ["MRTR_TEST_LEGACY_PYTHON"], str(ANNOUNCER), *arguments


class Stream:
    """A subscription that is open."""

    def __init__(self, leg: Leg, id: Any) -> None:
        self.leg, self.id = leg, id
        self.closed: Result | None = None

    def methods(self) -> list[str]:
        return [method for method, _ in self.leg.notifications]

    def acknowledged(self) -> dict[str, Any]:
        """The part of the filter that is honoured."""
        return dict(self.leg.notifications[0][1]["notifications"])

    def updates(self) -> list[str]:
        return [params["uri"] for method, params in self.leg.notifications if method == UPDATED]


@asynccontextmanager
async def listening(
    bridge: Bridge, client: Client | None = None, *, acknowledged: bool = True, **wanted: Any
) -> AsyncIterator[Stream]:
    client = client or Client(bridge)
    request = client.request("subscriptions/listen", {"notifications": wanted})
    stream = Stream(Leg(), request.id)

    async def serve() -> None:
        stream.closed = await bridge.serve(request, stream.leg)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(serve)
        if acknowledged:
            await until(lambda: stream.leg.notifications)
        yield stream
        tasks.cancel_scope.cancel()
