"""The child process of a session: nothing of it outlives the session, and its end is seen (2025-11-25 basic/lifecycle,
shutdown: stdio)."""

from __future__ import annotations

import json
import os
import signal
import sys
import textwrap
import threading
import time
from pathlib import Path

import anyio
import pytest

from legacy.errors import CannotStart
from legacy.messages import Lost, Result
from legacy.targets import StdioTarget
from tests.legacy.scripted import PRELUDE, group_is_gone, server
from tests.legacy.support import Ears, cause, connected, eventually, start

pytestmark = pytest.mark.anyio


async def test_a_server_that_ignores_everything_is_killed_with_its_children() -> None:
    target = server("""
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        welcome()
        m = hear()
        child = "import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(60)"
        subprocess.Popen([sys.executable, "-c", child])
        time.sleep(0.3)
        say(id=m["id"], result={"pid": os.getpid()})
        while True: time.sleep(60)
    """)
    async with connected(target) as session:
        reply = await session.request("tools/call", timeout=5)
        assert isinstance(reply, Result)
        began = time.monotonic()
    assert time.monotonic() - began < 2
    assert group_is_gone(reply.value["pid"])


async def test_a_grandchild_left_behind_is_ended_too() -> None:
    ears = Ears()
    target = server("""
        welcome()
        m = hear()
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
        say(id=m["id"], result={"pid": os.getpid()})
        hear()
        os._exit(0)
    """)
    async with connected(target, ears) as session:
        reply = await session.request("tools/call", timeout=5)
        assert isinstance(reply, Result)
        session.notify("notifications/die")
        await eventually(lambda: ears.losses)
    assert group_is_gone(reply.value["pid"])


async def test_cancelling_the_owner_ends_the_process() -> None:
    pid = 0
    with anyio.CancelScope() as scope:
        async with connected(
            server('welcome(); m = hear(); say(id=m["id"], result={"pid": os.getpid()}); time.sleep(60)')
        ) as session:
            reply = await session.request("tools/call", timeout=5)
            assert isinstance(reply, Result)
            pid = reply.value["pid"]
            _, replies = start(session, "tools/call")
            scope.cancel()
            await anyio.sleep(10)
    assert group_is_gone(pid)
    assert isinstance(replies[0], Lost)


async def test_cancelling_a_start_ends_the_process(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    with anyio.move_on_after(0.7):
        async with connected(server(f"open({str(note)!r}, 'w').write(str(os.getpid())); time.sleep(60)")):
            pass
    assert group_is_gone(int(note.read_text()))


async def test_a_server_that_closes_its_output_and_lives_on_loses_its_session_at_once() -> None:
    ears = Ears()
    target = server("""
        welcome()
        m = hear()
        say(method="notifications/pid", params={"pid": os.getpid()})
        os.close(1)
        time.sleep(60)
    """)
    async with connected(target, ears) as session:
        _, replies = start(session, "tools/call")
        await eventually(lambda: ears.losses)
        assert ears.losses == ["The server 'srv' closed its standard output."]
        assert replies == [Lost("The server 'srv' closed its standard output.", processed=True)]
        pid = ears.notifications[0][1]["pid"]
        await eventually(lambda: group_is_gone(pid))


async def test_a_server_that_closes_its_input_and_lives_on_loses_its_session_at_once() -> None:
    ears = Ears()
    target = server("""
        welcome()
        m = hear()
        say(method="notifications/pid", params={"pid": os.getpid()})
        os.close(0)
        time.sleep(60)
    """)
    async with connected(target, ears) as session:
        start(session, "tools/call")
        await eventually(lambda: ears.losses)
        assert ears.losses == ["The server 'srv' closed its standard input."]
        pid = ears.notifications[0][1]["pid"]
        await eventually(lambda: group_is_gone(pid))


async def test_a_server_that_closes_all_its_streams_and_stops_is_ended() -> None:
    ears = Ears()
    target = server("""
        welcome()
        m = hear()
        say(method="notifications/pid", params={"pid": os.getpid()})
        for fd in range(3): os.close(fd)
        os.kill(os.getpid(), signal.SIGSTOP)
    """)
    async with connected(target, ears) as session:
        start(session, "tools/call")
        await eventually(lambda: ears.losses)
        await eventually(lambda: group_is_gone(ears.notifications[0][1]["pid"]))


async def test_a_stopped_server_is_ended() -> None:
    target = server("""
        welcome()
        m = hear()
        say(id=m["id"], result={"pid": os.getpid()})
        os.kill(os.getpid(), signal.SIGSTOP)
        hear()
    """)
    async with connected(target) as session:
        reply = await session.request("tools/call", timeout=5)
        assert isinstance(reply, Result)
        stat = Path(f"/proc/{reply.value['pid']}/stat")
        await eventually(lambda: stat.read_text().rpartition(")")[2].split()[0] == "T")
    assert group_is_gone(reply.value["pid"])


async def test_a_server_inherits_nothing_but_its_three_streams() -> None:
    body = """
        welcome()
        m = hear()
        files = [os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd") if int(fd) > 2
                 and os.path.exists(f"/proc/self/fd/{fd}")]
        say(id=m["id"], result={"files": files, "leads": [os.getpgid(0), os.getsid(0)] == [os.getpid()] * 2})
        hear()
    """
    async with connected(server(body)), connected(server(body)) as session:
        reply = await session.request("tools/call", timeout=5)
    assert reply == Result({"files": [], "leads": True})


async def test_an_exit_is_seen_where_the_kernel_has_no_handle_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "pidfd_open")
    ears = Ears()
    async with connected(server("welcome(); hear(); os._exit(3)"), ears) as session:
        start(session, "tools/call")
        await eventually(lambda: ears.losses)
        assert ears.losses == ["The server 'srv' exited with code 3."]
    async with connected(server("welcome(); hear(); hear()")):
        pass
    await eventually(lambda: not [t for t in threading.enumerate() if t.name.startswith("mrtr-wait")])


async def test_without_its_watchdog_a_session_works_and_ends_as_usual() -> None:
    before = children()
    target = server("""
        welcome()
        m = hear()
        say(id=m["id"], result={"pid": os.getpid()})
        hear()
    """)
    async with connected(target) as session:
        [watchdog] = [pid for pid in children() - before if b"watchdog" in command_of(pid)]
        os.kill(watchdog, signal.SIGKILL)
        reply = await session.request("tools/call", timeout=5)
        assert isinstance(reply, Result)
    assert group_is_gone(reply.value["pid"])
    assert children() == before


HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "sh", "version": "1"}}
SHELL_SERVER = ("sh", "-c", 'read -r line; printf "%s\\n" "$1"; cat >&2', "sh")


@pytest.mark.parametrize("times", [20, pytest.param(400, marks=pytest.mark.full)])
async def test_starting_and_ending_again_and_again_leaks_nothing(times: int) -> None:
    answer = json.dumps({"jsonrpc": "2.0", "id": 1, "result": HELLO})
    good = StdioTarget((*SHELL_SERVER, answer), env=dict(os.environ))
    bad = [StdioTarget(("sh", "-c", "exit 3"), env=dict(os.environ)), StdioTarget(("/no/such/file",))]

    async def cycle() -> None:
        async with connected(good) as session:
            await session.ping(0.001)
        for target in bad:
            with pytest.raises((CannotStart, BaseExceptionGroup)) as caught:
                async with connected(target):
                    pass
            assert isinstance(cause(caught.value), CannotStart)

    await cycle()
    before = files(), children(), threading.active_count()
    for _ in range(times):
        await cycle()
    await eventually(lambda: (files(), children(), threading.active_count()) == before)


def files() -> int:
    """How many this process has open."""
    return len(os.listdir("/proc/self/fd"))


def command_of(pid: int) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes()


def children() -> set[int]:
    """The processes that this one has started and not reaped, dead ones included."""
    found = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            if int(stat.read_text().rpartition(")")[2].split()[1]) == os.getpid():
                found.add(int(stat.parent.name))
        except OSError:
            continue
    return found


BRIDGE = """
import os, sys, anyio
from legacy.targets import StdioTarget
from tests.legacy.scripted import PRELUDE, group_is_gone, server
from tests.legacy.support import connected
async def main():
    target = StdioTarget((sys.executable, "-c", sys.argv[1]), env=dict(os.environ))
    async with connected(target, eof_grace=1, term_grace=1) as s:
        reply = await s.request("tools/call", timeout=5)
        print(reply.value["pid"], flush=True)
        await anyio.sleep(60)
anyio.run(main)
"""


async def test_when_the_bridge_is_killed_the_server_is_ended_too() -> None:
    body = """
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        welcome()
        m = hear()
        say(id=m["id"], result={"pid": os.getpid()})
        time.sleep(60)
    """
    bridge = await anyio.open_process(
        [sys.executable, "-c", BRIDGE, PRELUDE + textwrap.dedent(body)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stderr=None,
    )
    assert bridge.stdout is not None
    pid = int(await bridge.stdout.receive())
    bridge.kill()
    began = time.monotonic()
    await bridge.aclose()
    assert not group_is_gone(pid)
    await eventually(lambda: group_is_gone(pid), 10)
    assert time.monotonic() - began < 2 + 1  # a second for a busy machine
