"""Event streams of a Streamable HTTP session, read and resumed (2025-11-25 basic/transports, resumability).

Two kinds: the stream that answers a POST, whose messages belong to that request and which is resumed, when it ends
before the response, by GET with ``Last-Event-ID`` after the server's ``retry`` time; and the stream of the plain GET,
whose messages belong to no request, and which is kept open, by reconnecting, as long as the session lives. Nothing is
ever sent twice here.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

import anyio
import httpx

from legacy.errors import Unsent
from legacy.framing import Event, EventDecoder
from legacy.targets import Limits
from legacy.transports.base import Receiver
from legacy.transports.http_endpoint import Endpoint, keep_alive
from legacy.transports.http_wire import (
    ACCEPT_EVENTS,
    CREDENTIALS,
    PASSING,
    adopted,
    advice,
    media_type,
    status_line,
)
from legacy.wire import decode, messages

_LONG = 5.0
"""A stream that lasted this long was a good one."""


class Streams:
    """Reads streams for one session and hands their messages to its receiver."""

    def __init__(
        self, endpoint: Endpoint, receiver: Receiver, limits: Limits, log: logging.Logger, gone: Callable[[], None]
    ) -> None:
        self._endpoint = endpoint
        self._receiver = receiver
        self._limits = limits
        self._log = log
        self._gone = gone
        self._complained: set[str] = set()
        self.named_endpoint = False
        """A POST was answered with a stream of HTTP+SSE: some servers take any method for their GET."""

    async def read(
        self, response: httpx.Response, decoder: EventDecoder, request_id: int | None, *, again: bool = False
    ) -> bool:
        """Deliver what a stream brings until it ends; for a request's stream until shortly after its response.
        Returns whether any event came.

        Raises:
            httpx.RequestError: the connection broke.
        """
        any_event = False
        keep_alive(response)
        with anyio.CancelScope() as scope:
            async for chunk in response.aiter_bytes():
                dropped = decoder.overlong
                for event in decoder.feed(chunk):
                    any_event = True
                    self._deliver(event, request_id, again)
                if decoder.overlong > dropped:
                    self._log.warning("skipped a message of more than %d bytes", self._limits.max_message)
                if request_id is not None and scope.deadline == float("inf") and not self._receiver.expects(request_id):
                    scope.deadline = anyio.current_time() + self._limits.linger
        return any_event

    async def resume(self, request_id: int, decoder: EventDecoder) -> None:
        """Go on with a request's stream until its response has come, or it is certain that it cannot."""
        failures, quiet_since, pauses = 0, time.monotonic(), 0
        while self._receiver.awaits(request_id) and decoder.last_id is not None:
            await anyio.sleep(self._pause(decoder.retry, failures, pauses))
            if not self._receiver.awaits(request_id):
                return
            decoder.restart()
            before = decoder.last_id
            try:
                async with self._endpoint.open("GET", last_event_id=before) as response:
                    if response.is_success and media_type(response) == ACCEPT_EVENTS:
                        failures = 0
                        await self.read(response, decoder, request_id, again=True)
                    elif await self._refused(response):
                        return
                    else:
                        failures += 1
            except (httpx.RequestError, Unsent) as error:
                self._log.debug("a stream could not be resumed, or broke again: %s", type(error).__name__)
                failures += decoder.last_id == before
            if decoder.last_id != before:
                quiet_since, pauses = time.monotonic(), 0
            else:
                pauses += 1
            if failures > self._limits.resume_tries or time.monotonic() - quiet_since > self._limits.resume_silence:
                return

    async def listen(self, opened: Callable[[bool], None]) -> None:
        """Keep the GET stream open. ``opened`` is called once the first GET was answered, or has failed: with False if
        the server has no such stream, after which this returns."""
        decoder = EventDecoder(self._limits.max_message)
        ever_open, failures = False, 0
        while True:
            began = time.monotonic()
            came = clean = False
            decoder.restart()
            try:
                async with self._endpoint.open("GET", last_event_id=decoder.last_id) as response:
                    if response.is_success and media_type(response) == ACCEPT_EVENTS:
                        opened(True)
                        again, ever_open = ever_open, True
                        if again and decoder.last_id is None:
                            self._receiver.interrupted()
                        came = await self.read(response, decoder, None, again=again)
                        clean = True
                    elif not ever_open and _never(response) and not self._endpoint.may_renew(response):
                        self._unheard(response)
                        opened(False)
                        return
                    elif await self._refused(response, passing=True):
                        return
            except (httpx.RequestError, Unsent) as error:
                self._log.debug("the GET stream broke: %s", type(error).__name__)
            opened(True)
            failures = 0 if came or (clean and time.monotonic() - began > _LONG) else failures + 1
            await anyio.sleep(self._pause(decoder.retry if clean else None, failures, failures))

    def _unheard(self, response: httpx.Response) -> None:
        """Say, once for each answer, that a GET stream is refused for want of credentials; other refusals are usual."""
        line = status_line(response)
        if response.status_code not in CREDENTIALS or line in self._complained:
            self._log.debug("a GET was answered %s", line)
            return
        self._complained.add(line)
        self._log.warning(
            "the GET stream was refused with HTTP %s, so what the server sends there is not heard%s",
            line,
            advice(response.status_code, "the GET stream"),
        )

    async def _refused(self, response: httpx.Response, *, passing: bool = False) -> bool:
        """A GET was not answered with a stream: whether there is no sense in another try."""
        body = await self._endpoint.body(response)
        self._unheard(response)
        if self._endpoint.forgot(response.status_code, body):
            self._gone()
            return True
        return not passing and response.status_code < 500 and response.status_code not in PASSING

    def _deliver(self, event: Event, request_id: int | None, again: bool) -> None:
        try:
            value = decode(event.data)
        except ValueError:
            value = None
        found = messages(value)
        if event.event == "endpoint" and request_id is not None and not found:
            self.named_endpoint = True
            self._receiver.request_lost(request_id, "The URL answers a POST with a stream of HTTP+SSE.", processed=True)
        for message in found:
            self._receiver.received(adopted(message, request_id), request_id, again=again)
        if not found:
            self._log.debug("an event of %d bytes is no message", len(event.data))

    def _pause(self, retry: float | None, failures: int, fruitless: int) -> float:
        """Before the next GET: what the server said, or a wait that doubles; never a tight loop."""
        if retry is None or failures:
            doubling = self._limits.backoff * 2.0 ** min(max(failures, fruitless), 16)
            return max(retry or 0.0, min(doubling, self._limits.backoff_most))
        return max(retry, self._limits.backoff if fruitless else 0.01)


def _never(response: httpx.Response) -> bool:
    """Whether the first GET says that there is no stream: 405 by the specification, in the field any lasting refusal,
    or an answer that is no stream."""
    status = response.status_code
    return response.is_success or (400 <= status < 500 and status not in PASSING) or status == 501
