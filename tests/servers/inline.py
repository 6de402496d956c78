"""A legacy server (stdio, 2025-06-18) that reads the answers to its asks inline; standard library only.

It takes one line at a time. When it asks, the next line of its input is the answer, whatever it is: if it is anything
else, the server notes that in ``INLINE_BROKEN`` (a file) and fails the call. Tools: ``ask(message, times)``, ``sleep(
seconds)``, ``echo(text)``. ``INLINE_ROOTS=1``: it asks for roots, inline too, when it is initialized. ``ASKER_JOURNAL``
is a file to which every message that is read is appended, one ``{"pid", "message"}`` a line.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
import time
from typing import Any

Json = dict[str, Any]

NUMBERS = itertools.count(1)
FORM: Json = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
TOOLS = [{"name": name, "inputSchema": {"type": "object"}} for name in ("ask", "sleep", "echo", "roots")]
roots: Any = None


def read() -> Json:
    line = sys.stdin.readline()
    if not line:
        sys.exit(0)
    message: Json = json.loads(line)
    if journal := os.environ.get("ASKER_JOURNAL"):
        with open(journal, "a", encoding="utf-8") as file:
            file.write(json.dumps({"pid": os.getpid(), "message": message}) + "\n")
    return message


def send(**message: Any) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def ask(method: str, params: Json) -> Json:
    """Ask, and take the next line for the answer."""
    number = f"q{next(NUMBERS)}"
    send(id=number, method=method, params=params)
    answer = read()
    if "method" in answer or answer.get("id") != number:
        with open(os.environ["INLINE_BROKEN"], "a", encoding="utf-8") as file:
            file.write(f"{answer.get('method', answer)}\n")
        raise RuntimeError(f"that is no answer: {answer.get('method', answer)}")
    if "error" in answer:
        raise RuntimeError(f"refused: {answer['error']['message']}")
    result: Json = answer["result"]
    return result


def call(name: str, arguments: Json) -> str:
    match name:
        case "ask":
            forms = [{"message": arguments.get("message", "?"), "requestedSchema": FORM}] * arguments.get("times", 1)
            return json.dumps([ask("elicitation/create", form) for form in forms])
        case "sleep":
            time.sleep(arguments["seconds"])
        case "roots":
            return json.dumps(roots)
    return str(arguments.get("text", name))


def serve(message: Json) -> Json:
    match message["method"]:
        case "initialize":
            info = {"name": "inline", "version": "1"}
            return {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}, "logging": {}}, "serverInfo": info}
        case "tools/list":
            return {"tools": TOOLS}
        case "tools/call":
            try:
                text, failed = call(message["params"]["name"], message["params"].get("arguments") or {}), False
            except RuntimeError as error:
                text, failed = str(error), True
            return {"content": [{"type": "text", "text": text}], "isError": failed}
        case _:
            return {}


def main() -> None:
    global roots
    while True:
        message = read()
        if "id" in message and "method" in message:
            send(id=message["id"], result=serve(message))
        elif message.get("method") == "notifications/initialized" and os.environ.get("INLINE_ROOTS"):
            try:
                roots = ask("roots/list", {})["roots"]
            except RuntimeError as error:
                roots = str(error)


if __name__ == "__main__":
    main()
