"""What the words of a command line mean, and the sentence for each mistake."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from bridge import cli_values as words
from bridge.cli_values import WrongUse


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 90),
        ("90s", 90),
        ("10m", 600),
        ("1h", 3600),
        ("1.5H", 5400),
        ("500ms", 0.5),
        (" 2 m ", 120),
        ("1d", 86400),
    ],
)
def test_a_duration_is_read(text: str, seconds: float) -> None:
    assert words.duration("--timeout", text) == seconds


@pytest.mark.parametrize(
    "text", ["", "soon", "-1", "0", "0s", "1y", "1e3", "nan", "inf", "1h30m", "٣", "9" * 400, "400d"]
)
def test_a_bad_duration_names_its_option_and_shows_how(text: str) -> None:
    with pytest.raises(WrongUse, match=r"--timeout takes a time such as 90, 90s, 10m or 1h"):
        words.duration("--timeout", text)


@pytest.mark.parametrize(
    ("text", "count"), [("1", 1), ("512k", 524288), ("4m", 4194304), ("4MiB", 4194304), ("1G", 2**30), ("10b", 10)]
)
def test_a_size_is_read(text: str, count: int) -> None:
    assert words.size("--max-body", text) == count


@pytest.mark.parametrize("text", ["", "0", "-1", "1.5m", "4t", "many", "9" * 5000])
def test_a_bad_size_is_refused(text: str) -> None:
    with pytest.raises(WrongUse, match="--max-body takes a number of bytes"):
        words.size("--max-body", text)


@pytest.mark.parametrize(
    ("command", "url", "says"),
    [
        ([], None, "Say which server"),
        ([""], None, "Say which server"),
        (["x"], "http://x", "not both"),
        (["http://x/mcp"], None, "--url URL"),
    ],
)
def test_exactly_one_target_is_wanted(command: list[str], url: str | None, says: str) -> None:
    with pytest.raises(WrongUse, match=says):
        words.target_words(command, url)


@pytest.mark.parametrize("url", ["http://localhost:3000/mcp", "https://[::1]/sse?x=1", "HTTP://example.org"])
def test_an_http_url_is_taken(url: str) -> None:
    assert words.server_url(url) == url


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("", "begins with http"),
        ("localhost:3000", "begins with http"),
        ("ftp://x", "begins with http"),
        ("http://", "begins with http"),
        ("http://x:99999/", "begins with http"),
        ("http://x y/", "begins with http"),
        ("http://[x/", "begins with http"),
        ("http://user:hunter2@x/", "--header"),
        ("http://x/#y", "fragment"),
        ("http://⒈com/", "no address"),
        ("http://x/" + "a" * 70_000, "no address"),
    ],
)
def test_any_other_url_is_refused_without_its_password(url: str, says: str) -> None:
    with pytest.raises(WrongUse, match=says) as caught:
        words.server_url(url)
    assert "hunter2" not in str(caught.value)


def test_headers_are_read() -> None:
    given = ["Authorization: Bearer a:b", "X-Tenant:  7 "]
    assert words.headers(given) == {"Authorization": "Bearer a:b", "X-Tenant": "7"}


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (["hunter2"], "takes a name and a value"),
        (["Bad Name: hunter2"], "takes a name and a value"),
        ([": hunter2"], "takes a name and a value"),
        (["X-Key: hunter2\r\nX-Other: 1"], "printable"),
        (["X-Key: hunter2é"], "printable"),
        (["X-Key:"], "printable"),
        (["Content-Type: hunter2"], "sets this header itself"),
        (["mcp-session-id: hunter2"], "sets this header itself"),
        (["X-Key: hunter2", "x-key: hunter2"], "given twice"),
    ],
)
def test_a_bad_header_is_refused_without_its_value(given: list[str], says: str) -> None:
    with pytest.raises(WrongUse, match=says) as caught:
        words.headers(given)
    assert "hunter2" not in str(caught.value)


OURS = {"PATH": "/bin", "HOME": "/me", "SECRET": "s", "MRTR_BRIDGE_KEYS": "k", "SHELL": "() { :; }"}


@pytest.mark.parametrize(
    ("given", "inherit", "env"),
    [
        ([], False, {"PATH": "/bin", "HOME": "/me"}),
        (["SECRET"], False, {"PATH": "/bin", "HOME": "/me", "SECRET": "s"}),
        (["A=b=c", "HOME="], False, {"PATH": "/bin", "HOME": "", "A": "b=c"}),
        ([], True, {name: value for name, value in OURS.items() if name != "MRTR_BRIDGE_KEYS"}),
        (["MRTR_BRIDGE_KEYS"], True, OURS),
    ],
)
def test_the_childs_environment(given: list[str], inherit: bool, env: dict[str, str]) -> None:
    assert words.environment(given, inherit=inherit, ours=OURS) == env


def test_the_small_set_is_that_of_the_official_sdk() -> None:
    stdio = pytest.importorskip("mcp.client.stdio")
    assert set(words.PASSED_ON) == set(stdio.DEFAULT_INHERITED_ENV_VARS)


@pytest.mark.parametrize(("given", "says"), [("", "--env takes"), ("=x", "--env takes"), ("NOPE", "NOPE=VALUE")])
def test_a_bad_variable_is_refused(given: str, says: str) -> None:
    with pytest.raises(WrongUse, match=says):
        words.environment([given], inherit=False, ours=OURS)


def test_a_directory_must_exist(tmp_path: Path) -> None:
    assert words.directory(str(tmp_path)) == str(tmp_path)
    with pytest.raises(WrongUse, match="no such directory"):
        words.directory(str(tmp_path / "nope"))


def test_a_command_must_be_one_that_can_be_started(tmp_path: Path) -> None:
    script = tmp_path / "serve"
    script.write_text("#!/bin/sh\n")
    with pytest.raises(WrongUse, match="was not found, or may not be run"):
        words.executable(["./serve"], env={}, cwd=str(tmp_path))
    script.chmod(0o755)
    words.executable(["./serve"], env={}, cwd=str(tmp_path))
    words.executable(["serve"], env={"PATH": str(tmp_path)}, cwd=None)
    words.executable([sys.executable], env={}, cwd=None)
    with pytest.raises(WrongUse, match="nope"):
        words.executable(["nope"], env={"PATH": str(tmp_path)}, cwd=None)


def test_origins_and_hosts_are_read_as_browsers_send_them() -> None:
    assert words.origin("HTTPS://App.example.org:8443/") == "https://app.example.org:8443"
    assert words.host("MCP.example.org") == "mcp.example.org"
    assert words.host("[::1]:8000") == "[::1]:8000"


@pytest.mark.parametrize("text", ["", "*", "app.example.org", "https://x/path", "https://*.x", "https://u@x", "null"])
def test_a_bad_origin_is_refused(text: str) -> None:
    with pytest.raises(WrongUse, match="--allowed-origin takes an origin"):
        words.origin(text)


@pytest.mark.parametrize("text", ["", "*", "http://x", "x/y", "x:port"])
def test_a_bad_host_is_refused(text: str) -> None:
    with pytest.raises(WrongUse, match="--allowed-host takes a name"):
        words.host(text)


@pytest.mark.parametrize(
    ("command", "url", "name"),
    [
        (["python", "server.py"], None, "server"),
        (["/usr/bin/python3.11", "-m", "weather.server"], None, "weather.server"),
        (["npx", "-y", "@scope/server-files@1.2"], None, "server-files"),
        (["uv", "run", "files.py", "--root", "/x"], None, "files"),
        (["./files-server", "--port", "1"], None, "files-server"),
        (["node", "dist/index.js"], None, "index"),
        (["python"], None, "python"),
        (["漢字"], None, "server"),
        ([], "http://tools.example.org:80/mcp", "tools.example.org:80"),
        ([], "http://user@tools.example.org/mcp", "tools.example.org"),
        (["python3", "-c", "import sys"], None, "python3"),
        (["npx", "--api-key", "hunter2", "server-files"], None, "server-files"),
        (["docker", "run", "--rm", "-i", "--env", "KEY=hunter2", "mcp/files"], None, "files"),
    ],
)
def test_a_server_without_a_name_gets_a_telling_one(command: list[str], url: str | None, name: Any) -> None:
    assert words.server_name(command, url) == name


def test_one_call_is_for_commands() -> None:
    assert words.one_call(False, "60", "http://x") is None
    with pytest.raises(WrongUse, match="--one-call belongs to a command"):
        words.one_call(True, "60", "http://x")
    with pytest.raises(WrongUse, match="--one-call-ttl takes a time"):
        words.one_call(True, "soon", None)


def test_hints_are_read() -> None:
    given = ["deploy=one", "a=b=never", "prompts/get:hello=many"]
    assert words.hints(given) == {"deploy": "one", "a=b": "never", "prompts/get:hello": "many"}


@pytest.mark.parametrize("text", ["", "deploy", "deploy=", "=one", "deploy=always", "deploy=One"])
def test_a_bad_hint_is_refused(text: str) -> None:
    with pytest.raises(WrongUse, match="--asks deploy=one"):
        words.hints([text])


def test_the_times_of_tasks_are_read_and_none_after_means_never() -> None:
    assert words.task_times(None, "1h", "500ms") == {"task_after": None, "task_ttl": 3600, "task_poll": 0.5}
    assert words.task_times("30s", "2d", "1s")["task_after"] == 30
    with pytest.raises(WrongUse, match="--task-after takes a time"):
        words.task_times("soon", "1h", "1s")
