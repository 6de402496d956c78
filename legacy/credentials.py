"""Headers that run out: a command of the operator's prints them, and prints them anew when the server says 401.

One run at a time, shared by all who wait for it; not more often than every few seconds, so that a server that refuses
whatever it is given costs little; bounded in time and size. Its output is never logged, nor is what it says on stderr:
both may be secret.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import time
from collections.abc import Mapping
from typing import Final

import anyio
import anyio.abc

from legacy.errors import Unsent
from legacy.header_rules import OURS, is_name, is_value

_MOST: Final = 64 * 1024
_LATE: Final = 10.0


class CredentialsFailed(Unsent):
    """The command brought no headers; the message is a clause that says why, and never what it printed."""


class HeaderCommand:
    """The headers that a command prints, kept until they are refused.

    Invariants: the command runs at most once at a time (``_lock``), and not within ``pause`` seconds of its last run.
    ``generation`` counts the runs that brought headers.
    """

    def __init__(
        self,
        command: str,
        log: logging.Logger,
        *,
        env: Mapping[str, str] | None = None,
        within: float = 30.0,
        pause: float = 5.0,
    ) -> None:
        self.generation = 0
        self._command = command
        self._log = log
        self._env = dict(os.environ if env is None else env)
        self._within = within
        self._pause = pause
        self._headers: dict[str, str] = {}
        self._failure: str | None = None
        self._ran_at = float("-inf")
        self._lock = anyio.Lock()

    async def current(self) -> tuple[int, Mapping[str, str]]:
        """What goes with a request, and which generation that is.

        Raises:
            CredentialsFailed: there has been no good run, and none could be made now.
        """
        if self.generation == 0:
            await self._renew(0)
        return self.generation, self._headers

    async def renew(self, refused: int) -> bool:
        """The server refused the headers of that generation: whether there are newer ones.

        Raises:
            CredentialsFailed: the command failed.
        """
        if self.generation == refused:
            await self._renew(refused)
        return self.generation > refused

    async def _renew(self, refused: int) -> None:
        async with self._lock:
            if self.generation > refused:
                return  # somebody else had it run while we waited
            if time.monotonic() - self._ran_at < self._pause:
                if self._failure is not None:
                    raise CredentialsFailed(self._failure)
                return
            self._failure = None
            try:
                self._headers = read_headers(await self._run())
            except CredentialsFailed as error:
                self._failure = str(error)
                self._ran_at = time.monotonic()  # not if we were cancelled: the next who waits has it run
                raise
            self._ran_at = time.monotonic()
            self.generation += 1
            self._log.info("--header-command has brought %d headers", len(self._headers))

    async def _run(self) -> bytes:
        try:
            process = await anyio.open_process(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=self._env,
                start_new_session=True,
            )
        except OSError as error:
            raise CredentialsFailed(f"--header-command could not be started ({error.strerror})") from None
        printed = b""
        try:
            with anyio.fail_after(self._within):
                assert process.stdout is not None
                async for part in process.stdout:
                    printed += part
                    if len(printed) > _MOST:
                        raise CredentialsFailed(f"--header-command printed more than {_MOST} bytes")
                code = await process.wait()
        except TimeoutError:
            raise CredentialsFailed(f"--header-command did not end within {self._within:g} s") from None
        finally:
            with anyio.CancelScope(shield=True):
                await _end(process)
        if code != 0:
            raise CredentialsFailed(f"--header-command ended with exit code {code}; run it by hand to see why")
        return printed


def read_headers(printed: bytes) -> dict[str, str]:
    """The headers in what a command printed: one JSON object of strings, or ``Name: value`` a line.

    Raises:
        CredentialsFailed: it is neither, or a header may not be sent.
    """
    try:
        text = printed.decode().strip()
    except UnicodeDecodeError:
        raise CredentialsFailed("--header-command printed what is no text") from None
    pairs: list[tuple[str, object]]
    if text.startswith("{"):
        try:
            value = json.loads(text)
        except ValueError:
            raise CredentialsFailed("--header-command printed a JSON object that cannot be read") from None
        pairs = list(value.items())
    else:
        pairs = []
        for line in filter(str.strip, text.splitlines()):
            name, colon, value = line.partition(":")
            if not colon:
                raise CredentialsFailed("--header-command printed a line that is no `Name: value`")
            pairs.append((name.strip(), value.strip()))
    found: dict[str, str] = {}
    for name, value in pairs:
        if not is_name(name):
            raise CredentialsFailed("--header-command printed a header whose name is none")
        if not isinstance(value, str) or not is_value(value):
            raise CredentialsFailed(f"--header-command printed for {name} what is no printable ASCII text on one line")
        if name.lower() in OURS:
            raise CredentialsFailed(f"--header-command printed {name}, a header that the bridge sets itself")
        found[name.lower()] = value
    if not found:
        raise CredentialsFailed("--header-command printed no header")
    return found


async def _end(process: anyio.abc.Process) -> None:
    """Whatever it left running too."""
    try:
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    except (ProcessLookupError, PermissionError):
        pass
    with anyio.move_on_after(_LATE):
        await process.aclose()
