"""Arguments, answers, results and the text of questions never reach the log, at any level."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from modern.errors import ProtocolError
from tests.bridge.harness import Client, bridged, refused

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
        self.said.append(f"{record.getMessage()} {record.args!r} {record.__dict__!r} {trace}")

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
