"""Measure what the bridge costs: bare legacy server, plain HTTP hop, and the bridge by stdio and by HTTP, side by side.

    python scripts/bench.py [--quick] [--json] [--check]

Every server is a process of its own, all take turns in interleaved rounds, and what is said is the median over the
rounds; a ratio is made within a round first, so that a machine that is busy for a while does not tilt it.
docs/performance.md says what is measured and why.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

import bench_state
from bench_drivers import Exchange, LegacyAsk, LegacyEcho, ModernAsk, ModernEcho, Sample, TwoHops, Wrong, line, post
from bench_report import Cell, Target, cell_of, show
from bench_wire import Child, measure_http

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
BARE, HOP, STDIO, HTTP = "bare server", "plain HTTP hop", "bridge, stdio", "bridge, HTTP"
ECHO, ASK = "call", "with a question"
SCENARIOS = [(ECHO, 1), (ASK, 1), (ECHO, 32), (ASK, 32)]
WARM_UP = 40
"""Calls of each kind before anything counts; the bridge trusts a tool after 5."""

Measure = Callable[[Exchange, int, float, int | None], Awaitable[Sample]]
Rounds = dict[tuple[str, str, int], list[Sample]]


@dataclass(frozen=True, slots=True)
class Subject:
    """One thing measured: how it is driven, and with which exchanges."""

    name: str
    measure: Measure
    exchanges: dict[str, Exchange]

    async def run(self, scenario: tuple[str, int], seconds: float, most: int | None = None) -> Sample:
        kind, width = scenario
        try:
            return await self.measure(self.exchanges[kind], width, seconds, most)
        except Wrong as error:
            raise Wrong(f"{self.name}, {kind} at {width}: {error}") from None


async def start(stack: AsyncExitStack, *, bridge: bool) -> list[Subject]:
    """Start every process; the stack ends them."""
    server = (sys.executable, str(HERE / "bench_server.py"))

    async def child(*command: str, serves: bool = False) -> Child:
        started = await Child.start(*command, cwd=str(ROOT))
        stack.push_async_callback(started.stop, at_once=serves)
        return started

    def over_http(name: str, address: tuple[str, int], ask: type[ModernEcho]) -> Subject:
        wrap = post(f"{address[0]}:{address[1]}")

        def measure(exchange: Exchange, width: int, seconds: float, most: int | None) -> Awaitable[Sample]:
            return measure_http(address, exchange, width, seconds, most)

        return Subject(name, measure, {ECHO: ModernEcho(wrap), ASK: ask(wrap)})

    bare = await child(*server)
    await bare.handshake()
    hop = await child(sys.executable, str(HERE / "bench_hop.py"), serves=True)
    subjects = [
        Subject(BARE, bare.measure, {ECHO: LegacyEcho(), ASK: LegacyAsk()}),
        over_http(HOP, await hop.address(), TwoHops),
    ]
    if bridge:
        ours = (sys.executable, "-m", "bridge")
        quiet = ("--log-level", "warning", "--")
        stdio = await child(*ours, "stdio", *quiet, *server)
        http = await child(*ours, "serve", "--port", "0", *quiet, *server, serves=True)
        subjects.append(Subject(STDIO, stdio.measure, {ECHO: ModernEcho(line), ASK: ModernAsk(line)}))
        subjects.append(over_http(HTTP, await http.address(), ModernAsk))
    return subjects


async def measure_all(rounds: int, seconds: float, *, bridge: bool) -> Rounds:
    found: Rounds = {}
    async with AsyncExitStack() as stack:
        with others_on_their_own_cores():
            subjects = await start(stack, bridge=bridge)
        for subject in subjects:
            for kind, width in SCENARIOS:
                await subject.run((kind, width), 10, WARM_UP * width)
        for number in range(rounds):
            for scenario in SCENARIOS:
                for subject in subjects:
                    say(f"round {number + 1} of {rounds}: {subject.name}, {scenario[0]} at {scenario[1]}")
                    found.setdefault((subject.name, *scenario), []).append(await subject.run(scenario, seconds))
        say("")
    return found


@contextmanager
def others_on_their_own_cores() -> Iterator[None]:
    """What is started in here may not use our core, and we no other one afterwards.

    Otherwise the scheduler decides all the time whether two processes share a core; where they do, a round trip over
    a pipe takes 15 µs instead of 50, and nothing can be compared.
    """
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_setaffinity") else []
    if len(cores) < 2:
        yield
        return
    os.sched_setaffinity(0, cores[1:])
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores[:1])


def say(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)


def targets(found: Rounds) -> list[Target]:
    """The promises, each the median of its rounds' ratios."""

    def p50(name: str) -> list[float]:
        return [sample.percentile(0.5) for sample in found[name, ECHO, 1]]

    def rate(name: str) -> list[float]:
        return [sample.rate for sample in found[name, ECHO, 32]]

    if (HTTP, ECHO, 1) not in found:
        return []
    http = median(ours / (hop + bare) for ours, hop, bare in zip(p50(HTTP), p50(HOP), p50(BARE), strict=True))
    rates = median(ours / hop for ours, hop in zip(rate(HTTP), rate(HOP), strict=True))
    stdio = median(ours / bare for ours, bare in zip(p50(STDIO), p50(BARE), strict=True))
    return [
        Target("HTTP p50 at 1, over hop p50 + bare p50", http, 1.8, at_most=True),
        Target("HTTP calls a second at 32, over the hop's", rates, 0.4, at_most=False),
        Target("stdio p50 at 1, over bare p50", stdio, 3.5, at_most=True),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="20 seconds instead of 2 minutes")
    parser.add_argument("--json", action="store_true", help="print JSON instead of the tables")
    parser.add_argument("--check", action="store_true", help="exit with 1 when a target is missed")
    parser.add_argument("--rounds", type=int, help="how often everything takes its turn; overrides --quick")
    parser.add_argument("--seconds", type=float, help="for each measurement; overrides --quick")
    parser.add_argument("--without-bridge", action="store_true", help="measure only what it is compared with")
    given = parser.parse_args()
    seconds = given.seconds or (0.3 if given.quick else 0.8)
    rounds = given.rounds or (3 if given.quick else 8)
    sys.path.insert(0, str(ROOT))
    work = measure_all(max(1, rounds), seconds, bridge=not given.without_bridge)
    try:
        found = run(work)
    except (Wrong, OSError, TimeoutError) as error:
        print(f"bench: {error or type(error).__name__}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    cells: list[Cell] = [cell_of(*key, samples) for key, samples in found.items()]
    aims = targets(found)
    state = bench_state.costs()
    if given.json:
        costs = {name: cost if isinstance(cost, str) else asdict(cost) for name, cost in state.items()}
        ratios = [asdict(aim) | {"met": aim.met} for aim in aims]
        print(json.dumps({"cells": [asdict(cell) for cell in cells], "ratios": ratios, "state": costs}, indent=2))
    else:
        show(cells, aims, state)
    return 1 if given.check and not all(aim.met for aim in aims) else 0


def run(work: Any) -> Rounds:
    try:
        import uvloop

        found: Rounds = uvloop.run(work)
    except ImportError:
        found = asyncio.run(work)
    return found


if __name__ == "__main__":
    sys.exit(main())
