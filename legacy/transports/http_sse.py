"""A server behind one URL: HTTP+SSE (2024-11-05 basic/transports), deprecated since 2025-03-26.

A GET opens an event stream; its ``endpoint`` event names the URL that takes our messages, one POST each; everything
that the server says comes on the stream, and nothing there is tied to a request. The stream is the session: it cannot
be resumed, and when it ends the session is lost. Nothing is sent twice.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx
from anyio import AsyncContextManagerMixin
from anyio.abc import TaskGroup

from legacy import probe
from legacy.errors import CannotStart, NoHttpSse, Unsent, cannot_start
from legacy.framing import Event, EventDecoder
from legacy.replies import as_int
from legacy.targets import HttpTarget, Limits
from legacy.transports.base import Ping, Receiver
from legacy.transports.http_endpoint import (
    UNCONNECTED,
    Endpoint,
    keep_alive,
    new_client,
    why_unconnected,
)
from legacy.transports.http_farewell import Farewell
from legacy.transports.http_pushes import Pushes
from legacy.transports.http_sse_posts import Posts
from legacy.transports.http_wire import (
    ACCEPT_EVENTS,
    advice,
    media_type,
    one_session,
    same_origin,
    shown,
    status_line,
    under_the_prefix,
)
from legacy.wire import blame, decode, encode, messages


class HttpSseTransport(AsyncContextManagerMixin):
    """One session: one stream, and the URL that it named.

    Invariants: every task belongs to ``_tasks`` and ends in its exit. Once the endpoint was ``_named``,
    ``_messages`` is of the stream's origin, and there is somebody who POSTs to it. The stream is there as long as it is
    ``_open``.
    """

    unlabelled = True
    repeats = False
    keeps_session = True
    kind = probe.HTTP_SSE

    def __init__(self, target: HttpTarget, name: str, limits: Limits) -> None:
        self._target = target
        self._name = name
        self._limits = limits
        self._log = logging.getLogger(f"mrtr.server.{name}")
        self._receiver: Receiver
        self._tasks: TaskGroup
        self._stream: Endpoint
        self._messages: Endpoint
        self._pushes: Pushes
        self._farewell: Farewell
        self._posts: Posts
        self._settled = anyio.Event()
        self._named = False
        self._open = False
        self._failure: CannotStart | None = None
        self._heard_at = 0.0

    @property
    def url(self) -> str:
        """Where the stream is."""
        return str(self._stream.url)

    def attach(self, receiver: Receiver) -> None:
        """Who receives."""
        self._receiver = receiver

    @asynccontextmanager
    async def __asynccontextmanager__(self) -> AsyncGenerator[HttpSseTransport]:
        async with new_client(self._target, self._limits) as client:
            self._stream = Endpoint(self._target, client)
            async with anyio.create_task_group() as self._tasks:
                self._tasks.start_soon(self._listen)
                with anyio.move_on_after(self._limits.endpoint_wait):
                    await self._settled.wait()
                if named := self._named:
                    try:
                        yield self
                    finally:
                        if self._open:
                            with anyio.CancelScope(shield=True):  # the last answers, and what was cancelled
                                await self._pushes.flushed(self._limits.delete_wait)
                        self._tasks.cancel_scope.cancel()
                self._tasks.cancel_scope.cancel()
        if not named:
            raise self._failure or NoHttpSse(
                f"The server {self._name!r} at {shown(self._stream.url)} named no endpoint for messages within "
                f"{self._limits.endpoint_wait:g} s of a GET, so it does not speak HTTP+SSE."
            )

    # --- legacy.transports.base.Transport ---

    def send(self, message: dict[str, Any], request_id: int | None = None) -> None:
        """Have a message POSTed."""
        body = encode(message)
        method = str(message.get("method", "answer"))
        if request_id is not None:
            self._farewell.undecided.add(request_id)
            self._tasks.start_soon(self._posts.send, body, method, request_id)
            return
        if self._pushes.unsent > self._limits.max_unsent:
            self._tasks.start_soon(self._lose, f"takes no messages; {self._pushes.unsent} bytes wait for it")
            return
        self._pushes.put(body, method)

    def drop(self, request_id: int) -> None:
        """Stop waiting for the request to be taken."""
        self._posts.drop(request_id)

    async def negotiated(self, version: str) -> None:
        """From now on ``MCP-Protocol-Version`` goes with every request."""
        self._posts.negotiated = True
        self._messages.version = version

    async def ready(self, ping: Ping) -> None:
        """Once ``initialized`` was taken: the stream is open already. From now on it is kept from being cut for its
        silence, since a session that a person's answer is awaited on would end with it."""
        await self._pushes.flushed(self._limits.post_wait)
        self._tasks.start_soon(self._keep_alive, ping)

    async def _keep_alive(self, ping: Ping) -> None:
        while self._open:
            quiet = anyio.current_time() - self._heard_at
            if quiet < self._limits.stream_silence:
                await anyio.sleep(self._limits.stream_silence - quiet)
            elif not await ping(self._limits.stream_silence):
                self._log.debug("a ping was not answered")
                self._heard_at = anyio.current_time()

    # --- the stream ---

    async def _listen(self) -> None:
        """Open the stream and deliver what it brings, until it ends and the session with it."""
        end = "broke"
        try:
            async with self._stream.open("GET") as response:
                if response.is_success and media_type(response) == ACCEPT_EVENTS:
                    keep_alive(response)
                    await self._read(response)
                    end = "was closed by the server"
                else:
                    self._failure = await self._no_stream(response)
        except (httpx.RequestError, Unsent) as error:
            self._log.debug("the event stream broke: %s", type(error).__name__)
            if isinstance(error, UNCONNECTED):
                what = why_unconnected(error, self._stream.url)
                self._failure = CannotStart(f"The server {self._name!r} could not be reached: {what}.")
        except Exception as error:
            self._log.error("the event stream failed here: %s", blame(error))
            end = "failed in the bridge"
        self._after(end)

    def _after(self, end: str) -> None:
        """The stream has ended."""
        if self._open:
            self._open = False
            self._receiver.lost(
                f"The event stream of the server {self._name!r} {end}; over HTTP+SSE its session ends with it."
            )
        elif self._failure is None:
            where = f"The server {self._name!r} at {shown(self._stream.url)}"
            self._failure = NoHttpSse(f"{where} named no endpoint for messages before its stream {end}.")
        self._settled.set()

    async def _read(self, response: httpx.Response) -> None:
        decoder = EventDecoder(self._limits.max_message)
        async for chunk in response.aiter_bytes():
            self._heard_at = anyio.current_time()
            dropped = decoder.overlong
            for event in decoder.feed(chunk):
                self._event(event)
            if decoder.overlong > dropped:
                self._log.warning("skipped a message of more than %d bytes", self._limits.max_message)
            if self._failure is not None:
                return

    def _event(self, event: Event) -> None:
        match event.event:
            case "message" if self._named:
                self._message(event.data)
            case "endpoint" if not self._settled.is_set():
                self._endpoint_named(event.data)
            case other:
                self._log.debug("ignored an event %r of %d bytes", other[:40], len(event.data))

    def _endpoint_named(self, data: bytes) -> None:
        """The one rule about trust here: our messages, and what they carry, go nowhere but to the stream's origin."""
        named = data.decode("utf-8", "replace").strip()
        try:
            url = self._stream.url.join(named)
        except (httpx.InvalidURL, ValueError):
            url = None
        where = f"The server {self._name!r} at {shown(self._stream.url)}"
        if not named or url is None or not url.host:
            self._failure = CannotStart(f"{where} named an endpoint for messages that is no URL.")
        elif not same_origin(self._stream.url, url):
            self._failure = CannotStart(
                f"{where} wants messages at another origin, {shown(url)}, where they are not sent. If that is the same "
                "server behind a proxy, have it name a path only, or configure the URL as the server knows it."
            )
        else:
            self._take_messages_at(self._stream.at(url))
        self._settled.set()

    def _take_messages_at(self, endpoint: Endpoint) -> None:
        """At once: what comes next in the same piece may want an answer."""
        self._messages = endpoint
        self._farewell = Farewell(self._name, self._receiver, self._tasks, self._limits)
        self._pushes = Pushes(endpoint, self._tasks, self._limits, self._log, self._farewell.begin)
        elsewhere = under_the_prefix(self._stream.url, endpoint.url)
        self._posts = Posts(endpoint, elsewhere, self._receiver, self._farewell, self._limits, self._log, self._name)
        self._tasks.start_soon(self._pushes.run)
        self._named = self._open = True

    def _message(self, data: bytes) -> None:
        try:
            value = decode(data)
        except ValueError:
            value = None
        found = messages(value)
        if not found:
            self._log.debug("an event of %d bytes is no message", len(data))
        for message in found:
            self._receiver.received(message)
            if "method" not in message and (answered := as_int(message.get("id"))) is not None:
                self._posts.answered(answered)

    async def _no_stream(self, response: httpx.Response) -> CannotStart:
        said = f"The server {self._name!r} at {shown(self._stream.url)} answered GET with"
        if response.is_success:
            return NoHttpSse(f"{said} {media_type(response) or 'no media type'} instead of an event stream.")
        said += f" HTTP {status_line(response)}{advice(response.status_code, 'GET')}."
        refusal = one_session(response.status_code, await self._stream.body(response))
        return NoHttpSse(said) if refusal is None else cannot_start(said, refusal)

    async def _lose(self, what: str) -> None:
        self._receiver.lost(f"The server {self._name!r} {what}.")
