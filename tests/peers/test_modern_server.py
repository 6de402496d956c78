"""The official clients in front of an official modern server, with the bridge between: it must not be felt."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.peers.talking import (
    PYTHON,
    ROOT,
    TYPESCRIPT,
    Http,
    Json,
    Script,
    Stdio,
    Transcript,
    bridge,
    bridge_serving,
    converse,
    node_modules,
    server_process,
)
from tests.peers.test_subscriptions import Listener

SERVER = [sys.executable, str(ROOT / "tests" / "servers" / "modern_server.py")]
WAYS = [
    (TYPESCRIPT, "http"),
    pytest.param(PYTHON, "http", marks=pytest.mark.full),
    pytest.param(PYTHON, "stdio", marks=pytest.mark.full),
    pytest.param(TYPESCRIPT, "stdio", marks=pytest.mark.full),
]
LISTENING = [
    (PYTHON, "stdio"),
    pytest.param(PYTHON, "http", marks=pytest.mark.full),
    pytest.param(TYPESCRIPT, "http", marks=pytest.mark.full),
    pytest.param(TYPESCRIPT, "stdio", marks=pytest.mark.full),
]
LISTEN = {"resourceSubscriptions": ["note://todo"]}


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with server_process(SERVER, r"http://127\.0\.0\.1:\d+/mcp") as match:
        yield match[0]


@pytest.fixture(scope="module")
def over_http(url: str) -> Iterator[Http]:
    with bridge_serving("--url", url, "--header", "X-Operator: 1") as target:
        yield target


@pytest.fixture
def target(request: pytest.FixtureRequest, face: str, url: str) -> Http | Stdio:
    """The face of the bridge that the client talks to."""
    if face == "http":
        over_http: Http = request.getfixturevalue("over_http")
        return over_http
    return Stdio(bridge("stdio", "--url", url, "--header", "X-Operator: 1"))


def tool(name: str, **arguments: object) -> Json:
    return {"method": "tools/call", "params": {"name": name, "arguments": arguments}}


SAID = Script(
    [
        {"method": "tools/list"},
        tool("echo", text="a\u2028ü"),
        tool("confirm", what="leave"),
        {**tool("work", n=3), "logLevel": "info"},
        tool("regional", region=" Zürich "),
        tool("seen"),
        tool("fail"),
        {"method": "resources/read", "params": {"uri": "note://nothing"}},
        {"method": "resources/read", "params": {"uri": "note://todo"}},
    ],
    {"elicitation/create": [{"action": "accept", "content": {"sure": True}}]},
)


def played(client: str, target: Http | Stdio) -> Transcript:
    said = converse(client, target, SAID)
    assert said.error is None, said.error
    return said


@pytest.mark.parametrize(("client", "face"), WAYS)
def test_both_clients_get_through_the_bridge_what_they_get_without_it(
    client: str, target: Http | Stdio, url: str
) -> None:
    through, without = played(client, target), played(client, Http(url))
    headers = json.loads(through.text(5))
    assert headers["x-operator"] == "1"
    assert headers["user-agent"] == "mrtr-bridge"
    if isinstance(target, Http):
        assert [progress["progress"] for progress in through.told(3, "notifications/progress")] == [1, 2, 3]
    for said in (through, without):
        said.results[5] = {}  # the headers differ, by whose they are
        # What comes at once with its result on stdio the TypeScript client does not tell.
        said.notifications = [one for one in said.notifications if one["method"] != "notifications/progress"]
    assert through == without
    assert through.protocolVersion == "2026-07-28"
    assert json.loads(through.text(2)) == {
        "state": "asked about leave",
        "action": "accept",
        "content": {"sure": True},
    }
    assert [ask["params"]["message"] for ask in through.asks] == ["Really leave?"]
    assert [log["data"] for log in through.told(3, "notifications/message")] == ["line 1", "line 2", "line 3"]
    assert json.loads(through.text(4)) == {"argument": " Zürich ", "header": "=?base64?IFrDvHJpY2gg?="}


@pytest.mark.parametrize(("client", "face"), LISTENING)
def test_a_subscription_is_the_servers_own(client: str, target: Http | Stdio) -> None:
    where: Json = {"url": target.url} if isinstance(target, Http) else {}
    if isinstance(target, Stdio):
        where = {"command": target.command[0], "args": list(target.command[1:]), "cwd": str(ROOT)}
    listening = Listener(client, where, LISTEN)
    try:
        assert listening.next("acknowledged") == LISTEN
        told = listening.called("edit", note="todo", text="water plants")
        assert told == ["notifications/resources/updated note://todo"]
        listening.order(close=True)
        assert listening.next("closed") == "local"
        listening.end()
    finally:
        listening.process.kill()


@pytest.mark.full
def test_the_official_suite_has_nothing_to_say_about_a_server_that_is_served_through() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "conformance"), "--upstream", "modern"],
        env={**os.environ, "MRTR_TEST_NODE_MODULES": str(node_modules())},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert " 0 failed" in done.stdout
