"""Servers that misbehave, each behind the real program and through both of its faces.

What is the same for all: the call ends with one clear error in bounded time, what can go on goes on, and after the end
of the program, however it is ended, no process is left (`processes.running` sees to that in every test here).
"""

from __future__ import annotations

import http.server
import json
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from modern.errors import ProtocolError
from tests.bridge.harness import Client, bridged
from tests.faults.processes import (
    ASKER,
    FACES,
    PATIENCE,
    ROOT,
    RUDE,
    Bridge,
    alive,
    command,
    request,
    running,
    says,
    text,
    tool_call,
    until,
)

faces = pytest.mark.parametrize("face", FACES)
full = pytest.mark.full
stdio_first = pytest.mark.parametrize("face", ["stdio", pytest.param("http", marks=full)])
"""For what takes long and is mostly the same for both."""


@contextmanager
def behind(face: str, folder: Path, habit: str, *options: str) -> Iterator[Bridge]:
    with running(face, folder, "--timeout", "2s", *options, "--", *RUDE, habit) as bridge:
        yield bridge


# -- servers that do not come up ---------------------------------------------------------------------------------------


@faces
def test_case_41_a_server_that_exits_at_once_fails_every_call_with_its_exit_code(face: str, tmp_path: Path) -> None:
    with behind(face, tmp_path, "exits-at-once") as bridge:
        for _ in range(3):
            says(bridge.call("echo", text="x"), "'rude#", "exited with code 3")
        assert "rude: I am off" in bridge.log


@stdio_first
def test_a_server_that_keeps_exiting_is_not_started_again_and_again(face: str, tmp_path: Path) -> None:
    with behind(face, tmp_path, "exits-at-once") as bridge:
        began = time.monotonic()
        for _ in range(12):
            said = bridge.call("echo", text="x")
            says(said, "exited with code 3")
            if "in a row" in said["error"]["message"]:
                break
        else:
            pytest.fail("every call started the server")
        assert time.monotonic() - began < PATIENCE
        assert len(bridge.server_pids()) <= 6


@faces
def test_a_server_that_refuses_to_initialize_is_quoted(face: str, tmp_path: Path) -> None:
    with behind(face, tmp_path, "handshake-error") as bridge:
        says(bridge.call("echo", text="x"), "refused to initialize", "Not today, thank you", "-32000")


@faces
def test_a_server_of_an_unknown_version_is_refused_by_name(face: str, tmp_path: Path) -> None:
    with behind(face, tmp_path, "unknown-version") as bridge:
        says(bridge.call("echo", text="x"), "'1999-12-31'", "2025-11-25")


@faces
def test_a_server_of_the_oldest_version_works(face: str, tmp_path: Path) -> None:
    with behind(face, tmp_path, "old-version") as bridge:
        bridge.works()


@faces
def test_a_server_that_starts_slowly_is_waited_for(face: str, tmp_path: Path) -> None:
    with behind(face, tmp_path, "slow-start") as bridge:
        bridge.works()


@pytest.mark.anyio
@pytest.mark.parametrize("habit", ["mute", "rubbish"])
async def test_a_server_that_is_never_ready_fails_the_call_when_its_time_to_start_is_over(
    habit: str, tmp_path: Path
) -> None:
    async with bridged(*RUDE, habit, env={"RUDE_PIDS": str(tmp_path / "pids")}, start=1) as bridge:
        with pytest.raises(ProtocolError) as caught:
            await Client(bridge).call("echo", text="x")
        says({"error": caught.value.body()}, "was not ready within 1 s")
        until(lambda: not any(map(alive, map(int, (tmp_path / "pids").read_text().split()))))


@full
@faces
@pytest.mark.parametrize("habit", ["mute", "rubbish"])
def test_a_server_that_is_never_ready_fails_the_call_within_a_minute(face: str, habit: str, tmp_path: Path) -> None:
    with behind(face, tmp_path, habit) as bridge:
        says(bridge.call("echo", text="x", within=80), "was not ready within 60 s")


# -- servers that fail a call ------------------------------------------------------------------------------------------


@faces
def test_a_server_that_falls_mute_fails_the_call_after_the_time_that_was_set(face: str, tmp_path: Path) -> None:
    with behind(face, tmp_path, "mute-after-handshake") as bridge:
        began = time.monotonic()
        says(bridge.call("echo", text="x"), "2 s", "--timeout")
        assert 1.5 < time.monotonic() - began < 8
        said = bridge.exchange({**tool_call("list", "x"), "method": "tools/list"})
        says(said, "tools/list", "2 s", "--timeout")


@faces
def test_the_second_answer_to_a_call_is_ignored(face: str, tmp_path: Path) -> None:
    with behind(face, tmp_path, "answers-twice") as bridge:
        assert text(bridge.call("trouble")) == "done"
        bridge.works()
        assert face == "http" or bridge.silent()
        assert len(bridge.server_pids()) == 1


@faces
def test_an_answer_with_a_wrong_id_is_nobodys_and_its_call_fails_alone(face: str, tmp_path: Path) -> None:
    with behind(face, tmp_path, "wrong-id") as bridge:
        bridge.begin(tool_call("trouble", "trouble"))
        bridge.works()
        says(bridge.call("trouble"), "said nothing for 2 s", "--timeout")
        bridge.works()


@faces
def test_a_flood_before_each_answer_delays_it_and_nothing_else(face: str, tmp_path: Path) -> None:
    with behind(face, tmp_path, "floods") as bridge:
        bridge.works()
        bridge.works()
        assert len(bridge.log) < 2 * 1024 * 1024


@faces
def test_half_an_answer_fails_its_call_and_the_next_call_gets_a_new_server(face: str, tmp_path: Path) -> None:
    with behind(face, tmp_path, "half-line") as bridge:
        says(bridge.call("trouble"), "'rude#1'", "answered with a message that cannot be read")
        bridge.works()
        assert len(bridge.server_pids()) == 2


@faces
def test_a_server_that_dies_with_a_question_open_fails_its_call_and_the_next_one_works(
    face: str, tmp_path: Path
) -> None:
    with running(face, tmp_path, "--", *ASKER) as bridge:
        asked = bridge.call("die", seconds=1.0, code=7)
        assert asked["result"]["resultType"] == "input_required"
        time.sleep(1.2)
        retry = tool_call("retry", "die", seconds=1.0, code=7)
        retry["params"]["requestState"] = asked["result"]["requestState"]
        key = next(iter(asked["result"]["inputRequests"]))
        retry["params"]["inputResponses"] = {key: {"action": "accept", "content": {"name": "Ada"}}}
        says(bridge.exchange(retry), "exited with code 7")
        bridge.works()


@faces
def test_a_server_that_dies_fails_every_call_that_runs_on_it(face: str, tmp_path: Path) -> None:
    with running(face, tmp_path, "--", *ASKER) as bridge:
        bridge.works()
        calls = [request("tools/call", f"s{i}", {"name": "slow", "arguments": {"seconds": 60}}) for i in (1, 2)]
        last = request("tools/call", "last", {"name": "die_now", "arguments": {"code": 5}})
        if face == "stdio":
            bridge.send(*calls)
            says(bridge.exchange(last), "exited with code 5")
            failed = [bridge.answer_to(call["id"]) for call in calls]
        else:
            with ThreadPoolExecutor() as pool:
                running_calls = [pool.submit(bridge.exchange, call) for call in calls]
                time.sleep(0.5)
                says(bridge.exchange(last), "exited with code 5")
                failed = [call.result() for call in running_calls]
        for answer in failed:
            says(answer, "exited with code 5")
        bridge.works()


# -- targets that are not there ----------------------------------------------------------------------------------------


def refused(*arguments: str, code: int = 2) -> str:
    """What the program says when it does not start."""
    done = subprocess.run(
        command(*arguments), cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=10, check=False
    )
    assert done.returncode == code, done
    assert done.stdout == ""
    assert done.stderr.startswith("mrtr-bridge: ")
    assert done.stderr.count("\n") == 1, done.stderr
    assert done.stderr.endswith(".\n"), done.stderr
    return done.stderr


@pytest.mark.parametrize("face", ["stdio", "serve"])
def test_a_command_that_is_not_there_is_a_wrong_use(face: str) -> None:
    assert "no-such-command-anywhere" in refused(face, "--", "no-such-command-anywhere")


@pytest.mark.parametrize("face", ["stdio", "serve"])
def test_a_command_that_is_a_directory_is_a_wrong_use(face: str, tmp_path: Path) -> None:
    assert str(tmp_path) in refused(face, "--", str(tmp_path))


@pytest.mark.parametrize("face", ["stdio", "serve"])
def test_a_working_directory_that_is_not_there_is_a_wrong_use(face: str, tmp_path: Path) -> None:
    missing = str(tmp_path / "missing")
    assert missing in refused(face, "--cwd", missing, "--", *ASKER)


def test_a_port_in_use_is_said_so() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert port in refused("serve", "--port", port, "--log-level", "warning", "--", *ASKER, code=1)


@faces
def test_a_working_directory_that_vanishes_later_fails_the_call(face: str, tmp_path: Path) -> None:
    cwd = tmp_path / "cwd"
    cwd.mkdir()
    with running(face, tmp_path, "--cwd", str(cwd), "--", *ASKER) as bridge:
        if face == "http":
            assert bridge.port
        else:
            says(bridge.exchange({**tool_call(0, "x"), "method": "no/such"}), code=-32601)
        cwd.rmdir()
        says(bridge.call("echo", text="x"), str(cwd), "does not exist")
        cwd.mkdir()
        bridge.works()


class Answering(http.server.BaseHTTPRequestHandler):
    """Answers everything in one way."""

    def __init__(self, status: int, kind: str, body: bytes, *args: Any) -> None:
        self.status, self.kind, self.body = status, kind, body
        super().__init__(*args)

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("content-length", 0)))
        self.send_response(self.status)
        self.send_header("content-type", self.kind)
        self.send_header("content-length", str(len(self.body)))
        self.end_headers()
        self.wfile.write(self.body)

    do_GET = do_DELETE = do_POST

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def answering(status: int, kind: str = "text/plain", body: bytes = b"no") -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Answering, status, kind, body))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/mcp"
    finally:
        server.shutdown()
        server.server_close()


@faces
def test_a_url_where_nobody_listens_fails_the_call_and_names_the_url(face: str, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        url = f"http://127.0.0.1:{probe.getsockname()[1]}/mcp"
    with running_url(face, tmp_path, url) as bridge:
        for _ in range(2):
            says(bridge.call("echo", text="x"), url, "could not be reached")


@faces
@pytest.mark.parametrize("status", [401, 403, 500])
def test_a_url_that_refuses_fails_the_call_and_names_the_status(face: str, status: int, tmp_path: Path) -> None:
    with answering(status) as url, running_url(face, tmp_path, url) as bridge:
        for _ in range(2):
            says(bridge.call("echo", text="x"), url, f"HTTP {status}")


@faces
def test_a_url_that_answers_with_a_web_page_fails_the_call_and_says_what_came(face: str, tmp_path: Path) -> None:
    page = b"<!doctype html><title>Welcome</title>" + b"<p>Hello!" * 500
    with answering(200, "text/html", page) as url, running_url(face, tmp_path, url) as bridge:
        says(bridge.call("echo", text="x"), "text/html")


@faces
def test_a_url_whose_answer_is_an_error_object_is_quoted(face: str, tmp_path: Path) -> None:
    error = {"jsonrpc": "2.0", "id": None, "error": {"code": -32000, "message": "Come back later"}}
    body = json.dumps(error).encode()
    with answering(503, "application/json", body) as url, running_url(face, tmp_path, url) as bridge:
        says(bridge.call("echo", text="x"), "Come back later")


@contextmanager
def running_url(face: str, folder: Path, url: str) -> Iterator[Bridge]:
    pids = folder / "pids"
    bridge = Bridge(face, pids, "--url", url, env={})
    try:
        yield bridge
        bridge.end()
    finally:
        bridge.kill()
