"""A server that is a child process: JSON-RPC lines on its stdin and stdout (2025-11-25 basic/transports, stdio).

The hot path is a chain of callbacks, with no task, queue or await per message: bytes from the pipe, lines, a JSON
value, the session. What a server prints that is no message goes to the log and harms nobody. How processes are started
and ended is in `legacy.transports.process`.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from shutil import which
from types import TracebackType
from typing import IO, Any, Final

import anyio

from legacy.errors import CannotStart
from legacy.framing import LineFramer
from legacy.targets import Limits, StdioTarget
from legacy.transports.base import Ping, Receiver
from legacy.transports.process import Child, ending, pipe_of, start, when_exited
from legacy.transports.stderr import Stderr
from legacy.transports.watchdog import Watchdog
from legacy.wire import answered_id, decode, describe, encode, in_wide_characters, messages

_DRAIN: Final = 0.3
"""After the exit of the child, for what it had written before; grandchildren may hold the pipes open."""
_EXIT_WAIT: Final = 0.5
"""After the end of stdin or stdout, for the exit status that says why."""
_STDERR: Final = "standard error"


class StdioTransport:
    """One child process.

    Invariants: the process, and its process group, exist only between ``__aenter__`` and ``__aexit__``. `Receiver.lost`
    is called at most once, from the event loop, never from inside `send`.
    """

    unlabelled = True
    repeats = False
    keeps_session = True
    url = None
    kind = "stdio"

    def __init__(self, target: StdioTarget, name: str, limits: Limits) -> None:
        self._target = target
        self._name = name
        self._limits = limits
        self._log = logging.getLogger(f"mrtr.server.{name}")
        self._receiver: Receiver
        self._lines = LineFramer(limits.max_message)
        self._stderr = Stderr(self._log)
        self._child: Child
        self._watchdog = Watchdog(self._log)
        self._stdin: asyncio.WriteTransport
        self._outputs: list[asyncio.ReadTransport] = []
        self._loop: asyncio.AbstractEventLoop
        self._input_open = True
        self._open: set[str] = set()
        """Its outputs that have not ended."""
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
        command = (program, *self._target.command[1:])
        self._watchdog.start()
        try:
            process = start(command, env=self._target.env, cwd=self._target.cwd)
        except (OSError, ValueError) as error:
            with anyio.CancelScope(shield=True):
                await self._watchdog.dismiss(self._limits.kill_grace)
            raise CannotStart(_why(self._target, error)) from error
        self._watchdog.watch(process.pid)
        self._child = Child(process, self._exited)
        when_exited(process, self._process_exited)
        # Shielded: half-connected, it would not be ended.
        with anyio.CancelScope(shield=True):
            pipes = [pipe_of(stream) for stream in (process.stdin, process.stdout, process.stderr)]
            try:
                await self._connect(*pipes)
            except OSError as error:
                self._over = True
                for output in self._outputs:
                    output.close()
                await self._child.end(partial(_close, pipes), self._limits, self._log)
                await self._watchdog.dismiss(self._limits.kill_grace)
                raise CannotStart(_why(self._target, error)) from error
        self._log.debug("started process %d", process.pid)
        return self

    async def _connect(self, stdin: IO[bytes], stdout: IO[bytes], stderr: IO[bytes]) -> None:
        self._stdin, _ = await self._loop.connect_write_pipe(lambda: _Input(self._closed_input), stdin)
        for pipe, take, what in ((stdout, self._take, "standard output"), (stderr, self._stderr.feed, _STDERR)):
            self._open.add(what)
            output, _ = await self._loop.connect_read_pipe(partial(_Output, take, partial(self._ended, what)), pipe)
            self._outputs.append(output)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._write()
        self._over = True
        if self._timer is not None:
            self._timer.cancel()
        with anyio.CancelScope(shield=True):
            await self._child.end(self._stdin.close, self._limits, self._log)
            await self._watchdog.dismiss(self._limits.kill_grace)
        if self._input_open:
            self._stdin.abort()
        for output in self._outputs:
            output.close()
        self._stderr.end()

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

    # --- what the process does ---

    def _take(self, data: bytes) -> None:
        """Bytes from stdout."""
        if self._over:
            return
        before = self._lines.overlong
        for line in self._lines.feed(data):
            self._line(line)
        if self._lines.overlong > before:
            self._log.warning("skipped a message of more than %d bytes", self._limits.max_message)

    def _closed_input(self) -> None:
        self._input_open = False
        self._going("closed its standard input")

    def _ended(self, what: str) -> None:
        """The child closed one of its outputs, or both by exiting."""
        self._open.discard(what)
        if what == _STDERR:
            self._stderr.end()
        else:
            for line in self._lines.flush():
                self._line(line)
        if self._exited.is_set():
            if not self._open:
                self._lose_by_exit()
        elif what != _STDERR:
            self._going(f"closed its {what}")

    def _going(self, what: str) -> None:
        """It cannot be talked to any more; most likely it is exiting, and its exit status says more."""
        if self._timer is None and not self._over:
            self._timer = self._loop.call_later(_EXIT_WAIT, self._lose, what)

    def _process_exited(self) -> None:
        """The child is gone; what it wrote before may still be in the pipes."""
        self._exited.set()
        if self._over:
            return
        if self._timer is not None:
            self._timer.cancel()
        if self._open:
            self._timer = self._loop.call_later(_DRAIN, self._lose_by_exit)
        else:
            self._lose_by_exit()

    # --- inside ---

    def _line(self, line: bytes) -> None:
        if self._over or not line or line.isspace():
            return
        try:
            value = decode(line)
        except ValueError:
            value = None
        found = messages(value)
        for message in found:
            self._receiver.received(message)
        if not found:
            self._no_message(line)
        elif isinstance(value, list) and len(found) < len(value):
            self._stray(line)

    def _no_message(self, line: bytes) -> None:
        if in_wide_characters(line):
            self._lose("writes UTF-16 or UTF-32 where the protocol wants UTF-8; set the encoding of its output")
            return
        if (request_id := answered_id(line)) is not None:
            why = f"The server {self._name!r} answered with a message that cannot be read."
            self._receiver.request_lost(request_id, why, processed=True)
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
        self._stderr.end()
        self._log.warning("%s", what)
        for line in self._stderr.unseen():
            self._log.warning("its last lines on stderr: %s", line)
        self._receiver.lost(f"The server {self._name!r} {what}.")


class _Input(asyncio.Protocol):
    """The child's stdin: only its end is of interest."""

    def __init__(self, ended: Callable[[], None]) -> None:
        self._ended = ended

    def connection_lost(self, exc: Exception | None) -> None:
        self._ended()


class _Output(asyncio.Protocol):
    """The child's stdout or stderr."""

    __slots__ = ("_ended", "data_received")

    def __init__(self, take: Callable[[bytes], None], ended: Callable[[], None]) -> None:
        self.data_received = take  # type: ignore[method-assign, assignment]  # no call in between
        self._ended = ended

    def connection_lost(self, exc: Exception | None) -> None:
        self._ended()


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


def _close(pipes: Iterable[IO[bytes]]) -> None:
    for pipe in pipes:
        pipe.close()


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
