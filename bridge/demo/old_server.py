"""The demo's old server: it prepares releases, speaks 2025-06-18 over stdio and knows nothing newer.

Its one tool asks its client three times in the middle of a call: which project it is (roots), what kind of release
(elicitation), and for a sentence of release notes (sampling). Standard library only, in one thread; a call is a
generator that yields what it asks and is resumed with the answer.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Generator, Iterator
from typing import Any

Json = dict[str, Any]
Call = Generator[tuple[str, Json], Json, str]

PROTOCOL = "2025-06-18"
VERSION = (2, 3, 1)
COMMITS = ("Turn the lamp off at sunrise", "Survive a power cut", "Log fog at level info")
PARTS = ("major", "minor", "patch")
FORM: Json = {
    "type": "object",
    "properties": {
        "part": {
            "type": "string",
            "title": "Release",
            "enum": ["patch", "minor", "major"],
            "enumNames": ["patch: fixes only", "minor: new features", "major: breaks something"],
        },
        "codename": {"type": "string", "title": "Code name", "minLength": 3, "maxLength": 20},
        "announce": {"type": "boolean", "title": "Announce it", "default": False},
    },
    "required": ["part", "codename"],
}
TOOL: Json = {
    "name": "prepare_release",
    "description": "Prepares the next release of the project you are working on.",
    "inputSchema": {"type": "object", "properties": {"dry_run": {"type": "boolean"}}},
}


class Refused(Exception):
    """The client answered an ask with an error."""


def prepare_release(arguments: Json) -> Call:
    """The tool: three questions, then the release."""
    roots = (yield "roots/list", {})["roots"]
    project = roots[0]["uri"].rstrip("/").rpartition("/")[2] if roots else "your project"

    current = ".".join(map(str, VERSION))
    message = f"{project} is at {current}, and {len(COMMITS)} commits are new. What shall the release be?"
    answer = yield "elicitation/create", {"message": message, "requestedSchema": FORM}
    if answer["action"] != "accept":
        return f"Nothing was released: the form was answered with {answer['action']}."
    form = answer["content"]
    place = PARTS.index(form["part"])
    numbers = [*VERSION[:place], VERSION[place] + 1, *[0] * (2 - place)]

    prompt = "Write one sentence of release notes for these commits: " + "; ".join(COMMITS) + "."
    messages = [{"role": "user", "content": {"type": "text", "text": prompt}}]
    notes = yield "sampling/createMessage", {"messages": messages, "maxTokens": 80}

    done = "Would release" if arguments.get("dry_run") else "Released"
    told = "announced" if form.get("announce") else "not announced"
    return f"{done} {project} {'.'.join(map(str, numbers))} “{form['codename']}” ({told}).\n{notes['content']['text']}"


class Server:
    """Calls by the id of the ask they wait for."""

    def __init__(self) -> None:
        self._asks = 0
        self._waiting: dict[str, tuple[Any, Call]] = {}

    def hear(self, message: Json) -> Iterator[Json]:
        """What is sent after one incoming message."""
        method, request = message.get("method"), message.get("id")
        params: Json = message.get("params") or {}
        if method is None:
            if waiting := self._waiting.pop(str(request), None):
                yield self._go_on(*waiting, message)
        elif method == "tools/call" and params.get("name") == TOOL["name"]:
            yield self._go_on(request, prepare_release(params.get("arguments") or {}), None)
        elif method == "notifications/cancelled":
            gone = params.get("requestId")
            self._waiting = {ask: call for ask, call in self._waiting.items() if call[0] != gone}
        elif request is not None:
            yield {"id": request, **self._answer(method)}

    def _go_on(self, request: Any, call: Call, answer: Json | None) -> Json:
        """Run a call to its next ask or to its end."""
        try:
            if answer is None:
                method, params = next(call)
            elif "error" in answer:
                method, params = call.throw(Refused(answer["error"].get("message", "no reason given")))
            else:
                method, params = call.send(answer["result"])
        except StopIteration as end:
            return {"id": request, "result": self._text(end.value)}
        except Exception as error:
            return {"id": request, "result": self._text(f"{type(error).__name__}: {error}") | {"isError": True}}
        self._asks += 1
        ask = f"ask-{self._asks}"
        self._waiting[ask] = (request, call)
        return {"id": ask, "method": method, "params": params}

    @staticmethod
    def _text(text: str) -> Json:
        return {"content": [{"type": "text", "text": text}]}

    @staticmethod
    def _answer(method: str) -> Json:
        match method:
            case "initialize":
                info = {"name": "release-helper", "title": "Release helper", "version": "0.9.0"}
                return {"result": {"protocolVersion": PROTOCOL, "serverInfo": info, "capabilities": {"tools": {}}}}
            case "tools/list":
                return {"result": {"tools": [TOOL]}}
            case "ping":
                return {"result": {}}
            case "tools/call":
                return {"error": {"code": -32602, "message": "Unknown tool"}}
            case _:
                return {"error": {"code": -32601, "message": f"Method not found: {method}"}}


def main() -> None:
    """Serve until stdin ends."""
    server = Server()
    for line in sys.stdin.buffer:
        if line.strip():
            for message in server.hear(json.loads(line)):
                print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


if __name__ == "__main__":
    main()
