"""Cache hints on results [server/utilities/caching]: on complete results of six methods, on nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal

CACHEABLE: Final = frozenset(
    {
        "server/discover",
        "tools/list",
        "prompts/list",
        "resources/list",
        "resources/templates/list",
        "resources/read",
    }
)


@dataclass(frozen=True, slots=True)
class CacheHints:
    """How long and for whom a result may be kept; the default promises nothing."""

    ttl_ms: int = 0
    scope: Literal["public", "private"] = "private"

    def __post_init__(self) -> None:
        if self.ttl_ms < 0:
            raise ValueError("ttl_ms must not be negative.")


NOT_CACHED: Final = CacheHints()


def add_hints(method: str, result: dict[str, Any], hints: CacheHints = NOT_CACHED) -> None:
    """Set the hints of a top-level result that is ours to change, and take away those that must not be there."""
    if method in CACHEABLE and result.get("resultType", "complete") == "complete":
        result["ttlMs"] = hints.ttl_ms
        result["cacheScope"] = hints.scope
    elif result.get("resultType") == "input_required":
        result.pop("ttlMs", None)
        result.pop("cacheScope", None)
