"""The log of the demo's bridge, read from the file that its stderr goes to while it grows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import IO, Any, Final

_KEPT: Final = 12


class Log:
    """One JSON object a line; what is no such line came from somewhere else and is kept as it is."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file
        self._rest = ""
        self._others: list[tuple[str, str]] = []

    def warnings(self) -> Iterator[str]:
        """The deprecation warnings since the last time."""
        *lines, self._rest = (self._rest + self._file.read()).split("\n")
        for line in lines:
            try:
                record: dict[str, Any] = json.loads(line)
                level, message = str(record["level"]), str(record["message"])
            except (ValueError, KeyError, TypeError):
                level, message, record = "stderr", line, {}
            if str(record.get("event", "")).startswith("deprecated_"):
                yield message
            elif line.strip():
                self._others.append((level, message))
                self._others += [("", line) for line in str(record.get("exception", "")).splitlines()[:1]]

    def others(self) -> list[tuple[str, str]]:
        """The last of everything else, for when something broke."""
        warnings = [("warning", text) for text in self.warnings()]
        return [*self._others, *warnings][-_KEPT:]
