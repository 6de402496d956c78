"""A server in this process, over two streams of messages, for tests: no bytes, no process.

The streams are anyio's memory streams, or anything with the same ``async for`` and ``send``. They carry plain dicts, or
objects whose ``message`` is one or is a pydantic model, as the official SDK's do; nothing of an SDK is imported here.
Messages are copied, so that no side sees what the other changes later.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import anyio
from anyio import AsyncContextManagerMixin

from legacy.errors import CannotStart
from legacy.targets import Limits, MemoryTarget
from legacy.transports.base import Ping, Receiver
from legacy.wire import blame, decode, encode, messages

_MOST_UNREAD = 10_000
"""A server that leaves more messages than this unread has stalled."""


class MemoryTransport(AsyncContextManagerMixin):
    """One connection.

    Invariant: both of its tasks end in its exit, and the target's own context after them.
    """

    unlabelled = True
    repeats = False
    keeps_session = True
    url = None
    kind = "memory"

    def __init__(self, target: MemoryTarget, name: str, limits: Limits) -> None:
        self._target = target
        self._name = name
        self._limits = limits
        self._log = logging.getLogger(f"mrtr.server.{name}")
        self._receiver: Receiver
        self._queue, self._queued = anyio.create_memory_object_stream[bytes](float("inf"))

    def attach(self, receiver: Receiver) -> None:
        """Who receives."""
        self._receiver = receiver

    @asynccontextmanager
    async def __asynccontextmanager__(self) -> AsyncGenerator[MemoryTransport]:
        async with AsyncExitStack() as connection:
            try:
                read, write = await connection.enter_async_context(self._target.connect())
            except Exception as error:
                raise CannotStart(f"The server {self._name!r} could not be started here: {blame(error)}.") from error
            try:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(self._receive, read)
                    tasks.start_soon(self._send, write)
                    try:
                        yield self
                    finally:
                        tasks.cancel_scope.cancel()
            finally:
                self._queue.close()
                self._queued.close()

    def send(self, message: dict[str, Any], request_id: int | None = None) -> None:
        """Have a message put on the server's stream. What cannot be written any more is dropped with the session."""
        try:
            self._queue.send_nowait(encode(message))
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            return

    def drop(self, request_id: int) -> None:
        """Nothing is held for a request here."""

    async def negotiated(self, version: str) -> None:
        """Nothing depends on it here."""

    async def ready(self, ping: Ping) -> None:
        """Everything is in place from the beginning."""

    async def _send(self, write: Any) -> None:
        with self._queued:
            async for data in self._queued:
                if self._queued.statistics().current_buffer_used > _MOST_UNREAD:
                    self._receiver.lost(f"The server {self._name!r} takes no messages; it may have stalled.")
                    return
                try:
                    await write.send(self._target.wrap(decode(data)))
                except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                    return  # the reader says why
                except Exception as error:
                    self._log.error("a message could not be given to the server: %s", blame(error))

    async def _receive(self, read: Any) -> None:
        end = "closed its stream"
        try:
            async for item in read:
                self._deliver(item)
        except Exception as error:
            end = f"broke off ({type(error).__name__})"
        self._receiver.lost(f"The server {self._name!r} in this process {end}.")

    def _deliver(self, item: Any) -> None:
        if isinstance(item, Exception):
            self._log.debug("the server's stream reported a %s", type(item).__name__)
            return
        try:
            found = messages(decode(encode(_plain(item))))
        except ValueError as error:  # no JSON, as pydantic says it too
            self._log.warning("ignored something that is no message: %s", blame(error))
            return
        for message in found:
            self._receiver.received(message)


def _plain(item: Any) -> Any:
    """A message as a dict."""
    item = getattr(item, "message", item)
    dump = getattr(item, "model_dump", None)
    return item if dump is None else dump(by_alias=True, mode="json", exclude_none=True)
