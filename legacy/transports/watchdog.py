"""Ends a server's process group when the bridge itself dies without having had the time to.

Killed outright, the bridge cannot signal anybody; most servers end with their input, some do not, and their children
need not notice at all. So each child is watched by a shell that waits at a pipe which only the bridge holds: a word on
it means that all is done, its end means that the bridge is gone, and then the group is ended within two seconds. The
watchdog is there before the child, and learns whom to watch in the moment the child is. POSIX only; without a shell
there is no watchdog.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys

import anyio

from legacy.transports.process import pipe_of, start, when_exited

_SHELL = "/bin/sh"
_SCRIPT = """
read -r group || exit 0
read -r word && exit 0
sleep 0.5 2>/dev/null || sleep 1
kill -s TERM -- "-$group" 2>/dev/null || exit 0
kill -s CONT -- "-$group" 2>/dev/null
sleep 0.8 2>/dev/null || sleep 1
kill -s KILL -- "-$group" 2>/dev/null
"""
"""Without a word at all it ends at once. (Not every `sleep` knows fractions.)"""


class Watchdog:
    """The shell that watches one process group.

    Invariant: started, it ends by `dismiss` or by doing its work.
    """

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._exited = anyio.Event()
        self._process: subprocess.Popen[bytes] | None = None
        self._watching = False

    def start(self) -> None:
        """Be there, before there is anything to watch."""
        if sys.platform == "win32":
            return
        command = (_SHELL, "-c", _SCRIPT, "watchdog")
        null = subprocess.DEVNULL
        try:
            self._process = start(command, env={"PATH": "/usr/bin:/bin"}, cwd="/", stdout=null, stderr=null)
        except OSError as error:
            self._log.debug("no watchdog for the server's processes: %s", error.strerror)
            return
        when_exited(self._process, self._exited.set)

    def watch(self, group: int) -> None:
        """This is the group."""
        self._watching = True
        self._tell(b"%d\n" % group)

    async def dismiss(self, seconds: float) -> None:
        """The group has ended, or was never begun."""
        if self._process is None:
            return
        if self._watching:
            self._tell(b"done\n")
        pipe_of(self._process.stdin).close()
        with anyio.move_on_after(seconds):
            await self._exited.wait()
        if not self._exited.is_set():
            self._process.kill()  # stopped, perhaps; its work is done
            with anyio.move_on_after(seconds):
                await self._exited.wait()

    def _tell(self, line: bytes) -> None:
        if self._process is not None:
            try:
                os.write(pipe_of(self._process.stdin).fileno(), line)
            except OSError:
                self._log.debug("the watchdog of the server's processes is gone")
