"""The demo's client: the official Python SDK of 2026-07-28 in front of `mrtr-bridge stdio`, its rounds driven by hand.

The SDK would answer and retry by itself; here each `input_required` is taken as it comes, so that it can be shown. The
bridge's log is read from its stderr, where the deprecation warnings are.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import tempfile
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import IO, Any, Final, TextIO, cast

import anyio
import mcp_types as types
from mcp.client import Client
from mcp.client.session import ClientRequestContext
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.shared.exceptions import MCPError

import bridge
from bridge.demo.answers import Answers, Declined, Keyboard, Person, Script
from bridge.demo.log import Log
from bridge.demo.show import NobodyReads, Screen, form_of

TOOL: Final = "prepare_release"
ARGUMENTS: Final = {"dry_run": False}
MOST_ROUNDS: Final = 10
EXCHANGE: Final = 20.0
"""Seconds for one exchange with the bridge; the first includes the start of both processes."""
OVERALL: Final = 60.0
"""Seconds for everything, as long as no person is asked."""
OLD_SERVER: Final = Path(__file__).with_name("old_server.py")
_LOG_SETTLES: Final = 0.05


class Failed(Exception):
    """The demo did not get to its end; the message is a sentence."""


def play(interactive: bool) -> int:
    """Play the demo; the exit code."""
    warnings.simplefilter("ignore")  # The SDK's own, on the deprecated things that are shown here.
    logging.getLogger("client").setLevel(logging.CRITICAL)
    logging.getLogger("mcp").setLevel(logging.CRITICAL)
    screen = Screen()
    answers: Answers = Person(screen, Keyboard()) if interactive else Script()
    with tempfile.TemporaryDirectory(prefix="mrtr-demo-") as folder:
        path = Path(folder, "bridge.log")
        with path.open("w") as errlog, path.open(encoding="utf-8", errors="replace") as written:
            log = Log(written)
            try:
                anyio.run(_play, screen, answers, errlog, log, None if interactive else OVERALL)
            except KeyboardInterrupt:
                screen.closing("Interrupted.")
                return 130
            except Exception as error:
                if isinstance(_innermost(error), NobodyReads):
                    return 1
                for level, message in log.others():
                    screen.logs(level, message)
                print(f"mrtr-bridge demo: {_sentence(error)}", file=sys.stderr)
                return 1
    return 0


async def _play(screen: Screen, answers: Answers, errlog: IO[str], log: Log, seconds: float | None) -> None:
    screen.title("An old MCP server asks in the middle of a call; a new client answers on retries.")
    command = [sys.executable, "-P", "-m", "bridge", "stdio", "--name", "release-helper", "--log-format", "json", "--"]
    command += [sys.executable, str(OLD_SERVER)]
    package = str(Path(bridge.__file__).parent.parent)
    paths = os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH")]))
    parameters = StdioServerParameters(command=command[0], args=command[1:], env={"PYTHONPATH": paths})
    client = Client(
        stdio_client(parameters, errlog=cast(TextIO, errlog)),
        read_timeout_seconds=EXCHANGE,
        client_info=types.Implementation(name="mrtr-demo", version="1.0.0"),
        elicitation_callback=_elicit(answers),
        sampling_callback=_sample(answers),
        list_roots_callback=_roots(answers),
    )
    with anyio.fail_after(seconds):
        async with client:
            server = client.server_info
            screen.cast("old server", f"{server.name if server else '?'}, MCP 2025-06-18, stdio, unmodified")
            screen.cast("bridge", f"mrtr-bridge stdio -- python {OLD_SERVER.name}")
            screen.cast("new client", f"mcp {version('mcp')}, the official Python SDK, MCP {client.protocol_version}")
            if client.protocol_version != "2026-07-28":
                raise Failed(f"The client and the bridge agreed on {client.protocol_version}, not on 2026-07-28.")
            await Conversation(client, screen, log).hold()
    for warning in log.warnings():
        screen.warns(warning)
    screen.closing("The old server saw one ordinary call; the bridge kept it between the rounds.")


@dataclass(slots=True)
class Conversation:
    """One call over all its rounds."""

    client: Client
    screen: Screen
    log: Log

    async def hold(self) -> None:
        show = self.screen
        show.step(1, "The client calls a tool")
        show.sends("tools/call", f"{TOOL} {json.dumps(ARGUMENTS)}")
        outcome = await self._call()
        for number in range(2, MOST_ROUNDS + 2):
            await self._warnings()
            if not isinstance(outcome, types.InputRequiredResult):
                return self._end(outcome)
            self._required(outcome)
            try:
                answers = await self._answers(number, outcome.input_requests or {})
            except Declined as declined:
                show.detail("declined", f"{declined.reason}: no retry is sent, and the bridge cancels the call.")
                return None
            outcome = await self._call(answers, outcome.request_state)
        raise Failed(f"The server asked more than {MOST_ROUNDS} times.")

    async def _call(
        self, answers: types.InputResponses | None = None, state: str | None = None
    ) -> types.CallToolResult | types.InputRequiredResult:
        return await self.client.session.call_tool(
            TOOL, dict(ARGUMENTS), input_responses=answers, request_state=state, allow_input_required=True
        )

    def _required(self, outcome: types.InputRequiredResult) -> None:
        count = len(outcome.input_requests or {})
        self.screen.hears("input_required", f"{count} inputRequest{'' if count == 1 else 's'}")
        for key, request in (outcome.input_requests or {}).items():
            for number, line in enumerate(_said(request)):
                self.screen.detail(key if number == 0 else "", line)
        self.screen.detail("requestState", f"{len(outcome.request_state or '')} characters, sealed")

    async def _answers(self, number: int, requests: types.InputRequests) -> types.InputResponses:
        session, given = self.client.session, {}
        self.screen.step(number, "The client answers on a retry" if number == 2 else "The next retry")
        for key, request in requests.items():
            context = ClientRequestContext(session=session, request_id=key)
            answer = await session.dispatch_input_request(context, request)
            if isinstance(answer, types.ErrorData):
                raise Declined(answer.message)
            given[key] = answer
        self.screen.sends("tools/call", f"{TOOL} again, with requestState and inputResponses")
        for key, answer in given.items():
            self.screen.detail(key, _answered(answer))
        return given

    def _end(self, outcome: types.CallToolResult) -> None:
        self.screen.hears("complete", "the old server's result")
        texts = [block.text for block in outcome.content if isinstance(block, types.TextContent)]
        self.screen.result("\n".join(texts), error=bool(outcome.is_error))
        if outcome.is_error:
            raise Failed("The call ended with an error.")

    async def _warnings(self) -> None:
        await anyio.sleep(_LOG_SETTLES)
        for warning in self.log.warnings():
            self.screen.warns(warning)


def _said(request: types.InputRequest) -> Iterator[str]:
    """An ask, in a few lines."""
    yield request.method
    match request:
        case types.ElicitRequest(params=types.ElicitRequestFormParams() as form):
            yield form.message
            yield form_of(form.requested_schema)
        case types.CreateMessageRequest(params=params):
            for message in params.messages:
                for block in message.content if isinstance(message.content, list) else [message.content]:
                    if isinstance(block, types.TextContent):
                        yield block.text


def _answered(answer: types.InputResponse) -> str:
    match answer:
        case types.ElicitResult(action="accept"):
            return f"accept {json.dumps(answer.content, ensure_ascii=False)}"
        case types.ElicitResult():
            return answer.action
        case types.ListRootsResult():
            return ", ".join(str(root.uri) for root in answer.roots)
        case types.CreateMessageResult(content=types.TextContent(text=text)):
            return text
        case _:
            return type(answer).__name__


def _elicit(answers: Answers) -> Any:
    async def callback(_: ClientRequestContext, params: types.ElicitRequestParams) -> types.ElicitResult:
        if not isinstance(params, types.ElicitRequestFormParams):
            return types.ElicitResult(action="decline")
        try:
            return types.ElicitResult(action="accept", content=answers.form(params.requested_schema))
        except Declined:
            return types.ElicitResult(action="decline")

    return callback


def _sample(answers: Answers) -> Any:
    async def callback(
        _: ClientRequestContext, params: types.CreateMessageRequestParams
    ) -> types.CreateMessageResult | types.ErrorData:
        try:
            text = answers.sentence()
        except Declined as declined:
            return types.ErrorData(code=-1, message=declined.reason)
        content = types.TextContent(type="text", text=text)
        return types.CreateMessageResult(role="assistant", content=content, model="none", stop_reason="endTurn")

    return callback


def _roots(answers: Answers) -> Any:
    async def callback(_: ClientRequestContext) -> types.ListRootsResult | types.ErrorData:
        try:
            return types.ListRootsResult(roots=[types.Root.model_validate({"uri": answers.root()})])
        except Declined as declined:
            return types.ErrorData(code=-1, message=declined.reason)

    return callback


def _innermost(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _sentence(error: BaseException) -> str:
    """What broke, in one sentence."""
    match error := _innermost(error):
        case MCPError():
            return f"The bridge answered with an error: {error.error.message}"
        case TimeoutError():
            return "The demo took too long and was ended."
        case Failed():
            return str(error)
        case _:
            return f"The demo broke: {type(error).__name__}: {error}"
