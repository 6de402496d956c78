"""Several servers behind one bridge, as the real program serves them, and the commands that look at a file."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.faults.processes import (
    ASKER,
    ROOT,
    RUDE,
    alive,
    command,
    descendants,
    headers,
    response_in,
    tool_call,
    until,
)
from tests.peers.talking import server_process

Json = dict[str, Any]


def file_of(folder: Path, **servers: tuple[str, ...]) -> Path:
    tables = [f"[servers.{name}]\ncommand = {json.dumps(list(words))}\n" for name, words in servers.items()]
    path = folder / "fleet.toml"
    path.write_text("[http]\nport = 0\n" + "".join(tables))
    return path


@contextmanager
def served(path: Path, *options: str) -> Iterator[str]:
    """The base URL of a fleet."""
    words = command("serve", "--config", str(path), *options)
    with server_process(words, r"(http://127\.0\.0\.1:\d+)/servers/") as match:
        yield match[1]


def post(base: str, name: str | None, message: Json) -> httpx.Response:
    where = "/mcp" if name is None else f"/servers/{name}/mcp"
    return httpx.post(base + where, json=message, headers=headers(message), timeout=20)


def call(base: str, name: str | None, tool: str, **arguments: Any) -> Json:
    return response_in(post(base, name, tool_call(1, tool, **arguments)))


def test_each_server_is_at_its_name_and_a_broken_one_troubles_no_other(tmp_path: Path) -> None:
    path = file_of(tmp_path, one=ASKER, two=ASKER, broken=(*RUDE, "exits-at-once"))
    with served(path) as base:
        for name in ("one", "two"):
            answer = call(base, name, "echo", text=name)
            assert answer["result"]["content"][0]["text"] == name
            assert answer["result"]["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "asker"
        assert "'broken#1' exited with code 3" in call(base, "broken", "echo", text="x")["error"]["message"]
        assert post(base, "three", tool_call(1, "echo")).status_code == 404
        assert post(base, None, tool_call(1, "echo")).status_code == 404, "with several servers /mcp is nobody's"


def test_a_state_of_one_server_is_no_state_of_another(tmp_path: Path) -> None:
    with served(file_of(tmp_path, one=ASKER, two=ASKER)) as base:
        asked = call(base, "one", "ask_once")["result"]
        retry = tool_call(2, "ask_once")
        answers = {key: {"action": "accept", "content": {"name": "Ada"}} for key in asked["inputRequests"]}
        retry["params"] |= {"requestState": asked["requestState"], "inputResponses": answers}
        assert response_in(post(base, "two", retry))["error"]["code"] == -32602
        assert "Ada" in response_in(post(base, "one", retry))["result"]["content"][0]["text"]


def test_a_single_server_is_at_mcp_too(tmp_path: Path) -> None:
    with served(file_of(tmp_path, only=ASKER)) as base:
        for name in (None, "only"):
            assert call(base, name, "echo", text="x")["result"]["content"][0]["text"] == "x"


def test_a_fleet_ends_as_fast_as_one_server(tmp_path: Path) -> None:
    stubborn = {f"s{number}": (*RUDE, "ignores-sigterm") for number in range(4)}
    path = file_of(tmp_path, **stubborn)
    with subprocess.Popen(command("serve", "--config", str(path)), cwd=ROOT, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        base = ""
        while "/servers/" not in base:
            base = process.stderr.readline().decode()
        base = base.strip().partition("/servers/")[0]
        for name in stubborn:
            assert call(base, name, "echo", text="x")["result"]
        below = descendants(process.pid)
        assert len(below) >= len(stubborn)
        process.terminate()
        process.stderr.read()
        assert process.wait(5) == 0
        until(lambda: not any(map(alive, below)), 1)


def test_options_of_the_command_line_go_before_the_file(tmp_path: Path) -> None:
    path = file_of(tmp_path, only=ASKER)
    tokens = tmp_path / "tokens"
    tokens.write_text("a-token-that-is-long-enough ada\n")
    with served(path, "--auth-token-file", str(tokens)) as base:
        assert post(base, "only", tool_call(1, "echo")).status_code == 401


# -- what is refused ---------------------------------------------------------------------------------------------------


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(*words), cwd=ROOT, capture_output=True, text=True, timeout=20, check=False)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--timeout", "5s"), "--timeout is about one server: with --config, write it into the file."),
        (("--", "cat"), "Give either a command or --config, not both."),
        (("--url", "http://h/"), "--url is about one server: with --config, write it into the file."),
        (("--host", "0.0.0.0"), "Others can reach 0.0.0.0, and nothing would tell them apart"),
    ],
)
def test_wrong_use_is_told(words: tuple[str, ...], said: str, tmp_path: Path) -> None:
    done = run("serve", "--config", str(file_of(tmp_path, only=ASKER)), *words)
    assert done.returncode == 2
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_file_with_mistakes_starts_nothing_and_names_each(tmp_path: Path) -> None:
    path = tmp_path / "fleet.toml"
    path.write_text("[http]\nprt = 1\n[servers.x]\ncommand = ['no-such-command-anywhere']\nroots = 'some'\n")
    for words in (("serve", "--config", str(path)), ("config", "check", str(path))):
        done = run(*words)
        assert done.returncode == 2
        lines = done.stderr.splitlines()
        assert lines[0].startswith(f"{path}:2: http.prt: there is no such key here; is it port?")
        assert lines[1] == f"{path}:5: servers.x.roots: this is one of 'shared' or 'per-call'."
        assert len(lines) == 2
    missing = run("config", "check", str(tmp_path / "none.toml"))
    assert missing.stderr == f"{tmp_path / 'none.toml'}: the file cannot be read: No such file or directory.\n"


def test_check_shows_the_servers_and_no_secret(tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    servers = {
        "files": {"command": sys.executable, "args": ["server.py", "--key", "s3cret"], "env": {"K": "s3cret"}},
        "web": {"url": "http://h/mcp?key=s3cret", "timeout": 5},
    }
    path.write_text(json.dumps({"mcpServers": servers}))
    done = run("config", "check", str(path))
    assert done.returncode == 0
    assert done.stdout.splitlines() == [
        f"{path}: 2 servers",
        "  files  command  server",
        "  web    url      http://h/mcp",
        "  note: web: timeout is the client's own and has no effect here.",
    ]
    said = json.loads(run("config", "check", "--json", str(path)).stdout)
    assert [one["name"] for one in said["servers"]] == ["files", "web"]
    assert "s3cret" not in json.dumps(said) + done.stdout
    path.write_text("{}")
    [fault] = json.loads(run("config", "check", "--json", str(path)).stdout)["faults"]
    assert fault == {"line": 1, "key": "", "message": "there is neither mcpServers nor servers in it."}


def test_the_schema_is_printed() -> None:
    assert json.loads(run("config", "schema").stdout)["title"] == "mrtr-bridge configuration"
