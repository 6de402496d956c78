"""One initialised legacy connection (contract; to be written by its owner)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from legacy.messages import Ask, Reply


class Listener(Protocol):
    """Who hears what a session's server sends on its own. Every method is synchronous, quick, and must not raise."""

    def asked(self, session: Session, ask: Ask) -> None:
        """The server asks; answer with `Session.answer` or `Session.refuse`, now or later."""

    def withdrawn(self, session: Session, ask: Ask) -> None:
        """The server sent ``notifications/cancelled`` for its ask; ``ask.open`` is False already."""

    def notified(self, session: Session, method: str, params: dict[str, Any], request_id: int | None) -> None:
        """A notification; ``request_id`` is the request of ours it belongs to, where the wire tells."""

    def ghost_ended(self, session: Session, request_id: int) -> None:
        """The server answered a request that `Session.cancel` had given up."""

    def lost(self, session: Session, reason: str) -> None:
        """The session has ended without `Session.close`; every pending request has had its `Lost` already."""


class Session:
    """One initialised legacy connection."""

    server_info: dict[str, Any]
    capabilities: dict[str, Any]
    protocol_version: str
    instructions: str | None
    unlabelled: bool
    """Whether asks can arrive that the wire ties to no request (stdio; Streamable HTTP unless its GET got 405)."""
    closed: bool

    def send(self, method: str, params: dict[str, Any] | None, on_reply: Callable[[Reply], None]) -> int:
        """Send a request, return its id (ours, an int, never reused). ``on_reply`` is called exactly once, unless
        `cancel` comes first. Sets ``params._meta.progressToken`` to the id on a copy.

        Raises:
            SessionClosed: nothing was sent.
        """
        raise NotImplementedError

    async def request(self, method: str, params: dict[str, Any] | None = None, *, timeout: float) -> Reply:
        """`send`, and wait; on time-out the request is cancelled and the reply is `Lost`."""
        raise NotImplementedError

    def cancel(self, request_id: int, reason: str) -> None:
        """Give a request up: ``notifications/cancelled`` to the server; ``on_reply`` will not be called; if the
        server answers all the same, `Listener.ghost_ended` is. Unknown or answered ids are ignored."""
        raise NotImplementedError

    def forget(self, request_id: int) -> None:
        """Stop remembering a cancelled request (its ghost has expired)."""
        raise NotImplementedError

    def notify(self, method: str, params: dict[str, Any] | None = None) -> None:
        raise NotImplementedError

    def answer(self, ask: Ask, result: dict[str, Any]) -> None:
        """Answer an ask; does nothing when ``ask.open`` is False."""
        raise NotImplementedError

    def refuse(self, ask: Ask, code: int, message: str, data: Any = None) -> None:
        raise NotImplementedError

    async def close(self) -> None:
        """End the session in bounded time: DELETE, or end of stdin, SIGTERM, SIGKILL to the process group."""
        raise NotImplementedError
