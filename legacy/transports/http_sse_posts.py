"""Requests of an HTTP+SSE session: each is POSTed once, and answered by the stream (2024-11-05 basic/transports).

What a POST itself is answered with says only whether the message was taken. So a refused POST fails its own request; an
answer that a gateway did not wait for fails nothing, since the server's own comes by the stream.

One thing is tried twice: an ``initialize`` that gets 404 or 405, which nobody has looked at. A proxy that puts a server
under a path of its own does not change the endpoint that the server names, so it is looked for under that path too.
"""

from __future__ import annotations

import logging

import anyio
import httpx

from legacy.targets import Limits
from legacy.transports.base import Receiver
from legacy.transports.http_endpoint import UNCONNECTED, Endpoint, why_unconnected
from legacy.transports.http_farewell import Farewell
from legacy.transports.http_wire import advice, error_in, one_session, shown, status_line
from legacy.wire import blame

_GATEWAY_GAVE_UP = frozenset({504, 524})
_NOT_THERE = frozenset({404, 405})


class Posts:
    """The POSTs of one session that are on their way.

    Invariant: ``open`` holds those that were not answered yet; a request whose answer came by the stream is waited for
    no longer than ``limits.linger``.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        elsewhere: httpx.URL | None,
        receiver: Receiver,
        farewell: Farewell,
        limits: Limits,
        log: logging.Logger,
        name: str,
    ) -> None:
        """``elsewhere``: where the endpoint may be if it is not where it is."""
        self.open: dict[int, anyio.CancelScope] = {}
        self.negotiated = False
        """From then on a URL that is not there is a session that is no more."""
        self._endpoint = endpoint
        self._elsewhere = elsewhere
        self._receiver = receiver
        self._farewell = farewell
        self._limits = limits
        self._log = log
        self._name = name

    def answered(self, request_id: int) -> None:
        """The answer has come by the stream: whether the POST is acknowledged matters no more."""
        scope = self.open.get(request_id)
        if scope is not None:
            scope.deadline = anyio.current_time() + self._limits.linger

    def drop(self, request_id: int) -> None:
        """Stop waiting for the request to be taken."""
        scope = self.open.get(request_id)
        if scope is not None:
            scope.cancel()

    async def send(self, body: bytes, method: str, request_id: int) -> None:
        """POST a request; the receiver hears of it only if it will get no answer."""
        with anyio.CancelScope() as scope:
            self.open[request_id] = scope
            try:
                await self._post(body, method, request_id)
            except Exception as error:
                self._log.error("%s failed here: %s", method, blame(error))
                self._unknown(request_id, method, "failed in the bridge")
            finally:
                del self.open[request_id]
                self._farewell.undecided.discard(request_id)

    async def _post(self, body: bytes, method: str, request_id: int) -> None:
        try:
            async with self._endpoint.open("POST", body) as response:
                if response.is_success:
                    return
                elsewhere = self._elsewhere if method == "initialize" and response.status_code in _NOT_THERE else None
                if elsewhere is None:
                    await self._refused(response, method, request_id)
                    return
            self._log.info("takes no messages at %s; trying %s", shown(self._endpoint.url), shown(elsewhere))
            named, self._elsewhere, self._endpoint.url = self._endpoint.url, None, elsewhere
            async with self._endpoint.open("POST", body) as response:
                if not response.is_success:
                    self._endpoint.url = named
                    await self._refused(response, method, request_id)
        except UNCONNECTED as error:
            what = why_unconnected(error, self._endpoint.url)
            self._receiver.request_lost(
                request_id, f"The server {self._name!r} could not be reached for {method}: {what}.", processed=False
            )
        except httpx.RequestError as error:
            self._log.debug("the POST of request %d broke: %s", request_id, type(error).__name__)
            await anyio.sleep(self._limits.linger)  # the stream may break too, or bring the answer all the same
            self._unknown(request_id, method, "broke")

    async def _refused(self, response: httpx.Response, method: str, request_id: int) -> None:
        status = response.status_code
        body = await self._endpoint.body(response)
        if self.negotiated and self._endpoint.forgot(status, body):
            self._farewell.begin(request_id)
            return
        if status in _GATEWAY_GAVE_UP:
            self._log.info("%s was answered with HTTP %s; its result may come by the stream", method, status)
            return
        error = error_in(body) if status not in (401, 403) else None
        if error is not None:
            self._receiver.received({"jsonrpc": "2.0", "id": request_id, "error": error})
            return
        where = f" at {shown(self._endpoint.url)}, which its stream named," if method == "initialize" else ""
        self._receiver.request_lost(
            request_id,
            f"The server {self._name!r}{where} answered {method} with HTTP {status_line(response)}"
            f"{advice(status, 'POST')}.",
            processed=True,
            refusal=one_session(status, body) if method == "initialize" else None,
        )

    def _unknown(self, request_id: int, method: str, what: str) -> None:
        """Does nothing if the answer has come."""
        self._receiver.request_lost(
            request_id,
            f"The connection to the server {self._name!r} for {method} {what}; whether it was carried out is unknown.",
            processed=True,
        )
