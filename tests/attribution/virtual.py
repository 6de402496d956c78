"""An event loop whose time passes only when nothing is left to do: an hour of waiting costs nothing.

With it `time.monotonic` has to be the loop's time too (see `running`), since the bridge looks at both.
"""

from __future__ import annotations

import asyncio
import heapq
import time
from collections.abc import Coroutine
from typing import Any
from unittest.mock import patch


class VirtualLoop(asyncio.SelectorEventLoop):
    """Jumps to the next timer instead of waiting for it. Nothing real may be waited for on it."""

    def __init__(self) -> None:
        super().__init__()
        self._now = 1000.0

    def time(self) -> float:
        return self._now

    def _run_once(self) -> None:
        loop: Any = self
        timers = loop._scheduled
        while timers and timers[0]._cancelled:
            loop._timer_cancelled_count -= 1
            heapq.heappop(timers)._scheduled = False
        if not loop._ready:
            if not timers and not loop._stopping:
                raise RuntimeError("everything waits for ever")
            if timers:
                self._now = max(self._now, timers[0]._when)
        super()._run_once()  # type: ignore[misc]


def run(main: Coroutine[Any, Any, None]) -> None:
    """Run to the end, in virtual time."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        loop = runner.get_loop()
        with patch.object(time, "monotonic", loop.time):
            runner.run(main)
