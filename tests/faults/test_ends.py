"""Whatever ends the program, nothing that it started is alive soon after; whatever its server was doing.

Told to end (end of input, SIGTERM, SIGINT), the program takes its time, which is bounded; a fault of its own ends it
in the same way, with exit code 1. Ended from outside without a word, it leaves a watchdog, which ends the servers. What
has left a server's process group is out of reach (a stated limit), so no scene has that.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.faults.processes import (
    ASKER,
    END_WITHIN,
    PROGRAM,
    RUDE,
    Bridge,
    alive,
    request,
    running,
    says,
    tool_call,
    until,
)
from tests.peers.talking import node_modules

full = pytest.mark.full

WATCHDOG_WITHIN = 2.0
"""Seconds after which the servers of a program that is no more are no more either."""

CRASHING = """
import signal, sys
import anyio
from bridge.serving import Bridge

async def sweep(self):
    with anyio.open_signal_receiver(signal.SIGUSR1) as signals:
        async for _ in signals:
            raise RuntimeError("a fault that was planted")

Bridge.sweep = sweep
from bridge.cli import main
sys.exit(main())
"""
"""The program, but a SIGUSR1 is a fault in one of its tasks."""


# -- what the server is doing ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Scene:
    """A server and what it is doing when the end comes; ``processes``: as many are to be alive then, or more."""

    server: tuple[str, ...]
    begin: Callable[[Bridge], None]
    processes: int = 1


def idle(bridge: Bridge) -> None:
    bridge.works()


def starting(bridge: Bridge) -> None:
    bridge.begin(tool_call("early", "echo", text="x"))
    until(bridge.server_pids)


def asking_and_busy(bridge: Bridge) -> None:
    assert bridge.call("ask_once")["result"]["resultType"] == "input_required"
    bridge.begin(tool_call("slow", "slow", seconds=60))
    time.sleep(0.2)


def stopped(bridge: Bridge) -> None:
    bridge.works()
    for pid in bridge.server_pids():
        os.kill(pid, signal.SIGSTOP)


def everything(bridge: Bridge) -> None:
    answer = bridge.exchange(tool_call("echo", "echo", message="hello"), 60)
    assert answer["result"]["content"][0]["text"] == "Echo: hello", answer


def chain(*server: str) -> tuple[str, ...]:
    """The server behind two shells, neither of which becomes it."""
    words = " ".join(f"'{word}'" for word in server)
    return ("sh", "-c", f'sh -c "{words}; true"; true')


NPX = ("npx", "--offline", "--prefix", str(node_modules().parent), "mcp-server-everything")

SCENES = {
    "idle": Scene((*RUDE, "slow-start"), idle),
    "starting": Scene((*RUDE, "mute"), starting),
    "says-rubbish": Scene((*RUDE, "rubbish"), starting),
    "asks-and-is-busy": Scene(ASKER, asking_and_busy),
    "ignores-sigterm": Scene((*RUDE, "ignores-sigterm"), idle),
    "leaves-a-child": Scene((*RUDE, "leaves-child"), idle, 2),
    "stopped": Scene((*RUDE, "leaves-child"), stopped, 2),
    "shells": Scene(chain(*RUDE, "ignores-sigterm"), idle, 3),
    "shells-starting": Scene(chain(*RUDE, "mute"), starting, 3),
    "npx": Scene(NPX, everything, 2),
}

TOLD = {"stdio": ("end of input", "SIGTERM", "SIGINT"), "http": ("SIGTERM", "SIGINT")}
FAULTS = ("crash", "SIGKILL", "SIGABRT")

SHORT = {
    ("stdio", "end of input", "starting"),
    ("stdio", "end of input", "asks-and-is-busy"),
    ("stdio", "end of input", "ignores-sigterm"),
    ("stdio", "end of input", "leaves-a-child"),
    ("stdio", "SIGTERM", "stopped"),
    ("stdio", "SIGINT", "npx"),
    ("stdio", "crash", "ignores-sigterm"),
    ("stdio", "SIGKILL", "leaves-a-child"),
    ("stdio", "SIGKILL", "shells-starting"),
    ("stdio", "SIGABRT", "idle"),
    ("http", "SIGTERM", "starting"),
    ("http", "SIGTERM", "asks-and-is-busy"),
    ("http", "SIGTERM", "ignores-sigterm"),
    ("http", "SIGINT", "shells"),
    ("http", "SIGINT", "says-rubbish"),
    ("http", "crash", "leaves-a-child"),
    ("http", "SIGKILL", "npx"),
}
"""Each face, way and scene is here at least once; the full run has them all with each other."""


def combinations(ways: Callable[[str], tuple[str, ...]]) -> pytest.MarkDecorator:
    cases = [
        pytest.param(face, how, name, marks=[] if (face, how, name) in SHORT else [full])
        for face in ("stdio", "http")
        for how in ways(face)
        for name in SCENES
    ]
    return pytest.mark.parametrize(("face", "how", "scene"), cases)


def play(bridge: Bridge, scene: Scene) -> None:
    """Bring the bridge into the scene, and be sure that it is in it."""
    scene.begin(bridge)
    until(lambda: len(bridge.look()) >= scene.processes)


def server_of(scene: Scene) -> list[str]:
    """The end of the command line; npx wants to find what it needs."""
    options = ["--inherit-env", "--cwd", str(node_modules().parent)] if scene.server == NPX else []
    return [*options, "--timeout", "2s", "--", *scene.server]


def gone(bridge: Bridge) -> bool:
    return not any(map(alive, {*bridge.seen, *bridge.server_pids()}))


@combinations(TOLD.__getitem__)
def test_case_15_no_process_outlives_a_program_told_to_end(face: str, how: str, scene: str, tmp_path: Path) -> None:
    with running(face, tmp_path, *server_of(SCENES[scene])) as bridge:
        play(bridge, SCENES[scene])
        bridge.end(how)


@combinations(lambda face: FAULTS)
def test_case_15_no_process_outlives_a_program_that_breaks(face: str, how: str, scene: str, tmp_path: Path) -> None:
    program = (sys.executable, "-c", CRASHING) if how == "crash" else PROGRAM
    with running(face, tmp_path, *server_of(SCENES[scene]), program=program) as bridge:
        play(bridge, SCENES[scene])
        bridge.process.send_signal(signal.SIGUSR1 if how == "crash" else signal.Signals[how])
        code = bridge.process.wait(END_WITHIN)
        if how == "crash":
            assert code == 1
            assert gone(bridge)
            until(lambda: "The bridge stopped because of a fault of its own." in bridge.log)
            assert "RuntimeError" in bridge.log
        else:
            assert code == -signal.Signals[how]
            until(lambda: gone(bridge), WATCHDOG_WITHIN)


def test_every_face_way_and_scene_is_in_the_short_run() -> None:
    faces, ways, scenes = (set(column) for column in zip(*SHORT, strict=True))
    assert faces == set(TOLD)
    assert ways == {*TOLD["stdio"], *FAULTS}
    assert scenes == set(SCENES)


# -- how it ends -------------------------------------------------------------------------------------------------------


def test_a_signal_while_the_program_ends_with_its_input_does_not_keep_it_from_ending_its_server(tmp_path: Path) -> None:
    with running("stdio", tmp_path, "--", *RUDE, "ignores-sigterm") as bridge:
        bridge.works()
        bridge.look()
        assert bridge.process.stdin is not None
        bridge.process.stdin.close()
        # Its server does not end, so it is closing by now; the log would tell if it heard only the signal.
        time.sleep(0.5)
        bridge.end("SIGTERM")
        assert "stopping: SIGTERM" in bridge.log


@pytest.mark.parametrize(
    ("habit", "method"),
    [
        ("mute", "tools/call"),
        ("mute-after-handshake", "tools/list"),
        pytest.param("mute", "tools/list", marks=full),
        pytest.param("mute", "server/discover", marks=full),
        pytest.param("mute-after-handshake", "tools/call", marks=full),
    ],
)
def test_what_still_runs_when_the_program_is_told_to_end_is_answered_over_http(
    habit: str, method: str, tmp_path: Path
) -> None:
    with running("http", tmp_path, "--", *RUDE, habit) as bridge, ThreadPoolExecutor() as pool:
        waiting = pool.submit(bridge.exchange, request(method, 1, {"name": "echo"} if method == "tools/call" else {}))
        until(bridge.server_pids)
        time.sleep(0.5)
        bridge.end()
        says(waiting.result(), "shutting down")
