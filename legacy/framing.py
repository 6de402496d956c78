"""Bytes into lines and into server-sent events; no I/O here, and no opinion on what the bytes say.

Two rules that libraries get wrong: a line of the stdio transport ends at ``\\n`` only (2025-11-25 basic/transports,
stdio), so U+2028, U+2029, U+0085 and form feeds are data; a line of an event stream ends at ``\\r\\n``, ``\\n`` or
``\\r`` only (HTML, server-sent events). Both work on bytes, so a character cut between two reads cannot be damaged, and
both look at each byte a constant number of times, so a large message costs linear time.
"""

from __future__ import annotations

from dataclasses import dataclass

_BOM = b"\xef\xbb\xbf"


class LineFramer:
    """Cuts a byte stream into lines.

    Invariant: ``_held`` is the start of one unfinished line, of ``_size`` bytes, never more than ``limit``. A line that
    outgrows the limit is dropped up to its end and counted in `overlong`; with ``keep_head`` its first ``limit`` bytes
    are returned as if they were all of it.
    """

    __slots__ = ("_held", "_keep_head", "_limit", "_size", "_skipping", "overlong")

    def __init__(self, limit: int, *, keep_head: bool = False) -> None:
        self._limit = limit
        self._keep_head = keep_head
        self._held: list[bytes] = []
        self._size = 0
        self._skipping = False
        self.overlong = 0

    def feed(self, data: bytes) -> list[bytes]:
        """The lines that ``data`` completes, without their ends (a ``\\r`` before the ``\\n`` is taken off too)."""
        lines: list[bytes] = []
        *complete, rest = data.split(b"\n")
        for piece in complete:
            self._hold(piece, lines)
            if self._skipping:
                self._skipping = False
            else:
                lines.append(self._take())
        if rest:
            self._hold(rest, lines)
        return lines

    def flush(self) -> list[bytes]:
        """At the end of the stream: the last line if it has no end."""
        return [self._take()] if self._held else []

    def _hold(self, piece: bytes, lines: list[bytes]) -> None:
        if self._skipping:
            return
        if self._size + len(piece) <= self._limit:
            self._held.append(piece)
            self._size += len(piece)
            return
        self.overlong += 1
        self._skipping = True
        if self._keep_head:
            self._held.append(piece[: self._limit - self._size])
            lines.append(self._take())
        self._held.clear()
        self._size = 0

    def _take(self) -> bytes:
        line = self._held[0] if len(self._held) == 1 else b"".join(self._held)
        self._held.clear()
        self._size = 0
        return line[:-1] if line.endswith(b"\r") else line


@dataclass(frozen=True, slots=True)
class Event:
    """One dispatched server-sent event."""

    event: str
    data: bytes
    id: str | None
    """The event's own id, or None if it brought none."""


class EventDecoder:
    """Decodes an event stream.

    Invariant: `last_id` is the id up to which every event has been returned by `feed` (an id counts when its event is
    complete, also when that event has no data: it primes a reconnection), and `retry` the last waiting time given.
    """

    __slots__ = (
        "_after_cr",
        "_data",
        "_event",
        "_id",
        "_limit",
        "_lines",
        "_size",
        "_start",
        "last_id",
        "overlong",
        "retry",
    )

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._lines = LineFramer(limit)
        self._after_cr = False
        self._start = True
        self._data: list[bytes] = []
        self._size = 0
        self._event = ""
        self._id: str | None = None
        self.last_id: str | None = None
        self.retry: float | None = None
        """Seconds."""
        self.overlong = 0
        """Events dropped because they were larger than the limit."""

    def feed(self, data: bytes) -> list[Event]:
        """The events that ``data`` completes."""
        if not data:
            return []
        if self._after_cr and data.startswith(b"\n"):
            data = data[1:]
        self._after_cr = data.endswith(b"\r") if data else False
        if b"\r" in data:
            data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        events: list[Event] = []
        before = self._lines.overlong
        for line in self._lines.feed(data):
            if self._start:
                self._start = False
                line = line.removeprefix(_BOM)
            self._line(line, events)
        if self._lines.overlong > before:
            self.overlong += self._lines.overlong - before
        return events

    def restart(self) -> None:
        """A new connection continues the stream: what was half received is forgotten, `last_id` and `retry` stay."""
        self._lines = LineFramer(self._limit)
        self._after_cr = False
        self._start = True
        self._clear()

    def _line(self, line: bytes, events: list[Event]) -> None:
        if not line:
            self._dispatch(events)
            return
        field, _, value = line.partition(b":")
        value = value[1:] if value.startswith(b" ") else value
        match field:
            case b"data":
                self._size += len(value) + 1
                if self._size <= self._limit:
                    self._data.append(value)
            case b"event":
                self._event = value.decode("utf-8", "replace")
            case b"id" if b"\0" not in value:
                self._id = value.decode("utf-8", "replace")
            case b"retry" if value.isdigit() and len(value) < 12:
                self.retry = int(value) / 1000
            case _:  # a comment (nothing before the colon) or a field we do not know
                pass

    def _dispatch(self, events: list[Event]) -> None:
        if self._id is not None:
            self.last_id = self._id or None
        if self._size > self._limit:
            self.overlong += 1
        elif any(self._data):
            events.append(Event(self._event or "message", b"\n".join(self._data), self._id))
        self._clear()

    def _clear(self) -> None:
        self._data.clear()
        self._size = 0
        self._event = ""
        self._id = None
