"""Tasks with the official Python client, through both faces of the real program.

The client has no tasks of its own (its 2.x releases have what an extension needs: a result type to claim, methods of
its own, a mirrored name). So this is the extension as a user of that client would write it. The TypeScript client
refuses every result type that it does not know; for it the bridge runs tasks to their end (`test_everything`).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from typing import Any, Literal

import anyio
import mcp_types as types
import pytest
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.extension import ClaimContext, ClientExtension, ResultClaim
from pydantic import TypeAdapter

from tests.peers.talking import ROOT, Http, Stdio, bridge, bridge_serving, node_server

Json = dict[str, Any]

AS_IT_IS: TypeAdapter[Json] = TypeAdapter(Json)
TASKER = str(ROOT / "tests" / "servers" / "tasker.py")
OPTIONS = ("--task-after", "300ms")


class Created(types.Result):
    """CreateTaskResult."""

    result_type: Literal["task"] = "task"
    task_id: str
    status: str
    ttl_ms: int | None
    poll_interval_ms: int | None = None


class OfTask(types.Request[dict[str, Any], str]):
    """``tasks/get``, ``tasks/update`` and ``tasks/cancel``."""

    name_param = "taskId"


class Tasks(ClientExtension):
    """Looks after a task until it has ended, and asks its person what it asks."""

    identifier = "io.modelcontextprotocol/tasks"

    def __init__(self, answer: Callable[[Json], Json]) -> None:
        self.answer = answer
        self.seen: list[Json] = []
        self.asked: list[str] = []

    def claims(self) -> list[ResultClaim[Any]]:
        return [ResultClaim(result_type="task", model=Created, resolve=self.resolve)]

    async def resolve(self, created: Created, context: ClaimContext) -> types.CallToolResult:
        async def send(method: str, **params: Any) -> Json:
            request = OfTask(method=method, params={"taskId": created.task_id, **params})
            return await context.session.send_request(request, AS_IT_IS)

        with anyio.fail_after(20):
            while True:
                task = await send("tasks/get")
                self.seen.append(task)
                match task["status"]:
                    case "completed":
                        return types.CallToolResult.model_validate(task["result"])
                    case "failed":
                        raise MCPError(task["error"]["code"], task["error"]["message"])
                    case "input_required":
                        asked = {k: r for k, r in task["inputRequests"].items() if k not in self.asked}
                        self.asked += asked
                        if asked:
                            answers = {key: self.answer(request) for key, request in asked.items()}
                            await send("tasks/update", inputResponses=answers)
                await anyio.sleep(0.05)


@pytest.fixture(scope="module")
def tasker() -> Iterator[Http]:
    with bridge_serving(*OPTIONS, "--", sys.executable, TASKER) as target:
        yield target


@pytest.fixture
def target(face: str, request: pytest.FixtureRequest) -> Stdio | Http:
    if face == "http":
        served: Http = request.getfixturevalue("tasker")
        return served
    return Stdio(bridge("stdio", *OPTIONS, "--", sys.executable, TASKER))


def call(target: Stdio | Http, tool: str, answer: Callable[[Json], Json], **arguments: Any) -> tuple[str, Tasks]:
    """What a tool answered, through the extension; and the extension, for what it has seen."""
    extension = Tasks(answer)
    server: Any = target.url if isinstance(target, Http) else None
    if isinstance(target, Stdio):
        command, *rest = target.command
        server = StdioServerParameters(command=command, args=rest, cwd=ROOT, env=dict(os.environ))

    async def nobody(context: Any, params: Any) -> types.ErrorData:
        raise AssertionError("the client was asked by a round")

    async def main() -> str:
        client = Client(server, mode="auto", extensions=[extension], elicitation_callback=nobody)
        async with client:
            assert client.server_capabilities is not None
            assert "io.modelcontextprotocol/tasks" in (client.server_capabilities.extensions or {})
            result = await client.call_tool(tool, arguments)
            [block] = result.content
            assert isinstance(block, types.TextContent)
            return block.text

    return anyio.run(main), extension


def ada(request: Json) -> Json:
    return {"action": "accept", "content": {"name": f"Ada of {request['params']['message']}"}}


def test_an_old_task_is_a_task_of_the_official_client_questions_included(target: Stdio | Http) -> None:
    text, extension = call(target, "asks_many", ada, n=12)
    assert text == ", ".join(f"Ada of name {number}" for number in range(12))
    assert extension.asked == [f"elicit-{number}" for number in range(1, 13)]
    assert {task["resultType"] for task in extension.seen} == {"complete"}


def test_an_old_call_that_takes_long_is_one_too(target: Stdio | Http) -> None:
    text, extension = call(target, "slow_ask", ada, seconds=0.8, message="here")
    assert "Ada of here" in text
    assert extension.seen[0]["status"] == "working"


@pytest.mark.full
def test_a_server_of_the_typescript_sdk_runs_its_task_for_the_extension() -> None:
    with bridge_serving("--", *node_server("server-everything")) as everything:
        text, extension = call(
            everything,
            "simulate-research-query",
            lambda request: {"action": "accept", "content": {"interpretation": "historical"}},
            topic="bridges",
            ambiguous=True,
        )
    assert "historical" in text
    assert extension.asked == ["elicit-1"]
    assert any(task.get("statusMessage") for task in extension.seen)
