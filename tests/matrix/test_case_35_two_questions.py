"""A second question in one call, on the first SDK releases that could ask and on the last of the old line.

Each server is unchanged SDK code; each client is an official one of today. What a person answers is compared with what
the tool got, question by question.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.matrix.conftest import Peer
from tests.peers.talking import PYTHON, TYPESCRIPT, Script, Transcript, converse

Json = dict[str, Any]

SAMPLE: Json = {"role": "assistant", "model": "test-model", "content": {"type": "text", "text": "Hello."}}
ROOTS: Json = {"roots": [{"uri": "file:///srv/project", "name": "project"}]}


def tool(name: str, **arguments: Any) -> Json:
    return {"method": "tools/call", "params": {"name": name, "arguments": arguments}}


def accept(name: str) -> Json:
    return {"action": "accept", "content": {"name": name}}


STEPS: dict[str, tuple[Json, list[Json]]] = {
    "in a row": (tool("two", pause=0), [accept("Ada"), accept("Grace")]),
    "with a pause": (tool("two", pause=0.4), [accept("Edsger"), accept("Barbara")]),
    "labelled": (tool("labelled"), [accept("Alan"), accept("Donald")]),
    "at once": (tool("both"), [accept("Edith"), accept("John")]),
    "dismissed": (tool("two", pause=0), [{"action": "cancel"}, accept("Margaret")]),
    "refused": (tool("two", pause=0), [{"action": "decline"}, accept("Kathleen")]),
    "sampling": (tool("sample"), []),
    "roots": (tool("roots"), []),
}


class Conversation:
    def __init__(self, transcript: Transcript) -> None:
        self._transcript = transcript
        self._index = {step: number for number, step in enumerate(STEPS)}
        self._forms = [ask for ask in transcript.asks if ask["method"] == "elicitation/create"]

    def value(self, step: str) -> Any:
        return json.loads(self._transcript.text(self._index[step]))

    def failure(self, step: str) -> str:
        result = self._transcript.result(self._index[step])
        assert result["isError"] is True
        return str(result["content"][0]["text"])

    def answered(self, step: str) -> list[Any]:
        """What a person said in this step to each question, in the order in which the tool returns the answers."""
        before = sum(len(STEPS[name][1]) for name in list(STEPS)[: self._index[step]])
        given = STEPS[step][1]
        questions = [form["params"]["message"] for form in self._forms[before : before + len(given)]]
        assert sorted(questions) == ["First?", "Second?"]
        said = {
            q: a["content"]["name"] if "content" in a else a["action"] for q, a in zip(questions, given, strict=True)
        }
        return [said["First?"], said["Second?"]]


BY_STDIO = [pytest.param((client, "stdio"), marks=pytest.mark.full) for client in (PYTHON, TYPESCRIPT)]


@pytest.fixture(scope="module", params=[(PYTHON, "http"), (TYPESCRIPT, "http"), *BY_STDIO], ids=" by ".join)
def said(request: pytest.FixtureRequest, peer: Peer) -> Conversation:
    client, face = request.param
    answers = {
        "elicitation/create": [answer for _, given in STEPS.values() for answer in given],
        "sampling/createMessage": [SAMPLE],
        "roots/list": [ROOTS],
    }
    return Conversation(converse(client, peer.face(face), Script([call for call, _ in STEPS.values()], answers)))


@pytest.mark.parametrize("step", ["in a row", "with a pause", "labelled", "at once", "dismissed"])
def test_case_35_both_questions_are_answered(said: Conversation, step: str) -> None:
    assert said.value(step) == said.answered(step)


def test_case_35_a_question_can_be_declined(said: Conversation, peer: Peer) -> None:
    """Not to TypeScript 1.13, which came before the specification was final: it calls that ``reject``, and says so."""
    if peer.release == "typescript 1.13":
        assert "received 'decline'" in said.failure("refused")
    else:
        assert said.value("refused") == said.answered("refused")


def test_case_35_the_model_and_the_roots_answer_too(said: Conversation) -> None:
    assert said.value("sampling") == "Hello."
    assert said.value("roots") == ["file:///srv/project"]


def test_case_29_a_client_that_cannot_be_asked_gets_the_tools_way_round_it_or_a_clear_error(peer: Peer) -> None:
    """TypeScript 1.32 does not even ask: its tool says why it failed."""
    heard = converse(PYTHON, peer.http, Script([tool("careful"), tool("two", pause=0)]))
    assert json.loads(heard.text(0)) == "went on without"
    if peer.release == "typescript 1.32":
        assert heard.result(1)["isError"] is True
        assert "does not support" in heard.result(1)["content"][0]["text"]
    else:
        assert heard.results[1]["error"]["code"] == -32021
