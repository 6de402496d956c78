"""Cursors of an old server's lists: opaque to the client, good for its own session, principal and list only."""

from __future__ import annotations

import json
import sys

import pytest

from bridge.cursors import LISTS, Cursors
from bridge.keyring import KeyRing
from modern.errors import ProtocolError
from tests.bridge.harness import Client, bridged, only_group, refused

PAGED = """
import json, sys
for line in sys.stdin:
    m = json.loads(line)
    if "id" not in m:
        continue
    if m["method"] == "initialize":
        r = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "p", "version": ""}}
    elif m["method"].endswith("/list"):
        page = int(m.get("params", {}).get("cursor", "page-0").removeprefix("page-"))
        kind = {"resources/templates/list": "resourceTemplates"}.get(m["method"], m["method"].removesuffix("/list"))
        r = {kind: [{"name": f"t{page}", "inputSchema": {"type": "object"}}]}
        if page < 2:
            r["nextCursor"] = f"page-{page + 1}"
    else:
        r = {}
    print(json.dumps({"jsonrpc": "2.0", "id": m["id"], "result": r}), flush=True)
"""


@pytest.mark.anyio
async def test_case_37_all_pages_can_be_had_and_no_cursor_shows_what_the_server_wrote() -> None:
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
            ("ada", "tools/list", ""),
            ("ada", "tools/list", "x" * 3_000_000),
        ):
            with pytest.raises(ProtocolError) as refused:
                await Client(bridge, principal).send(method, {"cursor": cursor})
            assert refused.value.code == -32602


def test_a_cursor_is_good_for_its_own_session_only() -> None:
    cursors = Cursors(KeyRing.random(), b"inst")
    sealed = cursors.seal("next", b"12345678", session="s#1", principal="p", method="tools/list")
    assert cursors.open(sealed, session="s#1", principal="p", method="tools/list") == ("next", b"12345678")
    with pytest.raises(ProtocolError):
        cursors.open(sealed, session="s#2", principal="p", method="tools/list")


@pytest.mark.anyio
@pytest.mark.parametrize("method", [*LISTS])
async def test_a_cursor_of_a_session_that_has_died_is_refused_not_sent_to_the_next(method: str) -> None:
    async with bridged(sys.executable, "-c", PAGED) as bridge:
        client = Client(bridge)
        page = await client.send(method)
        group = only_group(bridge)
        assert group.primary is not None
        group.primary.lost("The server died.")
        error = await refused(client.send(method, {"cursor": page["nextCursor"]}))
        assert error.code == -32602
        page = await client.send(method)
        assert (await client.send(method, {"cursor": page["nextCursor"]}))[LISTS[method]][0]["name"] == "t1"


@pytest.mark.anyio
async def test_the_same_cursor_is_the_same_text_and_of_any_length() -> None:
    for cursor in ("", "next", "\N{SNOWMAN}", "long" * 30_000):
        turning = json.dumps({"start": ["a", cursor], cursor: ["b", None]}).replace("long" * 30_000, "LONG")
        async with bridged(sys.executable, "-c", TURNING, turning) as bridge:
            client = Client(bridge)
            first, again = await client.send("tools/list"), await client.send("tools/list")
            assert first["nextCursor"] == again["nextCursor"]
            last = await client.send("tools/list", {"cursor": first["nextCursor"]})
            assert last["tools"][0]["name"] == "b"
            assert "nextCursor" not in last  # null is no cursor


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("pages", "names"),
    [
        ({"start": ["a", ""], "": ["b", None]}, ["a", "b"]),  # an empty cursor is a cursor
        ({"start": ["a", ""], "": ["a", ""]}, ["a"]),  # but many servers mean the end by it
        ({"start": ["a", "more"], "more": ["a", "more"]}, ["a"]),  # one that knows no pages
        ({"start": ["a", "x"], "x": ["b", "x"]}, ["a", "b"]),  # one that sticks at the last
        ({"start": ["a", "x"], "x": ["a", "y"], "y": ["a", None]}, ["a", "a", "a"]),  # pages that look alike
    ],
)
async def test_case_38_a_list_ends_where_its_cursor_leads_to_the_same_page_again(
    pages: dict[str, list[str]], names: list[str]
) -> None:
    async with bridged(sys.executable, "-c", TURNING, json.dumps(pages)) as bridge:
        client, found, cursor = Client(bridge), [], {}
        for _ in range(5):
            page = await client.send("tools/list", cursor)
            found += [tool["name"] for tool in page["tools"]]
            if "nextCursor" not in page:
                break
            cursor = {"cursor": page["nextCursor"]}
        else:
            raise AssertionError("the list does not end")
    assert found == names


@pytest.mark.anyio
async def test_one_cursor_that_leads_on_and_on_is_followed() -> None:
    """It stands for a place that the server remembers, and moves on, as scrolling does in some data bases."""
    async with bridged(sys.executable, "-c", SCROLLING) as bridge:
        client, found = Client(bridge), []
        page = await client.send("tools/list")
        while True:
            found += [tool["name"] for tool in page["tools"]]
            if "nextCursor" not in page:
                break
            page = await client.send("tools/list", {"cursor": page["nextCursor"]})
    assert found == ["t1", "t2", "t3", "t4"]


TURNING = """
import json, sys
PAGES = json.loads(sys.argv[1].replace("LONG", "long" * 30_000))
for line in sys.stdin:
    m = json.loads(line)
    if "id" not in m:
        continue
    if m["method"] == "initialize":
        r = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "t", "version": ""}}
    elif m["method"] == "tools/list":
        name, cursor = PAGES[m.get("params", {}).get("cursor", "start")]
        r = {"tools": [{"name": name, "inputSchema": {"type": "object"}}], "nextCursor": cursor}
    else:
        r = {}
    print(json.dumps({"jsonrpc": "2.0", "id": m["id"], "result": r}), flush=True)
"""

SCROLLING = """
import json, sys
turn = 0
for line in sys.stdin:
    m = json.loads(line)
    if "id" not in m:
        continue
    if m["method"] == "initialize":
        r = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": ""}}
    elif m["method"] == "tools/list":
        turn += 1
        r = {"tools": [{"name": f"t{turn}", "inputSchema": {"type": "object"}}]}
        if turn < 4:
            r["nextCursor"] = "scroll"
    else:
        r = {}
    print(json.dumps({"jsonrpc": "2.0", "id": m["id"], "result": r}), flush=True)
"""

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
