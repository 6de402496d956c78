"""What can go wrong with a legacy server before, or instead of, an answer."""

from __future__ import annotations


class LegacyError(Exception):
    """Base of this package's errors; the message is a sentence for the person who runs the bridge."""


class CannotStart(LegacyError):
    """The server could not be started or reached, or its handshake failed."""


class SessionClosed(LegacyError):
    """The session has ended; a message could not be sent on it."""
