"""What every result carries: ``resultType``, the server's identity, cache hints [basic/index, Result Responses, _meta].

Pure. Inputs are never changed: the top level and ``_meta`` are copied, what is nested deeper is shared.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from modern.caching import NOT_CACHED, CacheHints, add_hints

SERVER_INFO_KEY: Final = "io.modelcontextprotocol/serverInfo"


def complete(
    method: str,
    result: Mapping[str, Any],
    server_info: Mapping[str, Any] | None = None,
    hints: CacheHints = NOT_CACHED,
) -> dict[str, Any]:
    """``result`` as the final result of ``method``; unknown fields stay."""
    made = {**result, "resultType": "complete"}
    _identify(made, server_info)
    add_hints(method, made, hints)
    return made


def input_required(
    requests: Mapping[str, Any] | None,
    state: str | None,
    server_info: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """An interim result that asks the client [basic/patterns/mrtr]; at least one of the two must be given."""
    if not requests and state is None:
        raise ValueError("An input_required result needs input requests or a state.")
    made: dict[str, Any] = {"resultType": "input_required"}
    if requests:
        made["inputRequests"] = dict(requests)
    if state is not None:
        made["requestState"] = state
    _identify(made, server_info)
    return made


def identified(made: dict[str, Any], server_info: Mapping[str, Any] | None) -> dict[str, Any]:
    """``made``, a result that the caller owns, with the server's identity."""
    _identify(made, server_info)
    return made


def _identify(made: dict[str, Any], server_info: Mapping[str, Any] | None) -> None:
    if server_info is None:
        return
    meta = made.get("_meta")
    made["_meta"] = {**(meta if isinstance(meta, dict) else {}), SERVER_INFO_KEY: server_info}
