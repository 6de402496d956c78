"""Ending a child process and whatever it has started, in bounded time (2025-11-25 basic/lifecycle, shutdown: stdio).

End of stdin, then SIGTERM, then SIGKILL, each after a grace. On POSIX the child leads a process group of its own, and
signals go to the group, because ``npx`` starts ``sh``, which starts ``node``: the child's own exit proves nothing about
the others. On Windows there are no such groups; ``taskkill /T`` is the best there is.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys

import anyio

from legacy.targets import Limits

_POLL = 0.02


class Child:
    """A started process.

    Invariant: after `end` has returned neither the process nor its group exists, or a warning has said so.
    """

    def __init__(self, transport: asyncio.SubprocessTransport, exited: anyio.Event) -> None:
        self._transport = transport
        self._exited = exited
        self.pid = transport.get_pid()

    @property
    def returncode(self) -> int | None:
        """As `subprocess` has it; None while it runs."""
        return self._transport.get_returncode()

    async def end(self, stdin: asyncio.WriteTransport, limits: Limits, log: logging.Logger) -> None:
        """End of stdin, SIGTERM, SIGKILL; reap."""
        try:
            if not stdin.is_closing():
                stdin.close()
            if not self._exited.is_set():
                with anyio.move_on_after(limits.eof_grace):
                    await self._exited.wait()
            if self._alive():
                log.debug("process %d or its children did not end with their input; SIGTERM", self.pid)
                self._signal("SIGTERM")
                await self._wait(limits.term_grace)
            if self._alive():
                log.info("process %d or its children ignored SIGTERM; SIGKILL", self.pid)
                self._signal("SIGKILL")
                await self._wait(limits.kill_grace)
                if self._alive():
                    log.warning("process %d or its children are still there after SIGKILL", self.pid)
        finally:
            self._transport.close()

    def _alive(self) -> bool:
        if not self._exited.is_set():
            return True
        if sys.platform == "win32":
            return False
        try:
            os.killpg(self.pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:  # macOS says so when only zombies are left
            return False
        return True

    async def _wait(self, seconds: float) -> None:
        with anyio.move_on_after(seconds):
            await self._exited.wait()
            while self._alive():  # noqa: ASYNC110 (nothing tells when a group is empty)
                await anyio.sleep(_POLL)

    def _signal(self, name: str) -> None:
        if sys.platform == "win32":
            self._taskkill(force=name == "SIGKILL")
            return
        try:
            os.killpg(self.pid, signal.Signals[name])
        except (ProcessLookupError, PermissionError):
            pass  # it went by itself

    def _taskkill(self, *, force: bool) -> None:
        import subprocess

        command = ["taskkill", "/T", "/PID", str(self.pid), *(["/F"] if force else [])]
        try:
            subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        except OSError:
            self._transport.kill() if force else self._transport.terminate()


def ending(returncode: int | None) -> str:
    """How a process ended, in words."""
    if returncode is None:
        return "closed its standard output"
    if returncode >= 0:
        return f"exited with code {returncode}"
    try:
        return f"was killed by {signal.Signals(-returncode).name}"
    except ValueError:
        return f"was killed by signal {-returncode}"
