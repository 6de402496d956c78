"""Bytes in and out of file descriptors, for the stdio face: pipes by the event loop, anything else by a thread.

A regular file, a terminal and everything on Windows cannot be waited for by the event loop, so a daemon thread reads or
writes there, one piece at a time; one that hangs in a read or write is left behind when the face ends. Descriptors are
duplicated, and the mode in which they were found is put back at the end: others may share them.
"""

from __future__ import annotations

import asyncio
import os
import queue
import stat
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final, Protocol

_PIECE: Final = 256 * 1024
_HIGH: Final = 64 * 1024


class Source(Protocol):
    """Where bytes come from."""

    def pause(self) -> None: ...
    def resume(self) -> None: ...
    def close(self) -> None: ...


class Sink(Protocol):
    """Where whole lines go, in order; it calls back when there is room again and when nobody reads any more."""

    @property
    def full(self) -> bool: ...
    def write(self, data: bytes) -> None: ...
    async def close(self, within: float) -> None:
        """Write out what was taken, for at most so many seconds."""


async def open_source(fd: int, on_data: Callable[[bytes], None], on_end: Callable[[], None]) -> Source:
    """Read ``fd`` until its end."""
    loop = asyncio.get_running_loop()
    if _can_be_polled(fd):
        file = os.fdopen(os.dup(fd), "rb", 0)
        _, protocol = await loop.connect_read_pipe(lambda: _PipeSource(on_data, on_end), file)
        return protocol
    return _ThreadSource(os.dup(fd), loop, on_data, on_end)


async def open_sink(fd: int, on_room: Callable[[], None], on_broken: Callable[[], None]) -> Sink:
    """Write to ``fd``."""
    loop = asyncio.get_running_loop()
    if _can_be_polled(fd):
        file = os.fdopen(os.dup(fd), "wb", 0)
        _, protocol = await loop.connect_write_pipe(lambda: _PipeSink(on_room, on_broken), file)
        return protocol
    return _ThreadSink(os.dup(fd), loop, on_room, on_broken)


@contextmanager
def as_found(*fds: int) -> Iterator[None]:
    """Put the blocking mode of ``fds`` back at the end; the event loop changes it, for everybody who shares them."""
    modes = {fd: os.get_blocking(fd) for fd in fds} if os.name != "nt" else {}
    try:
        yield
    finally:
        for fd, blocking in modes.items():
            with suppress(OSError):  # closed by its owner meanwhile
                os.set_blocking(fd, blocking)


@contextmanager
def kept_clean(stdout: int) -> Iterator[int]:
    """The descriptor to write messages to; meanwhile what anybody prints to ``stdout`` goes to stderr instead.

    Only the process's real stdout needs that: it MUST NOT carry anything that is not a message.
    """
    if stdout != 1:
        yield stdout
        return
    _flush()
    real = os.dup(1)
    try:
        try:
            os.dup2(2, 1)
        except OSError:  # there is no stderr
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, 1)
            os.close(null)
        try:
            yield real
        finally:
            _flush()  # what was printed meanwhile, and still is in Python's buffer, is none of the client's
            os.dup2(real, 1)
    finally:
        os.close(real)


def _flush() -> None:
    with suppress(OSError, ValueError, AttributeError):  # closed, or there is none
        sys.stdout.flush()


def _can_be_polled(fd: int) -> bool:
    mode = os.fstat(fd).st_mode
    return os.name != "nt" and (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode))


class _PipeSource(asyncio.Protocol):
    def __init__(self, on_data: Callable[[bytes], None], on_end: Callable[[], None]) -> None:
        self._on_data, self._on_end = on_data, on_end
        self._transport: asyncio.ReadTransport | None = None
        self._paused = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]  # uvloop's class has no common ancestor

    def data_received(self, data: bytes) -> None:
        self._on_data(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._on_end()

    def pause(self) -> None:
        if self._transport is not None and not self._paused:
            self._paused = True
            self._transport.pause_reading()

    def resume(self) -> None:
        if self._transport is not None and self._paused:
            self._paused = False
            self._transport.resume_reading()

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()


class _PipeSink(asyncio.Protocol):
    def __init__(self, on_room: Callable[[], None], on_broken: Callable[[], None]) -> None:
        self._on_room, self._on_broken = on_room, on_broken
        self._transport: asyncio.WriteTransport | None = None
        self._lost = asyncio.Event()
        self.full = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]
        transport.set_write_buffer_limits(high=_HIGH)  # type: ignore[attr-defined]

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._lost.set()
        self._on_broken()

    def pause_writing(self) -> None:
        self.full = True

    def resume_writing(self) -> None:
        self.full = False
        self._on_room()

    def write(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)

    async def close(self, within: float) -> None:
        if self._transport is None:
            return
        transport = self._transport
        transport.close()  # writes out its buffer first
        try:
            async with asyncio.timeout(within):
                await self._lost.wait()
        except TimeoutError:
            transport.abort()


class _ThreadSource:
    """Invariant: the thread reads the next piece only after the last one was taken and reading is not paused."""

    def __init__(
        self, fd: int, loop: asyncio.AbstractEventLoop, on_data: Callable[[bytes], None], on_end: Callable[[], None]
    ) -> None:
        self._fd, self._loop, self._on_data, self._on_end = fd, loop, on_data, on_end
        self._closed = self._paused = False
        self._next = threading.Event()
        self._next.set()
        threading.Thread(target=self._read, name="mcp-stdin", daemon=True).start()

    def pause(self) -> None:
        self._paused = True

    def resume(self) -> None:
        self._paused = False
        self._next.set()

    def close(self) -> None:
        self._closed = True
        self._next.set()

    def _read(self) -> None:
        try:
            while self._next.wait() and not self._closed:
                data = os.read(self._fd, _PIECE)
                if not data:
                    break
                self._next.clear()
                self._loop.call_soon_threadsafe(self._took, data)
        except OSError:
            pass  # what cannot be read any more has ended
        except RuntimeError:
            return  # the event loop has been closed under a read that did not end
        finally:
            os.close(self._fd)
        if not self._closed:
            self._loop.call_soon_threadsafe(self._on_end)

    def _took(self, data: bytes) -> None:
        if not self._closed:
            self._on_data(data)
        if not self._paused:
            self._next.set()


class _ThreadSink:
    """Invariant: ``_unwritten`` is the size of what the thread has not written yet; only the event loop changes it."""

    def __init__(
        self, fd: int, loop: asyncio.AbstractEventLoop, on_room: Callable[[], None], on_broken: Callable[[], None]
    ) -> None:
        self._fd, self._loop, self._on_room, self._on_broken = fd, loop, on_room, on_broken
        self._unwritten = 0
        self._pieces: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._done = asyncio.Event()
        threading.Thread(target=self._run, name="mcp-stdout", daemon=True).start()

    @property
    def full(self) -> bool:
        return self._unwritten > _HIGH

    def write(self, data: bytes) -> None:
        self._unwritten += len(data)
        self._pieces.put(data)

    async def close(self, within: float) -> None:
        self._pieces.put(None)
        try:
            async with asyncio.timeout(within):
                await self._done.wait()
        except TimeoutError:
            return  # the thread hangs in a write to somebody who does not read

    def _run(self) -> None:
        try:
            while (data := self._pieces.get()) is not None:
                rest = memoryview(data)
                while rest:
                    rest = rest[os.write(self._fd, rest) :]
                self._loop.call_soon_threadsafe(self._wrote, len(data))
        except OSError:
            pass  # nobody reads any more
        except RuntimeError:
            return  # the event loop has been closed under a write that did not end
        finally:
            os.close(self._fd)
        self._loop.call_soon_threadsafe(self._finished)

    def _wrote(self, size: int) -> None:
        was_full = self.full
        self._unwritten -= size
        if was_full and not self.full:
            self._on_room()

    def _finished(self) -> None:
        self._done.set()
        self._on_broken()
