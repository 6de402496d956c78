"""What a server says on stderr, on its way into the log: bounded in rate and in length, each line once."""

from __future__ import annotations

import asyncio
import logging
from collections import deque

from legacy.framing import LineFramer
from legacy.wire import printable

_LINE = 4096
"""Bytes of a line that are kept."""
_KEPT = 20
_LINES = 200
_BYTES = 64 * 1024
"""Lines, and bytes of lines, that reach the log in a second."""


class Stderr:
    """To the log at info, line by line.

    Invariant: ``_held`` has the last lines that the log did not show; those of a server that failed are worth it.
    """

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._framer = LineFramer(_LINE, keep_head=True)
        self._held: deque[str] = deque(maxlen=_KEPT)
        self._second = 0
        self._lines = 0
        self._bytes = 0
        self._left_out = 0

    def feed(self, data: bytes) -> None:
        """Bytes as they come."""
        for line in self._framer.feed(data):
            self._say(line)

    def end(self) -> None:
        """No more is expected."""
        for line in self._framer.flush():
            self._say(line)
        self._tell_left_out()

    def unseen(self) -> list[str]:
        """The last lines that the log has not shown."""
        held = list(self._held)
        self._held.clear()
        return held

    def _say(self, line: bytes) -> None:
        text = printable(line, _LINE)
        if not text.strip():
            return
        second = int(asyncio.get_running_loop().time())
        if second != self._second:
            self._tell_left_out()
            self._second, self._lines, self._bytes = second, 0, 0
        self._lines += 1
        self._bytes += len(line)
        if self._lines > _LINES or self._bytes > _BYTES:
            self._left_out += 1
            self._held.append(text)
        elif self._log.isEnabledFor(logging.INFO):
            self._held.clear()
            self._log.info("stderr: %s", text)
        else:
            self._held.append(text)

    def _tell_left_out(self) -> None:
        if self._left_out:
            self._log.info("stderr: %d more lines in one second, not shown", self._left_out)
            self._left_out = 0
