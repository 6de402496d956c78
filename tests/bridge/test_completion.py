"""Completion: what reaches an old server and comes back, and whether one of 2024-11-05 has it at all."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

from bridge import discovery
from tests.bridge.harness import Client, bridged, only_group, refused, until
from tests.bridge.listeners import announcer

pytestmark = pytest.mark.anyio

OLDEST = """
import json, sys, time
how, journal = sys.argv[1:]
for line in sys.stdin:
    m = json.loads(line)
    if "id" not in m:
        continue
    answer = {"result": {}}
    if m["method"] == "initialize":
        prompts = {} if how == "nothing to complete" else {"prompts": {}}
        info = {"name": "o", "version": ""}
        answer["result"] = {"protocolVersion": "2024-11-05", "capabilities": prompts, "serverInfo": info}
    elif m["method"] == "completion/complete":
        with open(journal, "a") as told:
            told.write(line)
        if how == "silent":
            continue
        answer = {
            "has": {"result": {"completion": {"values": []}}},
            "refuses": {"error": {"code": -32602, "message": "Which prompt?"}},
            "lacks": {"error": {"code": -32601, "message": "Method not found"}},
        }[how]
    print(json.dumps({"jsonrpc": "2.0", "id": m["id"], **answer}), flush=True)
"""


@pytest.mark.parametrize(
    ("how", "declared", "tried"),
    [
        ("has", True, 1),
        ("refuses", True, 1),
        ("lacks", False, 1),
        ("silent", False, 1),
        ("nothing to complete", False, 0),
    ],
)
async def test_whether_a_server_of_2024_has_completions_is_tried_once_in_a_session(
    how: str, declared: bool, tried: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if how == "silent":
        monkeypatch.setattr(discovery, "PATIENCE", 0.3)
    journal = tmp_path / "journal"
    journal.touch()
    async with bridged(sys.executable, "-c", OLDEST, how, str(journal)) as bridge:
        found: list[dict[str, Any]] = []

        async def discover() -> None:
            found.append((await Client(bridge).send("server/discover"))["capabilities"])

        async with anyio.create_task_group() as tasks:  # side by side, and afterwards
            for _ in range(5):
                tasks.start_soon(discover)
        await discover()
        assert [("completions" in capabilities) for capabilities in found] == [declared] * 6
        assert len(journal.read_text().splitlines()) == tried
        group = only_group(bridge)
        assert group.primary is not None
        group.primary.lost("The server died.")
        await until(lambda: group.primary is None)
        await discover()
        assert len(journal.read_text().splitlines()) == 2 * tried  # another process may be another version


@pytest.mark.parametrize(
    "ref", [{"type": "ref/prompt", "name": "prompt"}, {"type": "ref/resource", "uri": "watch://{name}"}]
)
@pytest.mark.parametrize("context", [None, {"arguments": {"language": "python"}}])
async def test_reference_argument_and_context_reach_the_server(ref: dict[str, str], context: Any) -> None:
    async with bridged(*announcer()) as bridge:
        params = {"ref": ref, "argument": {"name": "framework", "value": "fla"}}
        result = await Client(bridge).send("completion/complete", params | ({"context": context} if context else {}))
        seen, given = map(json.loads, result["completion"]["values"])
        assert seen == ref
        assert given == (context and context["arguments"])
        assert result["resultType"] == "complete"
        assert "ttlMs" not in result


async def test_completions_are_the_servers_own_errors() -> None:
    async with bridged(*announcer()) as bridge:
        wrong = {"ref": {"type": "ref/nothing"}, "argument": {"name": "a", "value": ""}}
        assert (await refused(Client(bridge).send("completion/complete", wrong))).code == -32602
