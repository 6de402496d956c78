"""Whether the server at a URL is modern: one ``server/discover``, which needs no session (2026-07-28 basic/versioning,
Backward Compatibility; server/discover).

For servers of both eras, which `legacy.handshake` cannot tell from old ones. It must not hurt an old one: some connect
their only server object to whatever request comes first without a session, so it carries a session id, which a modern
server ignores (2026-07-28 basic/transports/streamable-http, Earlier Streamable HTTP Revisions) and an old one refuses,
since it does not know it.
"""

from __future__ import annotations

import logging
from typing import Any

import anyio
import httpx

from legacy import probe
from legacy.errors import Unsent
from legacy.framing import EventDecoder
from legacy.targets import HttpTarget, Limits
from legacy.transports.http_endpoint import Endpoint, new_client
from legacy.transports.http_wire import ACCEPT_EVENTS, media_type, status_line
from legacy.wire import decode, encode, messages

_ID = "discover"
_NO_SESSION = "none-yet"
_SAYS_NOTHING = frozenset({401, 403, 408, 425, 429, 502, 503, 504})
"""Answers of a server, or of what stands before it, that say nothing about its era."""


async def discover(
    target: HttpTarget, client_info: dict[str, Any], limits: Limits, log: logging.Logger
) -> tuple[str, ...] | None:
    """The modern revisions that the server says it speaks, none for an old one; None if it cannot be told now."""
    body = encode({"jsonrpc": "2.0", "id": _ID, "method": probe.DISCOVER, "params": probe.discover_params(client_info)})
    async with new_client(target, limits) as client:
        endpoint = Endpoint(target, client)
        endpoint.session_id = _NO_SESSION
        session: str | None = None
        try:
            with anyio.move_on_after(probe.DISCOVER_WAIT) as waited:
                async with endpoint.open("POST", body, headers=probe.HEADERS) as response:
                    session = response.headers.get("mcp-session-id")
                    answer = await _answer(endpoint, response, limits)
                    log.debug("server/discover was answered %s", status_line(response))
                    versions = _versions(answer)
                    if not versions and response.status_code in _SAYS_NOTHING:
                        return None
                    return versions
        except (httpx.RequestError, Unsent) as error:
            log.debug("server/discover could not be asked: %s", type(error).__name__)
            return None
        finally:
            if session is not None:
                with anyio.move_on_after(limits.delete_wait, shield=True):
                    await _delete(endpoint, session)
        assert waited.cancelled_caught
        return ()  # a modern server answers this at once


async def _answer(endpoint: Endpoint, response: httpx.Response, limits: Limits) -> dict[str, Any]:
    if media_type(response) != ACCEPT_EVENTS:
        return _response(await endpoint.body(response, limits.max_message))
    decoder = EventDecoder(limits.max_message)
    async for chunk in response.aiter_bytes():
        for event in decoder.feed(chunk):
            if event.event == "endpoint":
                return {}  # a server of HTTP+SSE that takes any method for its GET, and will say no more
            if found := _response(event.data):
                return found
    return {}


def _response(data: bytes) -> dict[str, Any]:
    """The answer in a body or an event, whatever id it has; empty if there is none."""
    try:
        found = messages(decode(data))
    except ValueError:
        return {}
    return next((message for message in found if "result" in message or "error" in message), {})


def _versions(answer: dict[str, Any]) -> tuple[str, ...]:
    match answer:
        case {"result": {"supportedVersions": listed}}:
            return probe.modern_versions(listed)
        case {"error": {"data": data}}:
            return probe.modern_versions(probe.supported(data))
    return ()


async def _delete(endpoint: Endpoint, session: str) -> None:
    endpoint.session_id = session
    try:
        async with endpoint.open("DELETE"):
            pass
    except (httpx.RequestError, Unsent):
        return
