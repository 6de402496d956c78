"""The vocabulary of a legacy session: what a server asks, and how a request of ours can end.

Values only. `Ask` has identity (its ``open`` flag changes once); the rest is frozen.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any


@dataclass(slots=True, eq=False)
class Ask:
    """A request that the server sent us: ``elicitation/create``, ``sampling/createMessage`` or ``roots/list``."""

    method: str
    params: dict[str, Any]
    """As the server sent it."""
    server_id: str | int
    """The server's JSON-RPC id; ours to echo, never to interpret."""
    request_id: int | None
    """The request of ours that the wire says it belongs to (the POST on whose stream it came), or None: unlabelled."""
    at: float
    """Monotonic seconds when it arrived."""
    sure: bool = True
    """Whether an answer will find the one who asked (`legacy.transports.base.Transport.keeps_session`)."""
    open: bool = True
    """False once it was answered, refused or withdrawn."""

    @property
    def progress_token(self) -> str | int | None:
        """The token by which the server wants to hear that we are still at it, if it gave one."""
        meta = self.params.get("_meta")
        token = meta.get("progressToken") if isinstance(meta, dict) else None
        return token if isinstance(token, str | int) and not isinstance(token, bool) else None


@dataclass(frozen=True, slots=True)
class Result:
    """The server answered."""

    value: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Failure:
    """The server answered with a JSON-RPC error; all three fields as it sent them."""

    code: int
    message: str
    data: Any = None


class Refusal(Enum):
    """Why a server took a request not up, where that tells what to do."""

    ONE_SESSION = "it has a session already and can have no other"
    PERHAPS_ONE_SESSION = "it failed at initialize and did not say why"


@dataclass(frozen=True, slots=True)
class Lost:
    """The session ended, or the connection broke, before the server answered."""

    reason: str
    """A sentence for the client: what happened to what."""
    processed: bool
    """False only when it is certain that the server never took the request up."""
    refusal: Refusal | None = None


Reply = Result | Failure | Lost
