"""A legacy result as a modern client gets it [basic/index, Results; server/utilities/caching; basic/patterns/mrtr].

Shallow copies: what is inside a result is the server's and stays as it is, unknown fields included.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bridge.translate.meta import SERVER_INFO
from bridge.translate.methods import CACHEABLE


def to_modern(
    method: str,
    result: Mapping[str, Any],
    *,
    server_info: Mapping[str, Any] | None,
    ttl_ms: int,
    cache_scope: str,
) -> dict[str, Any]:
    """The complete result of ``method``.

    A legacy server knows nothing of ``resultType`` and of cache hints: should it have fields of these names, ours
    replace them, since a client would act on them.
    """
    modern = _stamped(result, server_info)
    modern["resultType"] = "complete"
    if method in CACHEABLE:
        if method == "tools/list" and isinstance(tools := result.get("tools"), list):
            modern["tools"] = [_readable(tool) for tool in tools]
        modern["ttlMs"] = ttl_ms
        modern["cacheScope"] = cache_scope
    return modern


def input_required(
    input_requests: Mapping[str, Mapping[str, Any]],
    request_state: str | None,
    server_info: Mapping[str, Any] | None,
) -> dict[str, Any]:
    """A result that asks the client; never cacheable. At least one of the first two must be given."""
    if not input_requests and request_state is None:
        raise ValueError("An input_required result needs input requests or a request state.")
    modern = _stamped({}, server_info)
    modern["resultType"] = "input_required"
    if input_requests:
        modern["inputRequests"] = dict(input_requests)
    if request_state is not None:
        modern["requestState"] = request_state
    return modern


def _readable(tool: Any) -> Any:
    """A tool whose ``inputSchema`` says that arguments are an object, where the server left that out.

    Official clients refuse a whole list for one tool whose schema does not say ``type: object`` at its root
    [server/tools, Data Types]; arguments are never anything else.
    """
    schema = tool.get("inputSchema") if isinstance(tool, dict) else None
    if not isinstance(schema, Mapping) or schema.get("type") == "object":
        return tool
    return {**tool, "inputSchema": {**schema, "type": "object"}}


def _stamped(result: Mapping[str, Any], server_info: Mapping[str, Any] | None) -> dict[str, Any]:
    """A copy that names the wrapped server in ``_meta``."""
    modern = dict(result)
    meta = modern.pop("_meta", None)
    stamped = dict(meta) if isinstance(meta, Mapping) else {}
    if server_info:
        stamped[SERVER_INFO] = server_info
    if stamped:
        modern["_meta"] = stamped
    return modern
