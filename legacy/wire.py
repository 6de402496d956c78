"""Bytes to JSON-RPC messages and back, and what may be said of them in a log.

Messages stay plain dicts. What is not JSON-RPC is told apart here and nowhere else: servers print banners and
structured logs on their message channel. Nothing that a message carries (arguments, results, questions, answers) may
reach a log, so `describe` names only methods, ids and sizes.
"""

from __future__ import annotations

import json
import re
from typing import Any

from pydantic_core import from_json, to_json

_ID = re.compile(rb'"id"\s*:\s*"?([0-9]{1,15})"?\s*[,}]')
_BOM = b"\xef\xbb\xbf"
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")

encode = to_json


def decode(data: bytes) -> Any:
    """The JSON value in ``data``.

    Raises:
        ValueError: it is none.
    """
    try:
        return from_json(data)
    except ValueError:
        # Half an emoji (a lone surrogate) or a damaged character is valid to many servers' serialisers: mend those.
        try:
            value = json.loads(data.removeprefix(_BOM).decode("utf-8", "replace"))
            return from_json(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))
        except RecursionError:
            raise ValueError("nested too deeply") from None


def messages(value: Any) -> list[dict[str, Any]]:
    """The JSON-RPC messages in a JSON value: itself, or those in a batch (2025-03-26); none if it is no JSON-RPC."""
    if isinstance(value, dict):
        return [value] if value.get("jsonrpc") == "2.0" else []
    if isinstance(value, list):
        return [item for item in value if isinstance(item, dict) and item.get("jsonrpc") == "2.0"]
    return []


def printable(data: bytes | str, most: int = 4096) -> str:
    """A server's output, fit for one line of a log: no terminal escapes, no line ends, no more than ``most``."""
    text = data[: most * 4].decode("utf-8", "replace") if isinstance(data, bytes) else data
    text = _UNSAFE.sub(lambda match: " " if match[0] == "\t" else f"\\x{ord(match[0]):02x}", text.rstrip("\r\n"))
    return text if len(text) <= most else text[:most] + "…"


def describe(line: bytes) -> str:
    """A stray line of a message channel, for the log at debug; only its size if it may be part of a message."""
    if b'"' in line:
        return f"{len(line)} bytes that may be a damaged message, or a part of one"
    return repr(printable(line, 200))


def in_wide_characters(line: bytes) -> bool:
    """Whether a line that cannot be read is a message, or a part of one, in UTF-16 or UTF-32."""
    return b"\0" in line and b'"jsonrpc"' in line.replace(b"\0", b"") and b'"jsonrpc"' not in line


def answered_id(line: bytes) -> int | None:
    """The request of ours that a line which cannot be read seems to answer."""
    if b'"jsonrpc"' not in line or b'"method"' in line:
        return None
    found = _ID.search(line)
    return int(found[1]) if found is not None else None


def blame(error: BaseException) -> str:
    """Where an exception came from, without its message, which may quote what must not be logged."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    where = f" at {trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}" if trace is not None else ""
    return f"{type(error).__name__}{where}"
