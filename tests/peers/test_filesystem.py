"""server-filesystem 2025.8.21 behind the bridge: it may use the client's roots, if the client has any."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.bridge.harness import Client, Clock, bridged
from tests.peers.talking import PYTHON, Http, Script, Stdio, Transcript, bridge_serving, converse, node_server

Json = dict[str, Any]
Folders = tuple[Path, Path]


def tool(name: str, **arguments: Any) -> Json:
    return {"method": "tools/call", "params": {"name": name, "arguments": arguments}}


def calls(folders: Folders) -> list[Json]:
    given, root = folders
    return [
        {"method": "tools/list"},
        tool("list_allowed_directories"),
        tool("read_text_file", path=str(root / "note.txt")),
        tool("read_text_file", path=str(given / "note.txt")),
        tool("list_directory", path=str(root)),
    ]


@pytest.fixture(scope="module")
def with_roots(client: str, filesystem: Stdio | Http, folders: Folders) -> Transcript:
    roots = {"roots": [{"uri": folders[1].as_uri(), "name": "root"}]}
    return converse(client, filesystem, Script(calls(folders), {"roots/list": [roots]}))


@pytest.fixture(scope="module")
def without_roots(client: str, filesystem: Stdio | Http, folders: Folders) -> Transcript:
    return converse(client, filesystem, Script(calls(folders)))


def test_the_client_finds_a_modern_server_that_is_the_old_one(with_roots: Transcript) -> None:
    assert with_roots.error is None
    assert with_roots.protocolVersion == "2026-07-28"
    assert (with_roots.serverInfo or {})["name"] == "secure-filesystem-server"
    assert "read_text_file" in {tool["name"] for tool in with_roots.result(0)["tools"]}


def test_every_tool_has_a_schema_of_type_object_though_the_server_leaves_the_type_out(with_roots: Transcript) -> None:
    assert {tool["inputSchema"].get("type") for tool in with_roots.result(0)["tools"]} == {"object"}


def test_the_servers_folders_are_the_clients_roots(with_roots: Transcript, folders: Folders) -> None:
    assert with_roots.text(1) == f"Allowed directories:\n{folders[1]}"
    assert {ask["method"] for ask in with_roots.asks} <= {"roots/list"}


def test_a_file_in_the_clients_root_is_read(with_roots: Transcript) -> None:
    assert with_roots.text(2) == "a note in root"
    assert "note.txt" in with_roots.text(4)


def test_a_file_outside_the_clients_root_is_refused(with_roots: Transcript) -> None:
    result = with_roots.result(3)
    assert result["isError"] is True
    assert "Access denied" in result["content"][0]["text"]


def test_without_roots_the_folder_given_at_the_start_counts(without_roots: Transcript, folders: Folders) -> None:
    assert without_roots.text(1) == f"Allowed directories:\n{folders[0]}"
    assert without_roots.text(3) == "a note in given"
    assert without_roots.result(2)["isError"] is True
    assert without_roots.asks == []


@pytest.mark.anyio
async def test_case_14_an_hour_after_the_start_the_first_call_sees_the_clients_roots(
    folders: Folders, monkeypatch: pytest.MonkeyPatch
) -> None:
    given, root = folders
    clock = Clock(monkeypatch)
    async with bridged(*node_server("server-filesystem", str(given))) as bridge:
        client = Client(bridge)
        assert (await client.send("tools/list"))["resultType"] == "complete"
        clock.skip(3600)
        seen = await client.answered(
            "list_allowed_directories", lambda method, params: {"roots": [{"uri": root.as_uri()}]}
        )
        assert seen["content"][0]["text"] == f"Allowed directories:\n{root}"


@pytest.mark.anyio
async def test_other_roots_are_asked_for_after_a_while_and_the_server_takes_them(
    folders: Folders, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(monkeypatch)
    async with bridged(*node_server("server-filesystem", str(folders[0])), roots_age=60) as bridge:
        client = Client(bridge)
        for folder in reversed(folders):
            roots = {"roots": [{"uri": folder.as_uri()}]}
            seen = await client.answered("list_allowed_directories", lambda method, params, roots=roots: roots)
            assert seen["content"][0]["text"] == f"Allowed directories:\n{folder}"
            clock.skip(61)


def test_two_clients_with_other_roots_each_see_their_own_though_they_are_one_principal(folders: Folders) -> None:
    def listed(folder: Path) -> list[str]:
        calls = [tool("list_allowed_directories"), tool("read_text_file", path=str(folder / "note.txt"))]
        roots = {"roots": [{"uri": folder.as_uri()}]}
        seen = converse(PYTHON, target, Script(calls, {"roots/list": [roots]}))
        return [seen.text(0), seen.text(1)]

    with (
        bridge_serving(
            "--roots", "per-call", "--", *node_server("server-filesystem", str(folders[0].parent))
        ) as target,
        ThreadPoolExecutor(2) as pool,
    ):
        both = list(pool.map(listed, folders))
    assert both == [[f"Allowed directories:\n{folder}", f"a note in {folder.name}"] for folder in folders]


@pytest.mark.anyio
async def test_started_with_no_folder_it_has_the_clients_roots_and_nothing_without(folders: Folders) -> None:
    root = folders[1]
    async with bridged(*node_server("server-filesystem")) as bridge:
        seen = await Client(bridge).answered(
            "list_allowed_directories", lambda method, params: {"roots": [{"uri": root.as_uri()}]}
        )
        assert seen["content"][0]["text"] == f"Allowed directories:\n{root}"
        without = await Client(bridge, capabilities={}).call("list_allowed_directories")
        assert without["content"][0]["text"] == "Allowed directories:\n"
