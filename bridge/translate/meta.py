"""The keys of ``_meta`` that belong to one era only, and taking them off.

Everything else in ``_meta`` (trace context, vendor keys) belongs to the peers and passes.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Any, Final

SERVER_INFO: Final = "io.modelcontextprotocol/serverInfo"
RELATED_TASK: Final = "io.modelcontextprotocol/related-task"
INPUT_KEY: Final = "mrtr-bridge/inputKey"
"""Where a legacy server may say which key its ask should have."""

ENVELOPE: Final = frozenset(
    {
        "io.modelcontextprotocol/clientCapabilities",
        "io.modelcontextprotocol/clientInfo",
        "io.modelcontextprotocol/logLevel",
        "io.modelcontextprotocol/protocolVersion",
        "progressToken",
    }
)
"""What a modern client puts on every request [basic/index]; a session has its own instead."""

ASK_ONLY: Final = frozenset({INPUT_KEY, RELATED_TASK, "progressToken"})
"""What an ask of a legacy server carries for the transport's sake; an input request has none of it."""


def without(params: dict[str, Any], keys: Set[str]) -> dict[str, Any]:
    """``params`` with these keys taken out of its ``_meta``, and without ``_meta`` if nothing is left in it."""
    meta = params.get("_meta")
    if isinstance(meta, Mapping):
        left = {key: value for key, value in meta.items() if key not in keys}
        if left:
            return params if len(left) == len(meta) else {**params, "_meta": left}
    elif "_meta" not in params:
        return params
    return {key: value for key, value in params.items() if key != "_meta"}
