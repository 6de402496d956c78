"""The official SDK of the old protocol and the bridge in one process: run by the Python that has ``mcp`` 1.x.

``in_process.py SITE KIND COUNT``: SITE is a directory with the packages that the bridge needs and this Python may
lack, KIND is ``memory``, ``streamable-http`` or ``http-sse``. Calls a tool that asks, COUNT times at once, answers, and
prints the results as JSON.
"""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.append(sys.argv[1])  # last: what is here already comes first, above all this Python's own mcp

import anyio
import httpx

from bridge.testing import URL, bridge_for, http_face, in_process
from tests.servers.greeter import server as old

PROTOCOL = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"


def answer(asked: dict[str, Any]) -> dict[str, Any]:
    if asked["method"] == "elicitation/create":
        return {"action": "accept", "content": {"name": "Ada"}}
    wanted = asked["params"]["messages"][0]["content"]
    text = (wanted[0] if isinstance(wanted, list) else wanted)["text"]
    return {"role": "assistant", "model": "m", "content": {"type": "text", "text": f"{text} Hello."}}


async def call(http: httpx.AsyncClient, name: str) -> list[dict[str, Any]]:
    """Every result of a call, up to the complete one."""
    meta = {PROTOCOL: "2026-07-28", CAPABILITIES: {"elicitation": {}, "sampling": {}}}
    params: dict[str, Any] = {"name": name, "arguments": {}, "_meta": meta}
    headers = {
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": "2026-07-28",
        "mcp-method": "tools/call",
        "mcp-name": name,
    }
    results: list[dict[str, Any]] = []
    while not results or results[-1]["resultType"] == "input_required":
        message = {"jsonrpc": "2.0", "id": len(results) + 1, "method": "tools/call", "params": params}
        response = await http.post(URL, json=message, headers=headers)
        results.append(response.json()["result"])
        answers = {key: answer(asked) for key, asked in results[-1].get("inputRequests", {}).items()}
        params = {**params, "inputResponses": answers, "requestState": results[-1].get("requestState")}
    return results


async def main(kind: str, count: int) -> None:
    server: Any = {
        "memory": lambda: old,
        "streamable-http": old.streamable_http_app,
        "http-sse": old.sse_app,
    }[kind]()
    url = "http://127.0.0.1:8000/sse" if kind == "http-sse" else URL
    async with (
        bridge_for(server, url=url) as bridge,
        httpx.AsyncClient(transport=in_process(http_face(bridge))) as http,
    ):
        calls: list[list[dict[str, Any]]] = [[] for _ in range(count)]
        async with anyio.create_task_group() as tasks:
            for results in calls:

                async def one(results: list[dict[str, Any]] = results) -> None:
                    results.extend(await call(http, "greet"))

                tasks.start_soon(one)
        [group] = bridge.pool.groups.values()
        kinds = sorted({session.transport for session in group.channels})
    print(json.dumps({"transports": kinds, "calls": calls}))


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING)
    anyio.run(main, sys.argv[2], int(sys.argv[3]))
