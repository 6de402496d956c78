"""The old servers of the matrix, each behind a bridge of its own: four SDK releases, two transports.

Where the releases are: ``MRTR_TEST_MATRIX_PYTHON`` (a Python with the first), ``MRTR_TEST_LEGACY_PYTHON`` (with the
last) and ``MRTR_TEST_MATRIX_MODULES`` (a node_modules with both); `scripts/test` installs them and sets these.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.peers.talking import Http, Stdio, bridge, bridge_serving, node, server_process

HERE = Path(__file__).parent
RELEASES = ("python 1.10", "python 1.30", "typescript 1.13", "typescript 1.32")
TRANSPORTS = ("stdio", "streamable-http")


def python_with(variable: str, requirement: str) -> str:
    found = os.environ.get(variable)
    if not found:
        raise RuntimeError(f"set {variable} to a Python that has {requirement}, as scripts/test does")
    return found


def server(release: str, transport: str) -> list[str]:
    """The command of a server."""
    how = "stdio" if transport == "stdio" else "http"
    match release:
        case "python 1.10":
            return [python_with("MRTR_TEST_MATRIX_PYTHON", "mcp==1.10.0"), str(HERE / "server.py"), how]
        case "python 1.30":
            return [python_with("MRTR_TEST_LEGACY_PYTHON", "mcp>=1.30,<2"), str(HERE / "server.py"), how]
        case _:
            sdk = "sdk-first" if release.endswith("1.13") else "sdk-last"
            return [node(), str(HERE / "server.mjs"), sdk, how]


@dataclass(frozen=True, slots=True)
class Peer:
    """One server of the matrix and what a bridge in front of it is told."""

    release: str
    transport: str
    target: tuple[str, ...]
    http: Http

    def face(self, name: str) -> Http | Stdio:
        return self.http if name == "http" else Stdio(bridge("stdio", *self.target))


@pytest.fixture(scope="session", params=[f"{release}, {way}" for release in RELEASES for way in TRANSPORTS])
def peer(request: pytest.FixtureRequest) -> Iterator[Peer]:
    """A server, running, behind a bridge."""
    release, transport = str(request.param).split(", ")
    command = server(release, transport)
    with ExitStack() as stack:
        target: tuple[str, ...] = ("--inherit-env", "--", *command)
        if transport != "stdio":
            ready = stack.enter_context(server_process(command, r"http://127\.0\.0\.1:(\d+)"))
            target = ("--url", re.sub(r"(:\d+).*", r"\1/mcp", ready[0]))
        yield Peer(release, transport, target, stack.enter_context(bridge_serving(*target)))
