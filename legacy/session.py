"""One initialised legacy connection: request and response matching, ping, cancellation, what the server pushes.

The rules of JSON-RPC and of the revisions up to 2025-11-25 (basic/index, basic/utilities) that hold on every transport.
Not here: the handshake (`legacy.handshake`), bytes (`legacy.transports`), and whose ask an ask is.
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Protocol

import anyio

from legacy.errors import SessionClosed
from legacy.messages import Ask, Lost, Refusal, Reply
from legacy.replies import as_int, reply_of
from legacy.transports.base import Transport
from legacy.wire import blame, encode

ASKS = frozenset({"elicitation/create", "sampling/createMessage", "roots/list"})
_REMEMBERED = 256


class Listener(Protocol):
    """Who hears what a session's server sends on its own. Every method is synchronous, quick, and must not raise."""

    def asked(self, session: Session, ask: Ask) -> None:
        """The server asks; answer with `Session.answer` or `Session.refuse`, now or later. May come before the
        session's start has returned."""

    def withdrawn(self, session: Session, ask: Ask) -> None:
        """The server sent ``notifications/cancelled`` for its ask; ``ask.open`` is False already."""

    def notified(self, session: Session, method: str, params: dict[str, Any], request_id: int | None) -> None:
        """A notification; ``request_id`` is the request of ours it belongs to, where the wire tells."""

    def ghost_ended(self, session: Session, request_id: int, reply: Reply) -> None:
        """The server answered a request that `Session.cancel` had given up."""

    def interrupted(self, session: Session) -> None:
        """What the server announced for a while was lost on the way."""

    def lost(self, session: Session, reason: str) -> None:
        """The session has ended without `Session.close`; every pending request has had its `Lost` already. Not called
        for a session whose start has failed."""


class Session:
    """One initialised legacy connection.

    Invariants: an id is used once. A request is in exactly one of: ``_pending`` (its ``on_reply`` will be called once),
    ``_ghosts`` (cancelled, not answered), neither (answered, lost or forgotten). After `closed` is True both are empty,
    nothing is sent, and every ask has ``open`` False.
    """

    def __init__(self, name: str, transport: Transport, listener: Listener) -> None:
        self.name = name
        self.server_info: dict[str, Any] = {}
        self.capabilities: dict[str, Any] = {}
        self.protocol_version = ""
        self.instructions: str | None = None
        self.closed = False
        self.ended_because = ""
        """The reason, once `closed`."""
        self._transport = transport
        self._listener = listener
        self._log = logging.getLogger(f"mrtr.server.{name}")
        self._next_id = 1
        self._pending: dict[int, Callable[[Reply], None]] = {}
        self._ghosts: set[int] = set()
        self._asks: dict[str | int, Ask] = {}
        self._seen: OrderedDict[str | int, bytes] = OrderedDict()
        self._started = False
        self._ending = anyio.Event()
        self._gone = anyio.Event()

    @property
    def unlabelled(self) -> bool:
        """Whether asks can arrive that the wire ties to no request (stdio; Streamable HTTP unless its GET got 405)."""
        return self._transport.unlabelled

    @property
    def transport(self) -> str:
        """What it runs over: ``stdio``, ``streamable-http``, ``http-sse`` or ``memory``."""
        return self._transport.kind

    @property
    def only_open(self) -> int | None:
        """The one request that the server has open, cancelled ones included; None if there is none, or more."""
        if len(self._pending) + len(self._ghosts) != 1:
            return None
        return next(iter(self._pending or self._ghosts))

    # --- what the bridge does with it ---

    def send(self, method: str, params: dict[str, Any] | None, on_reply: Callable[[Reply], None]) -> int:
        """Send a request, return its id (ours, an int, never reused). ``on_reply`` is called exactly once, never
        before this returns, unless `cancel` comes first. Sets ``params._meta.progressToken`` to the id on a copy.

        Raises:
            SessionClosed: nothing was sent.
        """
        request_id = self._next_id
        params = dict(params) if params else {}
        meta = params.get("_meta")
        params["_meta"] = (
            {**meta, "progressToken": request_id} if isinstance(meta, dict) else {"progressToken": request_id}
        )
        return self.send_plain(method, params, on_reply)

    def send_plain(self, method: str, params: dict[str, Any] | None, on_reply: Callable[[Reply], None]) -> int:
        """`send` without a progress token: ``initialize`` and ``ping``."""
        if self.closed:
            raise SessionClosed(f"The session with the server {self.name!r} has ended.")
        request_id = self._next_id
        self._next_id = request_id + 1
        message: dict[str, Any] = {"jsonrpc": "2.0", "id": request_id, "method": method}
        if params is not None:
            message["params"] = params
        self._pending[request_id] = on_reply
        self._transport.send(message, request_id)
        return request_id

    async def request(self, method: str, params: dict[str, Any] | None = None, *, timeout: float) -> Reply:  # noqa: ASYNC109
        """`send`, and wait; on time-out, and when the caller is cancelled, the request is cancelled and forgotten, and
        the reply is `Lost`."""
        replies: list[Reply] = []
        arrived = anyio.Event()

        def on_reply(reply: Reply) -> None:
            replies.append(reply)
            arrived.set()

        request_id = self.send(method, params, on_reply)
        try:
            with anyio.move_on_after(timeout):
                await arrived.wait()
        finally:
            if not replies:
                self.cancel(request_id, "time-out")
                self.forget(request_id)
        if replies:
            return replies[0]
        return Lost(f"The server {self.name!r} did not answer {method} within {timeout:g} s.", processed=True)

    async def ping(self, timeout: float) -> bool:  # noqa: ASYNC109
        """Whether the server answers a ping, with anything, within ``timeout``. Says nothing to it if it does not."""
        answered = anyio.Event()
        alive = False

        def on_reply(reply: Reply) -> None:
            nonlocal alive
            alive = not isinstance(reply, Lost)
            answered.set()

        try:
            request_id = self.send_plain("ping", None, on_reply)
        except SessionClosed:
            return False
        try:
            with anyio.move_on_after(timeout):
                await answered.wait()
        finally:
            if self._pending.pop(request_id, None) is not None:
                self._transport.drop(request_id)
        return alive

    def cancel(self, request_id: int, reason: str, *, tell: bool = True) -> None:
        """Give a request up: ``notifications/cancelled`` to the server, unless it is told by other means;
        ``on_reply`` will not be called; if the server answers all the same, `Listener.ghost_ended` is. Unknown or
        answered ids are ignored."""
        if self._pending.pop(request_id, None) is None:
            return
        self._ghosts.add(request_id)
        if tell:
            self.notify("notifications/cancelled", {"requestId": request_id, "reason": reason})

    def forget(self, request_id: int) -> None:
        """Stop remembering a cancelled request (its ghost has expired)."""
        if request_id in self._ghosts:
            self._ghosts.discard(request_id)
            self._transport.drop(request_id)

    def notify(self, method: str, params: dict[str, Any] | None = None) -> None:
        """Send a notification; does nothing when the session has ended."""
        if self.closed:
            return
        message: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
        if params is not None:
            message["params"] = params
        self._transport.send(message)

    def answer(self, ask: Ask, result: dict[str, Any]) -> None:
        """Answer an ask; does nothing when ``ask.open`` is False."""
        self._reply(ask, {"result": result})

    def refuse(self, ask: Ask, code: int, message: str, data: Any = None) -> None:
        """Answer an ask with an error; does nothing when ``ask.open`` is False."""
        error: dict[str, Any] = {"code": code, "message": message}
        if data is not None:
            error["data"] = data
        self._reply(ask, {"error": error})

    async def close(self) -> None:
        """End the session in bounded time: DELETE, or end of stdin, SIGTERM, SIGKILL to the process group. Returns
        when all that is done."""
        self._finish(f"The session with the server {self.name!r} was closed.", told=False)
        await self._gone.wait()

    # --- what its owner (`legacy.connect`) does with it ---

    def started(self) -> None:
        """The session is handed out: from now on its end is told to the listener."""
        self._started = True

    async def wait_ended(self) -> None:
        """Until the session was closed or lost."""
        await self._ending.wait()

    def ended(self, failure: Exception | None) -> None:
        """Its owner ends it (cancelled, or the start failed); nothing if it has ended already."""
        self._finish(str(failure) if failure else f"The session with the server {self.name!r} was ended.", told=True)

    def gone(self) -> None:
        """The transport has ended too."""
        self._gone.set()

    # --- what its transport tells it (`legacy.transports.base.Receiver`) ---

    def received(self, message: dict[str, Any], request_id: int | None = None, *, again: bool = False) -> None:
        """A message of the server; a malformed one is logged, never fatal."""
        if self.closed:
            return
        method = message.get("method")
        if isinstance(method, str):
            params = message.get("params")
            params = params if isinstance(params, dict) else {}
            server_id = message.get("id")
            if server_id is None:
                self._notification(method, params, request_id)
            elif isinstance(server_id, str | int) and not isinstance(server_id, bool):
                self._request(method, params, server_id, request_id, again)
            else:
                self._log.warning("ignored a request whose id is a %s: %s", type(server_id).__name__, method)
        elif "result" in message or "error" in message:
            self._response(message)
        else:
            self._log.warning("ignored a message that is no request, no response and no notification")

    def request_lost(self, request_id: int, reason: str, *, processed: bool, refusal: Refusal | None = None) -> None:
        """One request will get no answer."""
        on_reply = self._pending.pop(request_id, None)
        if on_reply is not None:
            self._guarded(on_reply, Lost(reason, processed, refusal))

    def expects(self, request_id: int) -> bool:
        """Whether an answer to that request may still come and matter."""
        return request_id in self._pending or request_id in self._ghosts

    def awaits(self, request_id: int) -> bool:
        """Whether somebody waits for that request's answer."""
        return request_id in self._pending

    def interrupted(self) -> None:
        """For a while nothing could be heard from the server."""
        if not self.closed:
            self._guarded(self._listener.interrupted, self)

    def lost(self, reason: str) -> None:
        """The session is gone."""
        self._finish(reason, told=True)

    # --- inside ---

    def _reply(self, ask: Ask, body: dict[str, Any]) -> None:
        if not ask.open:
            return
        ask.open = False
        if self._asks.get(ask.server_id) is ask:
            del self._asks[ask.server_id]
        if not self.closed:
            self._transport.send({"jsonrpc": "2.0", "id": ask.server_id, **body})

    def _request(
        self, method: str, params: dict[str, Any], server_id: str | int, request_id: int | None, again: bool
    ) -> None:
        if method == "ping":
            self._transport.send({"jsonrpc": "2.0", "id": server_id, "result": {}})
        elif method in ASKS:
            if self._repeated(method, params, server_id, again):
                self._log.debug("the server repeated its %s (id %r) on a resumed stream", method, server_id)
                return
            ask = Ask(method, params, server_id, request_id, time.monotonic(), sure=self._transport.keeps_session)
            self._asks[server_id] = ask
            self._guarded(self._listener.asked, self, ask)
        else:
            self._log.info("refused %r, which no client of these revisions answers", method[:100])
            error = {"code": -32601, "message": f"Method not found: {method}"}
            self._transport.send({"jsonrpc": "2.0", "id": server_id, "error": error})

    def _repeated(self, method: str, params: dict[str, Any], server_id: str | int, again: bool) -> bool:
        """Whether this ask has been here before: same id, same content, on a stream that was resumed. (An id alone does
        not tell: servers reuse them.)"""
        if not self._transport.repeats:
            return False
        content = hashlib.blake2b(encode([method, params]), digest_size=16).digest()
        seen = self._seen.get(server_id)
        self._seen[server_id] = content
        if len(self._seen) > _REMEMBERED:
            self._seen.popitem(last=False)
        return again and seen == content

    def _notification(self, method: str, params: dict[str, Any], request_id: int | None) -> None:
        if method == "notifications/cancelled":
            cancelled = params.get("requestId")
            ask = self._asks.pop(cancelled, None) if isinstance(cancelled, str | int) else None
            if ask is None:
                self._log.debug("the server cancelled a request that is not open")
                return
            ask.open = False
            self._guarded(self._listener.withdrawn, self, ask)
            return
        if method == "notifications/progress":
            # The token alone says whose it is: on a request's stream too, one that is not ours was meant for another.
            token = as_int(params.get("progressToken"))
            request_id = token if token is not None and 0 < token < self._next_id else None
        self._guarded(self._listener.notified, self, method, params, request_id)

    def _response(self, message: dict[str, Any]) -> None:
        if message.get("id") is None:
            error = message.get("error")
            code = error.get("code") if isinstance(error, dict) else None
            self._log.warning("the server reported an error that belongs to no request, code %r", as_int(code))
            return
        response_id = as_int(message["id"])
        on_reply = self._pending.pop(response_id, None) if response_id is not None else None
        if on_reply is not None:
            self._guarded(on_reply, reply_of(message))
        elif response_id in self._ghosts:
            assert response_id is not None
            self._ghosts.discard(response_id)
            self._guarded(self._listener.ghost_ended, self, response_id, reply_of(message))
        else:
            self._log.debug("ignored an answer to request %r, which is not waiting for one", response_id)

    def _finish(self, reason: str, *, told: bool) -> None:
        if self.closed:
            return
        self.closed = True
        self.ended_because = reason
        pending, self._pending = self._pending, {}
        asks, self._asks = self._asks, {}
        self._ghosts.clear()
        for ask in asks.values():
            ask.open = False
        for on_reply in pending.values():
            self._guarded(on_reply, Lost(reason, processed=True))
        if told and self._started:
            self._guarded(self._listener.lost, self, reason)
        self._ending.set()

    def _guarded(self, call: Callable[..., None], *args: Any) -> None:
        try:
            call(*args)
        except Exception as error:
            self._log.error("%s failed: %s", getattr(call, "__qualname__", "a listener"), blame(error))
