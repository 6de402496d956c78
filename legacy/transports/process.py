"""Starting a child process, and ending it and whatever it has started, in bounded time (2025-11-25 basic/lifecycle,
shutdown: stdio).

The child is started by `subprocess`, not by the event loop: uvloop leaves copies of our ends of the pipes in the child,
so a server that closes its output would keep it open itself, and nobody would see the end of it. The pipes are read and
written by the event loop.

The end: end of stdin, then SIGTERM, then SIGKILL, each after a grace. On POSIX the child leads a session and a process
group of its own, and signals go to the group, because ``npx`` starts ``sh``, which starts ``node``: the child's own
exit proves nothing about the others. On Windows there are no such groups; ``taskkill /T`` is the best there is.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO

import anyio

from legacy.targets import Limits

_POLL = 0.02


def start(
    command: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: str | None = None,
    stdout: int = subprocess.PIPE,
    stderr: int = subprocess.PIPE,
) -> subprocess.Popen[bytes]:
    """Start a process that leads a group of its own; it inherits no file but its three streams.

    Raises:
        OSError, ValueError: it was not started.
    """
    if sys.platform == "win32":
        from asyncio.windows_utils import Popen  # with pipes that an event loop can wait for

        return Popen(list(command), stdin=subprocess.PIPE, stdout=stdout, stderr=stderr, env=dict(env), cwd=cwd)
    return subprocess.Popen(
        command,
        bufsize=0,
        stdin=subprocess.PIPE,
        stdout=stdout,
        stderr=stderr,
        env=dict(env),
        cwd=cwd,
        start_new_session=True,
    )


def pipe_of(stream: IO[bytes] | None) -> IO[bytes]:
    """One of a process's streams that was asked for as a pipe."""
    assert stream is not None
    return stream


def when_exited(process: subprocess.Popen[bytes], then: Callable[[], None]) -> None:
    """Call ``then`` from the running event loop when the process has exited; it is reaped by then."""
    loop = asyncio.get_running_loop()
    if hasattr(os, "pidfd_open"):
        try:
            pidfd = os.pidfd_open(process.pid)
        except OSError:
            pass  # not on this kernel, or forbidden
        else:

            def ready() -> None:
                loop.remove_reader(pidfd)
                os.close(pidfd)
                process.wait()
                then()

            loop.add_reader(pidfd, ready)
            return

    def wait() -> None:
        process.wait()
        try:
            loop.call_soon_threadsafe(then)
        except RuntimeError:
            return  # the event loop ended first, in a hurry: it gave the process up

    threading.Thread(target=wait, name=f"mrtr-wait-{process.pid}", daemon=True).start()


class Child:
    """A started process.

    Invariant: after `end` has returned neither the process nor its group exists, or a warning has said so.
    """

    def __init__(self, process: subprocess.Popen[bytes], exited: anyio.Event) -> None:
        self._process = process
        self._exited = exited
        self.pid = process.pid

    @property
    def returncode(self) -> int | None:
        """As `subprocess` has it; None while it runs."""
        return self._process.returncode

    async def end(self, close_input: Callable[[], None], limits: Limits, log: logging.Logger) -> None:
        """End of stdin, SIGTERM, SIGKILL; reap."""
        close_input()
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

    def _alive(self) -> bool:
        if not self._exited.is_set():
            return True
        return sys.platform != "win32" and _group_lives(self.pid)

    async def _wait(self, seconds: float) -> None:
        with anyio.move_on_after(seconds):
            await self._exited.wait()
            pause = _POLL
            while self._alive():
                await anyio.sleep(pause)  # nothing tells when a group is empty
                pause = min(pause * 2, 0.5)

    def _signal(self, name: str) -> None:
        if sys.platform == "win32":
            self._taskkill(force=name == "SIGKILL")
            return
        try:
            os.killpg(self.pid, signal.Signals[name])
            os.killpg(self.pid, signal.SIGCONT)  # what was stopped hears it too
        except (ProcessLookupError, PermissionError):
            pass  # it went by itself

    def _taskkill(self, *, force: bool) -> None:
        command = ["taskkill", "/T", "/PID", str(self.pid), *(["/F"] if force else [])]
        try:
            subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        except OSError:
            self._process.kill() if force else self._process.terminate()


def _group_lives(group: int) -> bool:
    """Whether a process of the group runs. Dead ones that nobody has reaped do not count; where orphans fall to us
    (as the first process of a container), they are reaped here."""
    try:
        while os.waitpid(-group, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass  # none of them is ours
    try:
        os.killpg(group, 0)
    except (ProcessLookupError, PermissionError):  # macOS: not permitted when only dead ones are left
        return False
    return not sys.platform.startswith("linux") or any(_members(group))


def _members(group: int) -> Iterator[int]:
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            try:
                stat = Path(entry.path, "stat").read_bytes()
            except OSError:
                continue  # it has just gone
            state, _, its_group, *_ = stat.rpartition(b")")[2].split()
            if int(its_group) == group and state not in (b"Z", b"X"):
                yield int(entry.name)


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
