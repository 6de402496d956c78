"""The process's log: on stderr only (stdout belongs to MCP), as aligned text or as one JSON object a line.

The vocabulary: every logger of ours is named ``mrtr.…``; what a wrapped server writes to its stderr goes to
``mrtr.server.<name>``. A message is a whole sentence; what a machine wants to pick out of it goes along as ``extra``.

While `tracing` a request, every line carries the id of its trace as ``trace_id``.

Three rules:

* **Nothing from the params, answers or results of a request is logged**, at no level: who logs names methods, tools,
  reasons, sizes and times. The handler helps: of an exception it shows type and place, but its text only where that
  cannot quote a peer.
* **What peers chose cannot forge a line or steer a terminal**: control characters, line ends and directional marks are
  shown as escapes, in messages, extras and names alike.
* **A log never stops the bridge.** A closed stderr is survived. A stderr that nobody reads blocks only the thread that
  writes it: lines wait in a bounded queue and are dropped, counted, when it is full.
"""

from __future__ import annotations

import atexit
import json
import logging
import os
import queue
import re
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any, Final, Literal, TextIO

LEVELS: Final = ("debug", "info", "warning", "error")
_LONGEST: Final = 8192
"""Characters of a message or an extra that are shown."""
_WAITING_LINES: Final = 10_000
_SECONDS_AT_EXIT: Final = 1.0

_trace: ContextVar[str | None] = ContextVar("mrtr_trace", default=None)
_UNSAFE = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff]")
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "color_message"}
_QUIET: Final = {"uvicorn": logging.WARNING, "uvicorn.access": logging.CRITICAL + 1, "uvicorn.error": logging.WARNING}
_COLOURS: Final = {"DEBUG": "2", "INFO": "36", "WARNING": "33", "ERROR": "31", "CRITICAL": "1;31"}


def setup(level: str = "info", style: Literal["text", "json"] = "text", stream: TextIO | None = None) -> None:
    """Route all logging of this process to ``stream`` (stderr), ours from ``level`` on, that of others when it warns.

    Libraries below a warning stay silent even under ``debug``: HTTP clients log URLs and headers there. Run uvicorn
    with ``log_config=None, access_log=False``, or it sets up its own.
    """
    stream = sys.stderr if stream is None else stream
    formatter = JsonLines() if style == "json" else Text(colour=_is_colour_terminal(stream))
    handler = Handler(stream)
    handler.setFormatter(formatter)
    root = logging.getLogger()
    for old in [h for h in root.handlers if isinstance(h, Handler)]:
        root.removeHandler(old)
        old.close()
    root.addHandler(handler)
    root.setLevel(logging.WARNING)
    logging.getLogger("mrtr").setLevel(level.upper())
    for name, lowest in _QUIET.items():
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.propagate = True
        logger.setLevel(lowest)


@contextmanager
def tracing(trace_id: str | None) -> Iterator[None]:
    """Lines that are logged meanwhile, by this task and those that it starts, belong to this trace, or to none."""
    before = _trace.set(trace_id)
    try:
        yield
    finally:
        _trace.reset(before)


def current_trace() -> str | None:
    """The trace of the request that is being served."""
    return _trace.get()


def server_logger(name: str) -> logging.Logger:
    """Where the stderr of the wrapped server ``name`` goes."""
    return logging.getLogger("mrtr.server." + escape(name).replace(".", "_"))


def escape(text: str) -> str:
    """``text`` on one line, with nothing in it that a terminal would act on."""
    if len(text) > _LONGEST:
        text = text[:_LONGEST] + f"… ({len(text) - _LONGEST} more characters)"
    return _UNSAFE.sub(lambda match: _as_escape(match[0]), text)


_JSON_ONLY = frozenset({"earliest_removal", "event", "instead"})
"""Extras for machines: whoever reads lines hears them in the sentence, once, where they matter."""


class Text(logging.Formatter):
    """``time LEVEL logger sentence key=value …``; extras that the sentence already says are not repeated."""

    def __init__(self, *, colour: bool = False) -> None:
        super().__init__()
        self._colour = colour

    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created).strftime("%H:%M:%S.%f")[:-3]
        name = escape(record.name.removeprefix("mrtr."))
        message = escape(record.getMessage())
        more = "".join(f" {escape(key)}={escape(str(value))}" for key, value in self._extras(record, message))
        level = self._paint(f"{record.levelname:<7}", _COLOURS.get(record.levelname, "0"))
        line = f"{self._paint(moment, '2')} {level} {name:<12} {message}{self._paint(more, '2') if more else ''}"
        if record.exc_info and record.exc_info[1] is not None:
            line += "".join(f"\n    | {escape(part)}" for part in describe(record.exc_info[1]))
        return line

    def _extras(self, record: logging.LogRecord, message: str) -> Iterator[tuple[str, Any]]:
        for key, value in extras(record).items():
            said = len(str(value)) > 3 and str(value) in message
            if key not in _JSON_ONLY and not said:
                yield key, value

    def _paint(self, text: str, code: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self._colour else text


class JsonLines(logging.Formatter):
    """One object a line: ``time``, ``level``, ``logger``, ``message``, the extras, and an ``exception``."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage()[:_LONGEST],
        }
        if record.exc_info and record.exc_info[1] is not None:
            line["exception"] = "\n".join(describe(record.exc_info[1]))
        # ASCII only, so that whoever prints a line as it is cannot be steered by it either.
        return json.dumps(extras(record) | line, default=str).replace("\x7f", "\\u007f")


class Handler(logging.Handler):
    """Writes lines to a stream; never raises, never holds the caller up on a stream that is a file or pipe."""

    def __init__(self, stream: TextIO | None) -> None:
        super().__init__()
        self._stream = stream
        self._writer = _Writer.of(stream)

    def emit(self, record: logging.LogRecord) -> None:
        try:
            line = self.format(record) + "\n"
        except Exception as error:  # A bad format string must not end a call.
            line = f"A log record of {escape(record.name)} could not be written: {type(error).__name__}\n"
        if self._writer is not None:
            self._writer.put(line)
        elif self._stream is not None:
            try:
                self._stream.write(line)
                self._stream.flush()
            except (OSError, ValueError):
                pass  # Closed.

    def close(self) -> None:
        if self._writer is not None:
            self._writer.drain()
        super().close()


class _Writer:
    """A thread that writes to a file descriptor.

    It is a daemon, since it may block for ever; and it goes around the stream object, whose lock a blocked thread would
    still hold when the interpreter ends.
    """

    @classmethod
    def of(cls, stream: TextIO | None) -> _Writer | None:
        try:
            return None if stream is None else cls(stream.fileno())
        except (OSError, ValueError):
            return None

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._lines: queue.Queue[str | threading.Event] = queue.Queue(_WAITING_LINES)
        self._dropped = 0
        threading.Thread(target=self._run, name="mrtr-log", daemon=True).start()
        atexit.register(self.drain)

    def put(self, line: str) -> None:
        try:
            self._lines.put_nowait(line)
        except queue.Full:
            self._dropped += 1

    def drain(self) -> None:
        """Wait, a little, until everything so far is written."""
        atexit.unregister(self.drain)
        written = threading.Event()
        try:
            self._lines.put_nowait(written)
        except queue.Full:
            return
        written.wait(_SECONDS_AT_EXIT)

    def _run(self) -> None:
        while True:
            match self._lines.get():
                case str() as line:
                    self._write(line)
                case event:
                    event.set()
            if self._dropped and self._lines.empty():
                dropped, self._dropped = self._dropped, 0
                self._write(f"({dropped} lines of the log were dropped: nobody read stderr)\n")

    def _write(self, line: str) -> None:
        rest = line.encode("utf-8", "backslashreplace")
        try:
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]
        except OSError:
            pass  # Closed; there is nowhere left to say so.


def extras(record: logging.LogRecord) -> dict[str, Any]:
    """What the caller gave as ``extra``, and the trace that the line belongs to."""
    found = {key: value for key, value in vars(record).items() if key not in _STANDARD}
    if (trace := _trace.get()) is not None:
        found.setdefault("trace_id", trace)
    return found


def describe(error: BaseException) -> Iterator[str]:
    """An exception as lines: its kind and where it came from, groups and causes included.

    Not its text, which may quote what a peer sent (validation errors do), except where that cannot be: errors of the
    operating system and of imports.
    """
    todo: list[tuple[BaseException, str]] = [(error, "")]
    seen: set[int] = set()
    while todo and len(seen) < 20:
        one, why = todo.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        said = one.strerror if isinstance(one, OSError) else str(one) if isinstance(one, ImportError) else None
        yield f"{why}{type(one).__module__}.{type(one).__qualname__}" + (f": {said}" if said else "")
        for frame in traceback.extract_tb(one.__traceback__)[-12:]:
            yield f"  {frame.filename}:{frame.lineno} in {frame.name}"
        if isinstance(one, BaseExceptionGroup):
            todo.extend((inner, "in this group: ") for inner in reversed(one.exceptions))
        if one.__cause__ is not None:
            todo.append((one.__cause__, "because of: "))
        elif one.__context__ is not None and not one.__suppress_context__:
            todo.append((one.__context__, "while handling: "))


def _as_escape(character: str) -> str:
    short = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}.get(character)
    code = ord(character)
    return short or (f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}")


def _is_colour_terminal(stream: TextIO | None) -> bool:
    if stream is None or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    try:
        return stream.isatty()
    except (OSError, ValueError):
        return False
