"""The HTTP face of a 2026-07-28 server: one endpoint, POST only [basic/transports/streamable-http].

Here a request is admitted: by its Host and Origin (DNS rebinding), its principal, its type and size; then read by
`modern.envelope`, its repeated parameters compared, and handed to the handler in an `modern.exchange.Exchange`. No session
is ever made: ``Mcp-Session-Id`` and ``Last-Event-ID`` are ignored.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from modern.envelope import Notification, Request, read, read_id
from modern.errors import INVALID_REQUEST, ProtocolError
from modern.exchange import JSON_TYPE, Exchange, Headers, Receive, Scope, Send, Times, respond
from modern.headers import MirrorCache, check_parameters, collect
from modern.serving import Handler
from modern.wire import decode, encode, error_message

CORS_HEADERS = frozenset(
    {"accept", "authorization", "baggage", "content-type", "last-event-id", "traceparent", "tracestate"}
)


def anonymous(headers: Mapping[str, str]) -> str | None:
    """Everybody is the same principal."""
    return "anonymous"


@dataclass(frozen=True, slots=True)
class HttpSettings:
    """Who is admitted, and how much."""

    max_body: int = 4 * 1024 * 1024
    """Bytes."""
    max_depth: int = 64
    allowed_hosts: tuple[str, ...] = ()
    """``Host`` names, with or without a port, that are ours besides the loopback ones."""
    any_host: bool = False
    """Take any ``Host``: behind an address whose names are not known."""
    allowed_origins: tuple[str, ...] = ()
    identify: Callable[[Mapping[str, str]], str | None] = anonymous
    """The principal of a request by its headers (lower-case names), or None: refused."""
    times: Times = field(default_factory=Times)


class HttpFace:
    """An ASGI application for one endpoint, whatever path it is mounted at."""

    def __init__(self, handler: Handler, settings: HttpSettings | None = None) -> None:
        self._handler = handler
        self._settings = settings or HttpSettings()
        self._hosts = frozenset(host.lower() for host in self._settings.allowed_hosts)
        self._origins = frozenset(self._settings.allowed_origins)
        self._mirrors = MirrorCache()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise RuntimeError(f"The HTTP face cannot serve {scope['type']!r}.")
        headers = collect(scope["headers"])
        extra: Headers = []
        id_: str | int | None = None
        try:
            origin = self._admit(headers)
            if origin is not None:
                extra = [(b"access-control-allow-origin", origin.encode()), (b"vary", b"Origin")]
            if scope["method"] != "POST":
                return await _no_post(scope["method"], headers, origin, extra, send)
            principal = self._settings.identify(headers)
            if principal is None:
                extra = [*extra, (b"www-authenticate", b"Bearer")]
                raise ProtocolError(INVALID_REQUEST, "Unauthorized: give a bearer token that is known here", status=401)
            _check_types(headers)
            body = decode(await self._body(headers, receive), self._settings.max_depth)
            id_ = read_id(body)
            request = read(body, headers)
            if isinstance(request, Notification):
                return await respond(send, 202, b"", extra)
            request.principal = principal
            if request.method == "tools/call":
                await self._check_parameters(request, headers)
        except ProtocolError as error:
            return await respond(send, error.status, encode(error_message(id_, error)), [JSON_TYPE, *extra])
        except _ClientGone:
            return None
        exchange = Exchange(request.id, receive, send, extra, self._settings.times)
        handler = self._handler
        return await exchange.run(lambda: handler.serve(request, exchange))

    # -- admission ----------------------------------------------------------------------------------------------------

    def _admit(self, headers: Mapping[str, str]) -> str | None:
        """The origin of a browser's request, None for others.

        Raises:
            ProtocolError: a Host that is not ours, or an Origin that is not listed (403).
        """
        host = headers.get("host", "")
        if not (self._settings.any_host or self._is_ours(host)):
            raise ProtocolError(INVALID_REQUEST, "Forbidden: this Host is not served here (--allowed-host)", status=403)
        origin = headers.get("origin")
        if origin is None or origin in self._origins:
            return origin
        if origin.lower() in (f"http://{host}".lower(), f"https://{host}".lower()) and _is_loopback(_name(host)):
            return origin
        raise ProtocolError(INVALID_REQUEST, "Forbidden: this Origin is not allowed (--allowed-origin)", status=403)

    def _is_ours(self, host: str) -> bool:
        host = host.lower()
        name = _name(host)
        return host in self._hosts or name in self._hosts or _is_loopback(name)

    async def _body(self, headers: Mapping[str, str], receive: Receive) -> bytes:
        limit = self._settings.max_body
        length = headers.get("content-length")
        if length is not None and length.isascii() and length.isdigit() and int(length) > limit:
            raise _too_large(limit)
        chunks: list[bytes] = []
        size = 0
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise _ClientGone
            chunk = message.get("body", b"")
            size += len(chunk)
            if size > limit:
                raise _too_large(limit)
            if not message.get("more_body", False):
                return b"".join([*chunks, chunk]) if chunks else chunk
            chunks.append(chunk)

    async def _check_parameters(self, request: Request, headers: Mapping[str, str]) -> None:
        schema = self._handler.mirrored_parameters(request)
        if schema is None:
            await self._handler.learn_tools(request)
            schema = self._handler.mirrored_parameters(request)
        if schema:
            check_parameters(self._mirrors(schema), request.params.get("arguments") or {}, headers)


class _ClientGone(Exception):
    """The client went away before its request was whole."""


def _check_types(headers: Mapping[str, str]) -> None:
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise ProtocolError(INVALID_REQUEST, "Unsupported media type: send Content-Type: application/json", status=415)
    accept = headers.get("accept")
    if accept is not None and not any(
        kind in accept for kind in ("application/json", "text/event-stream", "*/*", "application/*", "text/*")
    ):
        raise ProtocolError(
            INVALID_REQUEST, "Not acceptable: accept application/json and text/event-stream", status=406
        )


async def _no_post(method: str, headers: Mapping[str, str], origin: str | None, extra: Headers, send: Send) -> None:
    if method == "OPTIONS" and origin is not None:
        asked = headers.get("access-control-request-headers", "").split(",")
        wanted = [name for name in (part.strip().lower() for part in asked) if name]
        allowed = [name for name in wanted if name.startswith("mcp-") or name in CORS_HEADERS]
        cors = [
            (b"access-control-allow-methods", b"POST"),
            (b"access-control-allow-headers", ", ".join(allowed).encode("latin-1", "ignore")),
            (b"access-control-max-age", b"600"),
        ]
        return await respond(send, 204, b"", [*extra, *cors])
    error = ProtocolError(INVALID_REQUEST, f"Method not allowed: {method[:20]}; this endpoint takes POST only")
    return await respond(send, 405, encode(error_message(None, error)), [JSON_TYPE, (b"allow", b"POST"), *extra])


def _too_large(limit: int) -> ProtocolError:
    return ProtocolError(INVALID_REQUEST, f"Content too large: a body has at most {limit} bytes", status=413)


def _name(host: str) -> str:
    """A ``Host`` without its port."""
    if host.startswith("["):
        return host.partition("]")[0][1:]
    return host.rpartition(":")[0] if host.count(":") == 1 else host


@lru_cache(maxsize=1024)
def _is_loopback(name: str) -> bool:
    if name.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False
