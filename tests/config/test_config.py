"""From a file to settings, and what is said of each mistake: file, line, key, what is allowed, never the value."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any, Literal

import jsonschema
import pytest

from bridge.config import Fleet, read, schema
from bridge.config_faults import ConfigError
from bridge.config_model import ServerEntry
from bridge.config_places import in_json, in_toml, line_of, plain_json

ROOT = Path(__file__).resolve().parents[2]
PYTHON = sys.executable
SECRET = "hunter2-hunter2"


def toml(text: str, environ: dict[str, str] | None = None, folder: Path = Path("/")) -> Fleet:
    return read(text, kind="toml", folder=folder, environ={"PATH": "/usr/bin:/bin", **(environ or {})})


def client_json(value: Any, environ: dict[str, str] | None = None) -> Fleet:
    text = value if isinstance(value, str) else json.dumps(value, indent=2)
    return read(text, kind="json", folder=Path("/"), environ={"PATH": "/usr/bin:/bin", **(environ or {})})


def faults(text: str, kind: Literal["toml", "json"] = "toml", **environ: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        read(text, kind=kind, folder=Path("/"), environ={"PATH": "/usr/bin:/bin", **environ})
    return [str(fault) for fault in caught.value.faults]


WHOLE = f"""
key_file = "keys"

[http]
host = "::1"
port = 0
max_body = "8m"
auth_token_file = "tokens"

[servers.files]
command = ["{PYTHON}", "-c", "pass"]
env = {{ TOKEN = "${{FILES_TOKEN}}", PRICE = "$${{5}}", KEY = {{ file = "key.txt" }} }}
timeout = "2m"
call_ttl = 90
max_sessions = 7
attribution = "strict"
cache = {{ ttl = "5m", scope = "public" }}

[servers.files.tools]
delete = {{ asks = "one", replay = false }}
"prompts/get:intro" = {{ asks = "never" }}

[servers."docs.v2"]
url = "http://127.0.0.1:9/${{WHERE}}"
headers = {{ Authorization = "Bearer ${{env:FILES_TOKEN}}" }}
transport = "http-sse"
"""


def test_a_whole_file_becomes_settings(tmp_path: Path) -> None:
    (tmp_path / "key.txt").write_text("from a file\n")
    fleet = toml(WHOLE, {"FILES_TOKEN": SECRET, "WHERE": "sse"}, tmp_path)
    files, docs = fleet.servers["files"], fleet.servers["docs.v2"]
    assert files.target.command == (PYTHON, "-c", "pass")
    assert files.target.name == "files"
    assert {name: files.target.env[name] for name in ("TOKEN", "PRICE", "KEY", "PATH")} == {
        "TOKEN": SECRET,
        "PRICE": "${5}",
        "KEY": "from a file",
        "PATH": "/usr/bin:/bin",
    }
    assert (files.limits.silence, files.limits.call_ttl, files.limits.max_sessions) == (120, 90, 7)
    assert files.attribution == "strict"
    assert (files.ttl_ms, files.cache_scope) == (300_000, "public")
    assert files.asks == {"delete": "one", "prompts/get:intro": "never"}
    assert files.replay == {"delete": False}
    assert docs.target.url == "http://127.0.0.1:9/sse"
    assert docs.target.headers == {"Authorization": f"Bearer {SECRET}"}
    assert docs.target.transport == "http-sse"
    assert (fleet.http.host, fleet.http.port, fleet.http.max_body) == ("::1", 0, 8 * 1024 * 1024)
    assert fleet.http.auth_token_file == str(tmp_path / "tokens")
    assert fleet.key_file == str(tmp_path / "keys")


def test_the_example_of_the_documentation_is_a_file(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "config.md").read_text(encoding="utf-8")
    example = page.partition("```toml\n")[2].partition("```")[0].replace('"npx"', json.dumps(PYTHON))
    (tmp_path / "api-key.txt").write_text("k")
    fleet = toml(example, {"REGION": "eu", "DOCS_TOKEN": SECRET}, tmp_path)
    assert list(fleet.servers) == ["files", "docs"]
    named = set(re.findall(r"`([a-z_]+)`", page)) | {"tools", "cache"}
    assert set(ServerEntry.model_fields) <= named, "every key is in the page"


def test_what_is_left_out_is_as_on_the_command_line() -> None:
    from bridge.settings import Limits

    server = toml(f'[servers.x]\ncommand = ["{PYTHON}"]').servers["x"]
    assert server.limits == Limits()
    assert server.model_dump(exclude={"target", "limits"}) == type(server)(target=server.target).model_dump(
        exclude={"target", "limits"}
    )


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("comand = []", "line 3: servers.x.comand: there is no such key here; is it command? Known are"),
        ("attribution = 'guess'", "line 3: servers.x.attribution: this is one of 'infer' or 'strict'."),
        ("timeout = 'soon'", "line 3: servers.x.timeout: it takes a time such as 90, 90s, 10m or 1h"),
        ("timeout = true", "line 3: servers.x.timeout: it takes a time such as"),
        ("max_sessions = 0", "line 3: servers.x.max_sessions: this should be greater than or equal to 1."),
        ("url = 'http://h/'", "line 1: servers.x: give either a command to start or a url to reach"),
        ("headers = { A = 'b' }", "line 1: servers.x: headers, header_command and transport belong to a url."),
        ("cwd = '/no/such'", "line 3: servers.x.cwd: cwd /no/such: there is no such directory."),
        ("tools.t.asks = 'often'", "line 3: servers.x.tools.t.asks: this is one of 'never', 'one' or 'many'."),
        ("tools.t.ask = 'one'", "line 3: servers.x.tools.t.ask: there is no such key here; is it asks? Known are"),
        ("env = { A = '${NOT_SET}' }", "line 3: servers.x.env.A: the variable NOT_SET is not set."),
        ("env = { A = '${input:key}' }", "line 3: servers.x.env.A: only ${NAME} and ${env:NAME} can be filled in"),
        ("env = { A = { file = '/no/such' } }", "line 3: servers.x.env.A: the file /no/such cannot be read: No such"),
        ("env = { A = 5 }", "line 3: servers.x.env.A: this should be a valid string."),
        ("cache.scope = 'all'", "line 3: servers.x.cache.scope: this is one of 'private' or 'public'."),
        ("single_session = true\nroots = 'per-call'", "line 1: servers.x: a server with a single session cannot tell"),
    ],
)
def test_a_mistake_names_its_line_key_and_what_is_allowed(line: str, said: str) -> None:
    [fault] = faults(f'[servers.x]\ncommand = ["{PYTHON}"]\n{line}\n')
    assert fault.startswith(said)
    assert fault.endswith(".")


def test_all_mistakes_are_told_at_once_in_the_order_of_the_file() -> None:
    text = "\n[http]\nport = 99999\nhots = ''\n[servers.a]\n[servers.b]\nurl = 'http://h/'\nroots = 'x'\n"
    assert [fault.partition(":")[0] for fault in faults(text)] == ["line 3", "line 4", "line 5", "line 8"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[servers.x]\ncommand = [", "line 2: this is no TOML: "),
        ("", "servers: this is needed."),
        ("[servers]", "line 1: servers: "),
        ("[servers.'a b']\nurl = 'http://h/'", 'line 1: servers."a b": a name is made of letters'),
        ("[servers.x]\ncommand = 'npx foo'", "line 2: servers.x.command: this is a list of words, such as"),
        ("[servers.x]\nurl = 'ftp://h'", "line 2: servers.x.url: url takes an address that begins with http://"),
        ("[servers.x]\nurl = 'http://⒈com/'", "line 2: servers.x.url: url is no address that can be asked"),
        (f"[servers.x]\nurl = 'http://h/{'a' * 70_000}'", "line 2: servers.x.url: url is no address that can be asked"),
        ("[servers.x]\nmax_sessions = " + "9" * 5_000, "there is a number of too many digits in it."),
        ("[servers.x]\ncommand = " + "[" * 5_000, "this is nested too deeply."),
        (
            "[servers.x]\nurl = 'http://h/'\nheaders = { A = \"a\\u0000b\" }",
            "line 3: servers.x.headers.A: this holds a",
        ),
        ("[servers.x]\ncommand = ['/no/such/program']", "line 2: servers.x.command: The command /no/such/program was"),
    ],
)
def test_a_file_that_is_wrong_as_a_whole(text: str, said: str) -> None:
    [fault] = faults(text)
    assert fault.startswith(said)


@pytest.mark.parametrize(
    "text",
    [
        f"[servers.x]\nurl = 'http://h/'\nheaders = {{ Authorization = \"{SECRET}\\n\" }}",
        f"[servers.x]\nurl = 'http://user:{SECRET}@h/'",
        f"[servers.x]\ncommand = ['{SECRET}', 1]",
        f"[servers.x]\nurl = 5\nenv = '{SECRET}'",
        f"[servers.x]\nurl = 'http://h/'\nheaders = {{ A = ['{SECRET}'] }}",
        f"[servers.x]\ncommand = ['{PYTHON}']\nenv = {{ '' = '{SECRET}' }}",
        f"[servers.x]\nurl = 'http://h/'\ntimeout = '{SECRET}'",
        f"[http]\nmax_body = '{SECRET}'\n[servers.x]\nurl = 'http://h/'",
        f"[http]\nallowed_hosts = ['{SECRET}/']\n[servers.x]\nurl = 'http://h/'",
        f"[http]\nallowed_origins = ['{SECRET}']\n[servers.x]\nurl = 'http://h/'",
        "[servers.x]\ncommand = ['${KEY}']",
        "[servers.x]\ncommand = ['x']\ncwd = '/${KEY}'",
        "[servers.x]\nurl = '${KEY}'",
    ],
)
def test_no_mistake_repeats_a_value(text: str) -> None:
    said = faults(text, KEY=SECRET)
    assert said
    assert SECRET not in " ".join(said)


def test_what_is_filled_in_holds_no_zero_byte(tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(b"a\0b")
    with pytest.raises(ConfigError, match=r"line 3: servers\.x\.env\.A: .*/key holds a zero byte"):
        toml(f"[servers.x]\ncommand = ['{PYTHON}']\nenv.A = {{ file = 'key' }}", folder=tmp_path)


@pytest.mark.parametrize("value", ["[" * 100_000, "9" * 5_000, '"\\ud800"', '"\\u0000"'])
def test_what_no_json_reader_can_take_is_a_mistake_too(value: str) -> None:
    [fault] = faults('{"mcpServers": {"x": {"url": ' + value + "}}}", "json")
    assert fault.startswith(("this is nested", "there is a number of", "line 1: servers.x.url: this holds"))


def test_a_long_text_costs_no_time() -> None:
    assert in_toml('k = """\n' + "a.a" * 50_000 + '\n"""\n[t]\n')[("t",)] == 4


# -- the configuration of a client -------------------------------------------------------------------------------------

CLAUDE = {
    "mcpServers": {
        "files": {"command": PYTHON, "args": ["-c", "pass"], "env": {"KEY": "v"}, "disabled": False},
        "off": {"command": "no-such-command", "disabled": True},
        "web": {"type": "http", "url": "http://h/mcp", "headers": {"X-Key": "${KEY}"}, "timeout": 60},
        "old": {"type": "sse", "serverUrl": "http://h/sse"},
    }
}
VS_CODE = """{
  // where VS Code keeps its own
  "inputs": [{"type": "promptString", "id": "key"}],
  "servers": {
    "files": { "type": "stdio", "command": "PYTHON", "args": ["-c", "pass"], /* inline */ "env": {"A": "${env:KEY}"}, },
    "web": { "type": "http", "url": "http://h/mcp" },
  }
}""".replace("PYTHON", PYTHON)


def test_mcp_servers_are_taken_as_they_are() -> None:
    fleet = client_json(CLAUDE, {"KEY": "k"})
    assert list(fleet.servers) == ["files", "web", "old"]
    assert fleet.servers["files"].target.command == (PYTHON, "-c", "pass")
    assert fleet.servers["web"].target.headers == {"X-Key": "k"}
    assert [fleet.servers[name].target.transport for name in ("web", "old")] == ["streamable-http", "http-sse"]
    assert fleet.servers["web"].limits.silence == 600, "the client's time-out is the client's"
    assert fleet.notes == (
        "off is disabled and left out.",
        "web: timeout is the client's own and has no effect here.",
    )


def test_so_are_those_of_vs_code_with_comments_and_last_commas() -> None:
    fleet = client_json(VS_CODE, {"KEY": "k"})
    assert list(fleet.servers) == ["files", "web"]
    assert fleet.servers["files"].target.env["A"] == "k"


def test_a_mistake_in_json_has_its_line_too() -> None:
    text = '{\n "mcpServers": {\n  "x": {\n   "command": "PYTHON",\n   "evn": {}\n  }\n }\n}'.replace("PYTHON", PYTHON)
    [fault] = faults(text, "json")
    assert fault.startswith("line 5: servers.x.evn: there is no such key here; is it env?")
    assert faults('{"a": ', "json") == ["line 1: this is no JSON: Expecting value."]
    assert faults("[]", "json") == ["line 1: this is no object with mcpServers, servers or both."]
    assert faults("{}", "json") == ["line 1: there is neither mcpServers nor servers in it."]


# -- where things are --------------------------------------------------------------------------------------------------


def test_the_places_of_toml() -> None:
    text = 'a.b = 1\n# [no.table]\n[t."x.y"]\nk = """\nnot = here\n"""\n[[l]]\n\'q r\' = 1\n'
    places = in_toml(text)
    assert {path: places[path] for path in [("a",), ("a", "b"), ("t", "x.y"), ("t", "x.y", "k"), ("l", "q r")]} == {
        ("a",): 1,
        ("a", "b"): 1,
        ("t", "x.y"): 3,
        ("t", "x.y", "k"): 4,
        ("l", "q r"): 8,
    }
    assert line_of(places, ("t", "x.y", "k", "deeper")) == 4
    assert line_of(places, ("nowhere",)) is None


def test_the_places_of_json() -> None:
    places = in_json('{"a": [1,\n {"b": "}"}],\n "c{": {}}')
    assert places == {("a",): 1, ("a", "0"): 1, ("a", "1"): 2, ("a", "1", "b"): 2, ("c{",): 3}


def test_comments_go_and_strings_stay() -> None:
    text = '{"u": "http://x/*y*/", // c\n "v": "a,}", /* x\n */ "w": [1,],}'
    assert json.loads(plain_json(text)) == {"u": "http://x/*y*/", "v": "a,}", "w": [1]}
    assert plain_json(text).count("\n") == text.count("\n")


# -- the schema --------------------------------------------------------------------------------------------------------


def test_the_schema_takes_what_the_reader_takes_and_refuses_what_it_refuses() -> None:
    import tomllib

    made = schema()
    jsonschema.Draft202012Validator.check_schema(made)
    validator = jsonschema.Draft202012Validator(made)
    assert list(validator.iter_errors(tomllib.loads(WHOLE))) == []
    for wrong in ("[servers.x]\ncomand = []", "[servers.x]\ntimeout = 'soon'", "[http]\nport = 70000\n[servers]"):
        assert list(validator.iter_errors(tomllib.loads(wrong)))
