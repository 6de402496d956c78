"""What can go wrong with a legacy server before, or instead of, an answer."""

from __future__ import annotations

from legacy.messages import Refusal


class LegacyError(Exception):
    """Base of this package's errors; the message is a sentence for the person who runs the bridge."""


class CannotStart(LegacyError):
    """The server could not be started or reached, or its handshake failed."""


class NoHttpSse(CannotStart):
    """A GET of the URL opens no stream of HTTP+SSE."""


class OneSessionOnly(CannotStart):
    """The server has a session already and can have no other: its one connection, or one server object for all.

    ``certain`` is False where it only failed at a second ``initialize`` without a word (a bare HTTP 500): that means
    this if another session with it is open, and nothing otherwise.
    """

    def __init__(self, message: str, *, certain: bool = True) -> None:
        super().__init__(message)
        self.certain = certain


def cannot_start(reason: str, refusal: Refusal | None) -> CannotStart:
    """The error for a refused start, by what the refusal means."""
    match refusal:
        case Refusal.ONE_SESSION:
            return OneSessionOnly(f"{reason} It can have one session only, and somebody has it.")
        case Refusal.PERHAPS_ONE_SESSION:
            return OneSessionOnly(reason, certain=False)
        case None:
            return CannotStart(reason)


class ModernServer(CannotStart):
    """The server speaks a protocol without a handshake (2026-07-28 or later): no session can be opened with it."""

    def __init__(self, message: str, *, url: str | None, supported: tuple[str, ...]) -> None:
        super().__init__(message)
        self.url = url
        """Where it is, after redirects; None for a command."""
        self.supported = supported
        """The revisions that it says it speaks, as it ordered them."""


class Unsent(LegacyError):
    """A request was not sent, or not taken up; the message is a clause that says why."""


class SessionClosed(LegacyError):
    """The session has ended; a message could not be sent on it."""
