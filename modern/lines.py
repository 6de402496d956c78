"""Lines out of bytes: the framing of stdio [basic/transports/stdio]. Pure.

A line ends at ``\\n`` and nowhere else; what looks like a line end to Unicode is data. A line is cut out in linear time
however it arrives, and one that is too long is skipped to its end.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

MAX_LINE: Final = 64 * 1024 * 1024


class Lines:
    """Collects bytes and yields whole lines, without ``\\n`` or ``\\r\\n``; None for one that was too long.

    Invariant: ``_parts`` holds the bytes since the last line end, without a line end among them, at most ``_limit``.
    """

    __slots__ = ("_limit", "_parts", "_size", "_skipping")

    def __init__(self, limit: int = MAX_LINE) -> None:
        self._limit = limit
        self._parts: list[bytes] = []
        self._size = 0
        self._skipping = False

    def feed(self, data: bytes) -> Iterator[bytes | None]:
        start = 0
        while (end := data.find(b"\n", start)) >= 0:
            yield self._line(data[start:end])
            start = end + 1
        if start < len(data):
            self._keep(data[start:] if start else data)

    def _line(self, last: bytes) -> bytes | None:
        self._keep(last)
        if self._skipping:
            self._skipping = False
            return None
        line = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        self._parts, self._size = [], 0
        return line.removesuffix(b"\r")

    def _keep(self, part: bytes) -> None:
        if self._skipping:
            return
        self._size += len(part)
        if self._size > self._limit:
            self._skipping = True
            self._parts, self._size = [], 0
        else:
            self._parts.append(part)
