"""Arguments, answers, results and the text of questions never reach the log, at any level."""

from __future__ import annotations

import contextlib
import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import anyio
import httpx
import pytest

from bridge import telemetry
from modern.errors import ProtocolError
from modern.http import HttpFace
from modern.http_app import PATH, Endpoint
from tests.bridge.harness import ASKER, EVERYTHING, Client, bridged, refused, until
from tests.modern.helpers import headers
from tests.modern.helpers import message as said_over_http

pytestmark = pytest.mark.anyio

MARK = "s3cr3t-marker"
ANSWERS: dict[str, dict[str, Any]] = {
    "elicitation/create": {"action": "accept", "content": {"name": MARK, f"{MARK}-extra": MARK}},
    "sampling/createMessage": {"role": "assistant", "content": {"type": "text", "text": MARK}, "model": MARK},
    "roots/list": {"roots": [{"uri": f"file:///{MARK}", "name": MARK}]},
}


class Everything(logging.Handler):
    """Keeps every record, whole: the message, its arguments, its extras, its tracebacks."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        trace = logging.Formatter().formatException(record.exc_info) if record.exc_info else ""
        shown = telemetry.Text().format(record) + telemetry.JsonLines().format(record)
        self.said.append(f"{record.getMessage()} {record.args!r} {record.__dict__!r} {trace} {shown}")

    def leaks(self) -> list[str]:
        return [text for text in self.said if MARK in text]


@pytest.fixture
def log() -> Iterator[Everything]:
    handler, root = Everything(), logging.getLogger()
    names = ["", "mrtr", "mcp", "httpx", "uvicorn", "asyncio"]
    before = {name: logging.getLogger(name).level for name in names}
    root.addHandler(handler)
    for name in names:
        logging.getLogger(name).setLevel(logging.DEBUG)
    yield handler
    root.removeHandler(handler)
    for name, level in before.items():
        logging.getLogger(name).setLevel(level)


def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
    return ANSWERS[method]


async def test_the_check_can_fail(log: Everything) -> None:
    logging.getLogger("mrtr.call").debug("an answer: %s", {"name": MARK})
    assert log.leaks()


async def test_no_question_answer_argument_or_result_is_logged(log: Everything) -> None:
    async with bridged(env={"ASKER_ROOTS_AT_START": "1", "ASKER_BANNER": "1"}) as bridge:
        client = Client(bridge)
        for tool in ("ask_once", "ask_twice", "ask_both", "ask_sampling", "ask_roots", "ask_then_fail", "echo"):
            await client.answered(tool, answer, message=MARK, text=MARK)
        await client.send("prompts/get", {"name": "greeting", "arguments": {"who": MARK}})
        await client.send("tools/call", {"name": "log", "arguments": {"n": 2}}, log_level="debug")
        await client.call("announce", method="notifications/message", params={"level": "info", "data": MARK})
        await client.call("announce", method="notifications/made/up", params={"data": MARK})
        await client.call("announce", method="notifications/progress", params={"progressToken": 1, "message": MARK})
    assert log.said
    assert log.leaks() == []


async def test_refused_answers_errors_and_tokens_are_not_logged(log: Everything) -> None:
    async with bridged() as bridge:
        client = Client(bridge)
        asked = await client.call("ask_once", message=MARK)
        state = asked["requestState"]
        for wrong in (MARK, [MARK], {"elicit-1": MARK}, {"elicit-1": {"action": MARK}}):
            await refused(client.retry("ask_once", state, wrong, message=MARK))
        mismatch = {"action": "accept", "content": {"name": [MARK]}}
        again = await client.retry("ask_once", state, {"elicit-1": mismatch}, message=MARK)
        [key] = again["inputRequests"]
        await client.retry("ask_once", again["requestState"], {key: mismatch}, message=MARK)
        for params in ({"requestState": MARK}, {"requestState": state}):
            await refused(client.send("tools/call", {"name": MARK, "arguments": {MARK: MARK}, **params}))
        with pytest.raises(ProtocolError):
            await client.send("prompts/get", {"name": MARK})
        with pytest.raises(ProtocolError):
            await client.send("resources/read", {"uri": f"asker://{MARK}"})
        died = await client.call("die", message=MARK, seconds=0.3)
        await refused(client.retry("die", died["requestState"], {"elicit-1": ANSWERS["elicitation/create"]}))
        assert not any(state in text for text in log.said)
    assert log.leaks() == []


async def test_a_message_that_a_server_breaks_over_two_lines_is_not_logged(log: Everything) -> None:
    script = f"""
import json, sys
for line in sys.stdin:
    m = json.loads(line)
    if m.get("method") == "initialize":
        r = {{"protocolVersion": "2025-06-18", "capabilities": {{"tools": {{}}}}, "serverInfo": {{"name": "p"}}}}
    else:
        r = {{"content": [{{"type": "text", "text": "{MARK}"}}]}}
    if "id" in m:
        indent = 2 if m.get("method") == "tools/call" else None
        print(json.dumps({{"jsonrpc": "2.0", "id": m["id"], "result": r}}, indent=indent), flush=True)
"""
    async with bridged(sys.executable, "-c", script, silence=0.5) as bridge:
        await refused(Client(bridge, capabilities={}).call("x"))
    assert log.leaks() == []


@pytest.mark.parametrize(
    "record",
    [
        {"msg": f"an answer: {MARK}"},
        {"msg": "an answer: %r", "args": ({"name": MARK},)},
        {"msg": "an answer", "answer": [MARK]},
        {"msg": "an answer", "stack_info": f"in {MARK}"},
        {"msg": "an answer", "exc_text": f"ValueError: {MARK}"},
    ],
)
def test_a_secret_is_found_wherever_a_record_holds_it(log: Everything, record: dict[str, Any]) -> None:
    logging.getLogger("mrtr.x").handle(logging.makeLogRecord({"name": "mrtr.x", "levelno": logging.DEBUG, **record}))
    assert len(log.leaks()) == 1


def test_a_secret_in_the_text_of_an_exception_is_found(log: Everything) -> None:
    try:
        raise ValueError(MARK)
    except ValueError as error:
        logging.getLogger("mrtr.call").error("it failed", exc_info=error)
    assert log.leaks()


async def test_what_is_asked_and_answered_in_prompts_and_resources_is_not_logged(log: Everything) -> None:
    async with bridged() as bridge:
        client = Client(bridge)
        for method, params in (
            ("prompts/get", {"name": "introduction", "arguments": {"who": MARK, MARK: MARK}}),
            ("resources/read", {"uri": "asker://question", MARK: MARK}),
        ):
            for given in (ANSWERS["elicitation/create"], {"action": "decline"}, {"action": "cancel", "why": MARK}):
                asked = await client.send(method, params)
                again = {**params, "requestState": asked["requestState"], "inputResponses": {"elicit-1": given}}
                assert MARK in str(again)
                await client.send(method, again)
        plain = {"ref": {"type": "ref/prompt", "name": MARK}, "argument": {"name": MARK, "value": MARK}}
        await client.send("completion/complete", plain)
        await refused(client.send("tools/list", {"cursor": MARK}))
    assert log.leaks() == []


async def test_answers_that_end_a_call_in_another_way_are_not_logged(log: Everything) -> None:
    async with bridged() as bridge:
        client = Client(bridge)
        for tool, given in (
            ("ask_once", {"action": "decline", "content": {"name": MARK}}),
            ("ask_once", {"action": "cancel", MARK: MARK}),
            ("ask_sampling", {"role": "assistant", "content": {"type": MARK}, "model": MARK}),
            ("ask_sampling", {"role": MARK, "content": MARK, "model": [MARK]}),
            ("ask_roots", {"roots": [{"uri": MARK}]}),
            ("ask_roots", {"roots": MARK}),
            ("ask_url", {"action": "accept", "content": {MARK: MARK}}),
        ):
            asked = await client.call(tool, message=MARK, url=f"https://example.com/{MARK}", key=f"k-{MARK}")
            [key] = asked["inputRequests"]
            try:
                await client.retry(
                    tool,
                    asked["requestState"],
                    {key: given},
                    message=MARK,
                    url=f"https://example.com/{MARK}",
                    key=f"k-{MARK}",
                )
            except ProtocolError:
                pass
        bare = Client(bridge, capabilities={})
        for tool in ("ask_once", "ask_sampling", "ask_roots", "ask_url", "ask_both"):
            with pytest.raises(ProtocolError):
                await bare.call(tool, message=MARK)
        await bare.call("catches_refusal", message=MARK, method="sampling/createMessage")
        await client.call("gives_up", message=MARK, seconds=0.01)
        await client.call("leaves", message=MARK, seconds=0.2)
    assert log.leaks() == []


async def test_an_answer_that_reaches_no_server_is_not_logged(log: Everything) -> None:
    async with bridged() as bridge:
        client = Client(bridge)
        asked = await client.call("die", message=MARK, seconds=0.5)
        [group] = bridge.pool.groups.values()
        await until(lambda: not group.channels)
        answers = {"elicit-1": ANSWERS["elicitation/create"]}
        for _ in range(2):
            await refused(client.retry("die", asked["requestState"], answers, message=MARK, seconds=0.5))
        with pytest.raises(ProtocolError):
            await client.call("die_now", code=3, note=MARK)
    assert log.leaks() == []


async def test_what_a_task_asks_is_told_and_comes_to_is_not_logged(log: Everything) -> None:
    takes_tasks = {**EVERYTHING, "extensions": {"io.modelcontextprotocol/tasks": {}}}
    async with bridged(sys.executable, str(ASKER.with_name("tasker.py")), task_after=0.1) as bridge:
        client = Client(bridge, capabilities=takes_tasks)
        for tool in ("asks", "slow_ask", "forgets", "dies"):
            created = await client.call(tool, message=MARK, seconds=0.3)
            named = {"taskId": created["taskId"]}
            await refused(client.send("tasks/get", {"taskId": f"{MARK}{created['taskId']}"}))
            while (shown := await client.send("tasks/get", named))["status"] in ("working", "input_required"):
                if tool == "forgets":
                    await client.send("tasks/cancel", named)
                for key in shown.get("inputRequests", {}):
                    with contextlib.suppress(ProtocolError):
                        await client.send("tasks/update", {**named, "inputResponses": {key: {"action": MARK}}})
                    answers = {key: ANSWERS["elicitation/create"], MARK: MARK}
                    await client.send("tasks/update", {**named, "inputResponses": answers})
                await anyio.sleep(0.02)
    assert log.said
    assert log.leaks() == []


async def test_what_is_no_valid_request_over_http_is_not_logged(log: Everything) -> None:
    async with bridged() as bridge:
        transport = httpx.ASGITransport(Endpoint({PATH: HttpFace(bridge)}))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            good = said_over_http("tools/call", name="echo", arguments={"text": MARK})
            for body, more in (
                (json.dumps(good), {}),
                (json.dumps(good), {"mcp-name": MARK, "authorization": f"Bearer {MARK}"}),
                (json.dumps(good), {"mcp-method": MARK}),
                (json.dumps(good), {"mcp-param-text": MARK}),
                (json.dumps(good), {"content-type": MARK}),
                (json.dumps(good), {"origin": f"https://{MARK}.example"}),
                (json.dumps([good]), {}),
                (json.dumps({**good, "method": MARK}), {"mcp-method": MARK}),
                (json.dumps({**good, "params": MARK}), {}),
                (json.dumps({**good, "id": [MARK]}), {}),
                (f'{{"jsonrpc": "2.0", "id": 1, "method": "{MARK}', {}),
                (MARK, {}),
            ):
                answer = await client.post("/mcp", content=body, headers={**headers(good), **more})
                assert answer.status_code in (200, 400, 403, 404, 415), (answer.status_code, more)
    assert log.leaks() == []


@pytest.mark.parametrize("style", ["text", "json"])
def test_the_program_writes_no_secret_to_stderr(style: str) -> None:
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}, "sampling": {}, "roots": {}},
        "io.modelcontextprotocol/logLevel": "debug",
        "progressToken": MARK,
    }
    arguments = {"message": MARK, "text": MARK}
    command = [sys.executable, "-m", "bridge", "stdio", "--log-level", "debug", "--log-format", style]
    with subprocess.Popen(
        [*command, "--", sys.executable, str(ASKER)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        bufsize=1,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None

        def exchange(method: str, **params: Any) -> dict[str, Any]:
            assert process.stdin is not None
            assert process.stdout is not None
            request = {"jsonrpc": "2.0", "id": MARK, "method": method, "params": {**params, "_meta": meta}}
            process.stdin.write(json.dumps(request) + "\n")
            while "method" in (message := json.loads(process.stdout.readline())):
                pass
            return dict(message)

        for tool in ("ask_once", "ask_sampling", "ask_roots", "ask_then_fail", "echo", MARK):
            call = {"name": tool, "arguments": arguments}
            done = exchange("tools/call", **call)
            if (result := done.get("result", {})).get("resultType") == "input_required":
                answers = {key: ANSWERS[asked["method"]] for key, asked in result["inputRequests"].items()}
                for _ in range(2):  # the second is refused, or the same again
                    exchange("tools/call", **call, requestState=result["requestState"], inputResponses=answers)
                exchange("tools/call", **call, requestState=MARK, inputResponses=answers)
        for params in ({"level": "info", "data": MARK}, {MARK: MARK}):
            exchange("tools/call", name="announce", arguments={"method": "notifications/message", "params": params})
            exchange("tools/call", name="announce", arguments={"method": "notifications/x", "params": params})
        exchange("prompts/get", name=MARK, arguments={MARK: MARK})
        exchange("resources/read", uri=f"asker://{MARK}")
        exchange(MARK)
        exchange("tools/call", name="die", arguments=arguments)
        for line in (MARK, f'{{"id": "{MARK}', json.dumps([MARK]), json.dumps({"id": MARK, "method": MARK})):
            process.stdin.write(line + "\n")
            json.loads(process.stdout.readline())
        _, log = process.communicate(timeout=15)
    assert process.returncode == 0
    assert "started process" in log
    assert MARK not in log
