"""Both official clients listen through both faces: what they are told, and how their streams end."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.bridge.listeners import announcer
from tests.faults.processes import descendants
from tests.peers.talking import PYTHON, ROOT, TYPESCRIPT, bridge, node, node_modules, server_process

Json = dict[str, Any]

WAYS = [
    (PYTHON, "http"),
    (TYPESCRIPT, "stdio"),
    pytest.param(PYTHON, "stdio", marks=pytest.mark.full),
    pytest.param(TYPESCRIPT, "http", marks=pytest.mark.full),
]
FILTER = {"toolsListChanged": True, "resourceSubscriptions": ["watch://one", "watch://refused/a"]}


class Listener:
    """An official client in a process of its own."""

    def __init__(self, client: str, target: Json, wanted: Json = FILTER) -> None:
        said = json.dumps({"target": target, "filter": wanted})
        program = [sys.executable, "-m", "tests.peers.listener"]
        if client == TYPESCRIPT:
            program = [node(), str(ROOT / "tests" / "node" / "listener.mjs")]
        self.process = subprocess.Popen(
            [*program, said],
            cwd=ROOT,
            env={**os.environ, "MRTR_TEST_NODE_MODULES": str(node_modules())},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._lines: queue.Queue[Json] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(json.loads(line))

    def order(self, **what: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(what) + "\n")
        self.process.stdin.flush()

    def next(self, kind: str) -> Any:
        said = self._lines.get(timeout=20)
        assert kind in said, said
        return said[kind]

    def called(self, name: str, **arguments: Any) -> list[str]:
        """Call a tool; the events that came until its result and one event had, as method and URI."""
        self.order(name=name, arguments=arguments)
        events, done = [], False
        while not done or not events:
            said = self._lines.get(timeout=20)
            done = done or "result" in said
            if "event" in said:
                events.append(f"{said['event']} {(said.get('params') or {}).get('uri', '')}".strip())
        return events

    def end(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        assert self.process.wait(15) == 0
        self._reader.join(5)


@contextmanager
def listener(client: str, face: str) -> Iterator[tuple[Listener, int]]:
    """A client that listens, and the process of the bridge."""
    if face == "stdio":
        command = bridge("stdio", "--", *announcer())
        listening = Listener(client, {"command": command[0], "args": command[1:], "cwd": str(ROOT)})
        try:
            acknowledged = listening.next("acknowledged")
            [pid] = [pid for pid in descendants(listening.process.pid) if runs(pid, b"stdio") and runs(pid, b"bridge")]
            yield checked(listening, acknowledged), pid
        finally:
            listening.process.kill()
    else:
        command = bridge("serve", "--port", "0", "--", *announcer())
        before = descendants(os.getpid())
        with server_process(command, r"http://127\.0\.0\.1:\d+/mcp") as match:
            listening = Listener(client, {"url": match[0]})
            try:
                acknowledged = listening.next("acknowledged")
                new = descendants(os.getpid()) - before
                [pid] = [pid for pid in new if runs(pid, b"serve") and runs(pid, b"bridge")]
                yield checked(listening, acknowledged), pid
            finally:
                listening.process.kill()


def checked(listening: Listener, acknowledged: Json) -> Listener:
    assert acknowledged == {"toolsListChanged": True, "resourceSubscriptions": ["watch://one"]}
    return listening


def runs(pid: int, word: bytes) -> bool:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as words:
            return word in words.read().split(b"\0")
    except OSError:
        return False


@pytest.mark.parametrize(("client", "face"), WAYS)
def test_a_client_hears_what_it_asked_for_and_that_its_stream_ends_gracefully(client: str, face: str) -> None:
    with listener(client, face) as (listening, pid):
        below = "watch://one/below"
        assert listening.called("touch", uri=below) == [f"notifications/resources/updated {below}"]
        assert listening.called("change", kind="tool") == ["notifications/tools/list_changed"]
        os.kill(pid, signal.SIGTERM)
        assert listening.next("closed") == "graceful"
        if face == "http":
            listening.end()


@pytest.mark.full
@pytest.mark.parametrize("client", [PYTHON, TYPESCRIPT])
@pytest.mark.parametrize("face", ["http", "stdio"])
def test_a_client_that_closes_its_stream_can_go_on_calling(client: str, face: str) -> None:
    with listener(client, face) as (listening, _):
        listening.order(close=True)
        assert listening.next("closed") == "local"
        listening.order(name="touch", arguments={"uri": "watch://one", "anyway": True})
        assert listening.next("result")["content"][0]["text"] == '"done"'
        listening.end()


@pytest.mark.parametrize(
    ("client", "bridged"), [(PYTHON, "everything_over_stdio"), (TYPESCRIPT, "everything_over_http")]
)
def test_updates_of_a_published_server_reach_the_client(
    client: str, bridged: str, request: pytest.FixtureRequest
) -> None:
    wanted = {"resourceSubscriptions": ["demo://resource/dynamic/text/1"], "promptsListChanged": True}
    listening = Listener(client, {"url": request.getfixturevalue(bridged).url}, wanted)
    try:
        assert listening.next("acknowledged") == wanted
        told = listening.called("toggle-subscriber-updates")
        assert told == ["notifications/resources/updated demo://resource/dynamic/text/1"]
        listening.end()
    finally:
        listening.process.kill()
