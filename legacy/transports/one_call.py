"""In front of a server that reads the answers to its asks inline: nothing but an answer may come while it works.

Some servers on stdio handle one request at a time and, when they ask, read the next line of their input as the answer,
whatever it is. To such a server another request, a ping or ``notifications/cancelled`` in the middle of a call is a
wrong answer. This stands between a session and its transport and lets one request through at a time; what else the
session sends waits until the request is answered and every ask of the server's is. *Not* here: who runs on which
session, and what becomes of a call that is given up.

It cannot be told from outside that a server is like this without hurting it, so somebody has to say so.
"""

from __future__ import annotations

from types import TracebackType
from typing import Any

from legacy.messages import Refusal
from legacy.replies import as_int
from legacy.transports.base import Ping, Receiver, Transport

POINTLESS = frozenset({"notifications/cancelled", "notifications/progress"})
"""What they are about is over when the server can read again."""


class OneCall:
    """A `Transport`, and the `legacy.transports.base.Receiver` of the one behind it.

    Invariant: at most one request of ours is unanswered at the server; while one is, or an ask of the server's, only
    answers are sent, and ``_waiting`` holds the rest in order.
    """

    def __init__(self, inner: Transport) -> None:
        self.unlabelled = inner.unlabelled
        self.repeats = inner.repeats
        self.keeps_session = inner.keeps_session
        self.kind = inner.kind
        self._inner = inner
        self._receiver: Receiver
        self._request: int | None = None
        self._asks: set[str | int] = set()
        self._waiting: list[tuple[dict[str, Any], int | None]] = []

    async def __aenter__(self) -> OneCall:
        await self._inner.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._inner.__aexit__(kind, error, trace)

    # --- legacy.transports.base.Transport ---

    @property
    def url(self) -> str | None:
        return self._inner.url

    def attach(self, receiver: Receiver) -> None:
        self._receiver = receiver
        self._inner.attach(self)

    def send(self, message: dict[str, Any], request_id: int | None = None) -> None:
        method = message.get("method")
        if method is None:
            self._asks.discard(message["id"])
            self._inner.send(message, request_id)
            self._go_on()
        elif not self._busy:
            self._pass(message, request_id)
        elif method not in POINTLESS:
            self._waiting.append((message, request_id))

    def drop(self, request_id: int) -> None:
        self._waiting = [entry for entry in self._waiting if entry[1] != request_id]
        self._inner.drop(request_id)

    async def negotiated(self, version: str) -> None:
        await self._inner.negotiated(version)

    async def ready(self, ping: Ping) -> None:
        await self._inner.ready(ping)

    # --- legacy.transports.base.Receiver ---

    def received(self, message: dict[str, Any], request_id: int | None = None, *, again: bool = False) -> None:
        match message:
            case {"method": "notifications/cancelled", "params": {"requestId": str() | int() as withdrawn}}:
                self._asks.discard(withdrawn)
            case {"method": str(), "id": str() | int() as ask} if not isinstance(ask, bool):
                self._asks.add(ask)
            case {"id": answered} if "method" not in message and as_int(answered) == self._request:
                self._request = None
        self._receiver.received(message, request_id, again=again)
        self._go_on()

    def request_lost(self, request_id: int, reason: str, *, processed: bool, refusal: Refusal | None = None) -> None:
        if request_id == self._request:
            self._request = None
        self._receiver.request_lost(request_id, reason, processed=processed, refusal=refusal)
        self._go_on()

    def expects(self, request_id: int) -> bool:
        return self._receiver.expects(request_id)

    def awaits(self, request_id: int) -> bool:
        return self._receiver.awaits(request_id)

    def interrupted(self) -> None:
        self._receiver.interrupted()

    def lost(self, reason: str) -> None:
        self._receiver.lost(reason)

    # --- inside ---

    @property
    def _busy(self) -> bool:
        return self._request is not None or bool(self._asks)

    def _pass(self, message: dict[str, Any], request_id: int | None) -> None:
        self._request = request_id
        self._inner.send(message, request_id)

    def _go_on(self) -> None:
        while self._waiting and not self._busy:
            self._pass(*self._waiting.pop(0))
