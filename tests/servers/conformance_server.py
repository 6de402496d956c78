"""A legacy server with every fixture that the official conformance suite wants, to be run through the bridge.

Written with the official Python SDK before its second version (``mcp<2``), it speaks 2025-11-25 and asks the old way:
elicitation, sampling and roots requests in the middle of a call. It knows nothing of ``input_required``,
``requestState`` or ``server/discover``; all of that is the bridge's.

    python tests/servers/conformance_server.py               # stdio
    python tests/servers/conformance_server.py --http PORT   # Streamable HTTP; prints its URL on stderr
    python tests/servers/conformance_server.py --sse PORT    # HTTP+SSE; the same

One scenario prescribes the name of an input request; such an ask carries ``_meta["mrtr-bridge/inputKey"]``, which an
old client ignores. The low-level server is used throughout, since it passes tool schemas on as they are written.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
from mcp import McpError, types
from mcp.server.experimental.task_context import ServerTaskContext
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.lowlevel.helper_types import ReadResourceContents
from mcp.server.models import InitializationOptions
from mcp.server.session import ServerSession
from mcp.shared.experimental.tasks.in_memory_task_store import InMemoryTaskStore
from mcp.shared.message import ServerMessageMetadata
from on_transport import main
from pydantic import AnyUrl

Json = dict[str, Any]
Content = types.ContentBlock

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
SILENCE = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA="

NO_ARGUMENTS: Json = {"type": "object", "properties": {}}

#: What scenario json-schema-2020-12 expects to find again in tools/list, word for word.
SCHEMA_2020_12: Json = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}

#: Parameters that 2026-07-28 clients mirror as headers; to this server they are unknown schema keywords.
HEADER_PARAMETERS: Json = {
    "type": "object",
    "properties": {
        "region": {"type": "string", "x-mcp-header": "Region"},
        "priority": {"type": "integer", "x-mcp-header": "Priority"},
        "dry_run": {"type": "boolean", "x-mcp-header": "Dry-Run"},
    },
    "required": ["region"],
}

CHANGES = NotificationOptions(prompts_changed=True, resources_changed=True, tools_changed=True)


class ChangingServer(Server[Any, Any]):
    """Says on every transport that its lists may change."""

    def create_initialization_options(
        self, notification_options: NotificationOptions | None = None, *arguments: Any, **options: Any
    ) -> InitializationOptions:
        return super().create_initialization_options(notification_options or CHANGES, *arguments, **options)


server = ChangingServer("conformance-legacy", version="1.0.0", instructions="Fixtures for conformance tests.")


# --- asking, the old way ----------------------------------------------------------------------------------------------


async def ask(request: Any, answer: type[Any]) -> Any:
    """Send one ask of the call that is running, on its own stream where the transport has such a thing."""
    context = server.request_context
    metadata = ServerMessageMetadata(related_request_id=context.request_id)
    return await context.session.send_request(types.ServerRequest(request), answer, metadata=metadata)


def one_field(name: str, kind: str = "string") -> Json:
    return {"type": "object", "properties": {name: {"type": kind}}, "required": [name]}


async def elicit(message: str, field: str, kind: str = "string", key: str | None = None) -> types.ElicitResult:
    """A form with one field; ``key`` suggests what the ask is called among a modern client's ``inputRequests``."""
    meta = {"_meta": {"mrtr-bridge/inputKey": key}} if key else {}
    params = types.ElicitRequestFormParams(message=message, requestedSchema=one_field(field, kind), **meta)
    result: types.ElicitResult = await ask(types.ElicitRequest(params=params), types.ElicitResult)
    return result


async def sample(text: str, max_tokens: int = 100) -> str:
    messages = [types.SamplingMessage(role="user", content=types.TextContent(type="text", text=text))]
    params = types.CreateMessageRequestParams(messages=messages, maxTokens=max_tokens)
    result = await ask(types.CreateMessageRequest(params=params), types.CreateMessageResult)
    return result.content.text if isinstance(result.content, types.TextContent) else result.content.type


async def roots() -> list[str]:
    result = await ask(types.ListRootsRequest(), types.ListRootsResult)
    return [str(root.uri) for root in result.roots]


def can(session: ServerSession, **capability: Any) -> bool:
    return session.check_client_capability(types.ClientCapabilities(**capability))


# --- tools ------------------------------------------------------------------------------------------------------------

Answer = list[Content] | types.CallToolResult | types.CreateTaskResult
Tool = Callable[[Json], Awaitable[Answer]]
TOOLS: dict[str, tuple[types.Tool, Tool]] = {}


def tool(
    schema: Json | None = None, name: str | None = None, tasks: types.TaskExecutionMode | None = None
) -> Callable[[Tool], Tool]:
    """Register a tool; its docstring is its description. ``tasks``: whether it can, or must, be called as a task."""

    def register(function: Tool) -> Tool:
        called = name or function.__name__
        description = (function.__doc__ or called).strip()
        execution = types.ToolExecution(taskSupport=tasks) if tasks else None
        definition = types.Tool(
            name=called, description=description, inputSchema=schema or NO_ARGUMENTS, execution=execution
        )
        TOOLS[called] = (definition, function)
        return function

    return register


def text(value: str) -> Content:
    return types.TextContent(type="text", text=value)


def embedded(uri: str, mime_type: str, value: str) -> Content:
    resource = types.TextResourceContents(uri=AnyUrl(uri), mimeType=mime_type, text=value)
    return types.EmbeddedResource(type="resource", resource=resource)


@tool()
async def test_simple_text(arguments: Json) -> list[Content]:
    """Returns a text."""
    return [text("This is a simple text response for testing.")]


@tool()
async def test_image_content(arguments: Json) -> list[Content]:
    """Returns an image."""
    return [types.ImageContent(type="image", data=PIXEL, mimeType="image/png")]


@tool()
async def test_audio_content(arguments: Json) -> list[Content]:
    """Returns audio."""
    return [types.AudioContent(type="audio", data=SILENCE, mimeType="audio/wav")]


@tool()
async def test_embedded_resource(arguments: Json) -> list[Content]:
    """Returns an embedded resource."""
    return [embedded("test://embedded-resource", "text/plain", "This is an embedded resource content.")]


@tool()
async def test_multiple_content_types(arguments: Json) -> list[Content]:
    """Returns a text, an image and a resource."""
    return [
        text("Multiple content types test:"),
        types.ImageContent(type="image", data=PIXEL, mimeType="image/png"),
        embedded("test://mixed-content-resource", "application/json", '{"test":"data","value":123}'),
    ]


@tool()
async def test_error_handling(arguments: Json) -> list[Content]:
    """Always fails."""
    raise ValueError("This tool intentionally returns an error for testing")


@tool()
async def test_tool_with_progress(arguments: Json) -> list[Content]:
    """Reports progress three times."""
    context = server.request_context
    token = context.meta.progressToken if context.meta else None
    for progress in (0, 50, 100):
        if token is not None:
            await context.session.send_progress_notification(
                token, progress, 100, f"Completed {progress} of 100", related_request_id=str(context.request_id)
            )
        await anyio.sleep(0.05)
    return [text(str(token))]


async def log(message: str) -> None:
    context = server.request_context
    await context.session.send_log_message("info", message, "conformance", related_request_id=context.request_id)


@tool()
async def test_tool_with_logging(arguments: Json) -> list[Content]:
    """Logs three lines."""
    for line in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await log(line)
        await anyio.sleep(0.05)
    return [text("Tool with logging executed successfully")]


@tool()
async def test_logging_tool(arguments: Json) -> list[Content]:
    """Logs a line, asked or not."""
    await log("Diagnostic trace logging activated")
    return [text("Logging evaluated")]


@tool(one_field("prompt"))
async def test_sampling(arguments: Json) -> list[Content]:
    """Asks the client's model."""
    return [text(f"LLM response: {await sample(arguments['prompt'])}")]


@tool(one_field("message"))
async def test_elicitation(arguments: Json) -> list[Content]:
    """Asks the person."""
    answer = await elicit(arguments["message"], "response")
    return [text(f"User response: action={answer.action}, content={json.dumps(answer.content or {})}")]


@tool(SCHEMA_2020_12)
async def json_schema_2020_12_tool(arguments: Json) -> list[Content]:
    """Has a schema that uses the whole vocabulary of JSON Schema 2020-12."""
    return [text(f"JSON Schema 2020-12 tool called with: {json.dumps(arguments)}")]


@tool(HEADER_PARAMETERS)
async def test_header_parameters(arguments: Json) -> list[Content]:
    """Has parameters that modern clients mirror as headers."""
    return [text(f"Called with: {json.dumps(arguments)}")]


@tool()
async def test_missing_capability(arguments: Json) -> list[Content]:
    """Cannot work without sampling."""
    return [text(await sample("Is sampling there?"))]


@tool()
async def test_streaming_elicitation(arguments: Json) -> list[Content]:
    """Reports progress, then asks."""
    context = server.request_context
    if context.meta and context.meta.progressToken is not None:
        await context.session.send_progress_notification(
            context.meta.progressToken, 50, 100, related_request_id=str(context.request_id)
        )
    answer = await elicit("Go on?", "ok", "boolean")
    return [text(f"Streaming complete: {answer.action}")]


@tool()
async def test_trigger_tool_change(arguments: Json) -> list[Content]:
    """Announces a change of the tool list."""
    await server.request_context.session.send_tool_list_changed()
    return [text("Mutation triggered")]


@tool()
async def test_trigger_prompt_change(arguments: Json) -> list[Content]:
    """Announces a change of the prompt list."""
    await server.request_context.session.send_prompt_list_changed()
    return [text("Mutation triggered")]


@tool()
async def test_input_required_result_elicitation(arguments: Json) -> list[Content]:
    """Asks for a name and greets."""
    answer = await elicit("What is your name?", "name", key="user_name")
    return [text(f"Hello, {(answer.content or {}).get('name', 'stranger')}!")]


@tool()
async def test_input_required_result_sampling(arguments: Json) -> list[Content]:
    """Asks the client's model for a capital."""
    return [text(await sample("What is the capital of France?"))]


@tool()
async def test_input_required_result_list_roots(arguments: Json) -> list[Content]:
    """Asks for the client's roots and names them."""
    return [text(f"Roots: {', '.join(await roots())}")]


@tool()
async def test_input_required_result_request_state(arguments: Json) -> list[Content]:
    """Asks for a confirmation."""
    answer = await elicit("Please confirm", "ok", "boolean")
    return [text(f"state-ok: {answer.action}")]


@tool()
async def test_input_required_result_tampered_state(arguments: Json) -> list[Content]:
    """Asks for a confirmation that the suite answers with a forged state."""
    answer = await elicit("Please confirm", "ok", "boolean")
    return [text(f"integrity-ok: {answer.action}")]


@tool()
async def test_input_required_result_multiple_inputs(arguments: Json) -> list[Content]:
    """Asks for a name, a greeting and the roots, all at once."""
    got: Json = {}

    async def fill(key: str, asking: Awaitable[Any]) -> None:
        got[key] = await asking

    async with anyio.create_task_group() as group:
        group.start_soon(fill, "name", elicit("What is your name?", "name", key="user_name"))
        group.start_soon(fill, "greeting", sample("Generate a greeting", 50))
        group.start_soon(fill, "roots", roots())
    name = (got["name"].content or {}).get("name")
    return [text(f"{got['greeting']} {name}, roots: {', '.join(got['roots'])}")]


@tool()
async def test_input_required_result_multi_round(arguments: Json) -> list[Content]:
    """Asks for a name and, when it has that, for a colour."""
    name = await elicit("Step 1: What is your name?", "name", key="step1")
    color = await elicit("Step 2: What is your favorite color?", "color", key="step2")
    return [text(f"{(name.content or {}).get('name')} likes {(color.content or {}).get('color')}")]


@tool()
async def test_input_required_result_capabilities(arguments: Json) -> list[Content]:
    """Asks only what the client said at initialize that it can answer."""
    session, said = server.request_context.session, []
    if can(session, elicitation=types.ElicitationCapability()):
        said.append((await elicit("Elicitation input", "value")).action)
    if can(session, sampling=types.SamplingCapability()):
        said.append(await sample("Sample request", 50))
    return [text(f"capabilities-ok: {', '.join(said) or 'nothing declared'}")]


# --- tasks of 2025-11-25 ----------------------------------------------------------------------------------------------


class Store(InMemoryTaskStore):
    """A task that was cancelled stays so, whatever its work comes to; the SDK's store would raise."""

    async def update_task(
        self, task_id: str, status: types.TaskStatus | None = None, status_message: str | None = None
    ) -> types.Task:
        task = await self.get_task(task_id)
        if task is not None and task.status == "cancelled":
            return task
        return await super().update_task(task_id, status, status_message)


store = Store()
server.experimental.enable_tasks(store)


async def pause(task: ServerTaskContext, seconds: float) -> None:
    """Work for so long, unless the task is cancelled meanwhile."""
    for _ in range(round(seconds * 20)):
        now = await store.get_task(task.task_id)
        if now is None or now.status == "cancelled":
            return
        await anyio.sleep(0.05)


async def run_task(work: Callable[[ServerTaskContext], Awaitable[types.CallToolResult]]) -> types.CreateTaskResult:
    created: types.CreateTaskResult = await server.request_context.experimental.run_task(work)
    return created


def texts(*values: str, error: bool = False) -> types.CallToolResult:
    return types.CallToolResult(content=[text(value) for value in values], isError=error)


@tool(one_field("name"))
async def greet(arguments: Json) -> list[Content]:
    """Greets; never a task."""
    return [text(f"Hello, {arguments['name']}!")]


@tool({"type": "object", "properties": {"seconds": {"type": "number"}, "label": {"type": "string"}}}, tasks="optional")
async def slow_compute(arguments: Json) -> Answer:
    """Takes some seconds; may be called as a task."""
    seconds, done = arguments.get("seconds", 0), text(f"{arguments.get('label', 'slow_compute')}: done")
    if not server.request_context.experimental.is_task:
        await anyio.sleep(seconds)
        return [done]

    async def work(task: ServerTaskContext) -> types.CallToolResult:
        await task.update_status(f"Computing for {seconds:g} s.")
        await pause(task, seconds)
        return types.CallToolResult(content=[done])

    return await run_task(work)


@tool(tasks="required")
async def failing_job(arguments: Json) -> Answer:
    """Fails after a second, as tools fail; must be called as a task."""

    async def work(task: ServerTaskContext) -> types.CallToolResult:
        await pause(task, 1)
        return texts("The job failed.", error=True)

    return await run_task(work)


@tool(tasks="required")
async def protocol_error_job(arguments: Json) -> Answer:
    """Fails after a second for a fault of its server; must be called as a task."""

    async def work(task: ServerTaskContext) -> types.CallToolResult:
        await pause(task, 1)
        raise RuntimeError("The job broke down.")

    return await run_task(work)


@tool(one_field("filename"), tasks="required")
async def confirm_delete(arguments: Json) -> Answer:
    """Asks for a confirmation while it runs; must be called as a task."""

    async def work(task: ServerTaskContext) -> types.CallToolResult:
        answer = await task.elicit(f"Delete {arguments['filename']}?", one_field("confirm", "boolean"))
        return texts("Deleted." if answer.action == "accept" else "Kept.")

    return await run_task(work)


@tool(tasks="required")
async def multi_input(arguments: Json) -> Answer:
    """Asks two things at once while it runs; must be called as a task."""

    async def work(task: ServerTaskContext) -> types.CallToolResult:
        said: list[str] = []

        async def ask_for(name: str) -> None:
            answer = await task.elicit(f"What is your {name} name?", one_field("name"))
            said.append(f"{name}: {(answer.content or {}).get('name')}")

        async with anyio.create_task_group() as group:
            group.start_soon(ask_for, "first")
            group.start_soon(ask_for, "last")
        return texts(*said)

    return await run_task(work)


@tool(tasks="required")
async def test_tool_with_task(arguments: Json) -> Answer:
    """Asks for a name, and only then makes a task of the call."""
    answer = await elicit("What is your name?", "name", key="user_name")
    name = (answer.content or {}).get("name", "stranger")

    async def work(task: ServerTaskContext) -> types.CallToolResult:
        await pause(task, 1)
        return texts(f"Hello, {name}!")

    return await run_task(work)


@server.list_tools()
async def list_tools() -> list[types.Tool]:
    return [definition for definition, _ in TOOLS.values()]


@server.call_tool(validate_input=False)
async def call_tool(name: str, arguments: Json) -> Answer:
    if name not in TOOLS:
        raise ValueError(f"Unknown tool: {name}")
    return await TOOLS[name][1](arguments)


# --- resources --------------------------------------------------------------------------------------------------------


@server.list_resources()
async def list_resources() -> list[types.Resource]:
    return [
        types.Resource(uri=AnyUrl("test://static-text"), name="static-text", mimeType="text/plain"),
        types.Resource(uri=AnyUrl("test://static-binary"), name="static-binary", mimeType="image/png"),
        types.Resource(uri=AnyUrl("test://watched-resource"), name="watched-resource", mimeType="text/plain"),
    ]


@server.list_resource_templates()
async def list_resource_templates() -> list[types.ResourceTemplate]:
    template = types.ResourceTemplate(
        uriTemplate="test://template/{id}/data", name="template", mimeType="application/json"
    )
    return [template]


@server.read_resource()
async def read_resource(uri: AnyUrl) -> list[ReadResourceContents]:
    match str(uri).removeprefix("test://").split("/"):
        case ["static-text"]:
            value = "This is the content of the static text resource."
            return [ReadResourceContents(content=value, mime_type="text/plain")]
        case ["static-binary"]:
            return [ReadResourceContents(content=base64.b64decode(PIXEL), mime_type="image/png")]
        case ["watched-resource"]:
            return [ReadResourceContents(content="Watched resource content", mime_type="text/plain")]
        case ["template", number, "data"]:
            filled = {"id": number, "templateTest": True, "data": f"Data for ID: {number}"}
            return [ReadResourceContents(content=json.dumps(filled), mime_type="application/json")]
    raise McpError(types.ErrorData(code=-32002, message="Resource not found", data={"uri": str(uri)}))


# --- prompts, completion, logging -------------------------------------------------------------------------------------


@server.list_prompts()
async def list_prompts() -> list[types.Prompt]:
    def argument(name: str) -> types.PromptArgument:
        return types.PromptArgument(name=name, required=True)

    def prompt(name: str, description: str, *arguments: types.PromptArgument) -> types.Prompt:
        return types.Prompt(name=name, description=description, arguments=list(arguments))

    return [
        prompt("test_simple_prompt", "Says one thing."),
        prompt("test_prompt_with_arguments", "Says its arguments.", argument("arg1"), argument("arg2")),
        prompt("test_prompt_with_embedded_resource", "Embeds a resource.", argument("resourceUri")),
        prompt("test_prompt_with_image", "Shows an image."),
        prompt("test_input_required_result_prompt", "Asks the person for a context."),
    ]


@server.get_prompt()
async def get_prompt(name: str, arguments: dict[str, str] | None) -> types.GetPromptResult:
    given = arguments or {}
    said: list[Content]
    match name:
        case "test_simple_prompt":
            said = [text("This is a simple prompt for testing.")]
        case "test_prompt_with_arguments":
            said = [text(f"Prompt with arguments: arg1='{given.get('arg1')}', arg2='{given.get('arg2')}'")]
        case "test_prompt_with_embedded_resource":
            said = [
                embedded(given["resourceUri"], "text/plain", "Embedded resource content for testing."),
                text("Please process the embedded resource above."),
            ]
        case "test_prompt_with_image":
            image = types.ImageContent(type="image", data=PIXEL, mimeType="image/png")
            said = [image, text("Please analyze the image above.")]
        case "test_input_required_result_prompt":
            answer = await elicit("What context should the prompt use?", "context", key="user_context")
            said = [text(f"Use the context {(answer.content or {}).get('context')}.")]
        case _:
            raise McpError(types.ErrorData(code=-32602, message=f"Unknown prompt: {name}"))
    return types.GetPromptResult(messages=[types.PromptMessage(role="user", content=content) for content in said])


@server.completion()
async def complete(ref: Any, argument: types.CompletionArgument, context: Any) -> types.Completion:
    values = [value for value in ("paris", "park", "party", "test") if value.startswith(argument.value)]
    return types.Completion(values=values, total=len(values), hasMore=False)


@server.set_logging_level()
async def set_logging_level(level: types.LoggingLevel) -> None:
    """Accepted; this server logs at info only."""


if __name__ == "__main__":
    main(server, "A legacy server with the fixtures of the MCP conformance suite.")
