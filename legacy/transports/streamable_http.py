"""A server behind one URL: Streamable HTTP, 2025-03-26 to 2025-11-25 (basic/transports).

One POST per message; requests each in a task of their own, answers and notifications in order. The rule that decides
every failure here: a request is sent once. It is called unprocessed only when no connection came about, or when the
server refused it because it does not know the session; otherwise its outcome is unknown, and the `Lost` says so.
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
from legacy.errors import CannotStart, ModernServer, OneSessionOnly, Unsent
from legacy.framing import EventDecoder
from legacy.targets import HttpTarget, Limits
from legacy.transports.base import Ping, Receiver
from legacy.transports.http_endpoint import UNCONNECTED, Endpoint, new_client, why_unconnected
from legacy.transports.http_farewell import Farewell
from legacy.transports.http_pushes import Pushes
from legacy.transports.http_streams import Streams
from legacy.transports.http_wire import (
    ACCEPT_EVENTS,
    adopted,
    advice,
    error_in,
    media_type,
    one_session,
    session_in,
    shown,
    status_line,
)
from legacy.wire import blame, decode, encode, messages


class StreamableHttpTransport(AsyncContextManagerMixin):
    """One session with one URL.

    Invariant: every task belongs to ``_tasks`` and ends in its exit.
    """

    repeats = True
    kind = probe.STREAMABLE_HTTP

    def __init__(self, target: HttpTarget, name: str, limits: Limits) -> None:
        self.unlabelled = True
        self.keeps_session = True
        self._target = target
        self._name = name
        self._limits = limits
        self._log = logging.getLogger(f"mrtr.server.{name}")
        self._receiver: Receiver
        self._tasks: TaskGroup
        self._endpoint: Endpoint
        self._streams: Streams
        self._pushes: Pushes
        self._posts: dict[int, anyio.CancelScope] = {}
        self._farewell: Farewell
        self._refused: int | None = None
        """The HTTP status that ``initialize`` got instead of an answer."""
        self._get: anyio.CancelScope | None = None
        self._get_over = anyio.Event()
        self._get_settled = anyio.Event()

    @property
    def url(self) -> str:
        """Where the server is."""
        return str(self._endpoint.url)

    def perhaps_http_sse(self, failure: CannotStart) -> bool:
        """Whether the session could not be opened because the URL may speak HTTP+SSE instead."""
        if isinstance(failure, ModernServer) or (isinstance(failure, OneSessionOnly) and failure.certain):
            return False
        return self._streams.named_endpoint or (self._refused is not None and probe.may_be_http_sse(self._refused))

    def attach(self, receiver: Receiver) -> None:
        """Who receives."""
        self._receiver = receiver

    @asynccontextmanager
    async def __asynccontextmanager__(self) -> AsyncGenerator[StreamableHttpTransport]:
        async with new_client(self._target, self._limits) as client:
            self._endpoint = Endpoint(self._target, client)
            try:
                async with anyio.create_task_group() as self._tasks:
                    self._farewell = Farewell(self._name, self._receiver, self._tasks, self._limits, self._forget)
                    gone = self._farewell.begin
                    self._streams = Streams(self._endpoint, self._receiver, self._limits, self._log, gone)
                    self._pushes = Pushes(self._endpoint, self._tasks, self._limits, self._log, gone)
                    self._tasks.start_soon(self._pushes.run)
                    try:
                        yield self
                    finally:
                        with anyio.CancelScope(shield=True):  # the last answers, and what was cancelled
                            await self._pushes.flushed(self._limits.delete_wait)
                        self._tasks.cancel_scope.cancel()
            finally:
                with anyio.move_on_after(self._limits.delete_wait, shield=True):
                    await self._delete()

    # --- legacy.transports.base.Transport ---

    def send(self, message: dict[str, Any], request_id: int | None = None) -> None:
        """Have a message POSTed."""
        body = encode(message)
        method = str(message.get("method", "answer"))
        if request_id is not None:
            self._farewell.undecided.add(request_id)
            self._tasks.start_soon(self._request, body, method, request_id)
            return
        if self._pushes.unsent > self._limits.max_unsent:
            self._tasks.start_soon(self._lose, f"takes no messages; {self._pushes.unsent} bytes wait for it")
            return
        self._pushes.put(body, method)

    def drop(self, request_id: int) -> None:
        """Close the request's stream."""
        scope = self._posts.get(request_id)
        if scope is not None:
            scope.cancel()

    async def negotiated(self, version: str) -> None:
        """From now on ``MCP-Protocol-Version`` goes with every request."""
        self._endpoint.version = version

    async def ready(self, ping: Ping) -> None:
        """Once ``initialized`` was taken: open the GET stream, since servers drop what they cannot send, and find out
        whether the server can take a POST beside it."""
        await self._pushes.flushed(self._limits.post_wait)
        await self._open_get()
        if not self.unlabelled or await ping(self._limits.ping_wait) or self._farewell.begun:
            return
        await self._close_get()
        alive = await ping(self._limits.ping_wait)
        await self._open_get()
        if not alive or await ping(self._limits.ping_wait):
            return  # it answers no pings at all, or it was slow just once
        await self._close_get()
        self.unlabelled = False
        self._log.warning(
            "answers one request at a time: goes without the GET stream, so what the server sends there is not heard"
        )

    # --- GET ---

    async def _open_get(self) -> None:
        self._get_settled = anyio.Event()
        self._get_over = anyio.Event()
        self._get = anyio.CancelScope()
        self._tasks.start_soon(self._listen, self._get, self._get_over)
        with anyio.move_on_after(self._limits.get_wait) as waited:
            await self._get_settled.wait()
        if waited.cancelled_caught:
            self._log.info("the GET stream is slow to open; going on without waiting for it")

    async def _close_get(self) -> None:
        if self._get is not None:
            self._get.cancel()
            await self._get_over.wait()

    async def _listen(self, scope: anyio.CancelScope, over: anyio.Event) -> None:
        def opened(there: bool) -> None:
            if not there:
                self.unlabelled = False
            self._get_settled.set()

        try:
            with scope:
                await self._streams.listen(opened)
        except Exception as error:
            self._log.error("the GET stream failed: %s", blame(error))
        finally:
            self._get_settled.set()
            over.set()

    # --- requests ---

    async def _request(self, body: bytes, method: str, request_id: int) -> None:
        with anyio.CancelScope() as scope:
            self._posts[request_id] = scope
            try:
                await self._exchange(body, method, request_id)
            except Exception as error:
                self._log.error("%s failed here: %s", method, blame(error))
                self._lost(request_id, method, "failed in the bridge")
            finally:
                del self._posts[request_id]
                self._farewell.undecided.discard(request_id)

    async def _exchange(self, body: bytes, method: str, request_id: int) -> None:
        decoder = EventDecoder(self._limits.max_message)
        broke = "ended before it answered"
        try:
            headers = probe.HEADERS if method == probe.DISCOVER else None
            async with self._endpoint.open("POST", body, headers=headers) as response:
                if not response.is_success:
                    await self._http_error(response, method, request_id)  # undecided until its body was read
                    return
                self._farewell.undecided.discard(request_id)
                if method == "initialize":
                    self._endpoint.session_id = session_in(response)
                    self.keeps_session = self._endpoint.session_id is not None
                if media_type(response) == ACCEPT_EVENTS:
                    await self._streams.read(response, decoder, request_id)
                else:
                    await self._whole(response, method, request_id)
                    return
        except UNCONNECTED as error:
            what = why_unconnected(error, self._endpoint.url)
            self._receiver.request_lost(
                request_id, f"The server {self._name!r} could not be reached for {method}: {what}.", processed=False
            )
            return
        except httpx.RequestError as error:
            self._log.debug("the stream of request %d broke: %s", request_id, type(error).__name__)
            broke = "broke before it answered"
        if self._receiver.awaits(request_id):
            await self._streams.resume(request_id, decoder)
        self._lost(request_id, method, broke)

    async def _whole(self, response: httpx.Response, method: str, request_id: int) -> None:
        """An answer that is no stream: one message, or a batch."""
        body = await self._endpoint.body(response, self._limits.max_message)
        if not body.strip() and self.unlabelled and self._get is not None:
            self._log.debug("%s was accepted without an answer; it may come by GET", method)
            return
        try:
            found = messages(decode(body))
        except ValueError:
            found = []
        for message in found:
            self._receiver.received(adopted(message, request_id), request_id)
        kind = media_type(response) or "no media type"
        self._lost(request_id, method, f"ended with something that is no answer to it ({len(body)} bytes, {kind})")

    async def _http_error(self, response: httpx.Response, method: str, request_id: int) -> None:
        status = response.status_code
        body = await self._endpoint.body(response)
        if method != probe.DISCOVER and self._endpoint.forgot(status, body):
            self._farewell.begin(request_id)
            return
        if method == "initialize":
            self._refused = status
        error = error_in(body) if status not in (401, 403) else None
        if error is not None:
            # Whatever id it has (servers say null, or "server-error"): HTTP says whose it is.
            self._receiver.received({"jsonrpc": "2.0", "id": request_id, "error": error})
            return
        where = f" at {shown(self._endpoint.url)}" if method == "initialize" else ""
        self._receiver.request_lost(
            request_id,
            f"The server {self._name!r}{where} answered {method} with HTTP {status_line(response)}"
            f"{advice(status, method)}.",
            processed=True,
            refusal=one_session(status, body) if method == "initialize" else None,
        )

    def _lost(self, request_id: int, method: str, what: str) -> None:
        """Does nothing if the answer has come."""
        self._receiver.request_lost(
            request_id,
            f"The connection to the server {self._name!r} for {method} {what}; whether it was carried out is unknown.",
            processed=True,
        )

    # --- the end ---

    def _forget(self) -> None:
        """There is no session to DELETE."""
        self._endpoint.session_id = None

    async def _lose(self, what: str) -> None:
        self._receiver.lost(f"The server {self._name!r} {what}.")

    async def _delete(self) -> None:
        if self._endpoint.session_id is None:
            return
        try:
            async with self._endpoint.open("DELETE") as response:
                self._log.debug("DELETE was answered %s", status_line(response))
        except (httpx.RequestError, Unsent) as error:
            self._log.debug("DELETE failed: %s", type(error).__name__)
