"""The steps of the sweep, the same for every client and every server: what is asked, in which order, for how long.

Runs under both official SDKs (the old one for the baseline, the new one for the bridge and its peer), so it imports
neither: each wraps its client as a ``Peer`` that takes and gives plain JSON as it is on the wire. It judges nothing.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

import anyio
import sweep_processes

Json = dict[str, Any]

LISTS = {
    "tools/list": ("tools", "tools"),
    "prompts/list": ("prompts", "prompts"),
    "resources/list": ("resources", "resources"),
    "resources/templates/list": ("resources", "resourceTemplates"),
}
"""For each list: the capability that promises it, and the field that holds it."""

MOST_PAGES = 50
GONE_WITHIN = 5.0
"""Seconds from the first act of closing until nothing that was started may be alive."""


class Peer(Protocol):
    """One connected client."""

    async def greeted(self) -> Json:
        """``protocolVersion``, ``serverInfo``, ``capabilities``, ``instructions``."""

    async def page(self, method: str, cursor: str | None) -> Json: ...

    async def call_tool(self, name: str, arguments: Json) -> Json: ...

    async def get_prompt(self, name: str) -> Json: ...

    async def read_resource(self, uri: str) -> Json: ...

    async def subscribe(self, changes: list[str], uri: str | None) -> Json:
        """Ask to hear of changes, and stop; says what was promised: ``changes`` and ``uri``."""


class Refused(Exception):
    """The server, or what stands before it, answered with an error."""


@dataclass(slots=True)
class Step:
    name: str
    seconds: float = 0.0
    answer: Json | None = None
    error: str | None = None


@dataclass(slots=True)
class Run:
    """What one client saw of one server."""

    steps: list[Step] = field(default_factory=list)
    asks: list[Json] = field(default_factory=list)
    closing: float | None = None
    """When the connection began to be closed."""

    def answer(self, name: str) -> Json:
        return next((step.answer for step in self.steps if step.name == name and step.answer), {})


@dataclass(frozen=True, slots=True)
class Plan:
    """What a driver is told, on its stdin."""

    command: list[str]
    env: dict[str, str]
    cwd: str
    """Of the server; the driver's own is where it was started."""
    over_http: bool
    root: str
    call: Json | None
    questions: list[Json]
    start_seconds: float
    step_seconds: float
    expose: bool = True
    """Whether to read the first resource and to get the first prompt."""

    @classmethod
    def read(cls) -> Plan:
        return cls(**json.load(sys.stdin))


async def play(plan: Plan, connect: Callable[[Run], AbstractAsyncContextManager[Peer]]) -> Run:
    """All steps, to the end of the connection. An error ends its step, and without a connection the run."""
    run = Run()
    began = time.monotonic()
    try:
        with anyio.fail_after(plan.start_seconds + 14 * plan.step_seconds):
            with anyio.CancelScope() as starting:
                starting.deadline = anyio.current_time() + plan.start_seconds
                async with connect(run) as peer:
                    starting.deadline = float("inf")
                    run.steps.append(Step("discover", time.monotonic() - began, answer=await peer.greeted()))
                    await _steps(plan, peer, run)
                    run.closing = time.monotonic()
            if starting.cancelled_caught:
                raise TimeoutError(f"not connected after {plan.start_seconds:g} s")
    except BaseException as error:  # Whatever it was, it is what this run found.
        name = "discover" if not run.steps else "connection" if run.closing is None else "close"
        run.steps.append(Step(name, error=told(error)))
        if not isinstance(error, (Exception, BaseExceptionGroup)):
            raise
    else:
        assert run.closing is not None
        run.steps.append(Step("close", time.monotonic() - run.closing, answer={}))
    return run


async def _steps(plan: Plan, peer: Peer, run: Run) -> None:
    async def step(name: str, act: Callable[[], Awaitable[Json]]) -> None:
        done = Step(name)
        run.steps.append(done)
        began = time.monotonic()
        try:
            with anyio.fail_after(plan.step_seconds):
                done.answer = await act()
        except Exception as error:  # Of any kind: it is what the client showed.
            done.error = told(error)
        done.seconds = time.monotonic() - began

    capabilities: Json = run.answer("discover").get("capabilities") or {}
    for method, (capability, held) in LISTS.items():
        if capability in capabilities:
            await step(method, lambda method=method, held=held: _pages(peer, method, held))  # type: ignore[misc]

    call = plan.call or harmless(run.answer("tools/list").get("tools", []))
    if call is not None:
        await step("tools/call", lambda: peer.call_tool(call["tool"], call.get("arguments", {})))
    for number, question in enumerate(plan.questions, 1):
        await step(
            f"question {number}",
            lambda question=question: peer.call_tool(question["tool"], question.get("arguments", {})),  # type: ignore[misc]
        )
    uris = [resource["uri"] for resource in run.answer("resources/list").get("resources", [])]
    if plan.expose:
        prompts = run.answer("prompts/list").get("prompts", [])
        plain = [p["name"] for p in prompts if not any(a.get("required") for a in p.get("arguments") or [])]
        if plain:
            await step("prompts/get", lambda: peer.get_prompt(plain[0]))
        if uris:
            await step("resources/read", lambda: peer.read_resource(uris[0]))

    changes = [kind for kind in ("tools", "prompts", "resources") if (capabilities.get(kind) or {}).get("listChanged")]
    watched = uris[0] if uris and (capabilities.get("resources") or {}).get("subscribe") else None
    await step("listen", lambda: peer.subscribe(changes, watched))


async def _pages(peer: Peer, method: str, held: str) -> Json:
    """A whole list, and how many pages it had."""
    items: list[Any] = []
    cursor: str | None = None
    for number in range(1, MOST_PAGES + 1):
        page = await peer.page(method, cursor)
        items += page.get(held) or []
        cursor = page.get("nextCursor")
        if cursor is None:
            return {held: items, "pages": number}
    raise Refused(f"the list does not end: {MOST_PAGES} pages and another one")


def harmless(tools: list[Json]) -> Json | None:
    """The call for a server that its entry names none for: the first read-only tool that needs no arguments."""
    for tool in tools:
        read_only = (tool.get("annotations") or {}).get("readOnlyHint")
        if read_only and not tool["inputSchema"].get("required"):
            return {"tool": tool["name"], "arguments": {}}
    return None


# --- answers to what servers ask --------------------------------------------------------------------------------------


def answered(plan: Plan, run: Run, method: str, params: Json) -> Json:
    """Note an ask, and answer it: everything is accepted, and forms are filled in as their schema wants."""
    run.asks.append({"during": run.steps[-1].name if run.steps else "discover", "method": method, "params": params})
    match method:
        case "elicitation/create":
            if params.get("mode") == "url":
                return {"action": "accept"}
            return {"action": "accept", "content": filled(params["requestedSchema"])}
        case "sampling/createMessage":
            said = {"type": "text", "text": "An answer from the sweep."}
            return {"role": "assistant", "content": said, "model": "sweep", "stopReason": "endTurn"}
        case "roots/list":
            return {"roots": [{"uri": plan.root, "name": "work"}]}
    raise ValueError(f"no client answers {method}")


_FORMATS = {"email": "sweep@example.org", "uri": "https://example.org/", "date": "2026-07-28"}


def filled(schema: Json) -> Json:
    """A valid answer to a form: what it requires, defaults where it has them."""
    return {name: _value(schema["properties"][name]) for name in schema.get("required") or []}


def _value(schema: Json) -> Any:
    if "default" in schema:
        return schema["default"]
    if "enum" in schema:
        return schema["enum"][0]
    if "oneOf" in schema:
        return schema["oneOf"][0]["const"]
    match schema.get("type", "string"):
        case "array":
            return []
        case "boolean":
            return True
        case "integer" | "number":
            return schema.get("minimum", 1)
    if "format" in schema:
        return _FORMATS.get(schema["format"], "2026-07-28T12:00:00Z")
    return "sweep".ljust(schema.get("minLength", 0), "x")


# --- telling ----------------------------------------------------------------------------------------------------------


def told(error: BaseException) -> str:
    """An error as one line."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, TimeoutError) and not str(error):
        return "no answer in time"
    text = " ".join(str(error).split()) or repr(error)
    name = type(error).__name__
    return text if name in ("Refused", "TimeoutError") else f"{name}: {text}"


def report(run: Run) -> None:
    """The last thing a driver does: look for what was left, and print all it saw."""
    began = time.monotonic()
    left = sweep_processes.survivors((run.closing or began) + GONE_WITHIN)
    orphans = Step("orphans", time.monotonic() - began, answer={})
    if left:
        orphans.answer, orphans.error = None, f"still alive after {GONE_WITHIN:g} s: {'; '.join(left)}"
    run.steps.append(orphans)
    json.dump(asdict(run), sys.stdout)
    sys.stdout.flush()
