"""server-everything 2026.1.26 behind the bridge: what it offers and every question it can ask, with both clients.

One conversation for each way through (client, face, server transport) makes all calls; the tests read its transcript.
"""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tests.peers.talking import TYPESCRIPT, Http, Script, Stdio, Transcript, converse

Json = dict[str, Any]

FORM: Json = {
    "name": "Ada Lovelace",
    "check": True,
    "firstLine": "Call me Ishmael.",
    "email": "ada@example.com",
    "homepage": "https://example.com/ada",
    "birthdate": "1815-12-10",
    "integer": 7,
    "number": 2.5,
    "untitledSingleSelectEnum": "Joey",
    "untitledMultipleSelectEnum": ["Piano", "Bass"],
    "titledSingleSelectEnum": "hero-2",
    "titledMultipleSelectEnum": ["fish-2", "fish-3"],
    "legacyTitledEnum": "pet-3",
}
SAMPLE: Json = {
    "role": "assistant",
    "model": "test-model",
    "stopReason": "endTurn",
    "content": {"type": "text", "text": "Forty-two."},
}
ROOTS: Json = {"roots": [{"uri": "file:///srv/project", "name": "project"}]}


def tool(name: str, **arguments: Any) -> Json:
    return {"method": "tools/call", "params": {"name": name, "arguments": arguments}}


CALLS: dict[str, Json] = {
    "tools": {"method": "tools/list"},
    "prompts": {"method": "prompts/list"},
    "resources": {"method": "resources/list"},
    "templates": {"method": "resources/templates/list"},
    "echo": tool("echo", message="hello"),
    "sum": tool("get-sum", a=19, b=23),
    "structured": tool("get-structured-content", location="Chicago"),
    "accepted": tool("trigger-elicitation-request"),
    "declined": tool("trigger-elicitation-request"),
    "cancelled": tool("trigger-elicitation-request"),
    "sampled": tool("trigger-sampling-request", prompt="Why?", maxTokens=17),
    "roots": tool("get-roots-list"),
    "roots again": tool("get-roots-list"),
    "progress": tool("trigger-long-running-operation", duration=0.3, steps=3),
    "prompt": {"method": "prompts/get", "params": {"name": "args-prompt", "arguments": {"city": "Bern"}}},
    "resource": {"method": "resources/read", "params": {"uri": "demo://resource/dynamic/text/1"}},
    "completion": {
        "method": "completion/complete",
        "params": {
            "ref": {"type": "ref/prompt", "name": "completable-prompt"},
            "argument": {"name": "department", "value": "E"},
        },
    },
    "no such tool": tool("no-such-tool"),
}


class Conversation:
    """A transcript whose results go by the name of their call."""

    def __init__(self, transcript: Transcript) -> None:
        self.transcript = transcript

    def result(self, call: str) -> Json:
        return self.transcript.result(list(CALLS).index(call))

    def text(self, call: str) -> str:
        return self.transcript.text(list(CALLS).index(call))

    def asks(self, method: str) -> list[Json]:
        return [ask["params"] for ask in self.transcript.asks if ask["method"] == method]


@pytest.fixture(scope="module")
def said(client: str, everything: Stdio | Http) -> Conversation:
    answers = {
        "elicitation/create": [{"action": "accept", "content": FORM}, {"action": "decline"}, {"action": "cancel"}],
        "sampling/createMessage": [SAMPLE],
        "roots/list": [ROOTS],
    }
    return Conversation(converse(client, everything, Script(list(CALLS.values()), answers)))


def test_the_client_finds_a_modern_server_that_is_the_old_one(said: Conversation) -> None:
    assert said.transcript.error is None
    assert said.transcript.protocolVersion == "2026-07-28"
    assert (said.transcript.serverInfo or {})["name"] == "mcp-servers/everything"
    assert (said.transcript.serverInfo or {})["version"] == "2.0.0"
    assert {"tools", "prompts", "resources", "completions"} <= set(said.transcript.capabilities or {})
    assert "Everything" in (said.transcript.instructions or "")


def test_lists_are_the_old_servers_lists_for_what_this_client_can(said: Conversation) -> None:
    tools = {tool["name"] for tool in said.result("tools")["tools"]}
    assert {"echo", "get-sum", "trigger-elicitation-request", "trigger-sampling-request", "get-roots-list"} <= tools
    assert "args-prompt" in {prompt["name"] for prompt in said.result("prompts")["prompts"]}
    assert said.result("resources")["resources"]
    assert "demo://resource/dynamic/text/{resourceId}" in {
        template["uriTemplate"] for template in said.result("templates")["resourceTemplates"]
    }


def test_plain_calls_return_what_the_old_server_returned(said: Conversation) -> None:
    assert said.text("echo") == "Echo: hello"
    assert said.text("sum") == "The sum of 19 and 23 is 42."
    assert said.result("structured")["structuredContent"]["conditions"]
    assert said.result("prompt")["messages"][0]["content"]["text"] == "What's weather in Bern?"
    assert "demo://resource/dynamic/text/1" in said.result("resource")["contents"][0]["uri"]
    assert "Engineering" in said.result("completion")["completion"]["values"]


def test_an_accepted_form_reaches_the_tool_with_every_field(said: Conversation) -> None:
    raw = said.text("accepted").split("Raw result: ")[1]
    assert {key: value for key, value in json.loads(raw).items() if key != "_meta"} == {
        "action": "accept",
        "content": FORM,
    }


def test_the_person_sees_the_message_and_every_field_of_the_form(said: Conversation) -> None:
    asked = said.asks("elicitation/create")
    assert len(asked) == 3
    assert asked[0]["message"] == "Please provide inputs for the following fields:"
    fields = asked[0]["requestedSchema"]["properties"]
    assert set(fields) == set(FORM)
    assert asked[0]["requestedSchema"]["required"] == ["name"]
    assert fields["integer"]["maximum"] == 100
    assert "Dogs" in json.dumps(fields["legacyTitledEnum"])
    assert "Green Lantern" in json.dumps(fields["titledSingleSelectEnum"])


def test_decline_and_cancel_reach_the_tool_as_such(said: Conversation) -> None:
    assert "User declined to provide the requested information." in said.text("declined")
    assert "User cancelled the elicitation dialog." in said.text("cancelled")


def test_the_clients_model_answers_the_servers_prompt(said: Conversation) -> None:
    [asked] = said.asks("sampling/createMessage")
    assert asked["maxTokens"] == 17
    assert asked["systemPrompt"] == "You are a helpful test server."
    message = asked["messages"][0]["content"]
    message = message[0] if isinstance(message, list) else message
    assert message["text"] == "Resource trigger-sampling-request context: Why?"
    answer = json.loads(said.text("sampled").split("LLM sampling result: ")[1])
    assert answer["content"] == SAMPLE["content"]
    assert answer["model"] == "test-model"
    assert answer["stopReason"] == "endTurn"


def test_the_clients_roots_reach_the_server(said: Conversation, face: str) -> None:
    """Over HTTP another client may have answered already: the server asks once for each session and remembers."""
    for call in ("roots", "roots again"):
        assert "Current MCP Roots (1 total)" in said.text(call)
        assert "1. project\n   URI: file:///srv/project" in said.text(call)
    if face == "stdio":
        assert said.asks("roots/list")


def test_progress_reaches_the_client_in_order(client: str, said: Conversation) -> None:
    """The last one may be missing: the TypeScript client drops progress that comes in one read with the result."""
    assert said.text("progress") == "Long running operation completed. Duration: 0.3 seconds, Steps: 3."
    told = said.transcript.told(list(CALLS).index("progress"), "notifications/progress")
    seen = [(params["progress"], params["total"]) for params in told]
    assert seen == [(1, 3), (2, 3), (3, 3)] or (client == TYPESCRIPT and seen == [(1, 3), (2, 3)])


def test_an_unknown_tool_is_an_error_that_names_it(said: Conversation) -> None:
    outcome = said.transcript.results[list(CALLS).index("no such tool")]
    assert "no-such-tool" in json.dumps(outcome)
    assert outcome.get("error") or outcome["result"]["isError"]


def test_a_client_that_can_answer_nothing_is_not_offered_what_asks(client: str, everything: Stdio | Http) -> None:
    transcript = converse(client, everything, Script([CALLS["tools"], CALLS["echo"]]))
    tools = {tool["name"] for tool in transcript.result(0)["tools"]}
    assert not {"trigger-elicitation-request", "trigger-sampling-request", "get-roots-list"} & tools
    assert transcript.text(1) == "Echo: hello"
    assert transcript.asks == []


def test_a_tool_that_must_be_a_task_runs_to_its_end_and_asks_on_the_way(
    client: str, everything_over_stdio: Http
) -> None:
    clarified = {"action": "accept", "content": {"interpretation": "historical"}}
    call = tool("simulate-research-query", topic="bridges", ambiguous=True)
    transcript = converse(client, everything_over_stdio, Script([call], {"elicitation/create": [clarified]}))
    assert "historical" in transcript.text(0)
    [ask] = transcript.asks
    assert re.search(r'query "bridges" could have multiple interpretations', ask["params"]["message"])
