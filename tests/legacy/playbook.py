"""A whole exchange as one expression, without bytes or tasks: ``>>`` the server says, ``<<`` we have sent.

play >> ask(1, "roots/list")
play.session.answer(play.ears.asks[0], {"roots": []})
play << {"id": 1, "result": {"roots": []}}
"""

from __future__ import annotations

from types import TracebackType
from typing import Any

from legacy.messages import Reply
from legacy.session import Session
from legacy.transports.base import Ping, Receiver
from tests.legacy.support import Ears


class ScriptedTransport:
    """Keeps what was sent."""

    def __init__(self, *, repeats: bool = False) -> None:
        self.unlabelled = True
        self.repeats = repeats
        self.keeps_session = True
        self.url: str | None = None
        self.kind = "stdio"
        self.sent: list[dict[str, Any]] = []
        self.dropped: list[int] = []

    async def __aenter__(self) -> ScriptedTransport:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    def attach(self, receiver: Receiver) -> None: ...

    def send(self, message: dict[str, Any], request_id: int | None = None) -> None:
        assert message.pop("jsonrpc") == "2.0"
        assert request_id == (message["id"] if "method" in message and "id" in message else None)
        self.sent.append(message)

    def drop(self, request_id: int) -> None:
        self.dropped.append(request_id)

    async def negotiated(self, version: str) -> None: ...

    async def ready(self, ping: Ping) -> None: ...


class Playbook:
    """One session over a scripted transport."""

    def __init__(self, *, repeats: bool = False, ears: Ears | None = None) -> None:
        self.transport = ScriptedTransport(repeats=repeats)
        self.ears = ears or Ears()
        self.session = Session("srv", self.transport, self.ears)
        self.session.started()

    def __rshift__(self, message: dict[str, Any]) -> Playbook:
        self.session.received({"jsonrpc": "2.0", **message})
        return self

    def __lshift__(self, expected: dict[str, Any]) -> Playbook:
        assert self.transport.sent, f"nothing was sent, expected {expected}"
        assert self.transport.sent.pop(0) == expected
        return self

    def call(self, method: str = "tools/call", params: dict[str, Any] | None = None) -> tuple[int, list[Reply]]:
        """Send a request and take it off the wire."""
        replies: list[Reply] = []
        request_id = self.session.send(method, params, replies.append)
        assert self.transport.sent.pop()["id"] == request_id
        return request_id, replies

    def silent(self) -> bool:
        """Whether all that was sent was expected."""
        return not self.transport.sent


def ask(server_id: Any, method: str = "elicitation/create", **params: Any) -> dict[str, Any]:
    """The server asks."""
    return {"id": server_id, "method": method, "params": params}
