"""What the README shows is what happens: its examples are run, with real clients and a published old server.

``./scripts/run`` is run as it stands when these tests run in ``.venv``, which it sets up; elsewhere the interpreter's
``python -m bridge`` takes its place, and that of ``uvx mrtr-bridge`` always. What is missing (Node, a package) is an
error that says what to install, never a skip.
"""

from __future__ import annotations

import json
import os
import re
import select
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.docs.documents import README, ROOT, example, examples, marks
from tests.peers.talking import node, node_modules

MODULE = [sys.executable, "-m", "bridge"]
IN_VENV = Path(sys.prefix).resolve() == (ROOT / ".venv").resolve()
SCRIPT = [str(ROOT / "scripts" / "run")] if IN_VENV else MODULE
EVERYTHING = "mcp-servers/everything"
KINDS = {"shell", "config", "serve", "usage", "python", "typescript", "python stdio", "typescript stdio", "log"}
ANSWERED = "✅ User provided the requested information!"
META = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}
DISCOVER = {"jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": {"_meta": META}}


def command(words: Sequence[str]) -> list[str]:
    """What to run for a command of the README."""
    match list(words):
        case [script, *rest] if script in ("./scripts/run", "/path/to/clone/scripts/run"):
            return [*(SCRIPT if rest else [*SCRIPT, "demo"]), *rest]
        case ["uvx", "mrtr-bridge", *rest]:
            return [*MODULE, *rest]
    raise AssertionError(f"the README has a command that no test can run: {words}")


def environment() -> dict[str, str]:
    """Ours, and what makes `python -m bridge` and `npx` find what is here already, in any directory."""
    if shutil.which("npx") is None:
        raise RuntimeError("no npx: install Node 20 or newer")
    there = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "MRTR_BRIDGE_KEYS")}
    return there | {"PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8", "NO_COLOR": "1"}


def where() -> Path:
    """A directory in which `npx` has the servers of the README without asking a registry."""
    return node_modules().parent


@contextmanager
def running(words: Sequence[str], **streams: int) -> Iterator[subprocess.Popen[str]]:
    """A process with its group, which has ended afterwards."""
    process = subprocess.Popen(
        words, cwd=where(), env=environment(), text=True, encoding="utf-8", start_new_session=True, **streams
    )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            pass
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()


@dataclass(frozen=True, slots=True)
class Serving:
    """The README's `serve`, running."""

    url: str
    log: Path


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """The example of `serve`, on a free port; the line that it shows must come."""
    prompt, *shown = example(README, "serve").splitlines()
    words = command(shlex.split(prompt.removeprefix("$ ")))
    place = words.index("serve") + 1
    log = tmp_path_factory.mktemp("serve") / "stderr"
    ready = re.compile(re.escape(shown[-1]).replace("8000", r"\d+"))
    with (
        log.open("w") as stderr,
        running([*words[:place], "--port", "0", *words[place:]], stdin=subprocess.DEVNULL, stderr=stderr.fileno()),
    ):
        until = time.monotonic() + 30
        while (found := ready.search(log.read_text())) is None:
            assert time.monotonic() < until, f"`serve` was not ready:\n{log.read_text()}"
            time.sleep(0.05)
        yield Serving(found[0].rpartition(" ")[2], log)


@pytest.fixture
def node_project(tmp_path: Path) -> Path:
    """A directory whose scripts find the packages of tests/node."""
    (tmp_path / "node_modules").symlink_to(node_modules(), target_is_directory=True)
    return tmp_path


def run(words: Sequence[str], cwd: Path | None = None) -> str:
    """What a command prints; it must end well."""
    done = subprocess.run(
        words,
        cwd=cwd or ROOT,
        env=environment() | {"COLUMNS": "80"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, f"{words} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
    return done.stdout


def assert_shown(shown: list[str], printed: list[str]) -> None:
    """The lines of an example come in this order; only where it has … may others stand between them."""
    place, gap = 0, False
    for line in shown:
        if line == "…":
            gap = True
            continue
        assert line in printed[place:], f"{line!r} was not printed, or not there:\n" + "\n".join(printed)
        found = printed.index(line, place)
        assert gap or found == place, f"between the README's lines came {printed[place:found]}"
        place, gap = found + 1, False


def test_every_example_that_says_so_is_tested() -> None:
    assert set(marks(README)) == KINDS
    assert len(marks(README)) == sum(len(examples(README, kind)) for kind in KINDS)


def test_the_shell_examples_print_what_is_shown() -> None:
    for text in examples(README, "shell"):
        prompt, *shown = text.splitlines()
        printed = run(command(shlex.split(prompt.removeprefix("$ "))))
        assert_shown(shown, printed.splitlines())


def test_the_usage_examples_are_understood() -> None:
    for text in examples(README, "usage"):
        for prompt in text.splitlines():
            words = command(shlex.split(prompt.removeprefix("$ ")))
            with running([*words[:-2], "--port", "0", *words[-2:]], stderr=subprocess.PIPE) as process:
                assert process.stderr is not None
                lines = [process.stderr.readline(), process.stderr.readline()]
            assert any("mrtr-bridge is ready" in line for line in lines), lines


def test_the_configured_servers_start_and_answer(tmp_path: Path) -> None:
    configs = [json.loads(text)["mcpServers"] for text in examples(README, "config")]
    assert [list(servers) for servers in configs] == [["everything", "files"], ["everything"]]
    for servers in configs:
        for name, server in servers.items():
            args = [str(tmp_path) if word == "/path/to/files" else word for word in server["args"]]
            answer = discover(command([server["command"], *args]))
            info = answer["result"]["_meta"]["io.modelcontextprotocol/serverInfo"]
            assert info["name"] == {"everything": EVERYTHING, "files": "secure-filesystem-server"}[name]
            assert answer["result"]["supportedVersions"] == ["2026-07-28"]


def discover(words: Sequence[str]) -> dict[str, dict[str, dict[str, dict[str, str]]]]:
    """What a server on stdio answers to `server/discover`."""
    pipe = subprocess.PIPE
    with running(words, stdin=pipe, stdout=pipe) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(DISCOVER) + "\n")
        process.stdin.flush()
        readable, _, _ = select.select([process.stdout], [], [], 30)
        assert readable, f"{words} said nothing"
        answer: dict[str, dict[str, dict[str, dict[str, str]]]] = json.loads(process.stdout.readline())
        process.stdin.close()
        process.wait(10)
    return answer


def said_the_answer(output: str) -> None:
    """The client was asked, and the result that it prints holds what it answered."""
    lines = output.splitlines()
    assert any(line.startswith("asked: ") for line in lines)
    assert ANSWERED in lines
    assert "- Name: Ada" in lines


def test_the_python_client_is_asked_and_gets_its_result(serving: Serving, tmp_path: Path) -> None:
    script = tmp_path / "client.py"
    script.write_text(over_http(example(README, "python"), serving), encoding="utf-8")
    said_the_answer(run([sys.executable, str(script)]))


def test_the_python_client_works_over_stdio(tmp_path: Path) -> None:
    server = over_stdio(example(README, "python stdio"), "python")
    whole = example(README, "python").replace(
        "from mcp import Client, ", "from mcp import Client, StdioServerParameters, "
    )
    whole = whole.replace("async def main()", f"{server}\n\nasync def main()")
    script = tmp_path / "client.py"
    script.write_text(whole.replace('Client("http://127.0.0.1:8000/mcp", ', "Client(server, "), encoding="utf-8")
    said_the_answer(run([sys.executable, str(script)], where()))


def test_the_typescript_client_is_asked_and_gets_its_result(serving: Serving, node_project: Path) -> None:
    script = node_project / "client.mjs"
    script.write_text(over_http(example(README, "typescript"), serving), encoding="utf-8")
    said_the_answer(run([node(), str(script)]))


def test_the_typescript_client_works_over_stdio(node_project: Path) -> None:
    transport = over_stdio(example(README, "typescript stdio"), "typescript")
    whole = example(README, "typescript")
    target = "new StreamableHTTPClientTransport(new URL('http://127.0.0.1:8000/mcp'))"
    assert target in whole
    script = node_project / "client.mjs"
    script.write_text(
        "import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';\n"
        + whole.replace("await client.connect(", f"{transport}await client.connect(").replace(target, "transport"),
        encoding="utf-8",
    )
    said_the_answer(run([node(), str(script)], where()))


def over_http(code: str, serving: Serving) -> str:
    address = "http://127.0.0.1:8000/mcp"
    assert code.count(address) == 1
    return code.replace(address, serving.url)


def over_stdio(code: str, language: str) -> str:
    """The example's code, which starts what stands for ``scripts/run``. SDKs pass little of an environment on."""
    program, *before = SCRIPT
    quote = "'" if language == "typescript" else '"'
    clone = f"{quote}/path/to/clone/scripts/run{quote}"
    assert clone in code
    arguments = "".join(f"{json.dumps(word)}, " for word in before)
    begin = "args: [" if language == "typescript" else "args=["
    code = code.replace(clone, json.dumps(program)).replace(begin, begin + arguments)
    path = json.dumps({"PYTHONPATH": str(ROOT), "PATH": os.environ["PATH"]})
    if language == "typescript":
        return code.replace("command:", f"env: {path},\n  command:")
    return code.replace("command=", f"env={path},\n    command=")


def test_the_warning_that_is_shown_is_logged(serving: Serving, tmp_path: Path) -> None:
    shown = " ".join(example(README, "log").split())
    script = tmp_path / "client.py"
    code = over_http(example(README, "python"), serving)
    script.write_text(
        code.replace("elicitation_callback=answer", "sampling_callback=answer").replace(
            'call_tool("trigger-elicitation-request", {})', 'call_tool("echo", {"message": "x"})'
        )
    )
    run([sys.executable, str(script)])
    lines = [" ".join(line.partition(" ")[2].split()) for line in serving.log.read_text().splitlines()]
    # The number of the session says only how many there were before.
    numbered = [re.sub(r"#\d+", "#1", line) for line in lines]
    assert shown in numbered, serving.log.read_text()
