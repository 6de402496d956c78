"""Servers behind bridges, one process each for the whole folder, and the faces through which clients reach them."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.peers.talking import (
    PYTHON,
    TYPESCRIPT,
    Http,
    Stdio,
    bridge,
    bridge_serving,
    node_server,
    server_process,
)


@pytest.fixture(scope="session", params=[PYTHON, TYPESCRIPT])
def client(request: pytest.FixtureRequest) -> str:
    """Each of the two official clients."""
    return str(request.param)


@pytest.fixture(scope="session", params=["http", "stdio"])
def face(request: pytest.FixtureRequest) -> str:
    """The side of the bridge that the client talks to."""
    return str(request.param)


@pytest.fixture(scope="session")
def everything_url() -> Iterator[str]:
    """server-everything on Streamable HTTP."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    command = node_server("server-everything", "streamableHttp")
    with server_process(command, r"listening on port", env={"PORT": str(port)}):
        yield f"http://127.0.0.1:{port}/mcp"


@pytest.fixture(scope="session")
def everything_over_http(everything_url: str) -> Iterator[Http]:
    with bridge_serving("--url", everything_url) as target:
        yield target


@pytest.fixture(scope="session")
def everything_over_stdio() -> Iterator[Http]:
    with bridge_serving("--", *node_server("server-everything")) as target:
        yield target


@pytest.fixture(scope="session", params=["stdio server", "http server"])
def everything(request: pytest.FixtureRequest, face: str) -> Stdio | Http:
    """server-everything, on either transport, behind either face of the bridge."""
    over_http = request.param == "http server"
    if face == "http":
        target: Http = request.getfixturevalue("everything_over_http" if over_http else "everything_over_stdio")
        return target
    if over_http:
        return Stdio(bridge("stdio", "--url", request.getfixturevalue("everything_url")))
    return Stdio(bridge("stdio", "--", *node_server("server-everything")))


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two folders with a file each: the one the server is started with, and the one that clients have as their root."""
    base = tmp_path_factory.mktemp("files").resolve()
    given, root = base / "given", base / "root"
    for folder in (given, root):
        folder.mkdir()
        (folder / "note.txt").write_text(f"a note in {folder.name}")
    return given, root


@pytest.fixture(scope="session")
def filesystem_over_http(folders: tuple[Path, Path]) -> Iterator[Http]:
    with bridge_serving("--", *node_server("server-filesystem", str(folders[0]))) as target:
        yield target


@pytest.fixture(scope="session")
def filesystem(request: pytest.FixtureRequest, face: str, folders: tuple[Path, Path]) -> Stdio | Http:
    """server-filesystem on stdio behind either face."""
    if face == "http":
        target: Http = request.getfixturevalue("filesystem_over_http")
        return target
    return Stdio(bridge("stdio", "--", *node_server("server-filesystem", str(folders[0]))))
