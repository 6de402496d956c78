"""Where a legacy server is, and how long and how much it may take. Values only."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, Literal

from legacy.credentials import HeaderCommand


@dataclass(frozen=True, slots=True)
class StdioTarget:
    """A command to start."""

    command: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    """The whole environment of the child."""
    cwd: str | None = None
    one_call: bool = False
    """It reads the answers to its asks inline: see `legacy.transports.one_call`."""


@dataclass(frozen=True, slots=True)
class HttpTarget:
    """A URL to reach."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    """Sent with every request."""
    credentials: HeaderCommand | None = None
    """What brings further headers, and newer ones when they have run out; shared by all who use the target."""
    transport: Literal["auto", "streamable-http", "http-sse"] = "auto"
    """What it speaks; ``auto``: found out when the first session is opened."""


@dataclass(frozen=True, slots=True)
class AppTarget(HttpTarget):
    """An ASGI application in this process, asked as if it were at the URL. Who makes the target starts it and stops it
    (its lifespan)."""

    app: Any = field(kw_only=True)


def _as_it_is(message: dict[str, Any]) -> Any:
    return message


@dataclass(frozen=True, slots=True)
class MemoryTarget:
    """A server in this process, over two streams of messages."""

    connect: Callable[[], AbstractAsyncContextManager[tuple[Any, Any]]]
    """For each session: what the server says, and where it hears."""
    wrap: Callable[[dict[str, Any]], Any] = _as_it_is
    """From a message to what the server's stream carries."""


Target = StdioTarget | HttpTarget | MemoryTarget


@dataclass(frozen=True, slots=True)
class Limits:
    """Times in seconds, sizes in bytes."""

    start: float = 60.0
    """From nothing to a session that takes requests."""
    max_message: int = 64 * 1024 * 1024
    """A larger message is skipped."""

    max_unsent: int = 64 * 1024 * 1024
    """A child that leaves more than this unread has stalled; its session ends."""
    eof_grace: float = 1.2
    """From the end of stdin to SIGTERM."""
    term_grace: float = 1.0
    """From SIGTERM to SIGKILL."""
    kill_grace: float = 1.0
    """From SIGKILL to giving up."""

    connect: float = 10.0
    endpoint_wait: float = 10.0
    """From the GET of HTTP+SSE to its ``endpoint`` event."""
    stream_silence: float = 25.0
    """After this long without a word on the stream of HTTP+SSE the server is pinged; proxies cut it after 60."""
    get_wait: float = 3.0
    """How long the answer to the GET may hold up the start of the session."""
    ping_wait: float = 5.0
    """How long a ping may be silent before the GET is suspected of taking the server's only slot."""
    post_wait: float = 30.0
    """How long the acknowledgement of an answer or a notification may take."""
    order_wait: float = 1.0
    """How long the next answer or notification waits for that acknowledgement; servers that delay it must not hold
    up an answer they are waiting for."""
    delete_wait: float = 2.0
    linger: float = 1.0
    """How long a POST's stream is still read after its response."""
    backoff: float = 0.5
    """The first wait before a reconnection; it doubles."""
    backoff_most: float = 30.0
    resume_tries: int = 5
    """Failures in a row to resume a request's stream before it is given up."""
    resume_silence: float = 300.0
    """How long a request's stream may be resumed again and again without a single new event."""
