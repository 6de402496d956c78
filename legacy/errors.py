"""What can go wrong with a legacy server before, or instead of, an answer."""

from __future__ import annotations


class LegacyError(Exception):
    """Base of this package's errors; the message is a sentence for the person who runs the bridge."""


class CannotStart(LegacyError):
    """The server could not be started or reached, or its handshake failed."""


class OneSessionOnly(CannotStart):
    """The server has a session already and can have no other: its one connection, or one server object for all.

    ``certain`` is False where it only failed at a second ``initialize`` without a word (a bare HTTP 500): that means
    this if another session with it is open, and nothing otherwise.
    """

    def __init__(self, message: str, *, certain: bool = True) -> None:
        super().__init__(message)
        self.certain = certain


class SessionClosed(LegacyError):
    """The session has ended; a message could not be sent on it."""
