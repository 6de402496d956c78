"""What the bridge has to know of a server's tools, and tools that are tasks, when something goes wrong on the way."""

from __future__ import annotations

import sys

import anyio
import pytest

from tests.bridge.harness import Client, bridged, only_group, until, value

pytestmark = pytest.mark.anyio

FAILS_FIRST = """
import json, sys
lists = 0
for line in sys.stdin:
    m = json.loads(line)
    if "id" not in m:
        continue
    r = {"result": {"content": []}}
    if m["method"] == "initialize":
        info = {"name": "o", "version": ""}
        r = {"result": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info}}
    elif m["method"] == "tools/list":
        lists += 1
        r = {"result": {"tools": [{"name": "x", "inputSchema": {"type": "object", "title": f"list {lists}"}}]}}
        if lists == 1:
            r = {"error": {"code": -32603, "message": "not yet"}}
        elif lists == 2:
            r["result"]["nextCursor"] = "more"
        elif lists == 3:
            r = {"error": {"code": -32603, "message": "no second page"}}
    print(json.dumps({"jsonrpc": "2.0", "id": m["id"], **r}), flush=True)
"""


async def test_a_list_of_tools_that_fails_is_tried_again_after_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    async with bridged(sys.executable, "-c", FAILS_FIRST) as bridge:
        client = Client(bridge)
        request = client.request("tools/call", {"name": "x", "arguments": {"a": 1}})
        await bridge.learn_tools(request)
        assert bridge.mirrored_parameters(request) is None  # not known, which is not the same as none
        assert (await client.call("x", a=1))["content"] == []  # and spoils no call
        await bridge.learn_tools(request)  # within the pause nothing is asked
        monkeypatch.setattr("bridge.toolbook.PAUSE", 0.0)
        only_group(bridge).tools_again_at = 0.0
        await bridge.learn_tools(request)  # half a list says nothing about the rest
        assert bridge.mirrored_parameters(request) is None
        await bridge.learn_tools(request)
        schema = bridge.mirrored_parameters(request)
    assert schema == {"type": "object", "title": "list 4"}


SLOW_TASK = """
import json, sys, time
heard = []
def send(**m):
    print(json.dumps({"jsonrpc": "2.0", **m}), flush=True)
created = None
for line in sys.stdin:
    m = json.loads(line)
    heard.append([m["method"], m.get("params", {}).get("taskId")])
    if m["method"] == "initialize":
        tasks = {"requests": {"tools": {"call": {}}}, "cancel": {}}
        info = {"name": "o", "version": ""}
        capabilities = {"tools": {}, "tasks": tasks}
        send(id=m["id"], result={"protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": info})
    elif m["method"] == "tools/list":
        tool = {"inputSchema": {"type": "object"}}
        job = {"name": "job", "execution": {"taskSupport": "required"}, **tool}
        send(id=m["id"], result={"tools": [job, {"name": "heard", **tool}]})
    elif m["method"] == "tools/call" and m["params"]["name"] == "heard":
        send(id=m["id"], result={"content": [{"type": "text", "text": json.dumps(heard)}]})
    elif m["method"] == "tools/call":
        created = m["id"]
    elif m["method"] == "notifications/cancelled":
        send(id=created, result={"task": {"taskId": "t1", "status": "working"}})
    elif "id" in m:
        send(id=m["id"], result={})
"""


async def test_a_task_that_is_created_after_its_call_was_cancelled_is_cancelled_too() -> None:
    async with bridged(sys.executable, "-c", SLOW_TASK) as bridge:
        client = Client(bridge)
        with anyio.move_on_after(0.3):
            await client.call("job")
        await until(lambda: only_group(bridge).idle)
        heard = value(await client.call("heard"))
        assert ["tasks/cancel", "t1"] in heard
        assert ["tasks/result", "t1"] not in heard
