"""Who answers the old server's questions: a script, or the person at the terminal, field by field.

Both answer with plain values; `client` makes the protocol's results of them. Not for this module: what is shown of an
answer once it is given.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, Protocol

from bridge.demo.show import Screen

ROOT: Final = "file:///home/ada/lighthouse"
FORM: Final[Mapping[str, Any]] = {"part": "minor", "codename": "Fresnel", "announce": True}
SENTENCE: Final = "The lamp now rests by day, outlives power cuts and writes the fog down."
PATIENCE: Final = {"elicitation": 540.0, "sampling": 100.0, "roots": 100.0}
"""Seconds a person has, somewhat less than the bridge waits."""


class Declined(Exception):
    """The person does not want to answer; `reason` says how that was told."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Answers(Protocol):
    """Gives values, or raises `Declined`."""

    def root(self) -> str: ...
    def form(self, schema: Mapping[str, Any]) -> dict[str, Any]: ...
    def sentence(self) -> str: ...


class Script:
    """Answers at once, always the same."""

    def root(self) -> str:
        return ROOT

    def form(self, schema: Mapping[str, Any]) -> dict[str, Any]:
        return dict(FORM)

    def sentence(self) -> str:
        return SENTENCE


@dataclass(frozen=True, slots=True)
class Person:
    """Asks at the terminal, again where an answer does not fit."""

    screen: Screen
    keyboard: Keyboard

    def root(self) -> str:
        with self._for("roots"):
            while True:
                uri = self._ask("Your project's root", ROOT)
                if uri.startswith("file:///"):
                    return uri
                self.screen.complain("A root is a URI that begins with file:///")

    def form(self, schema: Mapping[str, Any]) -> dict[str, Any]:
        with self._for("elicitation"):
            content: dict[str, Any] = {}
            for name, field in schema.get("properties", {}).items():
                value = self._field(name, field, required=name in schema.get("required", ()))
                if value is not None:
                    content[name] = value
            return content

    def sentence(self) -> str:
        with self._for("sampling"):
            return self._ask("You are the model", SENTENCE)

    @contextmanager
    def _for(self, kind: str) -> Iterator[None]:
        self.keyboard.patience = PATIENCE[kind]
        self.screen.hint("Ctrl-D or Ctrl-C declines." if kind == "elicitation" else "Ctrl-D or Ctrl-C gives up.")
        yield

    def _field(self, name: str, field: Mapping[str, Any], *, required: bool) -> Any:
        label = field.get("title", name)
        options = choices(field)
        usual = field.get("default")
        if options:
            self.screen.choices(
                [title if title.startswith(value) else f"{value} ({title})" for value, title in options]
            )
        elif field.get("type") == "boolean":
            label, usual = f"{label} (yes or no)", "yes" if usual else "no"
        while True:
            text = self._ask(label, None if usual is None else str(usual))
            if not text and not required:
                return None
            try:
                return read_field(text, field)
            except ValueError as error:
                self.screen.complain(str(error))

    def _ask(self, label: str, usual: str | None) -> str:
        try:
            line = self.keyboard.line(lambda: self.screen.prompt(label, usual))
        except Declined:
            self.screen.typed("")
            raise
        if not self.keyboard.echoes:
            self.screen.typed(line)
        return line or usual or ""


def choices(field: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The values of a single choice with their titles, in either of the protocol's forms."""
    if "enum" in field:
        values = [str(value) for value in field["enum"]]
        return list(zip(values, field.get("enumNames", values), strict=False))
    return [(str(one["const"]), str(one.get("title", one["const"]))) for one in field.get("oneOf", ())]


def read_field(text: str, field: Mapping[str, Any]) -> Any:
    """What was typed, as the field's type.

    Raises:
        ValueError: it does not fit; the message says what would.
    """
    values = [value for value, _ in choices(field)]
    if values:
        fitting = [value for value in values if value == text] or [v for v in values if text and v.startswith(text)]
        if len(fitting) != 1:
            raise ValueError(f"Choose one of {', '.join(values)}.")
        return fitting[0]
    match field.get("type"):
        case "boolean":
            if text.lower() not in ("y", "yes", "true", "n", "no", "false"):
                raise ValueError("Answer yes or no.")
            return text.lower()[0] in "yt"
        case "integer" | "number" as kind:
            try:
                return int(text) if kind == "integer" else float(text)
            except ValueError:
                raise ValueError("Type a number.") from None
        case _:
            least, most = field.get("minLength", 0), field.get("maxLength", 1000)
            if not least <= len(text) <= most:
                raise ValueError(f"Type {least} to {most} characters.")
            return text


class Keyboard:
    """Lines from stdin, read below Python's buffers, so that waiting has an end and Ctrl-C works at once.

    The event loop stands still meanwhile: a suspended call needs nothing from its client.
    """

    def __init__(self) -> None:
        self.patience = 60.0
        self._fd = sys.stdin.fileno()
        self.echoes = os.isatty(self._fd)
        self._read = b""
        self._ended = False

    def line(self, prompt: Callable[[], None]) -> str:
        """The next line after a prompt, without its end.

        Raises:
            Declined: end of input, Ctrl-C, or nobody typed anything for too long.
        """
        try:
            with _interruptible():
                prompt()
                while b"\n" not in self._read and not self._ended:
                    self._more()
        except KeyboardInterrupt:
            raise Declined("Ctrl-C") from None
        if not self._read:
            raise Declined("end of input")
        line, _, self._read = self._read.partition(b"\n")
        return line.decode(errors="replace").strip()

    def _more(self) -> None:
        if os.name == "posix" and not select.select([self._fd], [], [], self.patience)[0]:
            raise Declined(f"nothing was typed for {self.patience:.0f} seconds")
        chunk = os.read(self._fd, 4096)
        self._read += chunk
        self._ended = not chunk


@contextmanager
def _interruptible() -> Iterator[None]:
    """Let Ctrl-C raise here and now, instead of cancelling a task of an event loop that stands still."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        yield
    finally:
        signal.signal(signal.SIGINT, before)
