"""Cursors of an old server's lists: opaque to the client, good for its own session, principal and list only."""

from __future__ import annotations

import sys

import pytest

from bridge.cursors import Cursors
from bridge.keyring import KeyRing
from modern.errors import ProtocolError
from tests.bridge.harness import Client, bridged

PAGED = """
import json, sys
for line in sys.stdin:
    m = json.loads(line)
    if "id" not in m:
        continue
    if m["method"] == "initialize":
        r = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "p", "version": ""}}
    elif m["method"] == "tools/list":
        page = int(m.get("params", {}).get("cursor", "page-0").removeprefix("page-"))
        r = {"tools": [{"name": f"t{page}", "inputSchema": {"type": "object"}}]}
        if page < 2:
            r["nextCursor"] = f"page-{page + 1}"
    else:
        r = {}
    print(json.dumps({"jsonrpc": "2.0", "id": m["id"], "result": r}), flush=True)
"""


@pytest.mark.anyio
async def test_all_pages_can_be_had_and_no_cursor_shows_what_the_server_wrote() -> None:
    async with bridged(sys.executable, "-c", PAGED) as bridge:
        client, names, cursors = Client(bridge), [], []
        page = await client.send("tools/list")
        while "nextCursor" in page:
            names.append(page["tools"][0]["name"])
            cursors.append(page["nextCursor"])
            page = await client.send("tools/list", {"cursor": cursors[-1]})
        names.append(page["tools"][0]["name"])
    assert names == ["t0", "t1", "t2"]
    assert not any("page" in cursor for cursor in cursors)


@pytest.mark.anyio
async def test_a_cursor_of_another_principal_or_list_or_of_nobody_is_refused() -> None:
    async with bridged(sys.executable, "-c", PAGED) as bridge:
        page = await Client(bridge, "ada").send("tools/list")
        for principal, method, cursor in (
            ("bob", "tools/list", page["nextCursor"]),
            ("ada", "prompts/list", page["nextCursor"]),
            ("ada", "tools/list", "page-1"),
            ("ada", "tools/list", page["nextCursor"][:-1]),
        ):
            with pytest.raises(ProtocolError) as refused:
                await Client(bridge, principal).send(method, {"cursor": cursor})
            assert refused.value.code == -32602


def test_a_cursor_of_a_lost_session_is_refused() -> None:
    cursors = Cursors(KeyRing.random(), b"inst")
    sealed = cursors.seal("next", session="s#1", principal="p", method="tools/list")
    assert cursors.open(sealed, session="s#1", principal="p", method="tools/list") == "next"
    with pytest.raises(ProtocolError):
        cursors.open(sealed, session="s#2", principal="p", method="tools/list")


ODD_TOOLS = """
import json, sys
TOOLS = json.loads(sys.argv[1])
for line in sys.stdin:
    m = json.loads(line)
    if "id" not in m:
        continue
    if m["method"] == "initialize":
        r = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "o", "version": ""}}
    elif m["method"] == "tools/list":
        r = {"tools": TOOLS, "nextCursor": "again and again"}
    else:
        r = {"content": []}
    print(json.dumps({"jsonrpc": "2.0", "id": m["id"], "result": r}), flush=True)
"""


@pytest.mark.anyio
@pytest.mark.parametrize("tools", ["null", "5", '[{"name": ["x"]}, 7]', "[]"])
async def test_an_odd_list_of_tools_spoils_no_call(tools: str) -> None:
    async with bridged(sys.executable, "-c", ODD_TOOLS, tools) as bridge:
        client = Client(bridge)
        request = client.request("tools/call", {"name": "x", "arguments": {"a": 1}})
        await bridge.learn_tools(request)
        assert bridge.mirrored_parameters(request) == {}
        assert (await client.call("x", a=1))["content"] == []
