"""The one kind of error that a modern request can end with, and the codes of 2026-07-28 [basic/index, Error Codes]."""

from __future__ import annotations

from typing import Any, Final

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603
HEADER_MISMATCH: Final = -32020
MISSING_REQUIRED_CLIENT_CAPABILITY: Final = -32021
UNSUPPORTED_PROTOCOL_VERSION: Final = -32022


class ProtocolError(Exception):
    """A JSON-RPC error for the client; ``status`` is the HTTP status it travels with.

    An error that a server reports about a well-formed request travels with 200; only those that the specification
    ties to a status (400, 403, 404, 413 …) set another.
    """

    def __init__(self, code: int, message: str, data: Any = None, *, status: int = 200) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data
        self.status = status

    def body(self) -> dict[str, Any]:
        """The ``error`` member of the JSON-RPC response."""
        error: dict[str, Any] = {"code": self.code, "message": self.message}
        if self.data is not None:
            error["data"] = self.data
        return error
