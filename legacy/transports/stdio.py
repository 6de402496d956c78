"""A server that is a child process: JSON-RPC lines on its stdin and stdout (2025-11-25 basic/transports, stdio).

The hot path is a chain of callbacks, with no task, queue or await per message: bytes from the pipe, lines, a JSON
value, the session. What a server prints that is no message goes to the log and harms nobody. How processes are ended
is in `legacy.transports.process`.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections import deque
from pathlib import Path
from shutil import which
from types import TracebackType
from typing import Any, cast

import anyio

from legacy.errors import CannotStart
from legacy.framing import LineFramer
from legacy.targets import Limits, StdioTarget
from legacy.transports.base import Ping, Receiver
from legacy.transports.process import Child, ending
from legacy.transports.watchdog import Watchdog
from legacy.wire import answered_id, decode, describe, encode, messages, printable

_STDERR_LINE = 4096
_STDERR_KEPT = 20
_STDERR_RATE = 200
"""Lines a second that reach the log."""
_DRAIN = 0.3
"""After the exit of the child, for what it had written before; grandchildren may hold the pipe open."""
_EXIT_WAIT = 0.5
"""After the end of stdout, for the exit status that says why."""


class StdioTransport(asyncio.SubprocessProtocol):
    """One child process.

    Invariants: the process, and its process group, exist only between ``__aenter__`` and ``__aexit__``. `Receiver.lost`
    is called at most once, from the event loop, never from inside `send`.
    """

    unlabelled = True
    repeats = False
    url = None
    kind = "stdio"

    def __init__(self, target: StdioTarget, name: str, limits: Limits) -> None:
        self._target = target
        self._name = name
        self._limits = limits
        self._log = logging.getLogger(f"mrtr.server.{name}")
        self._receiver: Receiver
        self._stdout = LineFramer(limits.max_message)
        self._stderr = Stderr(self._log)
        self._child: Child
        self._watchdog = Watchdog()
        self._stdin: asyncio.WriteTransport
        self._loop: asyncio.AbstractEventLoop
        self._stdout_open = True
        self._exited = anyio.Event()
        self._warned = False
        self._over = False
        self._unwritten: list[bytes] = []
        self._timer: asyncio.TimerHandle | None = None

    def attach(self, receiver: Receiver) -> None:
        """Who receives."""
        self._receiver = receiver

    async def __aenter__(self) -> StdioTransport:
        self._loop = asyncio.get_running_loop()
        program = _program(self._target)
        try:
            # Shielded: half-started, it would be killed without its group.
            with anyio.CancelScope(shield=True):
                await self._loop.subprocess_exec(
                    lambda: self,
                    program,
                    *self._target.command[1:],
                    env=dict(self._target.env),
                    cwd=self._target.cwd,
                    start_new_session=sys.platform != "win32",
                )
        except (OSError, ValueError) as error:
            raise CannotStart(_why(self._target, error)) from error
        with anyio.CancelScope(shield=True):
            await self._watchdog.start(self._child.pid, self._limits.eof_grace, self._limits.term_grace, self._log)
        self._log.debug("started process %d", self._child.pid)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._write()
        self._over = True
        if self._timer is not None:
            self._timer.cancel()
        with anyio.CancelScope(shield=True):
            await self._child.end(self._stdin, self._limits, self._log)
            await self._watchdog.dismiss(self._limits.kill_grace)
        self._stderr.end(self._log)

    def send(self, message: dict[str, Any], request_id: int | None = None) -> None:
        """Write one line. A child that does not read loses its session before it takes our memory."""
        if self._over:
            return
        if not self._unwritten:
            self._loop.call_soon(self._write)
        self._unwritten.append(encode(message))

    def _write(self) -> None:
        """Write what was sent since the loop last came by: one system call, and one wake of the child, for all."""
        lines, self._unwritten = self._unwritten, []
        if self._over or self._stdin.is_closing():
            return
        lines.append(b"")
        self._stdin.write(b"\n".join(lines))
        if self._stdin.get_write_buffer_size() > self._limits.max_unsent:
            self._lose(f"does not read its input; {self._limits.max_unsent} bytes wait for it")

    def drop(self, request_id: int) -> None:
        """Nothing to free."""

    async def negotiated(self, version: str) -> None:
        """Nothing to do: one stream for all versions."""

    async def ready(self, ping: Ping) -> None:
        """Nothing to do: the channel has been there from the start."""

    # --- asyncio.SubprocessProtocol ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The child runs; comes before all other callbacks."""
        process = cast("asyncio.SubprocessTransport", transport)
        self._child = Child(process, self._exited)
        self._stdin = cast("asyncio.WriteTransport", process.get_pipe_transport(0))

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        """Bytes from stdout (1) or stderr (2)."""
        if fd == 2:
            self._stderr.feed(data)
            return
        if self._over:
            return
        before = self._stdout.overlong
        for line in self._stdout.feed(data):
            self._line(line)
        if self._stdout.overlong > before:
            self._log.warning("skipped a message of more than %d bytes", self._limits.max_message)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        """The child closed one of its streams, or all of them by exiting."""
        if fd == 1:
            self._stdout_open = False
            for line in self._stdout.flush():
                self._line(line)
        if fd in (0, 1) and not self._over:
            if self._exited.is_set() and fd == 1:
                self._lose_by_exit()
            elif self._timer is None:
                stream = "output" if fd == 1 else "input"
                self._timer = self._loop.call_later(_EXIT_WAIT, self._lose, f"closed its standard {stream}")

    def process_exited(self) -> None:
        """The child is gone; what it wrote before may still be in the pipe."""
        self._exited.set()
        if self._over:
            return
        if self._timer is not None:
            self._timer.cancel()
        if self._stdout_open:
            self._timer = self._loop.call_later(_DRAIN, self._lose_by_exit)
        else:
            self._lose_by_exit()

    # --- inside ---

    def _line(self, line: bytes) -> None:
        if not line or line.isspace():
            return
        try:
            value = decode(line)
        except ValueError:
            value = None
        found = messages(value)
        for message in found:
            self._receiver.received(message)
        if not found and (request_id := answered_id(line)) is not None:
            why = f"The server {self._name!r} answered with a message that cannot be read."
            self._receiver.request_lost(request_id, why, processed=True)
        if not found or (isinstance(value, list) and len(found) < len(value)):
            self._stray(line)

    def _stray(self, line: bytes) -> None:
        if not self._warned:
            self._warned = True
            self._log.warning("prints lines on its standard output that are not messages (shown at debug)")
        if self._log.isEnabledFor(logging.DEBUG):
            self._log.debug("stdout: %s", describe(line))

    def _lose_by_exit(self) -> None:
        self._lose(ending(self._child.returncode))

    def _lose(self, what: str) -> None:
        if self._over:
            return
        self._over = True
        self._stderr.end(self._log)
        last = self._stderr.last()
        self._log.warning("%s%s", what, f"; its last lines on stderr: {last}" if last else "")
        self._receiver.lost(f"The server {self._name!r} {what}.")


class Stderr:
    """What a server says on stderr, to the log at info: line by line, cut at 4 KiB, at most 200 lines a second."""

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._framer = LineFramer(_STDERR_LINE, keep_head=True)
        self._kept: deque[str] = deque(maxlen=_STDERR_KEPT)
        self._second = 0
        self._in_second = 0
        self._left_out = 0

    def feed(self, data: bytes) -> None:
        """Bytes as they come."""
        for line in self._framer.feed(data):
            self._say(line)

    def end(self, log: logging.Logger) -> None:
        """No more is expected."""
        for line in self._framer.flush():
            self._say(line)
        self._tell_left_out()

    def last(self) -> str:
        """The last lines, as one."""
        return " | ".join(self._kept)

    def _say(self, line: bytes) -> None:
        text = printable(line, _STDERR_LINE)
        if not text.strip():
            return
        self._kept.append(text)
        second = int(asyncio.get_running_loop().time())
        if second != self._second:
            self._tell_left_out()
            self._second, self._in_second = second, 0
        self._in_second += 1
        if self._in_second > _STDERR_RATE:
            self._left_out += 1
        else:
            self._log.info("stderr: %s", text)

    def _tell_left_out(self) -> None:
        if self._left_out:
            self._log.info("stderr: %d more lines in one second, not shown", self._left_out)
            self._left_out = 0


def _program(target: StdioTarget) -> str:
    """The program to run, or the sentence that says why it cannot be."""
    if not target.command:
        raise CannotStart("No command was given to start the server with.")
    if target.cwd is not None and not Path(target.cwd).is_dir():
        raise CannotStart(f"The working directory {target.cwd!r} does not exist; create it or set another one.")
    name = target.command[0]
    if os.sep in name or (os.altsep is not None and os.altsep in name):
        return name
    found = which(name, path=target.env.get("PATH", os.defpath))
    if found is None:
        raise CannotStart(
            f"The command {name!r} was not found on the PATH that the server would get; "
            "install it, or give its full path."
        )
    return found


def _why(target: StdioTarget, error: Exception) -> str:
    name = target.command[0]
    match error:
        case FileNotFoundError():
            return f"The command {name!r} does not exist; check its path, which starts at the working directory."
        case PermissionError():
            return f"The command {name!r} may not be run; make the file executable, or name its interpreter first."
        case OSError():
            return f"The command {name!r} could not be started: {error.strerror or type(error).__name__}."
        case _:
            return f"The command {name!r} could not be started: an argument or a variable holds a zero byte."
