"""The bare legacy server of the benchmark: 2025-06-18 over stdio, as fast as plain Python goes.

Two tools: `echo` answers at once, `ask` elicits one field and answers with it. Any number of calls may be open. It is
fast so that what stands in front of it is visible; real servers are slower, and the share of a bridge is smaller there.
"""

from __future__ import annotations

import os
from typing import Any

from pydantic_core import from_json, to_json

Json = dict[str, Any]

FORM: Json = {"type": "object", "properties": {"name": {"type": "string", "title": "Name"}}, "required": ["name"]}
TEXT_ARGUMENT: Json = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}


def tool(name: str, description: str) -> Json:
    return {"name": name, "description": description, "inputSchema": TEXT_ARGUMENT}


RESULTS: dict[str, Json] = {
    "initialize": {
        "protocolVersion": "2025-06-18",
        "serverInfo": {"name": "bench", "version": "1.0.0"},
        "capabilities": {"tools": {}},
    },
    "tools/list": {"tools": [tool("echo", "Answers with the text."), tool("ask", "Asks for a name first.")]},
    "ping": {},
}

waiting: dict[str, Any] = {}
"""Ask id to the id of the call that asked."""


def text_result(request_id: Any, text: str) -> Json:
    return {"jsonrpc": "2.0", "id": request_id, "result": {"content": [{"type": "text", "text": text}]}}


def ask(request_id: Any, text: str) -> Json:
    key = f"ask-{request_id}"
    waiting[key] = request_id
    params = {"message": text, "requestedSchema": FORM}
    return {"jsonrpc": "2.0", "id": key, "method": "elicitation/create", "params": params}


def reply(message: Json) -> Json | None:
    """What one incoming message is answered with, if anything."""
    method, request_id = message.get("method"), message.get("id")
    if method == "tools/call":
        params = message["params"]
        text = params["arguments"]["text"]
        return ask(request_id, text) if params["name"] == "ask" else text_result(request_id, text)
    if method is None:
        call = waiting.pop(message["id"])
        return text_result(call, message["result"]["content"]["name"])
    if request_id is None:
        return None
    if method in RESULTS:
        return {"jsonrpc": "2.0", "id": request_id, "result": RESULTS[method]}
    return {"jsonrpc": "2.0", "id": request_id, "error": {"code": -32601, "message": f"Method not found: {method}"}}


def main() -> None:
    rest = b""
    while chunk := os.read(0, 1 << 16):
        *lines, rest = (rest + chunk).split(b"\n")
        replies = [answer for line in lines if line.strip() and (answer := reply(from_json(line))) is not None]
        data = b"".join(to_json(answer) + b"\n" for answer in replies)
        while data:
            data = data[os.write(1, data) :]


if __name__ == "__main__":
    main()
