"""Bytes of JSON to one decoded message and back, for both faces. Pure; knows JSON-RPC's frame and no method.

Rules: UTF-8 only, no NaN or Infinity (not by way of an overflowing number either), no lone surrogates, nesting bounded
[basic/index, Messages]. An error whose request's id could not be read has no ``id`` member at all: unlike in plain
JSON-RPC it must not be null [basic/index, Error Responses].
"""

from __future__ import annotations

import math
from typing import Any, Final

from pydantic_core import from_json, to_json

from modern.errors import INVALID_REQUEST, PARSE_ERROR, ProtocolError

_DIGITS: Final = bytes.maketrans(b"123456789E", b"000000000e")
_LONG: Final = b"0" * 300
"""Only a number with so many digits, or with three in its exponent, can become infinite; quick to search for."""


def decode(data: bytes | bytearray, max_depth: int) -> Any:
    """The JSON value in ``data``.

    Raises:
        ProtocolError: -32700 if it is not JSON, -32600 if it is nested deeper than ``max_depth``; both HTTP 400.
    """
    try:
        value = from_json(data, allow_inf_nan=False, cache_strings="keys")
    except ValueError as error:
        if "recursion limit" in str(error):
            raise _too_deep(max_depth) from None
        raise ProtocolError(PARSE_ERROR, "Parse error: the message is not valid JSON in UTF-8.", status=400) from None
    # No value is nested deeper than there are opening brackets, so most messages need no walk.
    if data.count(b"{") + data.count(b"[") > max_depth and _deeper_than(value, max_depth):
        raise _too_deep(max_depth)
    plain = data.translate(_DIGITS)
    if (b"e000" in plain or b"e+000" in plain or _LONG in plain) and _has_infinity(value):
        raise ProtocolError(PARSE_ERROR, "Parse error: a number is out of range.", status=400)
    return value


def encode(message: dict[str, Any]) -> bytes:
    """One line of JSON.

    Raises:
        ValueError: something in it has no form in JSON.
    """
    return to_json(message, inf_nan_mode="null")


def result_message(id: str | int, result: dict[str, Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "result": result}


def error_message(id: str | int | None, error: ProtocolError) -> dict[str, Any]:
    """The error response; without an ``id`` member if there is none to name."""
    if id is None:
        return {"jsonrpc": "2.0", "error": error.body()}
    return {"jsonrpc": "2.0", "id": id, "error": error.body()}


def notification_message(method: str, params: dict[str, Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": method, "params": params}


def _too_deep(max_depth: int) -> ProtocolError:
    return ProtocolError(INVALID_REQUEST, f"Invalid request: nested deeper than {max_depth} levels.", status=400)


def _deeper_than(value: Any, limit: int) -> bool:
    level = [value]
    for _ in range(limit):
        level = [child for node in level for child in _containers(node)]
        if not level:
            return False
    return any(type(node) is dict or type(node) is list for node in level)


def _containers(node: Any) -> list[Any]:
    children = node.values() if type(node) is dict else node if type(node) is list else ()
    return [child for child in children if type(child) is dict or type(child) is list]


def _has_infinity(value: Any) -> bool:
    stack = [value]
    while stack:
        node = stack.pop()
        if type(node) is dict:
            stack.extend(node.values())
        elif type(node) is list:
            stack.extend(node)
        elif type(node) is float and math.isinf(node):
            return True
    return False
