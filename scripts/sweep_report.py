"""Write docs/compatibility.md from what the sweep saw. Every verdict comes from a run; the list adds notes only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from sweep_drive import Run
from sweep_judge import Finding, Verdict, judge
from sweep_list import Server

OLD, STDIO, HTTP, PEER = "old client", "bridge, stdio", "bridge, HTTP", "mcp-uplift"
BRIDGES = (STDIO, HTTP)


INTRODUCTION = f"""\
# Compatibility

What published old servers do behind the bridge, and behind the closest other one. This page is written by
`python scripts/sweep.py --write docs/compatibility.md`; no verdict in it is typed by hand.

Each server of `scripts/sweep_servers.toml` is installed as it was when the new protocol came, with what it depends on,
and is checked to bring an SDK of the old protocol. Then it is run several ways, in a folder with the same files:

| column | client | way |
| --- | --- | --- |
| {OLD} | `ClientSession` of the official old SDK | stdio, nothing between: the baseline |
| {STDIO} | `Client` of the official new SDK | `mrtr-bridge stdio -- COMMAND` |
| {HTTP} | the same | `mrtr-bridge serve -- COMMAND` |
| {PEER} | the same | `mcp-uplift -- COMMAND`, which has stdio only |

The steps are the same: discover (or initialise), every list with all its pages, a harmless call, calls that ask where
the server has any (forms are filled in, sampling and roots answered), the first prompt that needs no arguments, the
first resource, listening for every change that the server can tell of, the end of the connection, and then a look into
`/proc` for what still lives 5 seconds later.

**ok**: no step fails that does not fail with the old client too, and every answer and question is what the old client
got, but for what the new protocol adds or takes away. *ok, fails alike*: a step fails as it does with the old client,
mostly for want of a network or an account. Of answers that are new each time (a clock, a process id), the shape is
compared. A bridge may order a list as it likes, and mcp-uplift gives its own name in the place of the server's."""


@dataclass(slots=True)
class Outcome:
    """All runs of one server; ``trouble`` says why there are none."""

    server: Server
    sdk: str = ""
    trouble: str = ""
    runs: dict[str, Run] = field(default_factory=dict)

    def findings(self, subject: str) -> list[Finding]:
        return judge(self.runs[OLD], self.runs[subject], self.server.varies, own_name=subject == PEER)

    def wrong(self, subject: str) -> list[Finding]:
        return [finding for finding in self.findings(subject) if not finding.verdict.passes]

    @property
    def passed(self) -> bool:
        return not self.trouble and not any(self.wrong(subject) for subject in BRIDGES if subject in self.runs)

    @property
    def old_errors(self) -> list[str]:
        return [f"{step.name}: {step.error}" for step in self.runs[OLD].steps if step.error] if OLD in self.runs else []


def summary(outcome: Outcome) -> str:
    """One line for the terminal."""
    if outcome.trouble:
        return outcome.trouble
    return "; ".join(f"{subject}: {cell(outcome, subject)}" for subject in outcome.runs if subject != OLD)


def cell(outcome: Outcome, subject: str) -> str:
    """What a table says of one way to reach one server."""
    if subject not in outcome.runs:
        return "not run"
    if subject == OLD:
        return (
            "ok" if not outcome.old_errors else "fails: " + ", ".join(e.partition(":")[0] for e in outcome.old_errors)
        )
    wrong = outcome.wrong(subject)
    if not wrong:
        as_old = any(finding.verdict is Verdict.AS_OLD for finding in outcome.findings(subject))
        return "ok, fails alike" if as_old else "ok"
    groups = {
        verdict.value: [finding.step for finding in wrong if finding.verdict is verdict]
        for verdict in (Verdict.FAILS, Verdict.DIFFERS)
    }
    return "**" + "; ".join(f"{word}: {', '.join(steps)}" for word, steps in groups.items() if steps) + "**"


def did(outcome: Outcome) -> str:
    """What there was to do at this server."""
    run = outcome.runs.get(OLD)
    if run is None:
        return ""
    counts = [
        f"{len(run.answer(method).get(held, []))} {word}"
        for method, held, word in (
            ("tools/list", "tools", "tools"),
            ("prompts/list", "prompts", "prompts"),
            ("resources/list", "resources", "resources"),
            ("resources/templates/list", "resourceTemplates", "templates"),
        )
        if run.answer(method).get(held)
    ]
    methods = [ask["method"].partition("/")[0] for ask in run.asks]
    asks = [f"{methods.count(word)} × {word}" for word in dict.fromkeys(methods)]
    return ", ".join(counts) + (f"; asks {', '.join(asks)}" if asks else "")


def page(outcomes: Sequence[Outcome], about: Sequence[str]) -> str:
    """The whole document."""
    lines = [
        *INTRODUCTION.splitlines(),
        "",
        *about,
        "",
        "## Result",
        "",
        *_totals(outcomes),
        "",
        "## Servers",
        "",
        f"| server | old SDK | revision | what it has | {OLD} | {STDIO} | {HTTP} | {PEER} |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for outcome in outcomes:
        lines.append(f"| {' | '.join(_row(outcome))} |")
    lines += ["", *_explained(outcomes)]
    return "\n".join(lines).rstrip() + "\n"


def _totals(outcomes: Sequence[Outcome]) -> list[str]:
    lines = [f"{len(outcomes)} servers, of which {sum(not o.trouble for o in outcomes)} ran.", ""]
    lines += ["| | servers that pass | that do not |", "| --- | ---: | ---: |"]
    for subject in (*BRIDGES, PEER):
        ran = [outcome for outcome in outcomes if subject in outcome.runs]
        good = sum(not outcome.wrong(subject) for outcome in ran)
        if ran:
            lines.append(f"| {subject} | {good} | {len(ran) - good} |")
    return lines


def _row(outcome: Outcome) -> list[str]:
    server = outcome.server
    start = [f"`{server.pin}`"]
    if outcome.trouble:
        return [*start, outcome.sdk, "", _escaped(outcome.trouble), "", "", "", ""]
    revision = str(outcome.runs[OLD].answer("discover").get("protocolVersion", ""))
    cells = [cell(outcome, subject) for subject in (OLD, *BRIDGES, PEER)]
    return [*start, outcome.sdk, revision, did(outcome), *cells]


def _explained(outcomes: Sequence[Outcome]) -> list[str]:
    """Each failure and difference in full, and the list's notes."""
    lines = ["## What fails, and notes", ""]
    for outcome in outcomes:
        said: list[str] = []
        if OLD in outcome.runs and not outcome.trouble:
            said += [f"- {OLD}: {_escaped(error)}" for error in outcome.old_errors]
            for subject in (*BRIDGES, PEER):
                if subject in outcome.runs:
                    told = [f for f in outcome.findings(subject) if f.detail and f.verdict is not Verdict.OK]
                    said += [f"- {subject}: {f.step} {f.verdict.value}: {_escaped(f.detail)}" for f in told]
        if outcome.server.note:
            said.append(f"- Note: {outcome.server.note}")
        if said:
            lines += [f"**{outcome.server.name}**", "", *said, ""]
    return lines


def _escaped(text: str) -> str:
    """Text of a server, so that it stays text in Markdown, and short."""
    text = " ".join(text.split())
    text = text if len(text) <= 240 else text[:239] + "…"
    return "`" + text.replace("`", "'").replace("|", "¦") + "`"
