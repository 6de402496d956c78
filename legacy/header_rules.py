"""Which headers an operator may have sent to a server (RFC 9110, 5.1 and 5.5; 2025-11-25 basic/transports); pure."""

from __future__ import annotations

import re
from typing import Final

_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", re.ASCII)
OURS: Final = frozenset(
    {
        *("accept", "connection", "content-length", "content-type", "host", "last-event-id", "transfer-encoding"),
        *("mcp-protocol-version", "mcp-session-id"),
    }
)
"""What the bridge sets itself, in lower case."""


def is_name(text: str) -> bool:
    """Whether a header may be called that."""
    return _NAME.fullmatch(text) is not None


def is_value(text: str) -> bool:
    """Printable ASCII on one line, and something."""
    return bool(text) and all(character == "\t" or " " <= character <= "~" for character in text)
