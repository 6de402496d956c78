"""The HTTP face: one endpoint of Streamable HTTP as a plain ASGI callable [basic/transports/streamable-http].

It admits or refuses a request, reads its body, lets `modern.envelope` judge it, and brings the handler's answer back:
as one JSON object, or as an event stream (`modern.http_exchange`) once there is a reason for one. It keeps nothing
between requests; sessions and resumption do not exist here, their headers are ignored.

The order of refusal: Host and Origin (403), method (405), types (415, 406), principal (401), size (413), then the
envelope's ladder, then headers that mirror a tool's parameters.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any, Final

from modern.envelope import Notification, Request, judge, read, read_id
from modern.errors import (
    HEADER_MISMATCH,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    UNSUPPORTED_PROTOCOL_VERSION,
    ProtocolError,
)
from modern.faults import because, internal_error
from modern.headers import PREFIX, MirrorCache, check_parameters, collect
from modern.http_admission import Admission, Headers, Refusal, preflight
from modern.http_body import Readers
from modern.http_exchange import Exchange, Gone
from modern.serving import Handler
from modern.wire import decode, encode, error_message, result_message

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

_STATUS: Final[Mapping[int, int]] = {
    METHOD_NOT_FOUND: 404,
    HEADER_MISMATCH: 400,
    MISSING_REQUIRED_CLIENT_CAPABILITY: 400,
    UNSUPPORTED_PROTOCOL_VERSION: 400,
}
"""Codes whose HTTP status the specification fixes, whoever raises them; others keep the status they were given."""

_DISCARD_WITHIN: Final = 1.0
_DISCARD_AT_LEAST: Final = 1024 * 1024
_TOO_SLOW: Final = Refusal(408, "Request timeout: the body did not arrive in time.", ((b"connection", b"close"),))
_JSON: Final = (b"content-type", b"application/json")


def _anonymous(headers: Mapping[str, str]) -> str | None:
    del headers
    return "anonymous"


def _none() -> str | None:
    return None


@dataclass(frozen=True, slots=True)
class HttpSettings:
    """What an operator may set; times in seconds."""

    max_body: int = 4 * 1024 * 1024
    """Bytes of a request's body; more is 413."""
    max_depth: int = 64
    """Levels of nesting in the JSON."""
    body_within: float = 60.0
    """How long a client may take to send a body: 408 afterwards."""
    allowed_hosts: tuple[str, ...] = ()
    """Hosts served besides the loopback names; ``*`` for any. Off the loopback interface, none listed means any."""
    allowed_origins: tuple[str, ...] = ()
    """Origins whose pages may call us; ``*`` for any."""
    identify: Callable[[Mapping[str, str]], str | None] = _anonymous
    """From the headers (names in lower case) to the principal; None: 401."""
    trouble: Callable[[], str | None] = _none
    """What keeps requests from being served at present. A client that was refused for it comes with ``initialize``
    next, and shows its user only what that is answered with."""
    judged: Callable[[Request], Awaitable[bool]] | None = None
    """Asked, if given, whether a request's version, method and parameters are judged here; if not, they are the
    handler's business."""
    keep_alive: float = 15.0
    """Between comments on a quiet event stream."""
    silence_before_sse: float = 5.0
    """How long an answer may take before its response becomes an event stream."""
    watch_after: float = 0.05
    """How long a request runs before somebody looks whether its client is still there."""
    max_queued: int = 1024
    """Notifications that may wait for a client that reads slowly."""


class HttpFace:
    """An ASGI application for one endpoint; mount it at any path.

    Invariant: everything started for a request has ended when its call returns.
    """

    def __init__(self, handler: Handler, settings: HttpSettings | None = None) -> None:
        self._handler = handler
        self._settings = settings = settings or HttpSettings()
        self._admission = Admission(settings.allowed_hosts, settings.allowed_origins)
        self._mirrored = MirrorCache()
        self._readers = Readers()
        self._loop: asyncio.AbstractEventLoop | None = None
        self.dropped = 0
        """Progress and log messages that slow readers did not get."""

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        headers = collect(scope["headers"])
        refusal, cors = self._admit(scope, headers)
        if refusal is not None:
            await _refuse(send, refusal, cors)
            return
        if scope["method"] == "OPTIONS":
            await _answer(send, 204, b"", [*cors, *preflight(headers)])
            return
        principal = self._settings.identify(headers)
        if principal is None:
            await _refuse(send, Refusal(401, "Authentication is required.", ((b"www-authenticate", b"Bearer"),)), cors)
            return
        data = await self._read_body(headers, receive)
        if data is None:
            return  # the client left before it had sent everything
        if isinstance(data, Refusal):
            await _refuse(send, data, cors)
            return
        body: Any = None
        try:
            body = decode(data, self._settings.max_depth)
            message = read(body, headers, judged=self._settings.judged is None)
        except ProtocolError as error:
            if isinstance(body, dict) and body.get("method") == "initialize":
                error = because(error, self._settings.trouble())
            await _send_error(send, read_id(body), error, cors)
            return
        if isinstance(message, Notification):
            # None of this revision's notifications has a meaning over HTTP: ids are not unique across clients, so
            # cancelling by id would let one client end another's request.
            await _answer(send, 202, b"", cors)
            return
        message.principal = principal
        await self._serve(message, headers, receive, send, cors)

    def _admit(self, scope: Message, headers: Mapping[str, str]) -> tuple[Refusal | None, Headers]:
        server = scope.get("server")
        address = server[0] if server else None
        if (refusal := self._admission.host(headers, address)) is not None:
            return refusal, []
        refusal, cors = self._admission.origin(headers, address)
        if refusal is not None:
            return refusal, []
        method = scope["method"]
        if method == "POST":
            return self._admission.media(headers), cors
        if method == "OPTIONS" and "access-control-request-method" in headers and cors:
            return None, cors
        return Refusal(405, "Method not allowed: send messages by POST.", ((b"allow", b"POST"),)), cors

    async def _read_body(self, headers: Mapping[str, str], receive: Receive) -> bytes | bytearray | Refusal | None:
        most = self._settings.max_body
        length = headers.get("content-length", "0")
        if length.isdecimal() and (len(length) > 18 or int(length) > most):
            if "expect" not in headers:  # such a client waits for our word before it sends anything
                await _discard(receive, most)
            return _too_large(most)
        loop = self._running_loop()
        deadline = loop.time() + self._settings.body_within
        part = await self._readers.first_part(receive, loop, deadline)
        if part is None:
            return _TOO_SLOW
        if part["type"] != "http.request":
            return None
        body: bytes = part.get("body", b"")
        if not part.get("more_body", False):
            return body if len(body) <= most else _too_large(most)
        whole = bytearray(body)
        try:
            async with asyncio.timeout_at(deadline):
                while len(whole) <= most:
                    part = await receive()
                    if part["type"] != "http.request":
                        return None
                    whole += part.get("body", b"")
                    if not part.get("more_body", False):
                        break
        except TimeoutError:
            return _TOO_SLOW
        if len(whole) <= most:
            return whole
        if part.get("more_body", False):
            await _discard(receive, most)
        return _too_large(most)

    async def _serve(
        self, request: Request, headers: Mapping[str, str], receive: Receive, send: Send, cors: Headers
    ) -> None:
        exchange = Exchange(self._settings, receive, send, cors, request.method, self._running_loop())
        try:
            async with exchange:
                try:
                    judged = self._settings.judged
                    if judged is not None and await judged(request):
                        judge(request)
                    if request.method == "tools/call":
                        await self._check_mirrored(request, headers)
                    exchange.may_stream()
                    message = result_message(request.id, await self._handler.serve(request, exchange))
                    status = 200
                except ProtocolError as error:
                    message, status = error_message(request.id, error), _status(error)
                except Exception as fault:
                    message, status = error_message(request.id, internal_error(request.method, fault)), 200
                exchange.end()
                try:
                    data = encode(message)
                except ValueError as fault:
                    data, status = encode(error_message(request.id, internal_error(request.method, fault))), 200
                if exchange.streaming:
                    await exchange.finish(data)
                else:
                    await _answer(send, status, data, cors)
        except Gone:
            pass  # nothing is written for a request whose client has left
        finally:
            self.dropped += exchange.dropped

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        """The event loop; asked for once, since before Python 3.12 each asking costs a system call."""
        if self._loop is None or not self._loop.is_running():
            self._loop = asyncio.get_running_loop()
        return self._loop

    async def _check_mirrored(self, request: Request, headers: Mapping[str, str]) -> None:
        """Compare ``Mcp-Param-*`` with the arguments, which needs the tool's schema and so perhaps the tools first."""
        arguments = request.params.get("arguments")
        if not arguments and not any(name.startswith(PREFIX) for name in headers):
            return  # no value without its header, no header without its value
        schema = self._handler.mirrored_parameters(request)
        if schema is None:
            await self._handler.learn_tools(request)
            schema = self._handler.mirrored_parameters(request)
        if schema:
            parameters = self._mirrored(schema)
            if parameters:
                check_parameters(parameters, arguments or {}, headers)


def _status(error: ProtocolError) -> int:
    return _STATUS.get(error.code, 200) if error.status == 200 else error.status


async def _discard(receive: Receive, most: int) -> None:
    """Let a client that is in the middle of its body finish, within reason: else it may never see the refusal."""
    seen = 0
    try:
        async with asyncio.timeout(_DISCARD_WITHIN):
            while seen <= _DISCARD_AT_LEAST + 4 * most:
                part = await receive()
                seen += len(part.get("body", b""))
                if part["type"] != "http.request" or not part.get("more_body", False):
                    return
    except TimeoutError:
        return


def _too_large(most: int) -> Refusal:
    # Its body may not have been read to the end, so the connection cannot be used again.
    return Refusal(413, f"Content too large: a body has at most {most} bytes.", ((b"connection", b"close"),))


async def _refuse(send: Send, refusal: Refusal, cors: Headers) -> None:
    error = ProtocolError(INVALID_REQUEST, refusal.say, status=refusal.status)
    await _send_error(send, None, error, [*cors, *refusal.headers])


async def _send_error(send: Send, id: str | int | None, error: ProtocolError, headers: Headers) -> None:
    await _answer(send, _status(error), encode(error_message(id, error)), headers)


async def _answer(send: Send, status: int, body: bytes, headers: Headers) -> None:
    about = [(b"content-length", b"%d" % len(body)), *headers] if status != 204 else headers
    await send({"type": "http.response.start", "status": status, "headers": [_JSON, *about] if body else about})
    await send({"type": "http.response.body", "body": body})
