"""The documents agree with the program and with each other: options, defaults, links, and the exchange they show."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer.main

from bridge import cli
from tests.docs.documents import (
    DOCUMENTS,
    README,
    ROOT,
    anchors,
    blocks,
    examples,
    links,
    marks,
    options,
    options_table,
)
from tests.peers.talking import bridge_serving

OPTIONS = ROOT / "docs" / "options.md"
HOW = ROOT / "docs" / "how-it-works.md"
OF_OTHERS = {"--full"}
"""Options of scripts/test."""
COMMANDS = ((), ("stdio",), ("serve",), ("config", "check"), ("config", "schema"), ("demo",), ("keygen",))


@cache
def helped(command: tuple[str, ...]) -> set[str]:
    """The options that the help of a command names."""
    done = subprocess.run(
        [sys.executable, "-m", "bridge", *command, "--help"],
        cwd=ROOT,
        env={**os.environ, "COLUMNS": "300", "NO_COLOR": "1", "TERM": "dumb"},
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=30,
        check=True,
    )
    rows = (line.lstrip("│ ") for line in done.stdout.splitlines())
    return {option for row in rows if row.startswith("-") for option in options(row.partition("  ")[0])}


def every_option() -> set[str]:
    return set().union(*map(helped, COMMANDS))


def test_every_option_of_the_help_is_in_the_options_page() -> None:
    assert {"--host", "--interactive", "--version", "--key-file"} <= every_option()
    assert every_option() - options(OPTIONS.read_text(encoding="utf-8")) == set()


@pytest.mark.parametrize("document", [README, OPTIONS, ROOT / "docs" / "operating.md", HOW], ids=lambda path: path.name)
def test_every_option_that_is_named_exists(document: Path) -> None:
    assert options(document.read_text(encoding="utf-8")) - every_option() - OF_OTHERS == set()


def test_the_options_page_has_the_defaults_of_the_program() -> None:
    found = dict(options_table(OPTIONS))
    commands: dict[str, Any] = typer.main.get_command(cli.app).commands  # type: ignore[attr-defined]
    actual = {
        parameter.opts[0]: "off" if parameter.default is False else parameter.default
        for name in ("stdio", "serve")
        for parameter in commands[name].params
        if parameter.opts[0].startswith("--") and parameter.opts[0] != "--help"
    }
    assert set(found) == set(actual)
    for option, default in actual.items():
        if default is not None:
            assert found[option] == str(default), option


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_link_leads_somewhere(document: Path) -> None:
    for link in links(document):
        path, _, anchor = link.partition("#")
        target = (document.parent / path).resolve() if path else document
        assert target.is_relative_to(ROOT), f"{link} leads out of the repository"
        assert target.exists(), f"{link} leads nowhere"
        assert not anchor or anchor in anchors(target), f"{link}: there is no such heading"


def test_the_exchange_that_is_shown_is_the_one_on_the_wire() -> None:
    pairs = [(json.loads(sent), json.loads(after(sent))) for sent in examples(HOW, "exchange")]
    assert len(pairs) == len(marks(HOW)) == 2
    states: dict[str, str] = {}
    asker = ROOT / "tests" / "servers" / "asker.py"
    with bridge_serving("--", sys.executable, str(asker)) as bridge:
        for sent, shown in pairs:
            params = sent["params"]
            if "requestState" in params:
                params["requestState"] = states[params["requestState"]]
            got = post(bridge.url, sent)
            if "requestState" in shown["result"]:
                real = got["result"]["requestState"]
                assert len(real) <= 96
                states[shown["result"]["requestState"]] = real
                got["result"]["requestState"] = shown["result"]["requestState"]
            assert got == shown


def after(text: str) -> str:
    """The block that follows this one in its document."""
    every = blocks(HOW)
    return every[every.index(text) + 1]


def post(url: str, message: dict[str, Any]) -> dict[str, Any]:
    request = urllib.request.Request(url, json.dumps(message).encode(), method="POST")
    for name, value in {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": message["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"],
        "Mcp-Method": message["method"],
        "Mcp-Name": message["params"]["name"],
    }.items():
        request.add_header(name, value)
    with urllib.request.urlopen(request, timeout=15) as response:
        answer: dict[str, Any] = json.load(response)
    return answer
