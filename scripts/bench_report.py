"""The benchmark's tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median

from bench_drivers import Sample
from bench_state import Cost
from rich.console import Console
from rich.table import Table
from rich.text import Text


@dataclass(frozen=True, slots=True)
class Cell:
    """One subject in one scenario: medians over the rounds, latencies in microseconds."""

    subject: str
    kind: str
    concurrent: int
    p50: float
    p95: float
    rate: float
    spread: float
    """The largest p50 of a round over the smallest: how noisy it was."""


@dataclass(frozen=True, slots=True)
class Target:
    """A ratio and what it should be."""

    name: str
    ratio: float
    limit: float
    at_most: bool

    @property
    def met(self) -> bool:
        return self.ratio <= self.limit if self.at_most else self.ratio >= self.limit


def cell_of(subject: str, kind: str, concurrent: int, samples: list[Sample]) -> Cell:
    halves = [sample.percentile(0.5) * 1e6 for sample in samples]
    tails = [sample.percentile(0.95) * 1e6 for sample in samples]
    rate = median(sample.rate for sample in samples)
    return Cell(subject, kind, concurrent, median(halves), median(tails), rate, max(halves) / min(halves))


def show(cells: list[Cell], aims: list[Target], state: Mapping[str, Cost | str]) -> None:
    """Print everything, aligned, coloured on a terminal only."""
    console = Console(highlight=False)
    for concurrent in sorted({cell.concurrent for cell in cells}):
        table = _table("", "subject", ">p50 µs", ">p95 µs", ">calls/s", ">spread")
        kind = ""
        for cell in sorted((c for c in cells if c.concurrent == concurrent), key=lambda c: c.kind):
            if kind and cell.kind != kind:
                table.add_section()
            numbers = (f"{cell.p50:,.0f}", f"{cell.p95:,.0f}", f"{cell.rate:,.0f}", f"×{cell.spread:.2f}")
            table.add_row(cell.kind if cell.kind != kind else "", cell.subject, *numbers)
            kind = cell.kind
        _print(console, f"{concurrent} at a time", table)
    if aims:
        table = _table("ratio", ">now", ">target", "")
        for aim in aims:
            verdict = Text("met", "green") if aim.met else Text("missed", "bold red")
            table.add_row(aim.name, f"{aim.ratio:.2f}", f"{'≤' if aim.at_most else '≥'} {aim.limit:g}", verdict)
        _print(console, "what it costs", table)
    table = _table("by", ">µs", ">characters")
    for name, cost in state.items():
        words = (f"{cost.microseconds:.1f}", str(cost.characters)) if isinstance(cost, Cost) else (cost, "")
        table.add_row(name, *words)
    _print(console, "requestState, sealed and verified once", table)


def _print(console: Console, title: str, table: Table) -> None:
    console.print(Text(title, "bold"), table, "", sep="\n")


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="dim")
    for column in columns:
        table.add_column(column.lstrip(">"), justify="right" if column.startswith(">") else "left", no_wrap=True)
    return table
