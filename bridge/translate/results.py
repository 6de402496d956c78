"""A legacy result as a modern client gets it [basic/index, Results; server/utilities/caching; basic/patterns/mrtr].

Shallow copies: what is inside a result is the server's and stays as it is, unknown fields included.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Literal

from modern import results
from modern.caching import CacheHints

_hints = lru_cache(CacheHints)
MOST_VALUES = 100


def to_modern(
    method: str,
    result: Mapping[str, Any],
    *,
    server_info: Mapping[str, Any] | None,
    ttl_ms: int,
    cache_scope: Literal["public", "private"],
) -> dict[str, Any]:
    """The complete result of ``method``.

    A legacy server knows nothing of ``resultType`` and of cache hints: should it have fields of these names, ours
    replace them, since a client would act on them.
    """
    if method == "tools/list" and isinstance(tools := result.get("tools"), list):
        result = {**result, "tools": [_readable(tool) for tool in tools]}
    elif method == "completion/complete":
        result = _bounded(result)
    return results.complete(method, result, server_info, _hints(ttl_ms, cache_scope))


def _bounded(result: Mapping[str, Any]) -> Mapping[str, Any]:
    """A completion of at most 100 values [server/utilities/completion, Completion Results], which is as many as
    official clients read."""
    completion = result.get("completion")
    values = completion.get("values") if isinstance(completion, Mapping) else None
    if not isinstance(completion, Mapping) or not isinstance(values, list) or len(values) <= MOST_VALUES:
        return result
    return {**result, "completion": {**completion, "values": values[:MOST_VALUES], "hasMore": True}}


def _readable(tool: Any) -> Any:
    """A tool whose ``inputSchema`` says that arguments are an object, where the server left that out.

    Official clients refuse a whole list for one tool whose schema does not say ``type: object`` at its root
    [server/tools, Data Types]; arguments are never anything else.
    """
    schema = tool.get("inputSchema") if isinstance(tool, dict) else None
    if not isinstance(schema, Mapping) or schema.get("type") == "object":
        return tool
    return {**tool, "inputSchema": {**schema, "type": "object"}}
