"""Forms that old servers send and 2026-07-28 does not allow, and several questions in one call, with both clients.

The official TypeScript client refuses a whole round for one form that it cannot read, so every form here has to arrive
in the allowed subset, and its answer has to come back to the server in the shape that the server asked for.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.peers.talking import ROOT, Http, Script, Stdio, Transcript, bridge, bridge_serving, converse

Json = dict[str, Any]

ASKER = [sys.executable, str(ROOT / "tests" / "servers" / "asker.py")]
SAMPLE: Json = {"role": "assistant", "model": "test-model", "content": {"type": "text", "text": "Hello."}}
ROOTS: Json = {"roots": [{"uri": "file:///srv/project", "name": "project"}]}


def tool(name: str, **arguments: Any) -> Json:
    return {"method": "tools/call", "params": {"name": name, "arguments": arguments}}


def accept(**content: Any) -> Json:
    return {"action": "accept", "content": content}


@pytest.fixture(scope="session")
def asker_over_http() -> Iterator[Http]:
    with bridge_serving("--", *ASKER) as target:
        yield target


@pytest.fixture(scope="session")
def asker(request: pytest.FixtureRequest, face: str) -> Stdio | Http:
    if face == "http":
        target: Http = request.getfixturevalue("asker_over_http")
        return target
    return Stdio(bridge("stdio", "--", *ASKER))


#: Every call of one conversation, and what the person answers to each form in it.
STEPS: list[tuple[str, Json, list[Json]]] = [
    ("nullable", tool("optional_form", kind="nullable"), [accept(name="Ada")]),
    ("strings", tool("optional_form", kind="strings"), [accept(tags="red\ngreen")]),
    ("ref", tool("optional_form", kind="ref"), [accept(colour="green")]),
    ("uuid", tool("optional_form", kind="uuid"), [accept(id="6f1f8ad2-2f4b-4c8e-9f5e-0d4c4a7f1d11")]),
    ("impossible", tool("impossible_form"), []),
    ("twice", tool("ask_twice", message="Who?"), [accept(name="first"), accept(name="second")]),
    ("both", tool("ask_both", message="Which?"), [accept(name="same"), accept(name="same")]),
    ("prompt", {"method": "prompts/get", "params": {"name": "introduction"}}, [accept(name="Grace")]),
    ("resource", {"method": "resources/read", "params": {"uri": "asker://question"}}, [accept(name="Edsger")]),
    ("sampling", tool("ask_sampling", message="Say hello"), []),
    ("roots", tool("ask_roots"), []),
    ("fails", tool("ask_then_fail"), [accept(name="Ada")]),
    ("progress", tool("progress", n=3, pause=0.1), []),
    ("logs", {**tool("log", n=2, level="warning", pause=0.1), "logLevel": "info"}, []),
    ("logs too little", {**tool("log", n=2, level="info", pause=0.1), "logLevel": "error"}, []),
    ("logs unasked", tool("log", n=2, level="error", pause=0.1), []),
]


class Conversation:
    def __init__(self, transcript: Transcript) -> None:
        self.transcript = transcript
        self.index = {name: number for number, (name, _, _) in enumerate(STEPS)}

    def result(self, step: str) -> Json:
        return self.transcript.result(self.index[step])

    def answer(self, step: str) -> Any:
        """What the tool says it was answered."""
        return json.loads(self.transcript.text(self.index[step]))

    def form(self, step: str) -> Json:
        """The first form that the person saw in this step."""
        before = sum(len(answers) for _, _, answers in STEPS[: self.index[step]])
        forms = [ask["params"] for ask in self.transcript.asks if ask["method"] == "elicitation/create"]
        return forms[before]["requestedSchema"]["properties"]


@pytest.fixture(scope="module")
def said(client: str, asker: Stdio | Http) -> Conversation:
    forms = [answer for _, _, answers in STEPS for answer in answers]
    answers = {"elicitation/create": forms, "sampling/createMessage": [SAMPLE], "roots/list": [ROOTS]}
    return Conversation(converse(client, asker, Script([call for _, call, _ in STEPS], answers)))


def test_an_optional_field_may_be_left_out_and_the_server_gets_null_or_nothing(said: Conversation) -> None:
    assert said.form("nullable")["nick"]["type"] == "string"
    answer = said.answer("nullable")
    assert answer["action"] == "accept"
    assert answer["content"]["name"] == "Ada"
    assert answer["content"].get("nick") is None


def test_an_array_of_plain_strings_is_one_field_with_one_item_a_line(said: Conversation) -> None:
    assert said.form("strings")["tags"]["type"] == "string"
    assert said.answer("strings")["content"] == {"tags": ["red", "green"]}


def test_a_referenced_enum_is_shown_as_a_choice(said: Conversation) -> None:
    assert said.form("ref")["colour"]["enum"] == ["red", "green", "blue"]
    assert said.answer("ref")["content"] == {"colour": "green"}


def test_an_unknown_format_is_dropped_and_the_field_kept(said: Conversation) -> None:
    assert said.form("uuid")["id"]["type"] == "string"
    assert "format" not in said.form("uuid")["id"]
    assert said.answer("uuid")["content"] == {"id": "6f1f8ad2-2f4b-4c8e-9f5e-0d4c4a7f1d11"}


def test_a_form_that_cannot_be_brought_over_is_refused_to_the_server_alone(said: Conversation) -> None:
    result = said.result("impossible")
    assert result["isError"] is True
    assert result["content"][0]["text"].startswith("Refused: ")


def test_questions_one_after_the_other_are_answered_in_order(said: Conversation) -> None:
    assert said.answer("twice") == [accept(name="first"), accept(name="second")]


def test_questions_at_once_are_both_answered(said: Conversation) -> None:
    assert said.answer("both") == [accept(name="same"), accept(name="same")]


def test_prompts_and_resources_ask_too(said: Conversation) -> None:
    assert '"name": "Grace"' in said.result("prompt")["messages"][0]["content"]["text"]
    assert '"name": "Edsger"' in said.result("resource")["contents"][0]["text"]


def test_the_model_and_the_roots_answer_the_server(said: Conversation) -> None:
    assert said.answer("sampling")["content"] == SAMPLE["content"]
    assert said.answer("roots")["roots"] == ROOTS["roots"]


def test_a_tool_that_fails_after_the_answer_fails_with_its_own_words(said: Conversation) -> None:
    result = said.result("fails")
    assert result["isError"] is True
    assert "failed after the answer" in result["content"][0]["text"]


def test_progress_reaches_the_client_whole_and_in_order(said: Conversation) -> None:
    told = said.transcript.told(said.index["progress"], "notifications/progress")
    assert [(params["progress"], params["message"]) for params in told] == [(1, "step 1"), (2, "step 2"), (3, "step 3")]


def test_log_messages_reach_a_call_that_set_a_level_at_or_above_it(said: Conversation) -> None:
    told = said.transcript.told(said.index["logs"], "notifications/message")
    assert [(params["level"], params["data"]) for params in told] == [("warning", "line 1"), ("warning", "line 2")]
    assert said.transcript.told(said.index["logs too little"], "notifications/message") == []


def test_log_messages_do_not_reach_a_call_that_set_no_level(said: Conversation) -> None:
    assert said.transcript.text(said.index["logs unasked"]) == "2 lines"
    assert said.transcript.told(said.index["logs unasked"], "notifications/message") == []
