"""A legacy server (stdio) that misbehaves in one way, which its first argument names; standard library only.

Run it as ``python tests/servers/rude.py HABIT``. Unless its habit forbids it, the server shakes hands (2025-06-18) and
has two tools: ``echo(text)``, which works, and ``trouble``, which shows the habits that are about one call.

Habits of the process
    ``exits-at-once`` (code 3), ``mute`` (never answers anything), ``mute-after-handshake``, ``rubbish`` (prints only
    what is no message), ``handshake-error``, ``old-version`` (speaks 2024-11-05), ``unknown-version``,
    ``ignores-sigterm`` (and the end of its input), ``leaves-child`` (starts one that sleeps and ignores SIGTERM),
    ``slow-start`` (a second and a half).
Habits of the call of ``trouble``
    ``answers-twice``, ``wrong-id`` (answers a request that nobody made), ``floods`` (megabytes of log lines and
    notifications before each answer, whichever tool), ``half-line`` (half an answer, then exits).

``RUDE_PIDS`` is a file to which the id of every process is appended, one a line.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from typing import Any

Json = dict[str, Any]

FLOOD = 3 * 1024 * 1024
HABITS = frozenset(
    {
        *("exits-at-once", "mute", "mute-after-handshake", "rubbish", "handshake-error", "old-version"),
        *("unknown-version", "ignores-sigterm", "leaves-child", "slow-start"),
        *("answers-twice", "wrong-id", "floods", "half-line"),
    }
)
VERSIONS = {"old-version": "2024-11-05", "unknown-version": "1999-12-31"}
SLEEPER = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"


def send(message: Json) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def note_pid(pid: int) -> None:
    if path := os.environ.get("RUDE_PIDS"):
        with open(path, "a", encoding="utf-8") as pids:
            pids.write(f"{pid}\n")


def text_result(text: str) -> Json:
    return {"content": [{"type": "text", "text": text}], "isError": False}


def flood() -> None:
    line = "x" * 1000
    for number in range(FLOOD // 1000):
        sys.stderr.write(f"{number} {line}\n")
        send({"method": "notifications/message", "params": {"level": "info", "data": line}})


def trouble(habit: str, request: Json) -> None:
    """Answer the call of ``trouble``, or not."""
    done = {"id": request["id"], "result": text_result("done")}
    match habit:
        case "answers-twice":
            send(done)
            send({"id": request["id"], "result": text_result("done again")})
        case "wrong-id":
            send({"id": 987654, "result": text_result("whose?")})
        case "half-line":
            line = json.dumps({"jsonrpc": "2.0", **done})
            sys.stdout.write(line[: len(line) // 2])
            sys.stdout.flush()
            os._exit(4)
        case _:
            send(done)


def answer(habit: str, request: Json) -> None:
    params = request.get("params") or {}
    if habit == "floods":
        flood()
    match request["method"]:
        case "initialize" if habit == "handshake-error":
            send({"id": request["id"], "error": {"code": -32000, "message": "Not today, thank you"}})
        case "initialize":
            result = {
                "protocolVersion": VERSIONS.get(habit, "2025-06-18"),
                "serverInfo": {"name": "rude", "version": "1"},
                "capabilities": {"tools": {}, "logging": {}},
            }
            send({"id": request["id"], "result": result})
        case _ if habit == "mute-after-handshake":
            pass
        case "ping" | "logging/setLevel":
            send({"id": request["id"], "result": {}})
        case "tools/list":
            tools = [{"name": name, "inputSchema": {"type": "object"}} for name in ("echo", "trouble")]
            send({"id": request["id"], "result": {"tools": tools}})
        case "tools/call" if params.get("name") == "trouble":
            trouble(habit, request)
        case "tools/call":
            send({"id": request["id"], "result": text_result(str((params.get("arguments") or {}).get("text", "")))})
        case method:
            send({"id": request["id"], "error": {"code": -32601, "message": f"Method not found: {method}"}})


def main(habit: str) -> None:
    if habit not in HABITS:
        raise SystemExit(f"No such habit: {habit!r}; there are {', '.join(sorted(HABITS))}.")
    note_pid(os.getpid())
    match habit:
        case "exits-at-once":
            print("rude: I am off", file=sys.stderr)
            raise SystemExit(3)
        case "slow-start":
            time.sleep(1.5)
        case "ignores-sigterm":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        case "leaves-child":
            note_pid(subprocess.Popen([sys.executable, "-c", SLEEPER]).pid)
    for line in sys.stdin:
        if habit == "rubbish":
            print('Rubbish!\n{"half": \n[1, 2, 3]\n"text"\n\x00\x01', flush=True)
        elif habit != "mute" and line.strip() and "id" in (message := json.loads(line)) and "method" in message:
            answer(habit, message)
    while habit == "ignores-sigterm":
        time.sleep(600)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "")
