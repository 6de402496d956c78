"""The way to a server that is modern already: its answers, errors, notifications and questions are its own.

Each request is one POST [basic/transports/streamable-http]: parameters, capabilities and whatever else is in it as the
client sent it, under the client's own id (subscriptions are named by it); what comes back goes back the same way. The
client's leaving closes the POST, which cancels. Here nothing is judged, kept, sealed or run again. What does not pass
are credentials: the server gets the operator's, never a client's, so to it all clients are one.

A client on stdio sends no headers, so they are made here, ``Mcp-Param-*`` from the tools' schemas included.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Set
from typing import Any, Final

import anyio
import httpx

from bridge.settings import Server
from legacy.errors import Unsent
from legacy.framing import EventDecoder
from legacy.targets import HttpTarget, Limits
from legacy.transports.http_endpoint import UNCONNECTED, Endpoint, keep_alive, new_client, why_unconnected
from legacy.transports.http_wire import ACCEPT_EVENTS, advice, media_type, status_line
from legacy.wire import decode, encode, messages
from modern.envelope import NAMED_BY, Request
from modern.errors import HEADER_MISMATCH, INTERNAL_ERROR, ProtocolError
from modern.headers import MirrorCache, encode_value, written_parameters
from modern.listen import closing
from modern.serving import Leg

LISTEN: Final = "subscriptions/listen"
_PASSED_ON: Final = frozenset({"accept-language", "baggage", "traceparent", "tracestate"})
_NOT_PASSED_ON: Final = frozenset({"mcp-session-id"})
_MOST_PAGES: Final = 100
_LINGER: Final = 0.05
"""Seconds that a server gets to end a stream that has brought its answer."""


class _Open:
    """One POST that is under way."""

    def __init__(self, method: str) -> None:
        self.method = method
        self.scope = anyio.CancelScope()
        self.ended = False
        """By us: the bridge is shutting down."""


class PassThrough:
    """A `modern.serving.Handler`; an async context manager around its connections.

    Invariant: ``_open`` are the POSTs that are under way, each owned by the task that serves its request.
    """

    def __init__(self, server: Server, target: HttpTarget) -> None:
        self._server = server
        self._name = server.target.name
        self._log = logging.getLogger(f"mrtr.server.{self._name}")
        self._limits = Limits()
        self._client = new_client(target, self._limits)
        self._endpoint = Endpoint(target, self._client)
        self._fixed = frozenset(name.lower() for name in target.headers)
        """Headers that the operator sets, whatever a client says."""
        self._open: set[_Open] = set()
        self._mirrored = MirrorCache()
        self._tools: dict[str, dict[str, dict[str, Any]]] = {}
        """The schemas of the tools, by what a client said it can do; for clients on stdio."""

    async def close(self) -> None:
        """Let go of the connections."""
        self.give_up()
        await self._client.aclose()

    # -- modern.serving.Handler ---------------------------------------------------------------------------------------

    async def serve(self, request: Request, leg: Leg) -> dict[str, Any]:
        if request.headers is not None:
            return await self._post(request, _passed_on(request.headers, self._fixed), leg)
        made = _routing(request)
        if request.method != "tools/call" or not request.params.get("arguments"):
            return await self._post(request, made, leg)
        try:
            return await self._post(request, made | await self._parameters(request), leg)
        except ProtocolError as error:
            if error.code != HEADER_MISMATCH:
                raise
        # The tool may have changed; nothing was carried out [Client Behavior].
        self._tools.pop(str(request.capabilities), None)
        return await self._post(request, made | await self._parameters(request), leg)

    def mirrored_parameters(self, request: Request) -> Mapping[str, Any] | None:
        return {}  # the server compares them

    async def learn_tools(self, request: Request) -> None:
        return

    # -- shutting down ------------------------------------------------------------------------------------------------

    def stop_listening(self) -> None:
        """End the subscription streams gracefully."""
        for post in [post for post in self._open if post.method == LISTEN]:
            post.ended = True
            post.scope.cancel()

    def give_up(self) -> None:
        """End what still runs."""
        for post in list(self._open):
            post.ended = True
            post.scope.cancel()

    # -- one POST -----------------------------------------------------------------------------------------------------

    async def _post(self, request: Request, headers: Mapping[str, str], leg: Leg | None) -> dict[str, Any]:
        post = _Open(request.method)
        self._open.add(post)
        message = {"jsonrpc": "2.0", "id": request.id, "method": request.method, "params": request.params}
        try:
            with post.scope:
                self._heard(post)
                return await self._exchange(post, encode(message), headers, request, leg)
        finally:
            self._open.discard(post)
        if post.ended and post.method == LISTEN:
            return closing(request.id)
        if post.ended:
            raise ProtocolError(
                INTERNAL_ERROR, "The bridge is shutting down; whether the call had an effect is unknown."
            )
        raise ProtocolError(
            INTERNAL_ERROR,
            f"The server {self._name!r} was silent on {request.method} for {self._server.limits.silence:g} s.",
        )

    def _heard(self, post: _Open) -> None:
        """The server has said something. (A subscription may be silent for as long as it likes.)"""
        if post.method != LISTEN:
            post.scope.deadline = anyio.current_time() + self._server.limits.silence

    async def _exchange(
        self, post: _Open, body: bytes, headers: Mapping[str, str], request: Request, leg: Leg | None
    ) -> dict[str, Any]:
        what = "was not understood"
        try:
            async with self._endpoint.open("POST", body, headers=headers) as response:
                if media_type(response) == ACCEPT_EVENTS:
                    answer = await self._stream(post, response, leg)
                    what = "ended before it answered"
                else:
                    answer = _answer_in(await self._endpoint.body(response, self._limits.max_message))
                if answer is not None and response.status_code not in (401, 403):
                    return _outcome(answer, response.status_code)
                if not response.is_success:
                    raise ProtocolError(
                        INTERNAL_ERROR,
                        f"The server {self._name!r} answered {request.method} with HTTP {status_line(response)}"
                        f"{advice(response.status_code, request.method)}.",
                    )
        except UNCONNECTED as error:
            why = why_unconnected(error, self._endpoint.url)
            say = f"The server {self._name!r} could not be reached for {request.method}: {why}."
            raise ProtocolError(INTERNAL_ERROR, say) from None
        except (httpx.RequestError, Unsent) as error:
            self._log.debug("a request broke: %s", type(error).__name__)
            what = "broke before it answered"
        raise ProtocolError(
            INTERNAL_ERROR,
            f"The connection to the server {self._name!r} for {request.method} {what}; whether it was carried out is "
            "unknown.",
        )

    async def _stream(self, post: _Open, response: httpx.Response, leg: Leg | None) -> dict[str, Any] | None:
        keep_alive(response)
        decoder = EventDecoder(self._limits.max_message)
        chunks = response.aiter_bytes()
        async for chunk in chunks:
            self._heard(post)
            for event in decoder.feed(chunk):
                for message in _messages(event.data):
                    method = message.get("method")
                    if not isinstance(method, str):
                        with anyio.move_on_after(_LINGER):  # its end; the connection can then be used again
                            await anext(chunks, None)
                        return message
                    params = message.get("params")
                    if "id" in message:
                        self._log.warning("ignored a %s of the server: a modern server sends no requests", method[:100])
                    elif leg is not None:
                        leg.notify(method, params if isinstance(params, dict) else {})
        return None

    # -- headers for clients that send none ---------------------------------------------------------------------------

    async def _parameters(self, request: Request) -> dict[str, str]:
        said = str(request.capabilities)
        tools = self._tools.get(said)
        if tools is None:
            tools = await self._list(request)
            if len(self._tools) >= 64:
                self._tools.clear()
            self._tools[said] = tools
        schema = tools.get(str(request.params.get("name")), {})
        return written_parameters(self._mirrored(schema), request.params.get("arguments") or {})

    async def _list(self, request: Request) -> dict[str, dict[str, Any]]:
        """The tools' schemas; none if the server does not tell: it then says itself what is missing."""
        tools: dict[str, dict[str, Any]] = {}
        cursor: str | None = None
        meta = {key: value for key, value in request.params["_meta"].items() if key != "progressToken"}
        for _ in range(_MOST_PAGES):
            params: dict[str, Any] = {"_meta": meta} if cursor is None else {"_meta": meta, "cursor": cursor}
            ask = Request("tools", "tools/list", params, request.version, request.capabilities)
            try:
                page = await self._post(ask, _routing(ask), None)
            except ProtocolError as error:
                self._log.debug("tools/list failed: %d", error.code)
                return tools
            listed = page.get("tools")
            for tool in listed if isinstance(listed, list) else ():
                if isinstance(tool, dict) and isinstance(tool.get("inputSchema"), dict):
                    tools[str(tool.get("name"))] = tool["inputSchema"]
            cursor = page.get("nextCursor")
            if not isinstance(cursor, str):
                break
        return tools


def _passed_on(headers: Mapping[str, str], fixed: Set[str]) -> dict[str, str]:
    """Of a client's headers those that say something about its message; never who it is.

    Raises:
        ProtocolError: one of them cannot be sent.
    """
    passed = {
        name: value.strip(" \t")  # white space around it is HTTP's own
        for name, value in headers.items()
        if name not in fixed and (name in _PASSED_ON or (name.startswith("mcp-") and name not in _NOT_PASSED_ON))
    }
    for name, value in passed.items():
        if not value.isascii() or not value.replace("\t", " ").isprintable():
            say = f"Header mismatch: the header {name} was sent more than once, or is no ASCII text on one line."
            raise ProtocolError(HEADER_MISMATCH, say, status=400)
    return passed


def _routing(request: Request) -> dict[str, str]:
    """The headers that mirror a request [Standard Headers]."""
    made = {"mcp-protocol-version": request.version, "mcp-method": request.method}
    name = request.params.get(NAMED_BY.get(request.method, ""))
    return made | {"mcp-name": encode_value(name)} if isinstance(name, str) else made


def _messages(data: bytes) -> list[dict[str, Any]]:
    try:
        return messages(decode(data))
    except ValueError:
        return []


def _answer_in(body: bytes) -> dict[str, Any] | None:
    return next((message for message in _messages(body) if "result" in message or "error" in message), None)


def _outcome(answer: dict[str, Any], status: int) -> dict[str, Any]:
    """The server's result.

    Raises:
        ProtocolError: the server's error.
    """
    match answer:
        case {"error": {"code": int(code), "message": str(message), **rest}}:
            raise ProtocolError(code, message, rest.get("data"), status=status)
        case {"result": dict(result)}:
            return result
    raise ProtocolError(INTERNAL_ERROR, "The server answered with what is neither a result nor an error.")
