"""The demo's old server, alone, driven by raw lines as an old client would."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bridge import demo

SCRIPT = Path(demo.__file__).with_name("old_server.py")
ROOTS = {"roots": [{"uri": "file:///home/ada/lighthouse"}]}
FORM = {"action": "accept", "content": {"part": "minor", "codename": "Fresnel", "announce": True}}
NOTES = {"role": "assistant", "model": "none", "content": {"type": "text", "text": "Better lamps."}}


class OldClient:
    """Sends one message, reads one."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def say(self, **message: Any) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def call(self, request: int = 1, **arguments: Any) -> dict[str, Any]:
        return self.say(id=request, method="tools/call", params={"name": "prepare_release", "arguments": arguments})


@pytest.fixture
def client() -> Iterator[OldClient]:
    command = [sys.executable, "-I", "-S", str(SCRIPT)]  # Without site-packages: standard library only.
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8") as child:
        yield OldClient(child)
        assert child.stdin is not None
        child.stdin.close()
        assert child.wait(5) == 0


def text_of(answer: dict[str, Any]) -> str:
    return answer["result"]["content"][0]["text"]


def test_it_speaks_the_revision_of_june_2025(client: OldClient) -> None:
    answer = client.say(id=1, method="initialize", params={"protocolVersion": "2025-11-25"})
    assert answer["result"]["protocolVersion"] == "2025-06-18"
    assert client.say(id=2, method="server/discover")["error"]["code"] == -32601


def test_one_call_asks_in_all_three_ways(client: OldClient) -> None:
    first = client.call()
    assert first["method"] == "roots/list"
    second = client.say(id=first["id"], result=ROOTS)
    assert second["method"] == "elicitation/create"
    assert "lighthouse is at 2.3.1" in second["params"]["message"]
    third = client.say(id=second["id"], result=FORM)
    assert third["method"] == "sampling/createMessage"
    last = client.say(id=third["id"], result=NOTES)
    assert last["id"] == 1
    assert text_of(last) == "Released lighthouse 2.4.0 “Fresnel” (announced).\nBetter lamps."


def test_a_declined_form_releases_nothing(client: OldClient) -> None:
    second = client.say(id=client.call()["id"], result=ROOTS)
    assert "decline" in text_of(client.say(id=second["id"], result={"action": "decline"}))


def test_a_refused_ask_is_an_error_of_the_tool(client: OldClient) -> None:
    last = client.say(id=client.call()["id"], error={"code": -32601, "message": "no roots here"})
    assert last["result"]["isError"] is True
    assert "no roots here" in text_of(last)


def test_two_calls_go_on_side_by_side(client: OldClient) -> None:
    one, two = client.call(1), client.call(2)
    assert client.say(id=two["id"], result=ROOTS)["method"] == "elicitation/create"
    assert client.say(id=one["id"], result=ROOTS)["method"] == "elicitation/create"
