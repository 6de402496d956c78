"""Which HTTP requests get as far as their body: whose ``Host``, which ``Origin``, which method, which types.

Pure. Rules: [basic/transports/streamable-http, Security & Endpoint, Sending Messages]. Against DNS rebinding, an
endpoint on the loopback interface answers only to loopback names and to those that the operator lists.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

Headers = list[tuple[bytes, bytes]]

LOOPBACK_NAMES: Final = frozenset({"localhost", "127.0.0.1", "::1"})
_ALLOWED_HEADERS: Final = frozenset(
    {"accept", "authorization", "content-type", "last-event-id", "traceparent", "tracestate", "baggage"}
)


@dataclass(frozen=True, slots=True)
class Refusal:
    """An answer given before the body is read."""

    status: int
    say: str
    headers: tuple[tuple[bytes, bytes], ...] = ()


class Admission:
    """The rules for one endpoint. The caches hold only values that passed, at most ``_REMEMBERED`` of each."""

    __slots__ = ("_any_host", "_any_origin", "_good_accepts", "_good_hosts", "_hosts", "_origins")

    _REMEMBERED: Final = 256

    def __init__(self, allowed_hosts: Iterable[str], allowed_origins: Iterable[str]) -> None:
        hosts = {host_name(host) for host in allowed_hosts}
        self._any_host = "*" in hosts
        self._hosts = hosts
        self._origins = {origin.rstrip("/").lower() for origin in allowed_origins}
        self._any_origin = "*" in self._origins
        self._good_hosts: set[tuple[str, bool]] = set()
        self._good_accepts: set[str] = set()

    def host(self, headers: Mapping[str, str], local_address: str | None) -> Refusal | None:
        """Judge ``Host``; ``local_address`` is that of our end of the connection."""
        sent, loopback = headers.get("host", ""), _is_loopback(local_address)
        if (sent, loopback) in self._good_hosts:
            return None
        name = host_name(sent)
        checked = loopback or self._hosts
        if checked and not (self._any_host or name in self._hosts or (loopback and name in LOOPBACK_NAMES)):
            return Refusal(403, "Forbidden: this Host is not served here; the operator can allow it.")
        if len(self._good_hosts) < self._REMEMBERED:
            self._good_hosts.add((sent, loopback))
        return None

    def origin(self, headers: Mapping[str, str], local_address: str | None) -> tuple[Refusal | None, Headers]:
        """Judge ``Origin``, after `host`; with it, the CORS headers that go on every answer.

        A page that this very endpoint's host served is no stranger, provided that the host was checked: otherwise
        a rebound name would be its own excuse.
        """
        origin = headers.get("origin")
        if origin is None:
            return None, []
        lowered = origin.lower()
        listed = self._any_origin or lowered in self._origins
        if not listed:
            host_checked = not self._any_host and bool(_is_loopback(local_address) or self._hosts)
            scheme, _, rest = lowered.partition("://")
            if not (host_checked and scheme in ("http", "https") and rest == headers.get("host", "").lower()):
                return Refusal(403, "Forbidden: this Origin is not allowed; the operator can list it."), []
        return None, [
            (b"access-control-allow-origin", origin.encode("latin-1")),
            (b"access-control-expose-headers", b"www-authenticate"),
            (b"vary", b"origin"),
        ]

    def media(self, headers: Mapping[str, str]) -> Refusal | None:
        """Judge ``Content-Type`` and ``Accept``; the latter only if it leaves us nothing that we could answer with."""
        sent = headers.get("content-type", "")
        if sent != "application/json" and sent.partition(";")[0].strip().lower() != "application/json":
            return Refusal(415, "Unsupported media type: send application/json.")
        accept = headers.get("accept")
        if accept is None or accept in self._good_accepts:
            return None
        kinds = {part.partition(";")[0].strip().lower() for part in accept.split(",")}
        if kinds.isdisjoint({"application/json", "text/event-stream", "application/*", "text/*", "*/*"}):
            return Refusal(406, "Not acceptable: answers are application/json or text/event-stream.")
        if len(self._good_accepts) < self._REMEMBERED and len(accept) < 1024:
            self._good_accepts.add(accept)
        return None


def preflight(headers: Mapping[str, str]) -> Headers:
    """The CORS headers that let a listed page send what the protocol requires, ``Mcp-Param-*`` included."""
    asked = (name.strip().lower() for name in headers.get("access-control-request-headers", "").split(","))
    allowed = [name for name in asked if name in _ALLOWED_HEADERS or (name.startswith("mcp-") and name.isascii())]
    return [
        (b"access-control-allow-methods", b"POST"),
        (b"access-control-allow-headers", ", ".join(dict.fromkeys(allowed)).encode("latin-1")),
        (b"access-control-max-age", b"7200"),
    ]


def host_name(host: str) -> str:
    """The name in a ``Host`` header without its port, IPv6 brackets removed, in lower case."""
    host = host.strip().lower()
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host if host.count(":") > 1 else host.partition(":")[0]


def _is_loopback(address: str | None) -> bool:
    return address is not None and (address.startswith(("127.", "::ffff:127.")) or address in ("::1", "localhost"))
