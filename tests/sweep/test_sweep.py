"""The sweep of published servers: six of them for real, and what makes it say that something is wrong."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import sweep_list
from sweep_drive import Run, Step, filled
from sweep_judge import Finding, Verdict, judge
from sweep_report import HTTP, OLD, STDIO, Outcome, page

ROOT = Path(__file__).resolve().parents[2]
SERVERS = sweep_list.servers()
TOOL = {"name": "add", "inputSchema": {"type": "object"}}
GREETING = {"serverInfo": {"name": "sums", "version": "1"}, "capabilities": {"tools": {}}}


def run(*asks: dict[str, Any], **steps: Any) -> Run:
    """A run in which each step, by its name with underscores, came to an answer or (a text) to an error."""
    told = [
        Step(
            name.replace("_", "/"),
            answer=None if isinstance(came, str) else came,
            error=came if came == str(came) else None,
        )
        for name, came in steps.items()
    ]
    return Run(told, list(asks))


def wrong(findings: list[Finding]) -> dict[str, Verdict]:
    return {finding.step: finding.verdict for finding in findings if not finding.verdict.passes}


# -- for real ----------------------------------------------------------------------------------------------------------


@pytest.mark.timeout(300)
def test_six_published_servers_fail_nowhere_where_an_old_client_does_not() -> None:
    done = subprocess.run(
        [sys.executable, "scripts/sweep.py", "--quick", "--jobs", "2", "--json"],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    outcomes = json.loads(done.stdout)
    assert len(outcomes) == 6
    for outcome in outcomes:
        assert set(outcome["runs"]) == {OLD, STDIO, HTTP}
        for subject in (STDIO, HTTP):
            steps = {step["name"] for step in outcome["runs"][subject]["steps"]}
            assert {"discover", "tools/list", "tools/call", "listen", "close", "orphans"} <= steps
    assert {ask["method"] for outcome in outcomes for ask in outcome["runs"][HTTP]["asks"]} == {
        "elicitation/create",
        "sampling/createMessage",
        "roots/list",
    }


def test_a_process_that_left_its_session_is_found_and_ended() -> None:
    program = (
        "import subprocess, sweep_processes, time\n"
        "sweep_processes.adopt_orphans()\n"
        "subprocess.run(['sh', '-c', 'setsid sleep 61 & exit 0'], check=True)\n"
        "print(sweep_processes.survivors(time.monotonic() + 0.3))\n"
        "print(sweep_processes.survivors(time.monotonic() + 5))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT / "scripts", capture_output=True, text=True, timeout=30, check=True
    )
    assert done.stdout.splitlines() == ["['sleep 61']", "[]"]


# -- the verdict -------------------------------------------------------------------------------------------------------


def test_the_same_answers_pass() -> None:
    seen = {"discover": GREETING, "tools_list": {"tools": [TOOL], "pages": 1}, "close": {}}
    assert wrong(judge(run(**seen), run(**seen))) == {}


def test_a_failure_passes_only_where_the_old_client_fails_too() -> None:
    old = run(discover=GREETING, tools_call="fetch failed", listen={})
    new = run(discover=GREETING, tools_call="fetch failed", listen="no answer in time")
    assert wrong(judge(old, new)) == {"listen": Verdict.FAILS}


def test_a_step_that_is_not_reached_fails() -> None:
    assert wrong(judge(run(discover=GREETING, close={}), run(discover="crashed"))) == {
        "discover": Verdict.FAILS,
        "close": Verdict.FAILS,
    }


def test_an_answer_that_says_something_else_differs_unless_it_varies() -> None:
    def called(text: str, *, is_error: bool = False) -> Run:
        return run(tools_call={"content": [{"type": "text", "text": text}], "isError": is_error})

    assert wrong(judge(called("41"), called("42"))) == {"tools/call": Verdict.DIFFERS}
    assert wrong(judge(called("41"), called("42"), varies=["tools/call"])) == {}
    assert wrong(judge(called("41"), called("42", is_error=True), varies=["tools/call"])) == {
        "tools/call": Verdict.DIFFERS
    }


def test_a_tool_that_is_lost_or_changed_differs_and_its_order_does_not_matter() -> None:
    def listed(*tools: Any) -> Run:
        return run(tools_list={"tools": list(tools), "pages": 1})

    other = {**TOOL, "name": "subtract"}
    changed = {**other, "inputSchema": {"type": "object", "required": ["a"]}}
    assert wrong(judge(listed(TOOL, other), listed(other, TOOL))) == {}
    assert wrong(judge(listed(TOOL, other), listed(TOOL))) == {"tools/list": Verdict.DIFFERS}
    assert wrong(judge(listed(TOOL, other), listed(TOOL, changed))) == {"tools/list": Verdict.DIFFERS}


def test_what_the_new_protocol_adds_takes_away_and_wants_is_no_difference() -> None:
    old = run(tools_list={"tools": [{"name": "add", "inputSchema": {}, "execution": {"taskSupport": "optional"}}]})
    new = run(
        tools_list={"tools": [TOOL], "ttlMs": 0, "cacheScope": "private", "_meta": {"io.modelcontextprotocol/a": 1}}
    )
    assert wrong(judge(old, new)) == {}


def test_a_question_that_is_not_asked_differs() -> None:
    ask = {"during": "tools/call", "method": "elicitation/create", "params": {"message": "Sure?"}}
    assert wrong(judge(run(ask, tools_call={}), run(tools_call={}))) == {"questions": Verdict.DIFFERS}
    assert wrong(judge(run(ask, tools_call={}), run(ask, tools_call={}))) == {}
    assert wrong(judge(run(tools_call={}), run(ask, tools_call={}))) == {"questions": Verdict.DIFFERS}


def test_roots_may_be_asked_for_once_and_kept() -> None:
    ask = {"during": "tools/list", "method": "roots/list", "params": {}}
    assert wrong(judge(run(ask, ask), run(ask))) == {}
    assert wrong(judge(run(ask, ask), run())) == {"questions": Verdict.DIFFERS}


def test_forms_are_filled_in_as_they_want() -> None:
    properties = {
        "name": {"type": "string", "minLength": 8},
        "age": {"type": "integer", "minimum": 18},
        "colour": {"type": "string", "enum": ["red", "green"]},
        "mail": {"type": "string", "format": "email"},
        "spare": {"type": "string"},
    }
    schema = {"type": "object", "properties": properties, "required": ["name", "age", "colour", "mail"]}
    assert filled(schema) == {"name": "sweepxxx", "age": 18, "colour": "red", "mail": "sweep@example.org"}


# -- the list and the page ---------------------------------------------------------------------------------------------


def test_the_list_has_sixty_servers_of_every_kind_from_both_registries_and_six_quick_ones() -> None:
    assert len(SERVERS) >= 60
    assert {server.kind for server in SERVERS} == {"reference", "vendor", "community"}
    assert {server.registry for server in SERVERS} == {"npm", "pypi"}
    assert sorted(server.registry for server in SERVERS if server.quick) == ["npm"] * 3 + ["pypi"] * 3


def test_no_server_is_there_twice() -> None:
    packages = [(server.registry, server.package) for server in SERVERS]
    assert len(packages) == len(set(packages))


def test_a_list_with_an_unknown_key_is_refused(tmp_path: Path) -> None:
    place = tmp_path / "list.toml"
    place.write_text('[[server]]\nname = "x"\nverdict = "ok"\n')
    with pytest.raises(sweep_list.BadList, match="x has unknown keys: verdict"):
        sweep_list.servers(place)


def test_the_page_says_what_failed_and_why() -> None:
    outcome = Outcome(SERVERS[0], "1.0.0")
    outcome.runs = {
        OLD: run(discover=GREETING, listen={}),
        STDIO: run(discover=GREETING, listen={}),
        HTTP: run(discover=GREETING, listen="no answer | in time"),
    }
    assert not outcome.passed
    text = page([outcome], [])
    assert "| ok | ok | **fails: listen** | not run |" in text
    assert "- bridge, HTTP: listen fails: `no answer ¦ in time`" in text
