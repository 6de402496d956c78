"""Bytes in and out of two file descriptors: pipes by the event loop, anything else (a file, Windows) by threads."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import Any, Protocol

import anyio
import anyio.to_thread

MOST_UNSENT = 8 * 1024 * 1024
"""Bytes that wait for a reader; above this `Output.ready` waits."""


class Output(Protocol):
    """Where whole lines go."""

    @property
    def broken(self) -> bool:
        """Nobody reads any more."""

    @property
    def congested(self) -> bool:
        """The reader is far behind."""

    def write(self, data: bytes) -> None: ...

    async def ready(self) -> None:
        """Until the reader has caught up."""

    async def close(self) -> None:
        """Write out what waits, in bounded time."""


class PipeOutput(asyncio.BaseProtocol):
    """An `Output` on a pipe."""

    def __init__(self) -> None:
        self.broken = False
        self._may_write = asyncio.Event()
        self._may_write.set()
        self._lost = asyncio.Event()
        self._transport: asyncio.WriteTransport | None = None

    @property
    def congested(self) -> bool:
        return not self._may_write.is_set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport) or hasattr(transport, "write")
        self._transport = transport  # type: ignore[assignment]
        self._transport.set_write_buffer_limits(high=MOST_UNSENT)  # type: ignore[union-attr]

    def pause_writing(self) -> None:
        self._may_write.clear()

    def resume_writing(self) -> None:
        self._may_write.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self.broken = True
        self._may_write.set()
        self._lost.set()

    def write(self, data: bytes) -> None:
        if self._transport is not None and not self.broken:
            self._transport.write(data)

    async def ready(self) -> None:
        await self._may_write.wait()

    async def close(self) -> None:
        if self._transport is None:
            return
        self._transport.close()
        with anyio.move_on_after(2):
            await self._lost.wait()
        if not self._lost.is_set():
            self._transport.abort()


class ThreadOutput:
    """An `Output` on anything else: writes block, so they come one after the other from a thread."""

    def __init__(self, fd: int) -> None:
        self.broken = False
        self.congested = False
        self._fd = fd

    def write(self, data: bytes) -> None:
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(self._fd, view) :]
        except OSError:
            self.broken = True

    async def ready(self) -> None:
        return

    async def close(self) -> None:
        return


class _Input(asyncio.Protocol):
    def __init__(self, on_data: Callable[[bytes], None], on_end: Callable[[], None]) -> None:
        self._on_data = on_data
        self._on_end = on_end

    def data_received(self, data: bytes) -> None:
        self._on_data(data)

    def eof_received(self) -> bool | None:
        return None

    def connection_lost(self, exc: Exception | None) -> None:
        self._on_end()


async def read_pipe(fd: int, on_data: Callable[[bytes], None], on_end: Callable[[], None]) -> Any | None:
    """Read ``fd`` by the event loop; its transport, or None where the loop cannot."""
    loop = asyncio.get_running_loop()
    file = os.fdopen(fd, "rb", 0, closefd=False)
    try:
        transport, _ = await loop.connect_read_pipe(lambda: _Input(on_data, on_end), file)
    except (ValueError, OSError, NotImplementedError):
        return None
    return transport


async def read_by_thread(fd: int, on_data: Callable[[bytes], None], on_end: Callable[[], None]) -> None:
    """Read ``fd`` from a thread until it ends. A read that never returns is left behind on cancellation."""
    try:
        while data := await anyio.to_thread.run_sync(os.read, fd, 65536, abandon_on_cancel=True):
            on_data(data)
    except OSError:
        pass  # a descriptor that cannot be read any more has ended
    on_end()


async def write_pipe(fd: int) -> Output:
    """An output on ``fd``."""
    loop = asyncio.get_running_loop()
    try:
        _, protocol = await loop.connect_write_pipe(PipeOutput, os.fdopen(fd, "wb", 0, closefd=False))
    except (ValueError, OSError, NotImplementedError):
        return ThreadOutput(fd)
    return protocol
