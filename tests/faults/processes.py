"""The real program in a process of its own, and a client of either face that writes what it likes.

A `Bridge` is started by `running`, which ends it and then insists on what must hold after every test, whatever the test
did: the exit code is 0, in time, and no process that it had started is alive.
"""

from __future__ import annotations

import itertools
import json
import os
import queue
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

Json = dict[str, Any]

ROOT = Path(__file__).resolve().parents[2]
ASKER = (sys.executable, str(ROOT / "tests" / "servers" / "asker.py"))
RUDE = (sys.executable, str(ROOT / "tests" / "servers" / "rude.py"))
FACES = ("stdio", "http")
VERSION = "2026-07-28"
END_WITHIN = 5.0
PATIENCE = 15.0
"""Seconds until a test stops waiting for an answer."""


PROGRAM = (sys.executable, "-m", "bridge")


def command(*arguments: str) -> list[str]:
    return [*PROGRAM, *arguments]


def request(method: str, id: Any, params: Json | None = None, capabilities: Json | None = None) -> Json:
    meta = {
        "io.modelcontextprotocol/protocolVersion": VERSION,
        "io.modelcontextprotocol/clientCapabilities": capabilities or {},
    }
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": {**(params or {}), "_meta": meta}}


def tool_call(id: Any, tool: str, /, **arguments: Any) -> Json:
    capabilities = {"elicitation": {"form": {}}}
    return request("tools/call", id, {"name": tool, "arguments": arguments}, capabilities)


def headers(message: Json) -> dict[str, str]:
    """Those that a correct client sends with ``message``."""
    made = {
        "content-type": "application/json",
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": VERSION,
        "mcp-method": message["method"],
    }
    if isinstance(name := message["params"].get("name"), str):
        made["mcp-name"] = name
    return made


def text(message: Json) -> str:
    """What a tool returned."""
    assert "result" in message, message
    assert not message["result"].get("isError"), message
    return str(message["result"]["content"][0]["text"])


def says(message: Json, *words: str, code: int = -32603) -> None:
    """The message is one clear error: this code, and a sentence in which the words are."""
    assert "error" in message, message
    error = message["error"]
    assert error["code"] == code, error
    said = error["message"]
    assert re.fullmatch(r"[A-Z][^\n]{10,500}[.]", said), said
    assert "Traceback" not in said
    assert all(word in said for word in words), said


def alive(pid: int) -> bool:
    """Whether a process runs; a dead one that nobody has reaped does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in ("Z", "X")


def descendants(pid: int) -> set[int]:
    """Every process below this one."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
    found: set[int] = set()
    todo = {pid}
    while todo:
        todo = {child for child, parent in parents.items() if parent in todo}
        found |= todo
    return found


def until(condition: Callable[[], Any], seconds: float = 8) -> Any:
    """Wait for something to become true; returns it."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, "it did not become true in time"
        time.sleep(0.01)
    return found


class Bridge:
    """One process of the program, and what a client needs to talk to it."""

    def __init__(
        self,
        face: str,
        pids: Path,
        *arguments: str,
        env: dict[str, str],
        reads: bool = True,
        program: Sequence[str] = PROGRAM,
    ) -> None:
        self.face = face
        self.seen: set[int] = set()
        self.stderr: list[str] = []
        self._pids = pids
        self._ids = itertools.count(1)
        self._lines: queue.Queue[bytes] = queue.Queue()
        self._early: dict[Any, Json] = {}
        self._open: list[socket.socket] = []
        passed = [word for name, value in env.items() for word in ("--env", f"{name}={value}")]
        words = ["stdio"] if face == "stdio" else ["serve", "--port", "0"]
        self.process = subprocess.Popen(
            [*program, *words, *passed, *arguments],
            cwd=ROOT,
            stdin=subprocess.PIPE if face == "stdio" else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        targets = (self._read, self._read_log) if reads else (self._read_log,)
        self._readers = [threading.Thread(target=target, daemon=True) for target in targets]
        for reader in self._readers:
            reader.start()

    # -- the process ---------------------------------------------------------------------------------------------------

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line)

    def _read_log(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.stderr.append(line.decode("utf-8", "replace"))

    @property
    def log(self) -> str:
        return "".join(self.stderr)

    @property
    def port(self) -> int:
        match = until(lambda: re.search(r"http://127\.0\.0\.1:(\d+)/mcp", self.log), PATIENCE)
        return int(match[1])

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"

    def server_pids(self) -> list[int]:
        """The processes that the server has told of, oldest first."""
        return [int(line) for line in self._pids.read_text().split()] if self._pids.exists() else []

    def look(self) -> set[int]:
        """Remember the processes that run below the bridge."""
        self.seen |= descendants(self.process.pid)
        return self.seen

    def end(self, how: str | None = None, within: float = END_WITHIN) -> None:
        """End it, by ``end of input`` or a signal, usually as its face is ended; and check how it ended."""
        self.look()
        began = time.monotonic()
        if how is None:
            how = "end of input" if self.face == "stdio" else "SIGTERM"
        if how == "end of input":
            assert self.process.stdin is not None
            try:
                self.process.stdin.close()
            except BrokenPipeError:
                pass
        else:
            self.process.send_signal(signal.Signals[how])
        code = self.process.wait(within)
        assert code == 0, f"exit code {code} after {time.monotonic() - began:.1f} s\n{self.log}"
        left = {pid for pid in self.seen | set(self.server_pids()) if alive(pid)}
        assert not left, f"still alive: {left}\n{self.log}"
        for reader in self._readers:
            reader.join(5)
        assert "Traceback" not in self.log, self.log
        assert "fault of" not in self.log, self.log
        assert "Exception in" not in self.log, self.log

    def kill(self) -> None:
        for connection in self._open:
            connection.close()
        for pid in {self.process.pid, *self.look(), *self.server_pids()}:
            if alive(pid):
                os.kill(pid, signal.SIGKILL)
        self.process.wait(5)

    # -- a client of stdio ---------------------------------------------------------------------------------------------

    def write(self, data: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def send(self, *messages: Json) -> None:
        self.write(b"".join(json.dumps(message).encode() + b"\n" for message in messages))

    def next_line(self, seconds: float = PATIENCE) -> Json:
        """The next message, whatever it is."""
        message: Json = json.loads(self._lines.get(timeout=seconds))
        return message

    def silent(self, seconds: float = 0.3) -> bool:
        """Whether nothing is written for so long."""
        try:
            self._lines.get(timeout=seconds)
        except queue.Empty:
            return True
        return False

    def answer_to(self, id: Any, seconds: float = PATIENCE) -> Json:
        """The response with this id; others are kept for whoever wants them."""
        deadline = time.monotonic() + seconds
        while id not in self._early:
            message = self.next_line(max(deadline - time.monotonic(), 0.01))
            if "method" not in message:
                self._early[message.get("id")] = message
        return self._early.pop(id)

    # -- a client of either face ---------------------------------------------------------------------------------------

    def exchange(self, message: Json, seconds: float = PATIENCE) -> Json:
        """The response to a request."""
        if self.face == "stdio":
            self.send(message)
            return self.answer_to(message["id"], seconds)
        answer = httpx.post(self.url, json=message, headers=headers(message), timeout=seconds)
        return response_in(answer)

    def call(self, tool: str, /, within: float = PATIENCE, **arguments: Any) -> Json:
        return self.exchange(tool_call(next(self._ids), tool, **arguments), within)

    def works(self) -> None:
        """Another call is answered as if nothing had been."""
        assert text(self.call("echo", text="still here")) == "still here"

    def begin(self, message: Json) -> None:
        """Send a request without waiting for its answer; its client stays."""
        if self.face == "stdio":
            self.send(message)
        else:
            self._open.append(post_raw(self.port, json.dumps(message).encode(), headers(message)))


def response_in(answer: httpx.Response) -> Json:
    """The JSON-RPC response in an HTTP response, as an object or at the end of an event stream."""
    if answer.headers.get("content-type") == "text/event-stream":
        events = [json.loads(line[6:]) for line in answer.text.splitlines() if line.startswith("data: ")]
        message: Json = next(event for event in events if "method" not in event)
    else:
        message = answer.json()
    return message


def post_raw(
    port: int, body: bytes, fields: dict[str, str] | None = None, *, length: int | None = None
) -> socket.socket:
    """POST without reading the answer; ``length``: what the head says of the body."""
    head = "".join(f"{name}: {value}\r\n" for name, value in (fields or {}).items())
    size = len(body) if length is None else length
    connection = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
    connection.sendall(
        f"POST /mcp HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\ncontent-length: {size}\r\n{head}\r\n".encode() + body
    )
    return connection


@contextmanager
def running(
    face: str,
    folder: Path,
    *arguments: str,
    env: dict[str, str] | None = None,
    reads: bool = True,
    program: Sequence[str] = PROGRAM,
) -> Iterator[Bridge]:
    """A bridge for one test; ended as usual if the test has not done it. Its stdout is read unless told otherwise."""
    pids = folder / "pids"
    bridge = Bridge(face, pids, *arguments, env={"RUDE_PIDS": str(pids), **(env or {})}, reads=reads, program=program)
    try:
        yield bridge
        if bridge.process.poll() is None:
            bridge.end()
    finally:
        bridge.kill()
