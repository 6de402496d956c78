"""A legacy server's error as a modern client gets it, and the errors of our own [basic/index, Error Codes].

Code, message and data are the server's, unless the code means something else in 2026-07-28:

* ``-32020`` to ``-32099`` belong to the specification now (``-32042`` is among them): ``-32603``, the code in ``data``.
* ``-32002`` (resource not found) is ``-32602``.
* ``-32601`` for a tool, prompt or resource of a capability that the server has means an unknown name: ``-32602``. Any
  other ``-32601`` says that the method is unknown, which on HTTP is 404.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from bridge.translate.methods import CAPABILITY_OF
from legacy.messages import Failure
from modern.errors import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    ProtocolError,
)

RESERVED: Final = range(-32099, -32019)
"""Codes that only the specification may give a meaning."""
RESOURCE_NOT_FOUND: Final = -32002
ORIGINAL_CODE: Final = "originalCode"
ORIGINAL_DATA: Final = "originalData"
NO_MESSAGE: Final = "The server reported an error without a message."


def to_modern(method: str, failure: Failure, *, declared: Mapping[str, Any]) -> ProtocolError:
    """The error that a request of ``method`` ends with, at a server that declared these capabilities."""
    code: object = failure.code
    text: object = failure.message
    message = text if isinstance(text, str) else NO_MESSAGE
    data = failure.data
    if not isinstance(code, int) or isinstance(code, bool):
        return ProtocolError(INTERNAL_ERROR, message, data)
    if code in RESERVED:
        return ProtocolError(INTERNAL_ERROR, message, _with_code(data, code))
    if code == RESOURCE_NOT_FOUND:
        return ProtocolError(INVALID_PARAMS, message, data)
    if code == METHOD_NOT_FOUND:
        if declared.get(CAPABILITY_OF.get(method, "")) is not None:
            return ProtocolError(INVALID_PARAMS, message, data)
        return ProtocolError(METHOD_NOT_FOUND, message, data, status=404)
    return ProtocolError(code, message, data)


def lost(reason: str) -> ProtocolError:
    """Something broke on our side of the server; ``reason`` says what, and what to do."""
    return ProtocolError(INTERNAL_ERROR, reason)


def missing_capability(required: Mapping[str, Any]) -> ProtocolError:
    """The call needs something that this request's client did not declare."""
    names = ", ".join(_paths(required)) or "more"
    return ProtocolError(
        MISSING_REQUIRED_CLIENT_CAPABILITY,
        f"This request needs client capabilities that were not declared: {names}.",
        {"requiredCapabilities": dict(required)},
        status=400,
    )


def _with_code(data: Any, code: int) -> dict[str, Any]:
    """The server's own ``data``, and its code beside it; inside it, where clients look for fields of ``data``."""
    if isinstance(data, dict) and ORIGINAL_CODE not in data:
        return {**data, ORIGINAL_CODE: code}
    return {ORIGINAL_CODE: code} if data is None else {ORIGINAL_CODE: code, ORIGINAL_DATA: data}


def _paths(required: Mapping[str, Any], prefix: str = "") -> list[str]:
    paths = []
    for name, inner in required.items():
        deeper = _paths(inner, f"{prefix}{name}.") if isinstance(inner, Mapping) else []
        paths += deeper or [f"{prefix}{name}"]
    return paths
