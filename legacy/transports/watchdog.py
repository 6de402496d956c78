"""Ends a server's process group when the bridge itself dies without having had the time to.

Killed outright, the bridge cannot signal anybody; most servers end with their input, some do not, and their children
need not notice at all. So each child is watched by a shell that waits at a pipe which only the bridge holds: a word on
it means that all is done, its end means that the bridge is gone. POSIX only; without a shell there is no watchdog.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from typing import cast

import anyio

_SHELL = "/bin/sh"
_SCRIPT = """
read -r word && exit 0
sleep "$2"; kill -s TERM -- "-$1" 2>/dev/null || exit 0
sleep "$3"; kill -s KILL -- "-$1" 2>/dev/null
"""


class Watchdog(asyncio.SubprocessProtocol):
    """The shell that watches one process group.

    Invariant: started, it ends by `dismiss` or by doing its work.
    """

    def __init__(self) -> None:
        self._exited = anyio.Event()
        self._transport: asyncio.SubprocessTransport | None = None

    async def start(self, group: int, eof_grace: float, term_grace: float, log: logging.Logger) -> None:
        """Watch over ``group``."""
        if sys.platform == "win32":
            return
        graces = (str(max(1, round(seconds))) for seconds in (eof_grace, term_grace))
        try:
            self._transport, _ = await asyncio.get_running_loop().subprocess_exec(
                lambda: self,
                _SHELL,
                "-c",
                _SCRIPT,
                "watchdog",
                str(group),
                *graces,
                env={"PATH": "/usr/bin:/bin"},
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError as error:
            log.debug("no watchdog for process group %d: %s", group, error.strerror)

    async def dismiss(self, seconds: float) -> None:
        """The group has ended."""
        if self._transport is None:
            return
        stdin = cast("asyncio.WriteTransport", self._transport.get_pipe_transport(0))
        stdin.write(b"done\n")
        with anyio.move_on_after(seconds):
            await self._exited.wait()
        self._transport.close()

    def process_exited(self) -> None:
        """As asyncio tells it."""
        self._exited.set()
