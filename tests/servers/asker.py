"""A small legacy server (stdio, 2025-06-18) that asks in every way a test needs; standard library only.

Run it as ``python tests/servers/asker.py``. Each call runs in a thread of its own, so calls overlap freely.

Tools that do not ask
    ``echo(text)``, ``add(a, b)``, ``slow(seconds)``, ``big(n)`` (n characters), ``progress(n)``, ``log(n, level)``,
    ``announce(method, params)`` (sends any notification), ``die_now(code)``, ``environment(name)``,
    ``fail(code, message, data)`` (with a JSON-RPC error), ``returns(result)``, ``whoami`` (what initialize said),
    ``heard``, ``roots_seen``.
Tools that ask; all take ``message`` so that a test can tell one question from another
    ``ask_once``, ``ask_again`` (the same, annotated idempotent), ``ask_twice`` (one after the other), ``ask_both``
    (two at once), ``ask_many(n)`` (n, one after the other), ``ask_sampling``, ``ask_roots``, ``ask_url``,
    ``ask_then_fail``, ``slow_ask(seconds)`` (works, then asks), ``slow_after(seconds)`` (asks, then works),
    ``catches_refusal(method)`` (goes on and returns the error it got), ``gives_up(seconds)`` (withdraws its ask and
    fails), ``leaves(seconds)`` (finishes without the answer), ``die(seconds, code)`` (exits with its ask outstanding),
    ``ask_between`` (reports progress, asks, reports more), ``ask_watched`` (its ask has a progress token),
    ``optional_form(kind)``, ``impossible_form``.
    ``patient_again(seconds)``, ``die_again(seconds)``, ``leaves_again(seconds)``: as ``gives_up``, ``die`` and
    ``leaves``, annotated as harmless to repeat; each does so at its first try only and then waits for its answer.
    They want a ``message``, and ``ASKER_JOURNAL``, by which they know their first try from the second.
Tools that refuse with -32042 until a URL has been opened
    ``sign_in(id, seconds, times)`` announces the completion after so many seconds (never, if that is negative).
    ``ask_afterwards(method, seconds)`` returns at once and asks later, outside any call.
    ``key`` suggests the name that the ask has among ``inputRequests``.
Prompts and resources
    ``greeting`` and ``asker://plain`` do not ask; ``introduction`` and ``asker://question`` do.

Answers come back as JSON text: what the client's result was. ``heard`` returns, in order, what this server was told:
``{"method", "id"?, "name"?}`` for requests and notifications, ``{"method": "notifications/cancelled", "requestId",
"reason"?}`` for cancellations, and ``{"ask", "method", "outcome"}`` for each ask that ended, where the outcome is
``accept | decline | cancel``, ``result``, ``error <code>``, ``withdrawn`` or ``call cancelled``.

Habits of real old servers, by environment: ``ASKER_BANNER=1`` prints junk on stdout; ``ASKER_RAW=1`` writes characters
as they are, ``ASKER_PIECES=1`` so few bytes at once that they are cut; ``ASKER_LATIN=1`` writes another encoding than
UTF-8; ``ASKER_ONLY_TOOLS=1`` has nothing else; ``ASKER_ODD_NAMES=1`` has tools whose names are not plain ASCII, and
such a resource; ``ASKER_RELATES=1`` names in ``"related"`` the request that a message belongs to, for a carrier that
knows where to put it (`tests.field.site`); ``ASKER_ROOTS_AT_START=1`` asks for roots when initialized and when they
change (``roots_seen`` returns them), ``=once`` only when initialized; ``ASKER_ASKS_AT_START=METHOD`` asks that when
initialized; ``ASKER_LISTS_WAIT=1`` lists tools when it has roots; ``ASKER_GHOST=1`` ignores cancellation and goes on to
ask; ``ASKER_PROTOCOL`` is the revision to speak; ``ASKER_JOURNAL`` is a file to which every message that is received is
appended, one ``{"pid", "message"}`` a line.
"""

from __future__ import annotations

import itertools
import json
import os
import queue
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

Json = dict[str, Any]

PROTOCOL = os.environ.get("ASKER_PROTOCOL", "2025-06-18")
GHOST = os.environ.get("ASKER_GHOST") == "1"
BANNER = os.environ.get("ASKER_BANNER") == "1"
ROOTS_AT_START = os.environ.get("ASKER_ROOTS_AT_START")
ASKS_AT_START = os.environ.get("ASKER_ASKS_AT_START")
LISTS_WAIT = os.environ.get("ASKER_LISTS_WAIT") == "1"
JOURNAL = os.environ.get("ASKER_JOURNAL")
RAW = os.environ.get("ASKER_RAW") == "1"
PIECES = os.environ.get("ASKER_PIECES") == "1"
RELATES = os.environ.get("ASKER_RELATES") == "1"
ONLY_TOOLS = os.environ.get("ASKER_ONLY_TOOLS") == "1"
LATIN = os.environ.get("ASKER_LATIN") == "1"
ODD_NAMES = os.environ.get("ASKER_ODD_NAMES") == "1"
JUNK = """\
*** asker: about to speak ***

\N{ROCKET} launched: 100 %
{"level": "info", "message": "a log line that is JSON"}
{not json}
[12:00:01] INFO ready
[1, 2
"""

NAME_FORM: Json = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
OPTIONAL_FORMS: dict[str, Json] = {
    "nullable": {
        "type": "object",
        "properties": {"name": {"type": "string"}, "nick": {"anyOf": [{"type": "string"}, {"type": "null"}]}},
        "required": ["name", "nick"],
    },
    "strings": {
        "type": "object",
        "properties": {"tags": {"type": "array", "items": {"type": "string"}}},
        "required": ["tags"],
    },
    "ref": {
        "type": "object",
        "properties": {"colour": {"$ref": "#/$defs/Colour"}},
        "required": ["colour"],
        "$defs": {"Colour": {"type": "string", "enum": ["red", "green", "blue"], "title": "Colour"}},
    },
    "uuid": {"type": "object", "properties": {"id": {"type": "string", "format": "uuid"}}, "required": ["id"]},
}
IMPOSSIBLE_FORM: Json = {
    "type": "object",
    "properties": {"address": {"type": "object", "properties": {"street": {"type": "string"}}}},
    "required": ["address"],
}


class Refused(Exception):
    """The client answered an ask with an error."""

    def __init__(self, error: Json) -> None:
        super().__init__(error.get("message", ""))
        self.error = error


class Cancelled(Exception):
    """The client cancelled the call: nothing is answered any more."""


class Failed(Exception):
    """A request that is answered with a JSON-RPC error."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.data = data


class Wire:
    """stdin and stdout, the asks that wait for an answer, and the record of what was heard."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.heard: list[Json] = []
        self.waiting: dict[str, queue.Queue[Json]] = {}
        self.calls: dict[str, Call] = {}
        self.client: Json = {}
        self.roots: list[Json] | None = None
        self.roots_asked: set[str] = set()
        self.roots_known = threading.Event()
        self.numbers = itertools.count(1)

    def send(self, message: Json) -> None:
        line = json.dumps({"jsonrpc": "2.0", **message}, ensure_ascii=not (RAW or LATIN))
        data = ((JUNK if BANNER else "") + line + "\n").encode("latin-1" if LATIN else "utf-8")
        with self.lock:
            for start in range(0, len(data), 1 if PIECES else len(data)):
                sys.stdout.buffer.write(data[start : start + 1] if PIECES else data)
                sys.stdout.buffer.flush()

    def note(self, **what: Any) -> None:
        with self.lock:
            self.heard.append({key: value for key, value in what.items() if value is not None})


class Call:
    """One running request: how it asks, reports, and notices that it was cancelled."""

    def __init__(self, wire: Wire, request: Json) -> None:
        self.wire = wire
        self.id = request["id"]
        self.params: Json = request.get("params") or {}
        self.cancelled = threading.Event()
        self.own: set[str] = set()
        self.relation: Json = {"related": self.id} if RELATES and self.id is not None else {}

    def cancel(self) -> None:
        if GHOST:
            return
        self.cancelled.set()
        for ask in list(self.own):
            if waiter := self.wire.waiting.get(ask):
                waiter.put({"gone": True})

    def sleep(self, seconds: float) -> None:
        if self.cancelled.wait(seconds):
            raise Cancelled

    def notify(self, method: str, params: Json) -> None:
        self.wire.send({"method": method, "params": params, **self.relation})

    def start(self, method: str, params: Json, key: str | None = None) -> str:
        """Send an ask; its id."""
        if self.cancelled.is_set():
            raise Cancelled
        ask = f"ask-{next(self.wire.numbers)}"
        self.wire.waiting[ask] = queue.Queue()
        self.own.add(ask)
        if key:
            params = {**params, "_meta": {"mrtr-bridge/inputKey": key}}
        self.wire.send({"id": ask, "method": method, "params": params, **self.relation})
        return ask

    def finish(self, ask: str, method: str, timeout: float | None = None) -> Json:
        """Wait for the answer of an ask; past ``timeout`` withdraw it and raise ``TimeoutError``."""
        try:
            if self.cancelled.is_set():
                raise Cancelled
            answer = self.wire.waiting[ask].get(timeout=timeout)
        except queue.Empty:
            self.wire.note(ask=ask, method=method, outcome="withdrawn")
            self.notify("notifications/cancelled", {"requestId": ask, "reason": "nobody answered"})
            raise TimeoutError from None
        finally:
            self.own.discard(ask)
            self.wire.waiting.pop(ask, None)
        if "gone" in answer:
            self.wire.note(ask=ask, method=method, outcome="call cancelled")
            raise Cancelled
        if answer.get("error"):
            self.wire.note(ask=ask, method=method, outcome=f"error {answer['error'].get('code')}")
            raise Refused(answer["error"])
        result: Json = answer["result"]
        self.wire.note(ask=ask, method=method, outcome=result.get("action", "result"))
        return result

    def ask(self, method: str, params: Json, key: str | None = None, timeout: float | None = None) -> Json:
        return self.finish(self.start(method, params, key), method, timeout)

    def elicit(self, message: str, schema: Json = NAME_FORM, key: str | None = None) -> Json:
        return self.ask("elicitation/create", {"message": message, "requestedSchema": schema}, key)


# --- tools: name -> (what it does with its arguments, its schema's properties, annotations) ---------------------------


def sampling_params(message: str) -> Json:
    return {"messages": [{"role": "user", "content": {"type": "text", "text": message}}], "maxTokens": 100}


def ask_in_turn(call: Call, a: Json, n: int) -> list[Json]:
    return [call.elicit(f"{a.get('message', 'Question')} ({i + 1})") for i in range(n)]


def ask_both(call: Call, a: Json) -> list[Json]:
    message = a.get("message", "Question")
    forms = [{"message": f"{message} ({i})", "requestedSchema": NAME_FORM} for i in (1, 2)]
    asks = [call.start("elicitation/create", form) for form in forms]
    return [call.finish(ask, "elicitation/create") for ask in asks]


def ask_once(call: Call, a: Json) -> Json:
    return call.elicit(a.get("message", "What is your name?"), key=a.get("key"))


def ask_then_fail(call: Call, a: Json) -> Json:
    answer = ask_once(call, a)
    raise RuntimeError(f"failed after the answer {json.dumps(answer)}")


def slow_ask(call: Call, a: Json) -> Json:
    call.sleep(a.get("seconds", 1))
    return ask_once(call, a)


def slow_after(call: Call, a: Json) -> Json:
    answer = ask_once(call, a)
    call.sleep(a.get("seconds", 1))
    return answer


def slow(call: Call, a: Json) -> str:
    call.sleep(a.get("seconds", 1))
    return f"slept {a.get('seconds', 1)}"


def progress(call: Call, a: Json) -> str:
    token = (call.params.get("_meta") or {}).get("progressToken")
    for i in range(1, a.get("n", 3) + 1):
        if token is not None:
            params = {"progressToken": token, "progress": i, "total": a.get("n", 3), "message": f"step {i}"}
            call.notify("notifications/progress", params)
        call.sleep(a.get("pause", 0.02))
    return f"{a.get('n', 3)} steps"


def log(call: Call, a: Json) -> str:
    for i in range(1, a.get("n", 3) + 1):
        params = {"level": a.get("level", "info"), "logger": "asker", "data": f"line {i}"}
        call.notify("notifications/message", params)
        call.sleep(a.get("pause", 0.02))
    return f"{a.get('n', 3)} lines"


def ask_afterwards(call: Call, a: Json) -> str:
    in_thread(ask_outside, call.wire, a.get("method", "elicitation/create"), a.get("seconds", 0.1))
    return "later"


def announce(call: Call, a: Json) -> str:
    call.notify(a["method"], a.get("params") or {})
    return a["method"]


def die(call: Call, a: Json) -> str:
    call.start("elicitation/create", {"message": a.get("message", "Last words?"), "requestedSchema": NAME_FORM})
    time.sleep(a.get("seconds", 0.2))
    os._exit(a.get("code", 0))


def catches_refusal(call: Call, a: Json) -> Json:
    method = a.get("method", "elicitation/create")
    params: Json = {"elicitation/create": {"message": a.get("message", "?"), "requestedSchema": NAME_FORM}}.get(
        method, sampling_params(a.get("message", "?")) if method == "sampling/createMessage" else {}
    )
    try:
        return {"answered": call.ask(method, params)}
    except Refused as refused:
        return {"refused": refused.error}


def gives_up(call: Call, a: Json) -> Json:
    form = {"message": a.get("message", "Quick!"), "requestedSchema": NAME_FORM}
    return call.ask("elicitation/create", form, timeout=a.get("seconds", 1))


def ask_between(call: Call, a: Json) -> str:
    token = (call.params.get("_meta") or {}).get("progressToken")

    def step(number: int) -> None:
        call.notify("notifications/progress", {"progressToken": token, "progress": number, "total": 4})

    step(1)
    step(2)
    ask_once(call, a)
    step(2)
    step(3)
    step(4)
    return "4 steps"


def leaves(call: Call, a: Json) -> str:
    call.start("elicitation/create", {"message": a.get("message", "Too late?"), "requestedSchema": NAME_FORM})
    call.sleep(a.get("seconds", 0.2))
    return "left"


def ask_watched(call: Call, a: Json) -> Json:
    form = {"message": a.get("message", "Take your time"), "requestedSchema": NAME_FORM}
    return call.ask("elicitation/create", {**form, "_meta": {"progressToken": "beat"}})


Tool = Callable[[Call, Json], Any]


def at_first(tool: Tool) -> Tool:
    """What the tool does at its first try (over all processes that share a journal); then it waits for its answer."""

    def tried(call: Call, a: Json) -> Any:
        return tool(call, a) if tries(call) == 1 else call.elicit(a["message"])

    return tried


def tries(call: Call) -> int:
    """How often this tool was called with these arguments, this time included."""
    assert JOURNAL is not None, "these tools count their tries in the journal"
    with open(JOURNAL, encoding="utf-8") as journal:
        told = [json.loads(line)["message"] for line in journal]
    same = {name: call.params.get(name) for name in ("name", "arguments")}
    return sum(
        message.get("method") == "tools/call" and {name: message["params"].get(name) for name in same} == same
        for message in told
    )


class Whole:
    """A tool's whole result."""

    def __init__(self, result: Json) -> None:
        self.result = result


def fail(call: Call, a: Json) -> Any:
    raise Failed(a["code"], a["message"], a.get("data"))


def sign_in(call: Call, a: Json) -> Any:
    times = sum(entry.get("name") == "sign_in" for entry in call.wire.heard)
    if times > a.get("times", 1):
        return f"signed in at try {times}"
    id = f"{a.get('id', 'page')}-{times}"
    seconds = a.get("seconds", 0.2)

    def complete() -> None:
        time.sleep(seconds)
        call.wire.send({"method": "notifications/elicitation/complete", "params": {"elicitationId": id}})

    if seconds >= 0:
        in_thread(complete)
    page = {"mode": "url", "elicitationId": id, "url": f"https://example.com/{id}", "message": "Sign in first."}
    raise Failed(-32042, "This request requires more information.", {"elicitations": [page]})


def ask_url(call: Call, a: Json) -> Json:
    url = a.get("url", "https://example.com/consent")
    params = {"mode": "url", "message": a.get("message", "Consent?"), "url": url, "elicitationId": "consent-1"}
    return call.ask("elicitation/create", params)


TEXT, NUMBER, INTEGER = {"type": "string"}, {"type": "number"}, {"type": "integer"}
READ_ONLY, IDEMPOTENT = {"readOnlyHint": True}, {"idempotentHint": True}

TOOLS: dict[str, tuple[Tool, Json, Json | None]] = {
    "echo": (lambda call, a: a.get("text", ""), {"text": TEXT}, READ_ONLY),
    "add": (lambda call, a: str(a["a"] + a["b"]), {"a": NUMBER, "b": NUMBER}, READ_ONLY),
    "slow": (slow, {"seconds": NUMBER}, None),
    "ask_afterwards": (ask_afterwards, {"method": TEXT, "seconds": NUMBER}, None),
    "big": (lambda call, a: "x" * a.get("n", 1000), {"n": INTEGER}, READ_ONLY),
    "progress": (progress, {"n": INTEGER, "pause": NUMBER}, None),
    "log": (log, {"n": INTEGER, "level": TEXT, "pause": NUMBER}, None),
    "announce": (announce, {"method": TEXT, "params": {"type": "object"}}, None),
    "whoami": (lambda call, a: call.wire.client, {}, READ_ONLY),
    "heard": (lambda call, a: list(call.wire.heard), {}, READ_ONLY),
    "roots_seen": (lambda call, a: call.wire.roots, {}, READ_ONLY),
    "fail": (fail, {"code": INTEGER, "message": TEXT, "data": {}}, None),
    "returns": (lambda call, a: Whole(a["result"]), {"result": {"type": "object"}}, None),
    "environment": (lambda call, a: os.environ.get(a["name"], "not set"), {"name": TEXT}, READ_ONLY),
    "die_now": (lambda call, a: os._exit(a.get("code", 0)), {"code": INTEGER}, None),
    "ask_once": (ask_once, {"message": TEXT, "key": TEXT}, None),
    "ask_again": (ask_once, {"message": TEXT, "key": TEXT}, IDEMPOTENT),
    "ask_twice": (lambda call, a: ask_in_turn(call, a, 2), {"message": TEXT}, None),
    "ask_many": (lambda call, a: ask_in_turn(call, a, a.get("n", 3)), {"message": TEXT, "n": INTEGER}, None),
    "ask_both": (ask_both, {"message": TEXT}, None),
    "ask_sampling": (
        lambda call, a: call.ask(
            "sampling/createMessage", sampling_params(a.get("message", "Say hello")), a.get("key")
        ),
        {"message": TEXT, "key": TEXT},
        None,
    ),
    "ask_roots": (lambda call, a: call.ask("roots/list", {}, a.get("key")), {"key": TEXT}, None),
    "ask_url": (ask_url, {"message": TEXT, "url": TEXT}, None),
    "ask_then_fail": (ask_then_fail, {"message": TEXT}, None),
    "slow_ask": (slow_ask, {"seconds": NUMBER, "message": TEXT}, None),
    "slow_after": (slow_after, {"seconds": NUMBER, "message": TEXT}, None),
    "catches_refusal": (catches_refusal, {"method": TEXT, "message": TEXT}, None),
    "gives_up": (gives_up, {"seconds": NUMBER, "message": TEXT}, None),
    "ask_between": (ask_between, {"message": TEXT}, None),
    "leaves": (leaves, {"seconds": NUMBER, "message": TEXT}, None),
    "ask_watched": (ask_watched, {"message": TEXT}, None),
    "die": (die, {"seconds": NUMBER, "code": INTEGER, "message": TEXT}, None),
    "patient_again": (at_first(gives_up), {"seconds": NUMBER, "message": TEXT}, READ_ONLY),
    "die_again": (at_first(die), {"seconds": NUMBER, "message": TEXT}, IDEMPOTENT),
    "leaves_again": (at_first(leaves), {"seconds": NUMBER, "message": TEXT}, READ_ONLY),
    "sign_in": (sign_in, {"id": TEXT, "seconds": NUMBER, "times": INTEGER}, None),
    "optional_form": (
        lambda call, a: call.elicit(a.get("message", "Fill in"), OPTIONAL_FORMS[a.get("kind", "nullable")]),
        {"kind": {"type": "string", "enum": sorted(OPTIONAL_FORMS)}, "message": TEXT},
        None,
    ),
    "impossible_form": (lambda call, a: call.elicit("Where do you live?", IMPOSSIBLE_FORM), {}, None),
}


if ODD_NAMES:
    TOOLS |= dict.fromkeys(("größe", " spaced ", "=?base64?IQ==?=", "\N{ROCKET}"), TOOLS["echo"])


def text_of(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def call_tool(call: Call) -> Json:
    entry = TOOLS.get(call.params.get("name", ""))
    if entry is None:
        raise Failed(-32602, f"Unknown tool: {call.params.get('name')}")
    try:
        value, is_error = entry[0](call, call.params.get("arguments") or {}), False
    except (Refused, TimeoutError, RuntimeError, KeyError, TypeError) as problem:
        value, is_error = f"{type(problem).__name__}: {problem}", True
    if isinstance(value, Whole):
        return value.result
    return {"content": [{"type": "text", "text": text_of(value)}], "isError": is_error}


def list_tools(call: Call) -> Json:
    if LISTS_WAIT:
        call.wire.roots_known.wait()
    return {
        "tools": [
            {
                "name": name,
                "description": f"Test tool {name}.",
                "inputSchema": {"type": "object", "properties": properties},
                **({"annotations": annotations} if annotations else {}),
            }
            for name, (_, properties, annotations) in TOOLS.items()
        ]
    }


def get_prompt(call: Call) -> Json:
    match call.params.get("name"):
        case "greeting":
            said = "Say hello."
        case "introduction":
            said = f"Introduce {text_of(call.elicit('Who is it?'))}."
        case other:
            raise Failed(-32602, f"Unknown prompt: {other}")
    return {"messages": [{"role": "user", "content": {"type": "text", "text": said}}]}


def read_resource(call: Call) -> Json:
    uri = call.params.get("uri")
    match uri:
        case "asker://plain":
            text = "plain text"
        case "asker://app":
            entry = {"uri": uri, "mimeType": "text/html;profile=mcp-app", "text": "<p>", "_meta": {"ui": {"csp": []}}}
            return {"contents": [{**entry, "x-more": 1}], "_meta": {"whole": True}, "x-more": [2]}
        case "asker://straße/ä b" if ODD_NAMES:
            text = "odd text"
        case "asker://question":
            text = text_of(call.elicit("Who reads this?"))
        case _:
            raise Failed(-32002, f"Resource not found: {uri}")
    return {"contents": [{"uri": uri, "mimeType": "text/plain", "text": text}]}


def initialize(call: Call) -> Json:
    call.wire.client = call.params
    return {
        "protocolVersion": PROTOCOL,
        "serverInfo": {"name": "asker", "version": "1.0.0"},
        "instructions": "Ask and you shall be asked.",
        "capabilities": {"tools": {}}
        if ONLY_TOOLS
        else {
            "tools": {"listChanged": True},
            "prompts": {"listChanged": True},
            "resources": {"listChanged": True, "subscribe": True},
            "logging": {},
            "completions": {},
        },
    }


METHODS: dict[str, Callable[[Call], Json]] = {
    "initialize": initialize,
    "ping": lambda call: {},
    "tools/list": list_tools,
    "tools/call": call_tool,
    "prompts/list": lambda call: {"prompts": [{"name": "greeting"}, {"name": "introduction"}]},
    "prompts/get": get_prompt,
    "resources/list": lambda call: {
        "resources": [{"uri": f"asker://{name}", "name": name} for name in ("plain", "question")]
    },
    "resources/templates/list": lambda call: {"resourceTemplates": []},
    "resources/read": read_resource,
    "resources/subscribe": lambda call: {},
    "resources/unsubscribe": lambda call: {},
    "logging/setLevel": lambda call: {},
    "completion/complete": lambda call: {"completion": {"values": ["red", "green"], "total": 2, "hasMore": False}},
}


if ONLY_TOOLS:
    METHODS = {method: METHODS[method] for method in ("initialize", "ping", "tools/list", "tools/call")}


# --- the loop ---------------------------------------------------------------------------------------------------------


def serve(call: Call, method: str) -> None:
    """Run one request in its thread and answer it, unless it was cancelled."""
    try:
        if method not in METHODS:
            raise Failed(-32601, f"Method not found: {method}")
        reply: Json = {"result": METHODS[method](call)}
    except Cancelled:
        return
    except Failed as failed:
        reply = {"error": {"code": failed.code, "message": str(failed)}}
        if failed.data is not None:
            reply["error"]["data"] = failed.data
    except Refused as refused:
        reply = {"error": refused.error}
    finally:
        call.wire.calls.pop(repr(call.id), None)
    if GHOST or not call.cancelled.is_set():
        call.wire.send({"id": call.id, **reply})


def fetch_roots(wire: Wire) -> None:
    """Ask for roots outside any call, as servers do that want them at the start: before anything else is read."""
    wire.roots_asked.add(Call(wire, {"id": None}).start("roots/list", {}))


def take_roots(wire: Wire, ask: str, answer: Json) -> None:
    """The answer, known to whatever is read after it."""
    wire.roots_asked.discard(ask)
    wire.waiting.pop(ask, None)
    error = answer.get("error")
    wire.note(ask=ask, method="roots/list", outcome=f"error {error.get('code')}" if error else "result")
    wire.roots = [error] if error else answer["result"].get("roots")
    wire.roots_known.set()


def ask_outside(wire: Wire, method: str, seconds: float = 0) -> None:
    """Ask when no call is open; `heard` tells what came of it."""
    time.sleep(seconds)
    form = {"message": "Anybody there?", "requestedSchema": NAME_FORM}
    params = {"elicitation/create": form, "sampling/createMessage": sampling_params("Anybody?")}.get(method, {})
    try:
        Call(wire, {"id": None}).ask(method, params)
    except Refused as refused:
        wire.note(refused=refused.error["message"])


def in_thread(target: Callable[..., None], *args: Any) -> None:
    threading.Thread(target=target, args=args, daemon=True).start()


def hear(wire: Wire, message: Json) -> None:
    """Sort one incoming message: an answer to an ask, a request, or a notification."""
    method, params = message.get("method"), message.get("params") or {}
    if method is None and message.get("id") in wire.roots_asked:
        take_roots(wire, message["id"], message)
    elif method is None:
        waiter = wire.waiting.get(str(message.get("id")))
        if waiter is None:
            wire.note(ask=message.get("id"), outcome="late answer")
        else:
            waiter.put(message)
    elif "id" in message:
        wire.note(method=method, id=message["id"], name=params.get("name") or params.get("uri"))
        call = wire.calls[repr(message["id"])] = Call(wire, message)
        in_thread(serve, call, method)
    else:
        wire.note(method=method, requestId=params.get("requestId"), reason=params.get("reason"))
        if method == "notifications/cancelled" and (running := wire.calls.get(repr(params.get("requestId")))):
            running.cancel()
        if method == "notifications/initialized":
            if ROOTS_AT_START:
                fetch_roots(wire)
            if ASKS_AT_START:
                in_thread(ask_outside, wire, ASKS_AT_START)
        if method == "notifications/roots/list_changed" and ROOTS_AT_START == "1":
            fetch_roots(wire)


def main() -> None:
    wire = Wire()
    if BANNER:
        print("Welcome to asker!\n{not json}", flush=True)
    for line in sys.stdin:
        if line.strip():
            message = json.loads(line)
            if JOURNAL:
                with open(JOURNAL, "a", encoding="utf-8") as journal:
                    journal.write(json.dumps({"pid": os.getpid(), "message": message}) + "\n")
            hear(wire, message)
    os._exit(0)


if __name__ == "__main__":
    main()
