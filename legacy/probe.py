"""Which era is at the other end: what the refusal of an ``initialize`` says about the server; pure.

The order is chosen for old servers, some of which can have one session only: the ``initialize`` that any server gets is
that of a session which will be used. When it is refused in a way in which a modern server may refuse it, the server is
asked ``server/discover``, which starts no session (2026-07-28 basic/versioning, Backward Compatibility;
basic/transports/streamable-http and basic/transports/stdio, the same). A server of both eras answers ``initialize``: to
this package it is a legacy one, unless it is asked in its first session (`look`). Only when a URL refuses the POST of
``initialize`` is there a GET, to see whether HTTP+SSE is spoken there (2025-03-26 basic/transports, Backwards
Compatibility).
"""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass
from typing import Any, Final

FIRST_MODERN: Final = "2026-07-28"
DISCOVER: Final = "server/discover"
HEADERS: Final = {"mcp-protocol-version": FIRST_MODERN, "mcp-method": DISCOVER}
"""What a POST of it carries besides, or instead."""
DISCOVER_WAIT: Final = 5.0
"""Seconds that a server which may be modern gets to say so."""

_REVISION = re.compile(r"\d{4}-\d{2}-\d{2}")
_MAYBE_MODERN: Final = frozenset({-32601, -32602, -32020, -32021, -32022})
"""No such method; no ``_meta`` that says what it must; headers, capabilities, version: how a modern server may refuse
``initialize``, whatever the HTTP status."""


STREAMABLE_HTTP: Final = "streamable-http"
HTTP_SSE: Final = "http-sse"
NAMES: Final = {STREAMABLE_HTTP: "Streamable HTTP", HTTP_SSE: "HTTP+SSE of 2024-11-05"}


@dataclass(slots=True)
class Found:
    """What was found out about one URL, kept by whoever opens several sessions there: looked for once, and again when
    a session could not be opened."""

    transport: str | None = None
    legacy: bool = False
    """A session has been opened, and the server does not speak a modern revision as well, or nobody wanted to know."""

    def learn(self, kind: str, log: logging.Logger) -> None:
        """A session of this kind has shaken hands."""
        self.legacy = True
        if kind in NAMES and kind != self.transport:
            self.transport = kind
            log.info("speaks %s", NAMES[kind])


def may_be_modern(code: int) -> bool:
    """Whether a modern server may have refused ``initialize`` with this error; an old one may have too."""
    return code in _MAYBE_MODERN


def may_be_http_sse(status: int) -> bool:
    """Whether a URL of HTTP+SSE may have answered a POST of ``initialize`` so. The rule says 4xx; in the field also 501
    (no such method), and not what says that another try may do better or that credentials are missing."""
    return (400 <= status < 500 and status not in (401, 408, 425, 429)) or status == 501


def modern_versions(listed: Any) -> tuple[str, ...]:
    """The modern revisions in a list of a server's."""
    if not isinstance(listed, list):
        return ()
    return tuple(
        version
        for version in listed
        if isinstance(version, str) and _REVISION.fullmatch(version) and version >= FIRST_MODERN
    )


def supported(data: Any) -> Any:
    """``supported`` of an error's data, or None."""
    return data.get("supported") if isinstance(data, dict) else None


def discover_params(client_info: dict[str, Any]) -> dict[str, Any]:
    """What ``server/discover`` carries (2026-07-28 server/discover)."""
    return {
        "_meta": {
            "io.modelcontextprotocol/protocolVersion": FIRST_MODERN,
            "io.modelcontextprotocol/clientInfo": client_info,
            "io.modelcontextprotocol/clientCapabilities": {},
        }
    }
