"""The HTTP client of one session: one URL, its headers, its connections."""

from __future__ import annotations

import socket
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import lru_cache

import httpx

from legacy.credentials import CredentialsFailed
from legacy.errors import Unsent
from legacy.targets import AppTarget, HttpTarget, Limits
from legacy.transports.asgi import asgi_transport
from legacy.transports.http_wire import (
    ACCEPT_BOTH,
    ACCEPT_EVENTS,
    post_is_for_no_session,
    same_origin,
    session_is_gone,
    shown,
)

_REDIRECTS = frozenset({301, 302, 307, 308})
_MOST_REDIRECTS = 3
_IDLE = 4.0
"""Shorter than servers keep idle connections (5 s is common): a request on one that they are closing is a request
whose outcome is unknown."""
_MOST_OF_ERROR = 64 * 1024


class RefusedRedirect(Unsent):
    """The server sends us to another origin, where neither its credentials nor our messages belong."""


UNCONNECTED = (
    httpx.ConnectError,
    httpx.ConnectTimeout,
    httpx.PoolTimeout,
    httpx.ProxyError,
    httpx.UnsupportedProtocol,
    Unsent,
)
"""What went wrong before a request was on its way."""


def why_unconnected(error: Exception, url: httpx.URL) -> str:
    """The same in words, as the end of a sentence."""
    return str(error) if isinstance(error, Unsent) else f"no connection to {shown(url)}"


class Endpoint:
    """Where the messages go.

    Invariant: every request goes to the origin of the target's URL, and carries its headers and credentials, the
    session id once the server has given one, and the protocol version once it is negotiated (2025-11-25
    basic/transports).
    """

    def __init__(self, target: HttpTarget, client: httpx.AsyncClient) -> None:
        self.url = httpx.URL(target.url)
        self.session_id: str | None = None
        self.version: str | None = None
        self._headers = {name.lower(): value for name, value in target.headers.items()}
        self._credentials = target.credentials
        self._target = target
        self._client = client
        self._session_in_url = False

    def at(self, url: httpx.URL) -> Endpoint:
        """The URL that stands for a session of this one (HTTP+SSE), reached in the same way."""
        endpoint = Endpoint(self._target, self._client)
        endpoint.url = url
        endpoint._session_in_url = True
        return endpoint

    def forgot(self, status: int, body: bytes) -> bool:
        """Whether this answer says that the server does not know our session (any more), and did not look further."""
        if self._session_in_url:
            return post_is_for_no_session(status, body)
        return session_is_gone(status, body, had_session=self.session_id is not None)

    @asynccontextmanager
    async def open(
        self,
        method: str,
        body: bytes | None = None,
        *,
        last_event_id: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> AsyncIterator[httpx.Response]:
        """Send one request, yield its response when the headers are there, close it at the end. One that is answered
        401 is sent once more if there are newer credentials: nobody has looked at it yet. ``headers`` (names in lower
        case) replace what is sent otherwise.

        Raises:
            httpx.RequestError: no connection, or it broke.
            Unsent: nothing was carried out.
        """
        renewed = False
        for _ in range(_MOST_REDIRECTS + 1):
            generation, secret = (0, {}) if self._credentials is None else await self._credentials.current()
            sent = {**self._headers_for(method, last_event_id), **(headers or {}), **secret}
            request = self._client.build_request(
                method,
                self.url,
                content=body,
                headers=httpx.Headers(sent, encoding="latin-1"),  # byte for byte what the server gave
            )
            response = await self._client.send(request, stream=True, follow_redirects=False)
            try:
                if response.status_code == 401 and self._credentials is not None and not renewed:
                    renewed = True
                    if await self._renewed(generation):
                        continue
                location = response.headers.get("location")
                if response.status_code not in _REDIRECTS or location is None:
                    yield response
                    return
                target = self.url.join(location)
                if not same_origin(self.url, target):
                    raise RefusedRedirect(
                        f"{shown(self.url)} redirects to another origin, {shown(target)}; "
                        "if that is right, configure that URL"
                    )
                self.url = target
            finally:
                await response.aclose()
        raise RefusedRedirect(f"{shown(self.url)} redirects again and again")

    def may_renew(self, response: httpx.Response) -> bool:
        """Whether this refusal may pass, since newer credentials can be had."""
        return response.status_code == 401 and self._credentials is not None

    async def _renewed(self, generation: int) -> bool:
        assert self._credentials is not None
        try:
            return await self._credentials.renew(generation)
        except CredentialsFailed as error:
            raise CredentialsFailed(f"it answered HTTP 401 Unauthorized, and {error}") from None

    def _headers_for(self, method: str, last_event_id: str | None) -> dict[str, str]:
        headers = {**self._headers, "accept": ACCEPT_EVENTS if method == "GET" else ACCEPT_BOTH}
        if method == "POST":
            headers["content-type"] = "application/json"
        if self.session_id is not None:
            headers["mcp-session-id"] = self.session_id
        if self.version is not None:
            headers["mcp-protocol-version"] = self.version
        if last_event_id is not None:
            headers["last-event-id"] = last_event_id
        return headers

    async def body(self, response: httpx.Response, most: int = _MOST_OF_ERROR) -> bytes:
        """The body, up to ``most`` bytes (the rest of a longer one is left unread)."""
        parts: list[bytes] = []
        size = 0
        async for part in response.aiter_bytes():
            parts.append(part)
            size += len(part)
            if size > most:
                break
        return b"".join(parts)[: most + 1]


def new_client(target: HttpTarget, limits: Limits) -> httpx.AsyncClient:
    """A client whose streams may be silent for ever and as many as there are calls."""
    return httpx.AsyncClient(
        transport=asgi_transport(target.app) if isinstance(target, AppTarget) else None,
        verify=_tls(),
        timeout=httpx.Timeout(None, connect=limits.connect, write=limits.post_wait),
        limits=httpx.Limits(max_connections=None, max_keepalive_connections=32, keepalive_expiry=_IDLE),
        # Compressed event streams are held back by what compresses them.
        headers={"accept-encoding": "identity", "user-agent": "mrtr-bridge"},
        follow_redirects=False,
    )


def keep_alive(response: httpx.Response) -> None:
    """Have the system notice when a silent stream's other end has vanished (a proxy that drops idle connections)."""
    stream = response.extensions.get("network_stream")
    connection = stream.get_extra_info("socket") if stream is not None else None
    if connection is None:
        return
    try:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in (("TCP_KEEPIDLE", 45), ("TCP_KEEPINTVL", 15), ("TCP_KEEPCNT", 3)):
            if hasattr(socket, option):
                connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
    except OSError:
        return  # no TCP connection, or one that is closing: nothing to keep


@lru_cache(maxsize=1)
def _tls() -> ssl.SSLContext:
    """Loading the certificates takes tens of milliseconds: once."""
    return httpx.create_ssl_context()
