"""A leg that waits for its outcome, and the notifications that belong on it."""

from __future__ import annotations

import asyncio
from typing import Any

from bridge import outcomes as o
from bridge.translate import notifications
from modern.envelope import Request
from modern.serving import Leg


class OpenLeg:
    """A leg that waits for its outcome."""

    __slots__ = ("future", "leg", "request")

    def __init__(self, request: Request, leg: Leg, loop: asyncio.AbstractEventLoop) -> None:
        self.request = request
        self.leg = leg
        self.future: asyncio.Future[o.Outcome] = loop.create_future()


def client_name(request: Request) -> str | None:
    """What the client calls itself, for warnings."""
    name = request.client_info.get("name") if request.client_info is not None else None
    return name if isinstance(name, str) else None


def deliver(leg: OpenLeg, method: str, params: dict[str, Any], gate: notifications.ProgressGate) -> bool:
    """Bring a notification of the server's to a leg that asked for such; whether it did."""
    request = leg.request
    params = notifications.to_modern(method, params) or {}
    if method == "notifications/progress":
        if request.progress_token is None or not gate.admits(params.get("progress")):
            return False
        params = {**params, "progressToken": request.progress_token}
    elif request.log_level is None or not notifications.admits(request.log_level, params.get("level")):
        return False
    leg.leg.notify(method, params)
    return True
