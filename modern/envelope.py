"""What a valid modern request is (contract; the validation ladder is to be written here)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(slots=True)
class Request:
    """A request whose envelope passed every rule."""

    id: str | int
    method: str
    params: dict[str, Any]
    """``params`` as received, ``_meta`` included; never changed in place."""
    version: str
    capabilities: dict[str, Any]
    """The client's capabilities, those of this request only."""
    client_info: dict[str, Any] | None = None
    log_level: str | None = None
    progress_token: str | int | None = None
    principal: str = "anonymous"
    """Who the request belongs to; set by the face."""
