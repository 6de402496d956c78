"""The official Python client with one open subscription, driven line by line: what `tests/node/listener.mjs` does."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import anyio
from mcp import Client, StdioServerParameters
from mcp.client.subscriptions import SubscriptionLost
from mcp.shared.subscriptions import event_to_notification


def say(**what: Any) -> None:
    print(json.dumps(what), flush=True)


async def main() -> None:
    asked = json.loads(sys.argv[1])
    target, wanted = asked["target"], asked["filter"]
    server: Any = target.get("url")
    if server is None:
        server = StdioServerParameters(command=target["command"], args=target["args"], env=dict(os.environ))
    closing = anyio.Event()
    closed = False
    async with Client(server, mode="auto") as client, anyio.create_task_group() as tasks:
        listening = client.listen(
            tools_list_changed=wanted.get("toolsListChanged", False),
            prompts_list_changed=wanted.get("promptsListChanged", False),
            resources_list_changed=wanted.get("resourcesListChanged", False),
            resource_subscriptions=wanted.get("resourceSubscriptions", ()),
        )

        async def listen() -> None:
            nonlocal closed
            async with listening as subscription, anyio.create_task_group() as inner:

                async def events() -> None:
                    nonlocal closed
                    try:
                        async for event in subscription:
                            made = event_to_notification(event, {}).model_dump(by_alias=True, exclude_none=True)
                            say(event=made["method"], params=made.get("params"))
                    except SubscriptionLost:
                        say(closed="remote")
                    else:
                        say(closed="graceful")
                    closed = True
                    closing.set()

                say(acknowledged=subscription.honored.model_dump(by_alias=True, exclude_none=True))
                inner.start_soon(events)
                await closing.wait()
                inner.cancel_scope.cancel()
            if not closed:
                say(closed="local")

        tasks.start_soon(listen)
        async with await anyio.open_file(0, closefd=False) as lines:
            async for line in lines:
                order = json.loads(line)
                if order.get("close"):
                    closing.set()
                else:
                    result = await client.call_tool(order["name"], order["arguments"])
                    say(result=result.model_dump(by_alias=True, mode="json", exclude_none=True))
        tasks.cancel_scope.cancel()


anyio.run(main)
