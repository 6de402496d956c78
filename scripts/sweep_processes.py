"""What a run left behind: every process that it started, found again through /proc.

A driver makes itself the reaper of its orphans (Linux's ``PR_SET_CHILD_SUBREAPER``): whatever its children leave
becomes its own child, in whichever session or process group, and is found by walking the tree. Not for ending anything
while a run goes on; what survives a run is named, then killed. Runs under both SDKs, so it imports neither.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from pathlib import Path

PR_SET_CHILD_SUBREAPER = 36


def adopt_orphans() -> None:
    """From now on, orphans among our descendants become our children."""
    if not sys.platform.startswith("linux"):
        raise RuntimeError("the sweep looks for orphans through /proc: it runs on Linux only")
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "the kernel does not let this process adopt orphans")


def descendants() -> dict[int, str]:
    """The living descendants of this process, and their command lines; zombies are dead."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            # The command name is in parentheses and may hold anything, so fields are counted from its end.
            state, parent = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()[:2]
        except OSError:
            continue  # It has ended since the listing.
        if state not in "ZX":
            parents[int(entry.name)] = int(parent)
    ours = {os.getpid()}
    while grown := {pid for pid, parent in parents.items() if parent in ours} - ours:
        ours |= grown
    return {pid: _command(pid) for pid in sorted(ours - {os.getpid()})}


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return ""


def survivors(deadline: float) -> list[str]:
    """The commands of what still lives at ``deadline`` (of ``time.monotonic``); they are killed then."""
    while (left := descendants()) and time.monotonic() < deadline:
        time.sleep(0.05)
    for pid in left:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    return list(left.values())
