"""Drive a server as an official old client does (``mcp<2``, ClientSession over stdio): the baseline of the sweep.

    python sweep_old_client.py < PLAN.json > RUN.json

Runs under a Python of its own that has the old SDK.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import sweep_processes
from mcp import ClientSession, McpError, StdioServerParameters, types
from mcp.client.stdio import stdio_client
from pydantic import AnyUrl, BaseModel, TypeAdapter
from sweep_drive import Json, Plan, Refused, Run, answered, play, report

ROOTS: TypeAdapter[Any] = TypeAdapter(types.ListRootsResult)
FORM: TypeAdapter[Any] = TypeAdapter(types.ElicitResult)
SAMPLE: TypeAdapter[Any] = TypeAdapter(types.CreateMessageResult)


def plain(model: BaseModel) -> Json:
    return model.model_dump(by_alias=True, mode="json", exclude_none=True)


class OldPeer:
    def __init__(self, session: ClientSession, greeting: types.InitializeResult) -> None:
        self._session = session
        self._greeting = greeting

    async def greeted(self) -> Json:
        return plain(self._greeting)

    async def page(self, method: str, cursor: str | None) -> Json:
        fetch: Any = {
            "tools/list": self._session.list_tools,
            "prompts/list": self._session.list_prompts,
            "resources/list": self._session.list_resources,
            "resources/templates/list": self._session.list_resource_templates,
        }[method]
        given = {} if cursor is None else {"params": types.PaginatedRequestParams(cursor=cursor)}
        return await _asked(fetch(**given))

    async def call_tool(self, name: str, arguments: Json) -> Json:
        return await _asked(self._session.call_tool(name, arguments))

    async def get_prompt(self, name: str) -> Json:
        return await _asked(self._session.get_prompt(name))

    async def read_resource(self, uri: str) -> Json:
        return await _asked(self._session.read_resource(AnyUrl(uri)))

    async def subscribe(self, changes: list[str], uri: str | None) -> Json:
        # Old clients hear of list changes unasked; only a resource is subscribed to.
        if uri is not None:
            await _asked(self._session.subscribe_resource(AnyUrl(uri)))
            await _asked(self._session.unsubscribe_resource(AnyUrl(uri)))
        return {"changes": changes, "uri": uri}


async def _asked(pending: Any) -> Json:
    try:
        return plain(await pending)
    except McpError as error:
        raise Refused(f"error {error.error.code}: {error.error.message}") from None


async def drive(plan: Plan) -> Run:
    @asynccontextmanager
    async def connect(run: Run) -> AsyncIterator[OldPeer]:
        async def elicit(context: Any, params: Any) -> Any:
            return FORM.validate_python(answered(plan, run, "elicitation/create", plain(params)))

        async def sample(context: Any, params: Any) -> Any:
            return SAMPLE.validate_python(answered(plan, run, "sampling/createMessage", plain(params)))

        async def roots(context: Any) -> Any:
            return ROOTS.validate_python(answered(plan, run, "roots/list", {}))

        program, *arguments = plan.command
        server = StdioServerParameters(command=program, args=arguments, env=plan.env, cwd=plan.cwd)
        async with (
            stdio_client(server, errlog=sys.stderr) as (reading, writing),
            ClientSession(
                reading,
                writing,
                elicitation_callback=elicit,
                sampling_callback=sample,
                list_roots_callback=roots,
                client_info=types.Implementation(name="sweep", version="1.0.0"),
            ) as session,
        ):
            yield OldPeer(session, await session.initialize())

    return await play(plan, connect)


if __name__ == "__main__":
    sweep_processes.adopt_orphans()
    report(anyio.run(drive, Plan.read()))
