"""What it costs to seal a `requestState` and to verify it on the retry: ours and the official SDK's, in this process.

Both do a whole round each: bind the request (a digest), seal, and on the retry unseal and compare the binding.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from bench_drivers import call

PARAMS: dict[str, Any] = call("ask")["params"]
METHOD = "tools/call"


@dataclass(frozen=True, slots=True)
class Cost:
    """Microseconds for a whole round, and how long the text is that travels."""

    microseconds: float
    characters: int


def costs(seconds: float = 0.4) -> dict[str, Cost | str]:
    """Both costs; a sentence in place of one that cannot be measured here."""
    found: dict[str, Cost | str] = {}
    for name, make in (("bridge", _ours), ("SDK", _official)):
        try:
            once = make()
        except ImportError as error:
            found[name] = f"not measured: {error}"
        else:
            found[name] = _time(once, seconds)
    return found


def _ours() -> Callable[[], str]:
    from bridge.keyring import KeyRing
    from bridge.state import Sealer, State, new_call, new_instance

    sealer = Sealer(KeyRing.random())
    instance = new_instance()

    def once() -> str:
        now = time.time()
        digest = sealer.digest("anonymous", METHOD, PARAMS)
        token = sealer.seal(State(instance, new_call(), 1, int(now) + 600, digest), "bench")
        if not sealer.matches(sealer.unseal(token, "bench", now), "anonymous", METHOD, PARAMS):
            raise AssertionError("the state does not match")
        return token

    return once


@dataclass(frozen=True)
class _Context:
    method: str
    params: dict[str, Any]


def _official() -> Callable[[], str]:
    from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity

    security = RequestStateSecurity(keys=[b"k" * 32], bind_principal=lambda _: "anonymous")
    boundary: Any = RequestStateBoundary(security, default_audience="bench")
    logging.getLogger("mcp").setLevel(logging.ERROR)

    async def asks(_: Any) -> dict[str, Any]:
        return {"resultType": "input_required", "requestState": "0123456789abcdef"}

    async def completes(context: Any) -> dict[str, Any]:
        if context.params["requestState"] != "0123456789abcdef":
            raise AssertionError("the state does not match")
        return {"resultType": "complete", "content": []}

    def once() -> str:
        token: str = _run(boundary(_Context(METHOD, PARAMS), asks))["requestState"]
        _run(boundary(_Context(METHOD, PARAMS | {"requestState": token}), completes))
        return token

    return once


def _run(coroutine: Coroutine[Any, Any, dict[str, Any]]) -> dict[str, Any]:
    """The result of a coroutine that never waits."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        result: dict[str, Any] = end.value
        return result
    raise AssertionError("the coroutine waits")


def _time(once: Callable[[], str], seconds: float) -> Cost:
    """The best of five stretches: others disturb, nothing hurries."""
    token = once()
    best = float("inf")
    for _ in range(5):
        times, began = 0, time.perf_counter()
        while (spent := time.perf_counter() - began) < seconds / 5:
            for _ in range(50):
                once()
            times += 50
        best = min(best, spent / times)
    return Cost(best * 1e6, len(token))
