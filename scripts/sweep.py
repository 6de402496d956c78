"""Run published old servers behind the bridge, and see whether anything fails that does not fail with an old client.

    python scripts/sweep.py                               # all servers of scripts/sweep_servers.toml
    python scripts/sweep.py --only filesystem --only git  # some
    python scripts/sweep.py --quick                       # the few that run with the tests
    python scripts/sweep.py --peer PATH/TO/mcp-uplift     # the other bridge too
    python scripts/sweep.py --write docs/compatibility.md

It installs each server into a cache and runs it: they are other people's programs, so use a machine that may be
thrown away. It needs Linux, Node and npm, git, and a Python with the new SDK (this one) and one with the old
(`--legacy-python`, MRTR_TEST_LEGACY_PYTHON, or `.venv-legacy`). Exit code 1: something fails that should not.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import sweep_work
from sweep_drive import Plan, Run, Step
from sweep_install import Installed, NotInstalled, install
from sweep_list import LIST, BadList, Server, placed, servers
from sweep_report import HTTP, OLD, PEER, STDIO, Outcome, page, summary

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
START_SECONDS = 60.0
PASSED_ON = ("PATH", "USER", "LOGNAME", "SHELL", "TERM", "LANG")


def main() -> int:
    options = _options()
    try:
        chosen = _chosen(servers(options.list), options.only, quick=options.quick)
    except BadList as error:
        print(error, file=sys.stderr)
        return 2
    began = time.monotonic()
    outcomes: list[Outcome] = []
    # Not in the cache: two sweeps at a time must not share a folder to work in.
    with TemporaryDirectory(prefix="sweep-") as place, ThreadPoolExecutor(options.jobs) as pool:
        options.place = Path(place).resolve()
        for number, outcome in enumerate(pool.map(lambda server: examine(server, options), chosen), 1):
            outcomes.append(outcome)
            mark = "ok  " if outcome.passed else "FAIL"
            name = outcome.server.name
            print(f"[{number:2}/{len(chosen)}] {mark} {name:<24} {summary(outcome)}", file=sys.stderr, flush=True)
    good = sum(outcome.passed for outcome in outcomes)
    print(f"{good} of {len(outcomes)} pass, in {time.monotonic() - began:.0f} s", file=sys.stderr)
    if options.write:
        options.write.write_text(page(outcomes, _about(options)), encoding="utf-8")
    if options.json:
        json.dump([_plain(outcome) for outcome in outcomes], sys.stdout, indent=1)
    return 0 if good == len(outcomes) else 1


def _options() -> Any:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mrtr-bridge-sweep"
    legacy = os.environ.get("MRTR_TEST_LEGACY_PYTHON") or ROOT / ".venv-legacy" / "bin" / "python"
    parser.add_argument("--only", action="append", metavar="NAME", help="only this server; repeatable")
    parser.add_argument("--quick", action="store_true", help="only the servers marked quick")
    parser.add_argument("--jobs", type=int, default=1, help="servers at a time (default: 1)")
    parser.add_argument("--peer", type=Path, metavar="FOLDER", help="a checkout of mcp-uplift, to run it as well")
    parser.add_argument("--write", type=Path, metavar="FILE", help="write the table to this file")
    parser.add_argument("--json", action="store_true", help="print everything that was seen")
    parser.add_argument("--cache", type=Path, default=cache, help=f"where servers are installed (default: {cache})")
    parser.add_argument("--list", type=Path, default=LIST, help="another list of servers")
    parser.add_argument("--legacy-python", type=Path, default=Path(legacy), help="a Python with mcp<2")
    options = parser.parse_args()
    if not options.legacy_python.exists():
        parser.error(f"no Python with the old SDK at {options.legacy_python}: run scripts/test once, or name one")
    if options.peer and not (options.peer / "src" / "cli.js").exists():
        parser.error(f"{options.peer} is no checkout of mcp-uplift: there is no src/cli.js in it")
    return options


def _chosen(known: list[Server], only: Sequence[str] | None, *, quick: bool) -> list[Server]:
    if unknown := set(only or ()) - {server.name for server in known}:
        raise BadList(f"no such server in the list: {', '.join(sorted(unknown))}")
    return [s for s in known if (not only or s.name in only) and (s.quick or not quick)]


def examine(server: Server, options: Any) -> Outcome:
    """Install a server and run it every way."""
    outcome = Outcome(server)
    try:
        installed = install(server, options.cache)
    except (NotInstalled, OSError, subprocess.SubprocessError) as error:
        outcome.trouble = str(error)
        return outcome
    outcome.sdk = installed.sdk
    for subject in (OLD, STDIO, HTTP, *([PEER] if options.peer else [])):
        outcome.runs[subject] = _run(installed, subject, options)
        if subject == OLD and outcome.runs[OLD].steps[0].error:
            outcome.trouble = f"does not start with an old client: {outcome.runs[OLD].steps[0].error}"
            break
    return outcome


def _run(installed: Installed, subject: str, options: Any) -> Run:
    """One run, in a process of its own that ends in bounded time, whatever the server does."""
    server = installed.server
    place = options.place / server.name
    work, home = sweep_work.make(place)
    plan = _plan(installed, subject, work, options.peer)
    bounds = START_SECONDS + 20 * server.seconds + 60
    python, driver = (options.legacy_python, "old") if subject == OLD else (sys.executable, "new")
    logs = options.cache / "logs"
    logs.mkdir(exist_ok=True)
    log = logs / f"{server.name}-{subject.replace(', ', '-').replace(' ', '-')}.log"
    seen = place / "seen.json"
    environment = {name: os.environ[name] for name in PASSED_ON if name in os.environ} | {"HOME": str(home)}
    with log.open("wb") as errors, seen.open("wb") as output:
        process = subprocess.Popen(
            [str(python), str(HERE / f"sweep_{driver}_client.py")],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=errors,
        )
        try:
            process.communicate(json.dumps(asdict(plan)).encode(), timeout=bounds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            return Run([Step("discover", error=f"the run did not end in {bounds:g} s")])
    try:
        told = json.loads(seen.read_bytes())
    except ValueError:
        return Run([Step("discover", error=f"the client crashed: see {log.name}")])
    return Run([Step(**step) for step in told["steps"]], told["asks"], told["closing"])


def _plan(installed: Installed, subject: str, work: Path, peer: Path | None) -> Plan:
    server = installed.server
    package = installed.folder / "node_modules" / server.package
    places = {"bin": str(installed.bin), "package": str(package), "work": str(work)}
    command, env = placed(server.command, places), placed(server.env, places)
    passed = [word for name in env for word in ("--env", name)]
    bridge = [sys.executable, "-m", "bridge"]
    placing = ["--cwd", str(work), *passed, "--", *command]
    return Plan(
        command={
            OLD: command,
            STDIO: [*bridge, "stdio", *placing],
            HTTP: [*bridge, "serve", "--port", "0", *placing],
            PEER: [shutil.which("node") or "node", str(peer and peer / "src" / "cli.js"), *passed, "--", *command],
        }[subject],
        env=env,
        cwd=str(ROOT if subject in (STDIO, HTTP) else work),
        over_http=subject == HTTP,
        root=work.as_uri(),
        call=placed(server.call, places),
        questions=placed(server.questions, places),
        start_seconds=START_SECONDS,
        step_seconds=server.seconds,
    )


def _about(options: Any) -> list[str]:
    """Which versions were used."""
    old = subprocess.run(
        [options.legacy_python, "-c", "from importlib.metadata import version; print(version('mcp'))"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    ).stdout.strip()
    node = subprocess.run(["node", "--version"], capture_output=True, text=True, timeout=60, check=True).stdout.strip()
    lines = [
        f"Clients: Python SDK {old} (old) and {version('mcp')} (new). Node {node}, Python {sys.version.split()[0]}."
    ]
    if options.peer:
        manifest = json.loads((options.peer / "package.json").read_text(encoding="utf-8"))
        lines.append(f"mcp-uplift {manifest['version']}, run as its README says, its options at their defaults.")
    return lines


def _plain(outcome: Outcome) -> dict[str, Any]:
    judged = [subject for subject in outcome.runs if subject != OLD and not outcome.trouble]
    return {
        "name": outcome.server.name,
        "pin": outcome.server.pin,
        "sdk": outcome.sdk,
        "passed": outcome.passed,
        "trouble": outcome.trouble,
        "runs": {subject: asdict(run) for subject, run in outcome.runs.items()},
        "findings": {
            subject: [asdict(finding) | {"verdict": finding.verdict.value} for finding in outcome.findings(subject)]
            for subject in judged
        },
    }


if __name__ == "__main__":
    sys.exit(main())
