"""The shapes of the tasks extension: what a client sees of a call that goes on without it [tasks extension].

Pure. The extension's name and methods, a task as a value, and the results and notifications that carry one. Which calls
become tasks, and what they come to, is the handler's business.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final

from modern.errors import INVALID_PARAMS, MISSING_REQUIRED_CLIENT_CAPABILITY, ProtocolError
from modern.results import identified

EXTENSION: Final = "io.modelcontextprotocol/tasks"
METHODS: Final = frozenset({"tasks/get", "tasks/update", "tasks/cancel"})
NOTIFICATION: Final = "notifications/tasks"


class Status(StrEnum):
    WORKING = "working"
    INPUT_REQUIRED = "input_required"
    COMPLETED = "completed"
    """The request has a result, also one with ``isError``."""
    FAILED = "failed"
    """The request ended with a JSON-RPC error; for nothing else."""
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class Task:
    """A task at one moment. Of the last three fields the one that belongs to the status is set."""

    id: str
    status: Status
    message: str | None
    created_at: float
    """Unix seconds."""
    updated_at: float
    ttl_ms: int
    poll_interval_ms: int
    requests: Mapping[str, Any] | None = None
    result: Mapping[str, Any] | None = None
    error: Mapping[str, Any] | None = None

    def plain(self) -> dict[str, Any]:
        """The fields that every status has."""
        written: dict[str, Any] = {
            "taskId": self.id,
            "status": self.status.value,
            "createdAt": _written(self.created_at),
            "lastUpdatedAt": _written(self.updated_at),
            "ttlMs": self.ttl_ms,
            "pollIntervalMs": self.poll_interval_ms,
        }
        if self.message is not None:
            written["statusMessage"] = self.message
        return written

    def detailed(self) -> dict[str, Any]:
        """With what belongs to the status."""
        written = self.plain()
        match self.status:
            case Status.INPUT_REQUIRED:
                written["inputRequests"] = dict(self.requests or {})
            case Status.COMPLETED:
                written["result"] = dict(self.result or {})
            case Status.FAILED:
                written["error"] = dict(self.error or {})
        return written


def created(task: Task, server_info: Mapping[str, Any] | None, meta: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The result of a request that has become a task [Task Creation]."""
    made = {**task.plain(), "resultType": "task"}
    return identified({**made, "_meta": dict(meta)} if meta else made, server_info)


def shown(task: Task, server_info: Mapping[str, Any] | None) -> dict[str, Any]:
    """The result of ``tasks/get``."""
    return identified({**task.detailed(), "resultType": "complete"}, server_info)


def acknowledged(server_info: Mapping[str, Any] | None) -> dict[str, Any]:
    """The result of ``tasks/update`` and ``tasks/cancel``: what they lead to is seen by ``tasks/get``."""
    return identified({"resultType": "complete"}, server_info)


def declared(capabilities: Mapping[str, Any]) -> bool:
    """Whether a client with these capabilities takes tasks."""
    extensions = capabilities.get("extensions")
    return isinstance(extensions, dict) and isinstance(extensions.get(EXTENSION), dict)


def undeclared(what: str) -> ProtocolError:
    """-32021 for a client that did not declare the extension with its request [Capability Negotiation]."""
    return ProtocolError(
        MISSING_REQUIRED_CLIENT_CAPABILITY,
        f"Missing required client capability: {what} is for clients that declare the extension {EXTENSION}.",
        {"requiredCapabilities": {"extensions": {EXTENSION: {}}}},
        status=400,
    )


def not_found(method: str, *, expired: bool = False) -> ProtocolError:
    """-32602 for an id that names no task of this client's [Protocol Errors]; the same whoever asks and why."""
    verb = {"tasks/get": "retrieve", "tasks/update": "update", "tasks/cancel": "cancel"}[method]
    return ProtocolError(INVALID_PARAMS, f"Failed to {verb} task: Task {'has expired' if expired else 'not found'}")


def _written(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
