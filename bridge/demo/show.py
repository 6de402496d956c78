"""What the demo shows: one aligned line for each thing that is said, coloured on a terminal only.

Everything that came over a wire is printed as text, never as markup, with control characters as escapes.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from typing import Any, Final

from rich.console import Console
from rich.text import Text

from bridge.telemetry import escape

_LABEL: Final = 14
_BEFORE: Final = 2 + 1 + _LABEL + 1
_WIDEST: Final = 100


class NobodyReads(Exception):
    """What the screen was piped to has ended."""


class _Stdout(Console):
    """stdout. Rich ends the program where nobody reads on; here that is an exception like others, since a client and
    a bridge have to be ended first."""

    def on_broken_pipe(self) -> None:
        # What is left in its buffer is not tried again when Python ends.
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)
        raise NobodyReads


class Screen:
    """The terminal or pipe on stdout."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or _Stdout(highlight=False, markup=False, emoji=False)
        self._plain = self._console.options.ascii_only

    def title(self, text: str) -> None:
        self._paragraph(text, "bold")

    def cast(self, who: str, what: str) -> None:
        self._row("", who, Text(escape(what)), label_style="dim")

    def step(self, number: int, what: str) -> None:
        """A heading."""
        self._console.print()
        self._paragraph(f"{number}. {what}", "bold")

    def sends(self, label: str, what: str) -> None:
        """The client to the bridge."""
        self._row("->" if self._plain else "→", label, Text(escape(what)), mark_style="cyan", label_style="cyan")

    def hears(self, label: str, what: str) -> None:
        """The bridge to the client."""
        self._row("<-" if self._plain else "←", label, Text(escape(what)), mark_style="magenta", label_style="magenta")

    def detail(self, label: str, what: str, style: str = "") -> None:
        """A part of the exchange above."""
        self._row("", label, Text(escape(what), style), label_style="bold")

    def warns(self, what: str) -> None:
        """A deprecation warning of the bridge."""
        self._row("!", "deprecated", Text(escape(what), "yellow"), mark_style="yellow", label_style="yellow")

    def logs(self, level: str, what: str) -> None:
        """Another line of the bridge's log."""
        self._row("!", level, Text(escape(what), "dim"), mark_style="dim", label_style="dim")

    def result(self, text: str, *, error: bool) -> None:
        """The end of the call."""
        for line in text.splitlines():
            self._row("", "", Text(escape(line), "bold red" if error else "bold green"))

    def closing(self, text: str) -> None:
        self._console.print()
        self._paragraph(text, "dim")

    def hint(self, text: str) -> None:
        self._row("", "", Text(text, "dim"))

    def choices(self, options: Iterable[str]) -> None:
        self._row("", "choices", Text(escape(", ".join(options)), "dim"), label_style="dim")

    def complain(self, text: str) -> None:
        self._row("", "", Text(text, "red"))

    def prompt(self, label: str, usual: str | None) -> None:
        """The line on which a person types."""
        text = Text.assemble("   ", ("? ", "bold cyan"), (escape(label), "bold"))
        if usual is not None:
            text.append(f" [{usual}]", "dim")
        self._console.print(text, end=": ", soft_wrap=True)
        self._console.file.flush()

    def typed(self, text: str) -> None:
        """End the line on which a person types, where no terminal did it."""
        self._console.print(Text(escape(text)), soft_wrap=True)

    @property
    def _width(self) -> int:
        return min(self._console.width, _WIDEST)

    def _paragraph(self, text: str, style: str) -> None:
        for line in Text(text, style).wrap(self._console, self._width):
            line.rstrip()
            self._console.print(line, soft_wrap=True)

    def _row(self, mark: str, label: str, text: Text, *, mark_style: str = "", label_style: str = "") -> None:
        room = max(10, self._width - _BEFORE)
        for number, line in enumerate(text.wrap(self._console, room, overflow="fold")):
            line.rstrip()
            first = (f"{mark:>2} ", f"{escape(label):<{_LABEL}} ") if number == 0 else (" " * _BEFORE, "")
            row = Text.assemble((first[0], mark_style), (first[1], label_style), line)
            row.rstrip()
            self._console.print(row, soft_wrap=True)


def form_of(schema: Mapping[str, Any]) -> str:
    """The fields of a form in one line."""
    required = schema.get("required", ())
    fields = []
    for name, field in schema.get("properties", {}).items():
        values = field.get("enum") or [one["const"] for one in field.get("oneOf", ())]
        kind = " | ".join(map(str, values)) if values else field.get("type", "any")
        fields.append(f"{name}{'' if name in required else '?'}: {kind}")
    return ", ".join(fields)
