"""A legacy server that has much to say on its own, written with the official Python SDK before its second version.

    python tests/servers/announcer.py               # stdio
    python tests/servers/announcer.py --http PORT   # Streamable HTTP
    python tests/servers/announcer.py --sse PORT    # HTTP+SSE

Subscriptions are kept for each session, as ``resources/subscribe`` and ``unsubscribe`` leave them. How such a request
is taken up depends on the URI: ``watch://slow/…`` after a moment, ``watch://silent/…`` never, ``watch://refused/…``
with an error, all others at once. Requests are handled side by side. ``ANNOUNCER_HABITS`` is a file that may hold
``refuse URI`` when the server starts.

Tools: ``touch(uri)`` announces an update if the URI, or what it is below, is subscribed (``anyway``: in any case);
``watched`` returns what is subscribed on this session, and every request about it in order; ``change(kind)``;
``report(n)`` and ``chat(n, level, related)`` send as many progress and log messages as they can; ``quiet(seconds)``
says nothing; ``traced`` returns the ``_meta`` that came with the request; ``level`` returns the levels that were set;
``die`` ends the process.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import anyio
from mcp import McpError, types
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.lowlevel.helper_types import ReadResourceContents
from on_transport import main
from pydantic import AnyUrl

Json = dict[str, Any]


class Announcer(Server[Any, Any]):
    """The SDK's server, which cannot be told that it has subscriptions."""

    def get_capabilities(self, *arguments: Any, **options: Any) -> types.ServerCapabilities:
        found = super().get_capabilities(*arguments, **options)
        if found.resources is not None:
            found.resources.subscribe = True
        return found

    def create_initialization_options(self, *arguments: Any, **options: Any) -> Any:
        changes = NotificationOptions(prompts_changed=True, resources_changed=True, tools_changed=True)
        return super().create_initialization_options(changes)


server: Announcer = Announcer("announcer", version="1.0.0")
watched: WeakKeyDictionary[Any, tuple[set[str], list[str]]] = WeakKeyDictionary()
levels: list[str] = []
HABITS = Path(os.environ["ANNOUNCER_HABITS"]).read_text() if "ANNOUNCER_HABITS" in os.environ else ""


def mine() -> tuple[set[str], list[str]]:
    return watched.setdefault(server.request_context.session, (set(), []))


async def taken_up(what: str, uri: str) -> None:
    mine()[1].append(f"{what} {uri}")
    if f"refuse {uri}" == HABITS:
        raise McpError(types.ErrorData(code=-32602, message="Not any more."))
    match uri.removeprefix("watch://").split("/")[0]:
        case "slow":
            await anyio.sleep(0.2 if what == "subscribe" else 0.05)
        case "silent":
            await anyio.sleep_forever()
        case "refused":
            raise McpError(types.ErrorData(code=-32602, message="Not that one."))


@server.subscribe_resource()
async def subscribe(uri: AnyUrl) -> None:
    await taken_up("subscribe", str(uri))
    mine()[0].add(str(uri))


@server.unsubscribe_resource()
async def unsubscribe(uri: AnyUrl) -> None:
    await taken_up("unsubscribe", str(uri))
    mine()[0].discard(str(uri))


@server.set_logging_level()
async def set_logging_level(level: types.LoggingLevel) -> None:
    await anyio.sleep(0.05)
    levels.append(level)


@server.list_resources()
async def list_resources() -> list[types.Resource]:
    return [types.Resource(uri=AnyUrl("watch://one"), name="one")]


@server.read_resource()
async def read_resource(uri: AnyUrl) -> list[ReadResourceContents]:
    return [ReadResourceContents(content="content", mime_type="text/plain")]


@server.list_prompts()
async def list_prompts() -> list[types.Prompt]:
    return [types.Prompt(name="prompt")]


@server.completion()
async def complete(ref: Any, argument: types.CompletionArgument, context: Any) -> types.Completion:
    """What it was asked for."""
    given = context.arguments if context is not None else None
    return types.Completion(values=[json.dumps(ref.model_dump(mode="json", exclude_none=True)), json.dumps(given)])


TOOLS = ("touch", "watched", "change", "report", "chat", "quiet", "traced", "level", "die")


@server.list_tools()
async def list_tools() -> list[types.Tool]:
    return [types.Tool(name=name, inputSchema={"type": "object"}) for name in TOOLS]


@server.call_tool(validate_input=False)
async def call_tool(name: str, given: Json) -> list[types.ContentBlock]:
    context = server.request_context
    session = context.session
    said: Any = "done"
    match name:
        case "touch":
            uri = given["uri"]
            if given.get("anyway") or any(uri == one or uri.startswith(f"{one}/") for one in mine()[0]):
                await session.send_resource_updated(AnyUrl(uri))
        case "watched":
            said = {"watched": sorted(mine()[0]), "requests": mine()[1]}
        case "change":
            await getattr(session, f"send_{given['kind']}_list_changed")()
        case "report":
            token = context.meta.progressToken if context.meta else None
            if token is not None:
                for step in range(1, given["n"] + 1):
                    id = str(context.request_id)
                    await session.send_progress_notification(token, step, given["n"], related_request_id=id)
        case "chat":
            for line in range(given["n"]):
                related = str(context.request_id) if given.get("related", True) else None
                await session.send_log_message(given.get("level", "info"), f"line {line}", "announcer", related)
        case "quiet":
            await anyio.sleep(given["seconds"])
        case "traced":
            said = context.meta.model_dump() if context.meta else {}
        case "level":
            said = levels
        case "die":
            os._exit(1)
    return [types.TextContent(type="text", text=json.dumps(said))]


if __name__ == "__main__":
    main(server, "A legacy server that has much to say on its own.")
