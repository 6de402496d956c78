"""The wires under `bench_drivers`: a child's pipes, and keep-alive HTTP/1.1 connections."""

from __future__ import annotations

import asyncio
import os
import re
import signal
from contextlib import suppress
from typing import Any, cast

from bench_drivers import Exchange, Sample, Slots, Wrong
from pydantic_core import from_json, to_json

_URL = re.compile(rb"http://(127\.0\.0\.1):(\d+)/mcp")
_START_SECONDS = 30
_ID = re.compile(rb'"id": ?"?(?:ask-)?(\d+)')


class Child(asyncio.SubprocessProtocol):
    """A process of ours in its own group, with lines from its stdout and its stderr kept for when it breaks."""

    def __init__(self) -> None:
        self.slots: Slots | None = None
        self.running: dict[int, tuple[int, float]] = {}
        self.answers: asyncio.Queue[bytes] = asyncio.Queue()
        self.stderr = bytearray()
        self.told = asyncio.Event()
        self.gone = asyncio.Event()
        self.transport: asyncio.SubprocessTransport = cast(Any, None)
        self.stdin: asyncio.WriteTransport = cast(Any, None)
        self._rest = b""

    @classmethod
    async def start(cls, *command: str, cwd: str | None = None) -> Child:
        loop = asyncio.get_running_loop()
        _, child = await loop.subprocess_exec(cls, *command, cwd=cwd, start_new_session=True)
        return child

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.SubprocessTransport, transport)
        self.stdin = cast(asyncio.WriteTransport, self.transport.get_pipe_transport(0))

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd == 2:
            self.stderr += data
            self.told.set()
            return
        *lines, self._rest = (self._rest + data).split(b"\n")
        if self.slots is None:
            for one in lines:
                self.answers.put_nowait(one)
            return
        out = b"".join(filter(None, map(self._answer, lines)))
        if out:
            self.stdin.write(out)

    def process_exited(self) -> None:
        self.gone.set()
        self.told.set()
        if self.slots is not None:
            self.slots.fail(Wrong(f"The process ended: {self.said()}"))

    def _answer(self, answer: bytes) -> bytes | None:
        if (slots := self.slots) is None or (found := _ID.search(answer)) is None:
            return None
        try:
            number, began = self.running.pop(int(found[1]) & ~1)
            more = slots.step(number, began, answer)
        except (KeyError, Wrong) as error:
            slots.fail(error if isinstance(error, Wrong) else Wrong(f"Nobody waits for {answer[:300]!r}."))
            return None
        if more is not None:
            self.running[number] = (number, began)
            return more
        return self._begin()

    def _begin(self) -> bytes | None:
        if self.slots is None or (begun := self.slots.begin()) is None:
            return None
        number, began, message = begun
        self.running[number] = (number, began)
        return message

    async def measure(self, exchange: Exchange, width: int, seconds: float, most: int | None = None) -> Sample:
        self.slots = Slots(exchange, width, seconds, most)
        try:
            self.stdin.write(b"".join(filter(None, (self._begin() for _ in range(width)))))
            return await asyncio.wait_for(self.slots.done, seconds + 30)
        except TimeoutError:
            raise Wrong(f"The calls did not end: {self.said()}") from None
        finally:
            self.slots = None
            self.running.clear()

    async def handshake(self) -> None:
        """Make a legacy session of a bare server."""
        params = {
            "protocolVersion": "2025-06-18",
            "capabilities": {"elicitation": {}},
            "clientInfo": {"name": "bench", "version": "1.0.0"},
        }
        first = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
        self.stdin.write(to_json(first) + b"\n")
        answer = from_json(await asyncio.wait_for(self.answers.get(), _START_SECONDS))
        if "result" not in answer:
            raise Wrong(f"The handshake failed: {answer}")
        self.stdin.write(to_json({"jsonrpc": "2.0", "method": "notifications/initialized"}) + b"\n")

    async def address(self) -> tuple[str, int]:
        """Where it listens, as its stderr says."""
        async with asyncio.timeout(_START_SECONDS):
            while (found := _URL.search(self.stderr)) is None:
                if self.gone.is_set():
                    raise Wrong(f"The process ended before it listened: {self.said()}")
                self.told.clear()
                await self.told.wait()
        return found[1].decode(), int(found[2])

    def said(self) -> str:
        return bytes(self.stderr[-2000:]).decode(errors="replace").strip() or "(nothing on stderr)"

    async def stop(self, *, at_once: bool = False) -> None:
        """End it and everything it started; ``at_once`` for one that does not end when its stdin does."""
        pid = self.transport.get_pid()
        self.slots = None
        self.stdin.close()
        for number, patience in ((signal.SIGTERM, 0 if at_once else 3), (signal.SIGKILL, 8)):
            try:
                await asyncio.wait_for(self.gone.wait(), patience)
                break
            except TimeoutError:
                with suppress(ProcessLookupError):
                    os.killpg(pid, number)
        await self.gone.wait()
        self.transport.close()


class Connection(asyncio.Protocol):
    """One slot over HTTP: request, answer, request."""

    def __init__(self, slots: Slots) -> None:
        self._slots = slots
        self._buffer = b""
        self._body_at = self._ends_at = 0
        self._number = 0
        self._began = 0.0
        self.transport: asyncio.Transport = cast(Any, None)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def begin(self) -> None:
        if (begun := self._slots.begin()) is None:
            return
        self._number, self._began, message = begun
        self.transport.write(message)

    def data_received(self, data: bytes) -> None:
        self._buffer = buffer = self._buffer + data if self._buffer else data
        if not self._ends_at:
            split = buffer.find(b"\r\n\r\n")
            if split < 0:
                return
            head = buffer[:split].lower()
            length_at = head.find(b"\r\ncontent-length:")
            if length_at < 0:
                self._slots.fail(Wrong(f"An answer without Content-Length: {buffer[:300].decode(errors='replace')}"))
                return
            self._body_at = split + 4
            self._ends_at = self._body_at + int(head[length_at + 17 :].split(b"\r\n", 1)[0])
        if len(buffer) < self._ends_at:
            return
        answer = buffer[self._body_at : self._ends_at]
        self._buffer, self._ends_at = b"", 0
        try:
            more = self._slots.step(self._number, self._began, answer)
        except Wrong as error:
            self._slots.fail(error)
            return
        if more is not None:
            self._number += 1
            self.transport.write(more)
        else:
            self.begin()

    def connection_lost(self, error: Exception | None) -> None:
        self._slots.fail(Wrong(f"A connection was closed: {error or 'end of stream'}"))


async def measure_http(
    address: tuple[str, int], exchange: Exchange, width: int, seconds: float, most: int | None = None
) -> Sample:
    """Drive an HTTP server by ``width`` connections."""
    loop = asyncio.get_running_loop()
    slots = Slots(exchange, width, seconds, most)
    made = [await loop.create_connection(lambda: Connection(slots), *address) for _ in range(width)]
    try:
        slots.restart()
        for _, connection in made:
            connection.begin()
        return await asyncio.wait_for(slots.done, seconds + 30)
    except TimeoutError:
        raise Wrong("The calls did not end.") from None
    finally:
        for transport, _ in made:
            transport.close()
