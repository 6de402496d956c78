"""Servers behind bridges, one process each for the whole folder, and the faces through which clients reach them."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
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


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Three transports behind two faces for two clients take long: HTTP+SSE behind stdio is for the full run."""
    for item in items:
        chosen = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
        if (chosen.get("everything"), chosen.get("face")) == ("sse server", "stdio"):
            item.add_marker(pytest.mark.full)


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
    with everything_at("streamableHttp", r"listening on port") as port:
        yield f"http://127.0.0.1:{port}/mcp"


@pytest.fixture(scope="session")
def everything_sse_url() -> Iterator[str]:
    """server-everything on HTTP+SSE."""
    with everything_at("sse", r"running on port") as port:
        yield f"http://127.0.0.1:{port}/sse"


@contextmanager
def everything_at(mode: str, ready: str) -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    with server_process(node_server("server-everything", mode), ready, env={"PORT": str(port)}):
        yield port


@pytest.fixture(scope="session")
def everything_over_http(everything_url: str) -> Iterator[Http]:
    with bridge_serving("--url", everything_url) as target:
        yield target


@pytest.fixture(scope="session")
def everything_over_sse(everything_sse_url: str) -> Iterator[Http]:
    with bridge_serving("--url", everything_sse_url) as target:
        yield target


@pytest.fixture(scope="session")
def everything_over_stdio() -> Iterator[Http]:
    with bridge_serving("--", *node_server("server-everything")) as target:
        yield target


@pytest.fixture(scope="session", params=["stdio server", "http server", "sse server"])
def everything(request: pytest.FixtureRequest, face: str) -> Stdio | Http:
    """server-everything, on each transport, behind either face of the bridge."""
    server = request.param.removesuffix(" server")
    if face == "http":
        target: Http = request.getfixturevalue(f"everything_over_{server}")
        return target
    if server == "stdio":
        return Stdio(bridge("stdio", "--", *node_server("server-everything")))
    url = request.getfixturevalue("everything_url" if server == "http" else "everything_sse_url")
    return Stdio(bridge("stdio", "--url", url))


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
