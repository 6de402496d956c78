"""The command line: what reaches the bridge, and how every mistake ends."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from bridge import cli, telemetry
from bridge.keyring import KeyRing, generate
from bridge.principals import everybody_is_anonymous
from bridge.settings import Server
from bridge.settings_http import HttpOptions

PYTHON = sys.executable


class Started(ModuleType):
    """Stands for `bridge.app`: keeps what it was called with."""

    def __init__(self) -> None:
        super().__init__("bridge.app")
        self.calls: list[tuple[Any, ...]] = []
        self.does: Callable[[], int] = lambda: 0

    def run_stdio(self, server: Server, ring: KeyRing) -> int:
        self.calls.append((server, ring))
        return self.does()

    def run_http(self, server: Server, ring: KeyRing, options: HttpOptions) -> int:
        self.calls.append((server, ring, options))
        return self.does()


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Started:
    fake = Started()
    monkeypatch.setitem(sys.modules, "bridge.app", fake)
    monkeypatch.setattr(telemetry, "setup", lambda level, style: None)
    monkeypatch.delenv("MRTR_BRIDGE_KEYS", raising=False)
    return fake


def test_stdio_starts_a_command_with_everything_passed_on(started: Started, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_TOKEN", "t")
    assert cli.main(["stdio", "--", PYTHON, "server.py", "--port", "1", "--", "-h"]) == 0
    ((server, ring),) = started.calls
    assert server.target.command == (PYTHON, "server.py", "--port", "1", "--", "-h")
    assert server.target.env["SOME_TOKEN"] == "t"
    assert server.target.name == "server"
    assert isinstance(ring, KeyRing)


def test_options_after_the_command_are_its_own_even_without_dashes(started: Started) -> None:
    assert cli.main(["stdio", PYTHON, "--version"]) == 0
    assert started.calls[0][0].target.command == (PYTHON, "--version")


def test_serve_passes_on_a_small_environment(started: Started, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_TOKEN", "t")
    assert cli.main(["serve", "--", PYTHON]) == 0
    assert cli.main(["serve", "--env", "SOME_TOKEN", "--env", "A=b", "--", PYTHON]) == 0
    assert cli.main(["serve", "--inherit-env", "--", PYTHON]) == 0
    small, more, everything = (call[0].target.env for call in started.calls)
    assert "SOME_TOKEN" not in small
    assert (more["SOME_TOKEN"], more["A"]) == ("t", "b")
    assert everything["SOME_TOKEN"] == "t"


def test_the_keys_of_the_bridge_are_not_the_servers(started: Started, monkeypatch: pytest.MonkeyPatch) -> None:
    key = generate()
    monkeypatch.setenv("MRTR_BRIDGE_KEYS", key)
    assert cli.main(["stdio", "--", PYTHON]) == 0
    ((server, ring),) = started.calls
    assert "MRTR_BRIDGE_KEYS" not in server.target.env
    assert ring == KeyRing.parse(key)


def test_a_key_file_comes_before_the_environment(
    started: Started, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("MRTR_BRIDGE_KEYS", generate())
    key = generate()
    (tmp_path / "keys").write_text(key)
    assert cli.main(["stdio", "--key-file", str(tmp_path / "keys"), "--", PYTHON]) == 0
    assert started.calls[0][1] == KeyRing.parse(key)


def test_without_a_key_the_log_says_what_that_means(started: Started, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", "mrtr"):
        assert cli.main(["serve", "--", PYTHON]) == 0
    assert "void when this process ends" in caplog.text


def test_serve_listens_where_it_is_told(started: Started) -> None:
    assert cli.main(["serve", "--", PYTHON]) == 0
    command = ["--header-command", "token --now"]
    words = "--port 0 --host ::1 --max-body 1k --allowed-host a.b --allowed-origin https://c.d --shared-session"
    assert cli.main(["serve", *words.split(), "--url", "http://x/mcp", "--header", "X-Key: 1", *command]) == 0
    (_, _, plain), (server, _, told) = started.calls
    assert server.target.header_command == "token --now"
    assert plain == HttpOptions()
    assert plain.url() == "http://127.0.0.1:8000/mcp"
    assert told == HttpOptions("::1", 0, 1024, ("a.b",), ("https://c.d",), everybody_is_anonymous)
    assert told.url(81) == "http://[::1]:81/mcp"
    assert (server.shared_session, server.target.url, server.target.headers) == (True, "http://x/mcp", {"X-Key": "1"})


def test_limits_and_attribution_reach_the_server(started: Started) -> None:
    words = "--call-ttl 2h --timeout 90 --start-timeout 3m --max-sessions 40 --attribution strict --name files"
    words += " --single-session --asks deploy=one --asks read=never --roots-age 1m"
    assert cli.main(["stdio", *words.split(), "--", PYTHON]) == 0
    server = started.calls[0][0]
    assert (server.limits.call_ttl, server.limits.silence, server.limits.max_sessions) == (7200, 90, 40)
    assert server.limits.start == 180
    assert server.limits.max_sessions_per_principal >= 40
    assert (server.attribution, server.target.name) == ("strict", "files")
    assert server.asks == {"deploy": "one", "read": "never"}
    assert server.limits.roots_age == 60
    assert server.single_session


def test_a_server_that_reads_inline_has_a_time_of_its_own_for_questions(started: Started) -> None:
    assert cli.main(["stdio", "--", PYTHON]) == 0
    assert cli.main(["stdio", "--one-call", "--", PYTHON]) == 0
    assert cli.main(["serve", "--one-call", "--one-call-ttl", "20s", "--", PYTHON]) == 0
    assert [call[0].limits.one_call for call in started.calls] == [None, 60, 20]


def test_workspaces_are_told_apart_on_demand(started: Started, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["serve", "--roots", "per-call", "--", PYTHON]) == 0
    assert started.calls[0][0].roots == "per-call"
    assert cli.main(["serve", "--roots", "per-call", "--single-session", "--", PYTHON]) == 2
    assert "--single-session allows one" in capsys.readouterr().err


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "example.org", ""])
def test_others_are_let_in_only_if_they_can_be_told_apart(
    started: Started, host: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert cli.main(["serve", "--host", host, "--", PYTHON]) == 2
    assert "--auth-token-file" in capsys.readouterr().err
    (tmp_path / "tokens").write_text("ann-0123456789abcdef ann\n")
    for way in (
        ["--auth-token-file", str(tmp_path / "tokens")],
        ["--principal-header", "X-User"],
        ["--shared-session"],
    ):
        assert cli.main(["serve", "--host", host, *way, "--", PYTHON]) == 0
    by_token, by_header, shared = (call[2].identify for call in started.calls)
    assert by_token({"authorization": "Bearer ann-0123456789abcdef"}) == "ann"
    assert by_header({"x-user": "bob"}) == "bob"
    assert shared is everybody_is_anonymous


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "localhost", "::1"])
def test_loopback_needs_no_names(started: Started, host: str) -> None:
    assert cli.main(["serve", "--host", host, "--", PYTHON]) == 0


@pytest.mark.parametrize("said", ["auto", "streamable-http", "http-sse"])
def test_what_is_spoken_at_the_url_can_be_said(started: Started, said: str) -> None:
    assert cli.main(["stdio", "--url", "http://x/sse", *(["--transport", said] if said != "auto" else [])]) == 0
    server = started.calls[0][0]
    assert (server.target.url, server.target.transport) == ("http://x/sse", said)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("stdio", "Say which server to bridge"),
        ("serve", "Say which server to bridge"),
        ("serve --url http://x -- cat", "not both"),
        ("stdio --url ws://x", "--url takes an address"),
        ("stdio --cwd ./no-such-place -- cat", "no such directory"),
        ("stdio -- no-such-program", "no-such-program was not found"),
        ("serve --port 65536 -- cat", "--port"),
        ("serve --port x -- cat", "--port"),
        ("serve --port", "--port"),
        ("serve --nope -- cat", "--nope"),
        ("nope", "nope"),
        ("stdio --env NOT_SET_ANYWHERE -- cat", "NOT_SET_ANYWHERE=VALUE"),
        ("stdio --env A=1 --url http://x", "belong to a command"),
        ("stdio --cwd . --url http://x", "belong to a command"),
        ("stdio --header X:1 -- cat", "belongs to --url"),
        ("stdio --transport http-sse -- cat", "--transport belongs to --url"),
        ("stdio --transport websocket --url http://x", "--transport"),
        ("stdio --header-command x -- cat", "--header-command belongs to --url"),
        ("stdio --header-command= --url http://localhost/mcp", "--header-command takes a command"),
        ("stdio --header X --url http://x", "takes a name and a value"),
        ("stdio --timeout soon -- cat", "--timeout takes a time"),
        ("stdio --call-ttl 0 -- cat", "--call-ttl takes a time"),
        ("stdio --max-sessions 0 -- cat", "--max-sessions"),
        ("stdio --log-level loud -- cat", "--log-level"),
        ("stdio --log-format xml -- cat", "--log-format"),
        ("stdio --attribution guess -- cat", "--attribution"),
        ("stdio --key-file ./no-such-file -- cat", "no-such-file cannot be read"),
        ("serve --max-body big -- cat", "--max-body takes a number"),
        ("serve --allowed-origin * -- cat", "--allowed-origin takes"),
        ("serve --allowed-host http://x -- cat", "--allowed-host takes"),
        ("serve --auth-token-file ./no-such-file -- cat", "no-such-file cannot be read"),
        ("serve --principal-header a:b -- cat", "--principal-header takes"),
        ("serve --auth-token-file x --principal-header y -- cat", "not both"),
    ],
)
def test_wrong_use_ends_with_a_sentence_and_2(
    started: Started, capsys: pytest.CaptureFixture[str], line: str, says: str
) -> None:
    assert cli.main([PYTHON if word == "cat" else word for word in line.split()]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert says in err
    assert err.startswith("mrtr-bridge: ")
    assert err.count("\n") == 1
    assert started.calls == []


def test_a_bad_key_is_refused_and_not_shown(
    started: Started, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MRTR_BRIDGE_KEYS", "hunter2")
    assert cli.main(["stdio", "--", PYTHON]) == 2
    err = capsys.readouterr().err
    assert "MRTR_BRIDGE_KEYS" in err
    assert "hunter2" not in err


def _raise(error: BaseException) -> Callable[[], int]:
    def act() -> int:
        raise error

    return act


def test_what_breaks_later_ends_with_its_sentence_and_1(started: Started, capsys: pytest.CaptureFixture[str]) -> None:
    from bridge.settings_http import CannotListen
    from legacy.errors import CannotStart

    for error in (CannotListen("Taken."), CannotStart("Gone."), ExceptionGroup("", [CannotStart("Inside.")])):
        started.does = _raise(error)
        assert cli.main(["serve", "--", PYTHON]) == 1
    assert capsys.readouterr().err == "mrtr-bridge: Taken.\nmrtr-bridge: Gone.\nmrtr-bridge: Inside.\n"


def test_a_fault_of_our_own_is_logged_and_ends_with_1(started: Started, caplog: pytest.LogCaptureFixture) -> None:
    started.does = _raise(RuntimeError("oops"))
    assert cli.main(["serve", "--", PYTHON]) == 1
    assert "a fault of its own" in caplog.text


def test_an_interrupt_ends_quietly_with_130(started: Started, capsys: pytest.CaptureFixture[str]) -> None:
    started.does = _raise(KeyboardInterrupt())
    assert cli.main(["serve", "--", PYTHON]) == 130
    assert "Traceback" not in capsys.readouterr().err


def test_the_exit_code_is_the_bridges(started: Started) -> None:
    started.does = lambda: 7
    assert cli.main(["stdio", "--", PYTHON]) == 7


def test_the_demo_gets_its_flag_or_says_what_it_needs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake: Any = ModuleType("bridge.demo")
    fake.run = lambda interactive: 10 + interactive
    monkeypatch.setitem(sys.modules, "bridge.demo", fake)
    assert cli.main(["demo"]) == 10
    assert cli.main(["demo", "--interactive"]) == 11
    fake.run = lambda interactive: _raise(ModuleNotFoundError("no", name="mcp.client"))()
    assert cli.main(["demo"]) == 1
    assert "pip install 'mrtr-bridge[demo]'" in capsys.readouterr().err


def test_keygen_prints_one_key_and_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["keygen"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert len(KeyRing.parse(out).keys) == 1


@pytest.mark.parametrize("words", [["--help"], ["serve", "--help"], ["stdio", "-h"]])
def test_help_is_no_error(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(words) == 0
    assert "Usage" in capsys.readouterr().out


def test_help_says_what_a_shared_session_shares(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["serve", "--help"]) == 0
    assert "logins" in capsys.readouterr().out


def test_the_version_imports_nothing_heavy() -> None:
    heavy = ("uvicorn", "httpx", "cryptography", "starlette", "msgpack", "anyio", "mcp", "rich")
    code = f"""
import sys
from bridge.cli import main
assert main(["--version"]) == 0
print([name for name in {heavy!r} if name in sys.modules])
"""
    done = subprocess.run([PYTHON, "-c", code], capture_output=True, text=True, timeout=30, check=True)
    version, loaded = done.stdout.splitlines()
    assert version.startswith("mrtr-bridge ")
    assert loaded == "[]"


def test_the_package_is_a_program_too() -> None:
    done = subprocess.run([PYTHON, "-m", "bridge", "nope"], capture_output=True, text=True, timeout=30, check=False)
    assert (done.returncode, done.stdout) == (2, "")
