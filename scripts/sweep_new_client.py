"""Drive a server of 2026-07-28 with the official client (``mcp>=2``), over stdio, or over HTTP with a server it starts.

    python sweep_new_client.py < PLAN.json > RUN.json

Over HTTP the command is expected to say its URL on stderr, to end on SIGTERM, and to end well.
"""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import anyio
import anyio.to_thread
import mcp_types as types
import sweep_processes
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.stdio import get_default_environment
from pydantic import BaseModel, TypeAdapter
from sweep_drive import Json, Plan, Refused, Run, answered, play, report

REVISION = "2026-07-28"
ENDS_WITHIN = 15.0
URL = re.compile(r"http://127\.0\.0\.1:\d+/mcp")
ROOTS: TypeAdapter[Any] = TypeAdapter(types.ListRootsResult)
FORM: TypeAdapter[Any] = TypeAdapter(types.ElicitResult)
SAMPLE: TypeAdapter[Any] = TypeAdapter(types.CreateMessageResult)


def plain(model: BaseModel) -> Json:
    return model.model_dump(by_alias=True, mode="json", exclude_none=True)


class NewPeer:
    def __init__(self, client: Client) -> None:
        self._client = client

    async def greeted(self) -> Json:
        client = self._client
        if client.protocol_version != REVISION:
            raise Refused(f"{client.protocol_version} was negotiated, not {REVISION}")
        return {
            "protocolVersion": client.protocol_version,
            "serverInfo": client.server_info and plain(client.server_info),
            "capabilities": plain(client.server_capabilities),
            "instructions": client.instructions,
        }

    async def page(self, method: str, cursor: str | None) -> Json:
        fetch: Any = {
            "tools/list": self._client.list_tools,
            "prompts/list": self._client.list_prompts,
            "resources/list": self._client.list_resources,
            "resources/templates/list": self._client.list_resource_templates,
        }[method]
        return await _asked(fetch(cursor=cursor))

    async def call_tool(self, name: str, arguments: Json) -> Json:
        return await _asked(self._client.call_tool(name, arguments))

    async def get_prompt(self, name: str) -> Json:
        return await _asked(self._client.get_prompt(name))

    async def read_resource(self, uri: str) -> Json:
        return await _asked(self._client.read_resource(uri))

    async def subscribe(self, changes: list[str], uri: str | None) -> Json:
        wanted: Any = {f"{kind}_list_changed": True for kind in changes}
        if uri is not None:
            wanted["resource_subscriptions"] = [uri]
        try:
            async with self._client.listen(**wanted) as subscription:
                honoured = plain(subscription.honored)
        except MCPError as error:
            raise Refused(f"error {error.code}: {error.message}") from None
        kept = honoured.get("resourceSubscriptions") or []
        return {
            "changes": [kind for kind in ("tools", "prompts", "resources") if honoured.get(f"{kind}ListChanged")],
            "uri": kept[0] if kept else None,
        }


async def _asked(pending: Any) -> Json:
    try:
        return plain(await pending)
    except MCPError as error:
        raise Refused(f"error {error.code}: {error.message}") from None


async def drive(plan: Plan) -> Run:
    @asynccontextmanager
    async def connect(run: Run) -> AsyncIterator[NewPeer]:
        async def elicit(context: Any, params: Any) -> Any:
            return FORM.validate_python(answered(plan, run, "elicitation/create", plain(params)))

        async def sample(context: Any, params: Any) -> Any:
            return SAMPLE.validate_python(answered(plan, run, "sampling/createMessage", plain(params)))

        async def roots(context: Any) -> Any:
            return ROOTS.validate_python(answered(plan, run, "roots/list", {}))

        def client(server: Any) -> Client:
            return Client(
                server,
                mode="auto",
                read_timeout_seconds=max(plan.start_seconds, plan.step_seconds),
                cache=None,
                client_info=types.Implementation(name="sweep", version="1.0.0"),
                elicitation_callback=elicit,
                sampling_callback=sample,
                list_roots_callback=roots,
            )

        if plan.over_http:
            with serving(plan) as url:
                async with client(url) as connected:
                    yield NewPeer(connected)
        else:
            program, *arguments = plan.command
            server = StdioServerParameters(command=program, args=arguments, env=plan.env, cwd=plan.cwd)
            async with client(server) as connected:
                yield NewPeer(connected)

    return await play(plan, connect)


@contextmanager
def serving(plan: Plan) -> Iterator[str]:
    """A server over HTTP, from the line with its URL to its end, which must be a good one."""
    process = subprocess.Popen(
        plan.command,
        cwd=plan.cwd,
        env={**get_default_environment(), **plan.env},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    urls: list[str] = []
    settled = threading.Event()

    def read() -> None:
        assert process.stderr is not None
        for line in process.stderr:
            sys.stderr.write(line)
            if not urls and (found := URL.search(line)):
                urls.append(found[0])
                settled.set()
        settled.set()

    threading.Thread(target=read, daemon=True).start()
    try:
        settled.wait(plan.start_seconds)
        if not urls:
            raise Refused("it did not say that it is ready")
        yield urls[0]
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(ENDS_WITHIN)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise Refused(f"still running {ENDS_WITHIN:g} s after SIGTERM") from None
    if process.returncode not in (0, -signal.SIGTERM):
        raise Refused(f"it ended with exit code {process.returncode}")


if __name__ == "__main__":
    sweep_processes.adopt_orphans()
    report(anyio.run(drive, Plan.read()))
