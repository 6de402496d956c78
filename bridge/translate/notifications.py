"""What becomes of a legacy server's notifications [basic/patterns/subscriptions; basic/utilities/progress; logging].

The tables and rules only; whose leg or stream a notification belongs to is decided elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from enum import Enum, auto
from typing import Any, Final

from bridge.translate.meta import RELATED_TASK, without


class Route(Enum):
    """Where a notification goes."""

    PROGRESS = auto()
    """To the current leg of the call that our token names, while its value rises."""
    LOG = auto()
    """To a leg that set a level at or below it, if it is certain whose it is."""
    LISTEN = auto()
    """To every listen stream whose filter wants it."""
    SIGNED_IN = auto()
    """To the call that waits for its person to have been at a URL."""
    TASK = auto()
    """To the call that the old server runs as the task it names."""
    INSIDE = auto()
    """Nowhere on the wire: it is for the bridge itself."""


ROUTES: Final = {
    "notifications/cancelled": Route.INSIDE,
    "notifications/elicitation/complete": Route.SIGNED_IN,
    "notifications/message": Route.LOG,
    "notifications/progress": Route.PROGRESS,
    "notifications/prompts/list_changed": Route.LISTEN,
    "notifications/resources/list_changed": Route.LISTEN,
    "notifications/resources/updated": Route.LISTEN,
    "notifications/tasks/status": Route.TASK,
    "notifications/tools/list_changed": Route.LISTEN,
}

LEVELS: Final = {
    level: rank
    for rank, level in enumerate(
        ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"),
    )
}
"""RFC 5424's severities, the mildest first."""


def route(method: str) -> Route:
    """Where a notification goes; one that 2026-07-28 does not have goes nowhere."""
    return ROUTES.get(method, Route.INSIDE)


def to_modern(method: str, params: dict[str, Any] | None) -> dict[str, Any] | None:
    """The params that a modern client gets, or None: this notification is not for it.

    Related-task is taken off: tasks are an extension in 2026-07-28, and their notifications name the task elsewhere.
    """
    if route(method) in (Route.INSIDE, Route.SIGNED_IN, Route.TASK):
        return None
    return without(params, {RELATED_TASK}) if params is not None else {}


def admits(wanted: str, level: object) -> bool:
    """Whether a log message of ``level`` goes to somebody who wants ``wanted`` and above.

    A level that is not RFC 5424's goes to nobody: official clients refuse the whole message for it.
    """
    floor = LEVELS.get(wanted)
    rank = LEVELS.get(level) if isinstance(level, str) else None
    return floor is not None and rank is not None and rank >= floor


def progress_in_words(params: Mapping[str, Any]) -> str | None:
    """What a progress notification says, for where there is no stream to bring it: the ``statusMessage`` of a task."""
    message, progress, total = params.get("message"), params.get("progress"), params.get("total")
    if isinstance(message, str) and message:
        return message
    if isinstance(progress, int | float) and isinstance(total, int | float):
        return f"{progress:g} of {total:g}"
    return None


class ProgressGate:
    """Lets a call's progress through only while it rises, over all its legs [basic/utilities/progress].

    Invariant: ``_last`` is the greatest value that was let through.
    """

    __slots__ = ("_last",)

    def __init__(self) -> None:
        self._last = -math.inf

    def admits(self, value: object) -> bool:
        """Whether this value may be sent; it is then the one to exceed."""
        if isinstance(value, bool) or not isinstance(value, int | float) or not value > self._last or value == math.inf:
            return False
        self._last = value
        return True
