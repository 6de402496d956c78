"""What is POSTed and gets no answer: our answers to asks, refusals, notifications (2025-11-25 basic/transports).

In order, one after the other is acknowledged; but not for ever: a server may acknowledge an answer only when it has
the next one. A failure is logged, and never tried again, since the server may have taken it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

import anyio
import httpx
from anyio.abc import TaskGroup

from legacy.errors import Unsent
from legacy.targets import Limits
from legacy.transports.http_endpoint import Endpoint
from legacy.transports.http_wire import status_line
from legacy.wire import blame

_Push = tuple[bytes, str, anyio.Event]


class Pushes:
    """The queue of one session.

    Invariant: ``_latest`` is set when nothing is queued or on its way; ``unsent`` is the size of what is.
    """

    def __init__(
        self, endpoint: Endpoint, tasks: TaskGroup, limits: Limits, log: logging.Logger, gone: Callable[[], None]
    ) -> None:
        self.unsent = 0
        self._endpoint = endpoint
        self._tasks = tasks
        self._limits = limits
        self._log = log
        self._gone = gone
        self._latest = anyio.Event()
        self._latest.set()
        self._queue, self._queued = anyio.create_memory_object_stream[_Push](float("inf"))

    def put(self, body: bytes, method: str) -> None:
        """Have it sent."""
        self.unsent += len(body)
        self._latest = anyio.Event()
        self._queue.send_nowait((body, method, self._latest))

    async def flushed(self, seconds: float) -> None:
        """Until what was put last was acknowledged or has failed, at most ``seconds``."""
        with anyio.move_on_after(seconds):
            await self._latest.wait()

    async def run(self) -> None:
        """Send, until cancelled."""
        with self._queue, self._queued:
            async for body, method, done in self._queued:
                self._tasks.start_soon(self._push, body, method, done)
                with anyio.move_on_after(self._limits.order_wait):
                    await done.wait()

    async def _push(self, body: bytes, method: str, done: anyio.Event) -> None:
        try:
            with anyio.fail_after(self._limits.post_wait):
                async with self._endpoint.open("POST", body) as response:
                    if response.is_success:
                        return
                    refusal = await self._endpoint.body(response)
                    if self._endpoint.forgot(response.status_code, refusal):
                        self._gone()
                    self._log.warning("the server answered %s with HTTP %s", method, status_line(response))
        except (httpx.RequestError, Unsent, TimeoutError) as error:
            self._log.warning("%s may not have reached the server: %s", method, type(error).__name__)
        except Exception as error:
            self._log.error("%s failed here: %s", method, blame(error))
        finally:
            self.unsent -= len(body)
            done.set()
