"""Trace context in ``_meta`` [basic/index, OpenTelemetry trace context]: ``traceparent``, ``tracestate``, ``baggage``.

They pass to the old server as they are. What breaks the formats of W3C Trace Context and W3C Baggage does not: whoever
sends these keys answers for them, and to the server that is us. HTTP headers of these names are hops of HTTP and mean
nothing here: the specification puts the context of a request into its ``_meta``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

KEYS: Final = frozenset({"traceparent", "tracestate", "baggage"})
LONGEST: Final = 8192
"""Characters that anybody has to pass on [W3C Baggage, Limits]; more than Trace Context asks for."""
MOST_STATES: Final = 32

_PARENT: Final = re.compile(
    r"(?!ff)(?P<version>[0-9a-f]{2})-(?!0{32})(?P<trace>[0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(?P<more>-.*)?"
)
_STATE: Final = re.compile(
    r"(?:[a-z][a-z0-9_\-*/]{0,255}|[a-z0-9][a-z0-9_\-*/]{0,240}@[a-z][a-z0-9_\-*/]{0,13})"
    r"=[\x20-\x2b\x2d-\x3c\x3e-\x7e]{0,255}[\x21-\x2b\x2d-\x3c\x3e-\x7e]"
)
_TOKEN: Final = r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
_VALUE: Final = r"[\x21\x23-\x2b\x2d-\x3a\x3c-\x5b\x5d-\x7e]*"
_ENTRY: Final = re.compile(rf"{_TOKEN}[ \t]*=[ \t]*{_VALUE}(?:[ \t]*;[ \t]*{_TOKEN}(?:[ \t]*=[ \t]*{_VALUE})?)*")


def trace_id(meta: Any) -> str | None:
    """The trace that a request belongs to, if its ``_meta`` says so."""
    if type(meta) is not dict or "traceparent" not in meta:
        return None  # nearly always
    parent = _parent(meta["traceparent"])
    return parent["trace"] if parent is not None else None


def well_formed(meta: Mapping[str, Any]) -> dict[str, Any]:
    """``meta`` without the keys of the trace context whose values are none. A state without a parent says nothing."""
    dropped = set()
    if _parent(meta.get("traceparent")) is None:
        dropped |= {"traceparent", "tracestate"}
    elif not _is_list(meta.get("tracestate"), _STATE, MOST_STATES):
        dropped.add("tracestate")
    if not _is_list(meta.get("baggage"), _ENTRY, LONGEST):
        dropped.add("baggage")
    return {key: value for key, value in meta.items() if key not in dropped}


def _parent(value: Any) -> re.Match[str] | None:
    """A later version may have more at its end; the first has not [W3C Trace Context, Versioning]."""
    found = _PARENT.fullmatch(value) if isinstance(value, str) and len(value) <= LONGEST else None
    return None if found is None or (found["version"] == "00" and found["more"] is not None) else found


def _is_list(value: Any, member: re.Pattern[str], most: int) -> bool:
    if not isinstance(value, str) or not 0 < len(value) <= LONGEST:
        return False
    members = [one.strip(" \t") for one in value.split(",")]
    return len(members) <= most and any(members) and all(not one or member.fullmatch(one) for one in members)
