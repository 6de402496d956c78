"""How an answer of a server is read; pure.

Servers echo our ids as text, send ``error: null`` beside a result, and errors that are no objects. What the
specification leaves no doubt about is read as it was meant; the rest becomes an error that says what was wrong.
"""

from __future__ import annotations

import re
from typing import Any

from legacy.messages import Failure, Reply, Result

_INTERNAL_ERROR = -32603


_ONE_SESSION = re.compile(
    r"already (?:been )?(?:connected|initiali[sz]ed)|only (?:one|a single) (?:client|connection|session)\b",
    re.IGNORECASE,
)


def says_one_session(text: str) -> bool:
    """Whether a refusal of ``initialize`` says that the server has its one session already."""
    return _ONE_SESSION.search(text) is not None


def as_int(value: Any) -> int | None:
    """An id of ours as a server may echo it: a number, or its text."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 19:
        return int(value)
    return None


def reply_of(message: dict[str, Any]) -> Reply:
    """``error: null`` beside a result is no error; nor is ``result: null`` beside an error a result."""
    error = message.get("error")
    if error is None:
        result = message.get("result")
        if result is None:
            return Result({})
        if isinstance(result, dict):
            return Result(result)
        return Failure(_INTERNAL_ERROR, "The server answered with a result that is not an object.")
    if not isinstance(error, dict):
        return Failure(_INTERNAL_ERROR, error if isinstance(error, str) else "The server answered with an error.")
    code = as_int(error.get("code"))
    text = error.get("message")
    return Failure(
        code if code is not None else _INTERNAL_ERROR,
        text if isinstance(text, str) else "The server answered with an error that has no message.",
        error.get("data"),
    )
