"""The seam between a session (protocol rules) and a transport (bytes to messages and back).

A transport is an async context manager that ends everything it started before it exits, in bounded time, also when it
is cancelled. It never calls back from inside `Transport.send`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

from legacy.messages import Refusal


class Receiver(Protocol):
    """What a transport tells its session."""

    def received(self, message: dict[str, Any], request_id: int | None = None, *, again: bool = False) -> None:
        """A JSON-RPC message. ``request_id``: the request of ours on whose stream it came. ``again``: the stream was
        resumed, so the server may be repeating itself."""

    def request_lost(self, request_id: int, reason: str, *, processed: bool, refusal: Refusal | None = None) -> None:
        """That request will get no answer; the session goes on."""

    def expects(self, request_id: int) -> bool:
        """Whether that request is still to be answered (or was cancelled, and an answer may yet come)."""

    def awaits(self, request_id: int) -> bool:
        """Whether somebody still waits for that request's answer."""

    def interrupted(self) -> None:
        """For a while the server could not say anything unasked, and will not say it again."""

    def lost(self, reason: str) -> None:
        """The session is gone."""


Ping = Callable[[float], Awaitable[bool]]
"""Sends a ping; whether it was answered within that many seconds."""


class Transport(AbstractAsyncContextManager["Transport", bool | None], Protocol):
    """One connection to one server."""

    unlabelled: bool
    """Whether messages can arrive that the wire ties to no request."""
    repeats: bool
    """Whether a message may arrive twice (a stream that is resumed)."""
    keeps_session: bool
    """Whether the server gave us something by which it finds our session again; False: an answer may reach a part of it
    that has never heard of the ask."""
    kind: str
    """``stdio``, ``streamable-http``, ``http-sse`` or ``memory``."""

    @property
    def url(self) -> str | None:
        """Where the server is, after redirects; None if that is no URL."""

    def attach(self, receiver: Receiver) -> None:
        """Before it is entered: who receives."""

    def send(self, message: dict[str, Any], request_id: int | None = None) -> None:
        """Send a message, in order, without waiting; ``request_id`` if it is a request of ours. Failures are told to
        the receiver later."""

    def drop(self, request_id: int) -> None:
        """Nobody wants that request's answer any more."""

    async def negotiated(self, version: str) -> None:
        """The server has answered ``initialize`` with this version."""

    async def ready(self, ping: Ping) -> None:
        """``notifications/initialized`` was sent: return when everything is in place for a server that asks."""
