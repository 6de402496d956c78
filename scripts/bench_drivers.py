"""The benchmark's clients: raw bytes over pipes and sockets, so lean that what they measure dominates.

What is sent, what is made of an answer, and the slots that keep calls going; the wires are in `bench_wire`. Requests
are built once; only their id, of fixed width, is put in later.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from pydantic_core import from_json, to_json

Json = dict[str, Any]

FIRST_ID = 10_000_000
ID = b"%d"
WORD = "a text of some forty characters, no more"
NAME = "Ada"
VERSION = "2026-07-28"
META: Json = {
    "io.modelcontextprotocol/protocolVersion": VERSION,
    "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1.0.0"},
    "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}},
}
ACCEPTED: Json = {"action": "accept", "content": {"name": NAME}}


class Wrong(Exception):
    """An answer that is not the right one: nothing was measured."""


@dataclass(slots=True)
class Sample:
    """What one measured stretch came to; times in seconds."""

    seconds: float = 0.0
    latencies: list[float] = field(default_factory=list)

    @property
    def rate(self) -> float:
        return len(self.latencies) / self.seconds

    def percentile(self, share: float) -> float:
        ordered = sorted(self.latencies)
        return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


class Exchange(Protocol):
    """One call: `first` begins it, `next` takes an answer and gives what to send then, or None when it is complete."""

    def first(self, number: int) -> bytes: ...

    def next(self, number: int, answer: bytes) -> bytes | None: ...


def template(message: Json) -> bytes:
    """``message`` as JSON with a place for its number, for ``%``."""
    return to_json({"jsonrpc": "2.0", "id": 0} | message).replace(b"%", b"%%").replace(b'"id":0', b'"id":' + ID, 1)


def call(tool: str, meta: Json | None = None, **more: Any) -> Json:
    params: Json = {"name": tool, "arguments": {"text": WORD}} | more
    return {"method": "tools/call", "params": params | ({"_meta": meta} if meta else {})}


class LegacyEcho:
    def __init__(self) -> None:
        self._first = template(call("echo")) + b"\n"

    def first(self, number: int) -> bytes:
        return self._first % number

    def next(self, number: int, answer: bytes) -> bytes | None:
        expect(WORD, answer)
        return None


class LegacyAsk(LegacyEcho):
    """`ask` on the bare server: its ask is answered on the same pipe."""

    def __init__(self) -> None:
        self._first = template(call("ask")) + b"\n"

    def next(self, number: int, answer: bytes) -> bytes | None:
        message = from_json(answer)
        if message.get("method") == "elicitation/create":
            return to_json({"jsonrpc": "2.0", "id": message["id"], "result": ACCEPTED}) + b"\n"
        expect(NAME, answer)
        return None


class ModernEcho:
    """`echo` in 2026-07-28; ``wrap`` makes a message out of a body: a line, or an HTTP request."""

    def __init__(self, wrap: Callable[[bytes, str], bytes]) -> None:
        self._first = wrap(template(call("echo", META)), "echo")

    def first(self, number: int) -> bytes:
        return self._first % number

    def next(self, number: int, answer: bytes) -> bytes | None:
        expect(WORD, answer)
        return None


class ModernAsk(ModernEcho):
    """`ask` in 2026-07-28: `input_required`, then the retry with its answer and the state."""

    def __init__(self, wrap: Callable[[bytes, str], bytes]) -> None:
        self._first = wrap(template(call("ask", META)), "ask")
        self._wrap = wrap

    def next(self, number: int, answer: bytes) -> bytes | None:
        result = from_json(answer).get("result") or {}
        if result.get("resultType") == "input_required":
            answers = dict.fromkeys(result["inputRequests"], ACCEPTED)
            again = call("ask", META, inputResponses=answers, requestState=result["requestState"])
            return self._wrap(template(again), "ask") % (number + 1)
        expect(NAME, answer)
        return None


class TwoHops(ModernEcho):
    """What a question costs by plain hops: two of them."""

    def next(self, number: int, answer: bytes) -> bytes | None:
        expect(WORD, answer)
        return None if number % 2 else self._first % (number + 1)


def expect(text: str, answer: bytes) -> None:
    if b'"text":"%b"' % text.encode() not in answer and b'"text": "%b"' % text.encode() not in answer:
        raise Wrong(f"An answer is not the expected one: {answer[:300].decode(errors='replace')}")


def line(body: bytes, _: str) -> bytes:
    return body + b"\n"


def post(host: str) -> Callable[[bytes, str], bytes]:
    """Wraps a body for POSTing; the width of the id that is put in later is known."""

    def wrap(body: bytes, tool: str) -> bytes:
        head = (
            f"POST /mcp HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
            f"Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: {VERSION}\r\n"
            f"Mcp-Method: tools/call\r\nMcp-Name: {tool}\r\nContent-Length: {len(body % FIRST_ID)}\r\n\r\n"
        )
        return head.encode() + body

    return wrap


class Slots:
    """Keeps ``width`` calls of an exchange going until the time is up, and writes down how long each took."""

    def __init__(self, exchange: Exchange, width: int, seconds: float, most: int | None = None) -> None:
        self.sample = Sample()
        self.done: asyncio.Future[Sample] = asyncio.get_running_loop().create_future()
        self._exchange = exchange
        self._most = most
        self._open = width
        self._seconds = seconds
        self._numbers = iter(range(FIRST_ID, 9 * FIRST_ID, 2))
        self.restart()

    def restart(self) -> None:
        """The time begins now."""
        self._began = time.perf_counter()
        self._until = self._began + self._seconds

    def begin(self) -> tuple[int, float, bytes] | None:
        """The next call's number, start and message; None when the time is up."""
        now = time.perf_counter()
        if now >= self._until or (self._most is not None and len(self.sample.latencies) >= self._most):
            self._open -= 1
            if not self._open and not self.done.done():
                self.sample.seconds = now - self._began
                self.done.set_result(self.sample)
            return None
        number = next(self._numbers)
        return number, now, self._exchange.first(number)

    def step(self, number: int, began: float, answer: bytes) -> bytes | None:
        """What to send after ``answer``, if the call is not complete."""
        more = self._exchange.next(number, answer)
        if more is None:
            self.sample.latencies.append(time.perf_counter() - began)
        return more

    def fail(self, error: BaseException) -> None:
        if not self.done.done():
            self.done.set_exception(error)
