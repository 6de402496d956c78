"""Servers that are a few lines of Python in a process of their own."""

from __future__ import annotations

import os
import sys
import textwrap
from pathlib import Path

from legacy.targets import StdioTarget

PRELUDE = """
import json, os, sys, time, signal, subprocess
def put(text): sys.stdout.write(text); sys.stdout.flush()
def say(**m): put(json.dumps({"jsonrpc": "2.0", **m}) + chr(10))
def hear():
    line = sys.stdin.readline()
    if not line: sys.exit(0)
    return json.loads(line)
def hello(version="2025-11-25"):
    return {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}}
def welcome(version="2025-11-25"):
    m = hear()
    assert m["method"] == "initialize", m
    say(id=m["id"], result=hello(version))
    assert hear()["method"] == "notifications/initialized"
"""


def server(body: str) -> StdioTarget:
    """A server in plain Python."""
    return StdioTarget((sys.executable, "-u", "-c", PRELUDE + textwrap.dedent(body)), env=dict(os.environ))


def group_is_gone(pid: int) -> bool:
    """Whether nothing is left of a process group (a zombie that nobody reaps here does not count)."""
    try:
        os.killpg(pid, 0)
    except ProcessLookupError:
        return True
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if int(fields[2]) == pid and fields[0] != "Z":
            return False
    return True
