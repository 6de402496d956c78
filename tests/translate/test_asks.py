"""Asks out to a modern client, answers back to an old server [basic/patterns/mrtr; client/*]."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from bridge.translate.asks import (
    Accepted,
    Malformed,
    Mismatch,
    Presented,
    Refused,
    Undeclared,
    Unpresentable,
    answer_back,
    present,
    suggested_key,
)
from bridge.translate.capabilities import Profile

ALL = Profile(form=True, url=True, sampling=True, sampling_tools=True, sampling_context=True, roots=True)
FORM = {"message": "Who?", "requestedSchema": {"type": "object", "properties": {"n": {"type": "string"}}}}
URL = {"mode": "url", "message": "Sign in", "url": "https://example.com/in", "elicitationId": "e1"}
SAMPLE = {"messages": [{"role": "user", "content": {"type": "text", "text": "Hi"}}], "maxTokens": 10}
ELICIT, SAMPLING, ROOTS = "elicitation/create", "sampling/createMessage", "roots/list"
TEXT = {"type": "text", "text": "a"}
IMAGE = {"type": "image", "data": "AA==", "mimeType": "image/png"}
AUDIO = {"type": "audio", "data": "AA==", "mimeType": "audio/wav"}
TOOL_USE = {"type": "tool_use", "id": "1", "name": "t", "input": {}}


def shown(method: str, params: Any, profile: Profile = ALL) -> Presented:
    verdict = present(method, params, profile)
    assert isinstance(verdict, Presented), verdict
    return verdict


# -- out --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "params", "expected"),
    [
        (ELICIT, FORM, {"method": ELICIT, "params": FORM}),
        (ELICIT, URL, {"method": ELICIT, "params": {k: v for k, v in URL.items() if k != "elicitationId"}}),
        (SAMPLING, SAMPLE, {"method": SAMPLING, "params": SAMPLE}),
        (ROOTS, None, {"method": ROOTS}),
        (ROOTS, {}, {"method": ROOTS}),
        (ROOTS, {"_meta": {"progressToken": 1}}, {"method": ROOTS}),
        (ROOTS, {"_meta": {"x/y": 1}, "v": 2}, {"method": ROOTS, "params": {"_meta": {"x/y": 1}, "v": 2}}),
    ],
)
def test_an_ask_is_shown_as_an_input_request(method: str, params: Any, expected: Any) -> None:
    before = copy.deepcopy(params)
    assert shown(method, params).request == expected
    assert params == before


@pytest.mark.parametrize(("method", "params"), [(ELICIT, FORM), (ELICIT, URL), (SAMPLING, SAMPLE), (ROOTS, {})])
def test_an_ask_loses_task_progress_token_related_task_and_the_key_hint_and_nothing_else(
    method: str, params: Any
) -> None:
    meta = {"progressToken": 3, "io.modelcontextprotocol/related-task": {"taskId": "t"}, "mrtr-bridge/inputKey": "k"}
    laden = {**params, "task": {"ttl": 1}, "vendor": 1, "_meta": {**meta, "traceparent": "00"}}
    request = shown(method, laden).request["params"]
    assert request["_meta"] == {"traceparent": "00"}
    assert request["vendor"] == 1
    assert "task" not in request
    assert "_meta" not in shown(method, {**laden, "_meta": meta}).request["params"]


def test_null_where_a_parameter_is_left_out_is_not_shown() -> None:
    request = shown(SAMPLING, {**SAMPLE, "systemPrompt": None, "tools": None, "_meta": None}).request["params"]
    assert request == SAMPLE
    assert shown(ELICIT, {**FORM, "mode": None}).request["params"] == FORM


@pytest.mark.parametrize(
    ("method", "params", "declared", "code", "required"),
    [
        (ELICIT, FORM, {}, -32601, {"elicitation": {"form": {}}}),
        (ELICIT, URL, {}, -32601, {"elicitation": {"url": {}}}),
        (ELICIT, URL, {"elicitation": {}}, -32602, {"elicitation": {"url": {}}}),
        (ELICIT, FORM, {"elicitation": {"url": {}}}, -32602, {"elicitation": {"form": {}}}),
        (SAMPLING, SAMPLE, {"elicitation": {}}, -32601, {"sampling": {}}),
        (SAMPLING, {**SAMPLE, "tools": [{"name": "t"}]}, {"sampling": {}}, -32602, {"sampling": {"tools": {}}}),
        (SAMPLING, {**SAMPLE, "toolChoice": {}}, {"sampling": {}}, -32602, {"sampling": {"tools": {}}}),
        (ROOTS, {}, {"elicitation": {}}, -32601, {"roots": {}}),
    ],
)
def test_what_the_client_did_not_declare_is_refused_as_an_old_client_would(
    method: str, params: Any, declared: Any, code: int, required: Any
) -> None:
    verdict = present(method, params, Profile.of(declared))
    assert isinstance(verdict, Undeclared)
    assert (verdict.code, verdict.required) == (code, required)
    assert Profile.of(declared).missing_for(method, params) == required


def test_an_unknown_ask_is_refused_as_an_unknown_method() -> None:
    verdict = present("vendor/ask", {}, ALL)
    assert isinstance(verdict, Undeclared)
    assert verdict.code == -32601


@pytest.mark.parametrize("context", ["thisServer", "allServers"])
def test_include_context_stays_only_where_it_was_declared(context: str) -> None:
    ask = {**SAMPLE, "includeContext": context}
    assert "includeContext" not in shown(SAMPLING, ask, Profile(sampling=True)).request["params"]
    assert shown(SAMPLING, ask).request["params"] == ask


def test_no_context_needs_no_capability() -> None:
    ask = {**SAMPLE, "includeContext": "none", "tools": []}
    assert shown(SAMPLING, ask, Profile(sampling=True)).request["params"] == {**SAMPLE, "includeContext": "none"}


@pytest.mark.parametrize(
    ("method", "params", "named"),
    [
        (ELICIT, {**FORM, "message": None}, "message"),
        (ELICIT, {"message": "x"}, "requestedSchema"),
        (ELICIT, {**FORM, "mode": "voice"}, "mode"),
        (ELICIT, {**FORM, "requestedSchema": {"type": "object", "properties": {"p": {"type": "object"}}}}, "'p'"),
        (ELICIT, {**URL, "url": "example.com"}, "url"),
        (ELICIT, {**URL, "url": "https://exa mple/"}, "url"),
        (ELICIT, {**URL, "url": "https://"}, "url"),
        (ELICIT, {**URL, "url": 7}, "url"),
        (SAMPLING, {**SAMPLE, "messages": None}, "messages"),
        (SAMPLING, {**SAMPLE, "messages": [{"role": "system", "content": TEXT}]}, "messages[0]"),
        (SAMPLING, {**SAMPLE, "messages": [{"role": "user", "content": {"type": "text"}}]}, "text"),
        (SAMPLING, {**SAMPLE, "messages": [{"role": "user", "content": {"type": "resource"}}]}, "messages[0].content"),
        (SAMPLING, {"messages": []}, "maxTokens"),
        (SAMPLING, {**SAMPLE, "maxTokens": 1.5}, "maxTokens"),
        (SAMPLING, {**SAMPLE, "systemPrompt": 3}, "systemPrompt"),
    ],
)
def test_what_no_client_could_read_is_refused_alone_and_named(method: str, params: Any, named: str) -> None:
    verdict = present(method, params, ALL)
    assert isinstance(verdict, Unpresentable)
    assert verdict.code == -32602
    assert named in verdict.message


def test_asking_again_says_why_and_leaves_the_request_alone() -> None:
    presented = shown(ELICIT, FORM)
    again = presented.with_note("'n' is required.")
    assert again["params"]["message"] == "Who?\n\n'n' is required."
    assert presented.request["params"]["message"] == "Who?"
    assert shown(ROOTS, {}).with_note("x") == {"method": ROOTS}


@pytest.mark.parametrize(
    ("hint", "key"),
    [
        ("user_name", "user_name"),
        ("a.b-C9", "a.b-C9"),
        ("", None),
        ("a b", None),
        ("x" * 65, None),
        (3, None),
        ("a\n", None),
    ],
)
def test_a_server_may_suggest_a_key(hint: Any, key: str | None) -> None:
    assert suggested_key({"_meta": {"mrtr-bridge/inputKey": hint}}) == key
    assert suggested_key({"_meta": None}) is None
    assert suggested_key(None) is None


# -- back -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("action", ["decline", "cancel"])
def test_decline_and_cancel_are_answers_like_any_other(action: str) -> None:
    for ask in (FORM, URL):
        assert answer_back(shown(ELICIT, ask), {"action": action, "x": 1}, "2025-11-25") == Accepted(
            {"action": action, "x": 1}
        )


def test_an_answer_keeps_unknown_fields_and_loses_those_of_the_modern_envelope() -> None:
    meta = {
        "io.modelcontextprotocol/serverInfo": {},
        "io.modelcontextprotocol/protocolVersion": "x",
        "traceparent": "00",
    }
    answer = {"action": "accept", "content": {"n": "x"}, "resultType": "complete", "v": 1, "_meta": meta}
    before = copy.deepcopy(answer)
    verdict = answer_back(shown(ELICIT, FORM), answer, "2025-11-25")
    expected = {"action": "accept", "content": {"n": "x"}, "v": 1, "_meta": {"traceparent": "00"}}
    assert verdict == Accepted(expected)
    assert answer == before


@pytest.mark.parametrize("content", [{}, {"content": None}])
def test_a_confirmed_form_without_content_is_an_empty_one(content: Any) -> None:
    assert answer_back(shown(ELICIT, FORM), {"action": "accept", **content}, "2025-06-18") == Accepted(
        {"action": "accept", "content": {}}
    )


def test_consent_to_a_url_has_no_content() -> None:
    assert answer_back(shown(ELICIT, URL), {"action": "accept", "content": None}, "2025-11-25") == Accepted(
        {"action": "accept"}
    )


def test_content_that_breaks_the_schema_is_a_mismatch_that_can_still_be_delivered() -> None:
    schema = {
        "type": "object",
        "properties": {"n": {"type": "integer"}, "t": {"type": "array", "items": {"type": "string"}}},
    }
    presented = shown(ELICIT, {**FORM, "requestedSchema": schema})
    verdict = answer_back(presented, {"action": "accept", "content": {"n": "hunter2", "t": "a\nb"}}, "2025-06-18")
    assert isinstance(verdict, Mismatch)
    assert verdict.reason == "'n' must be of type integer."
    assert verdict.raw == {"action": "accept", "content": {"n": "hunter2", "t": ["a", "b"]}}
    assert "hunter2" not in repr(verdict)


@pytest.mark.parametrize(
    ("method", "params", "answer"),
    [
        (ELICIT, FORM, None),
        (ELICIT, FORM, []),
        (ELICIT, FORM, {}),
        (ELICIT, FORM, {"action": "ok"}),
        (ELICIT, FORM, {"action": ["accept"]}),
        (ELICIT, FORM, {"action": "accept", "content": []}),
        (SAMPLING, SAMPLE, {"role": "assistant", "content": TEXT}),
        (SAMPLING, SAMPLE, {"role": "robot", "content": TEXT, "model": "m"}),
        (SAMPLING, SAMPLE, {"role": "assistant", "content": "a", "model": "m"}),
        (SAMPLING, SAMPLE, {"role": "assistant", "content": {"type": "text"}, "model": "m"}),
        (SAMPLING, SAMPLE, {"role": "assistant", "model": "m"}),
        (ROOTS, {}, {}),
        (ROOTS, {}, {"roots": {}}),
        (ROOTS, {}, {"roots": ["file:///x"]}),
        (ROOTS, {}, {"roots": [{"uri": 1}]}),
    ],
)
def test_an_answer_of_the_wrong_shape_is_the_clients_mistake(method: str, params: Any, answer: Any) -> None:
    assert isinstance(answer_back(shown(method, params), answer, "2025-11-25"), Malformed)


def test_roots_go_back_as_they_are() -> None:
    answer = {"roots": [{"uri": "file:///a", "name": "a", "x": 1}]}
    assert answer_back(shown(ROOTS, {}), answer, "2024-11-05") == Accepted(answer)


JOINED = {"type": "text", "text": "a\na"}
OLD = ("2024-11-05", "2025-03-26", "2025-06-18")


@pytest.mark.parametrize(
    ("content", "versions", "tools", "expected"),
    [
        (TEXT, (*OLD, "2025-11-25"), False, TEXT),
        ([TEXT], (*OLD, "2025-11-25"), False, TEXT),
        ([IMAGE], OLD, False, IMAGE),
        ([TEXT, TEXT], (*OLD, "2025-11-25"), False, JOINED),
        ([TEXT, IMAGE], ("2025-11-25",), False, [TEXT, IMAGE]),
        ([TEXT], ("2025-11-25",), True, [TEXT]),
        ([TEXT, TOOL_USE], ("2025-11-25",), True, [TEXT, TOOL_USE]),
        (AUDIO, OLD[1:], False, AUDIO),
        ([TEXT, IMAGE], OLD, False, None),
        (AUDIO, OLD[:1], False, None),
        ([TOOL_USE], OLD, True, None),
        ([], OLD, False, None),
    ],
)
def test_a_sampling_answer_goes_down_to_the_revision_or_the_server_hears_why(
    content: Any, versions: tuple[str, ...], tools: bool, expected: Any
) -> None:
    ask = {**SAMPLE, "tools": [{"name": "t", "inputSchema": {"type": "object"}}]} if tools else SAMPLE
    for version in versions:
        answer = {"role": "assistant", "content": content, "model": "m", "stopReason": "endTurn"}
        verdict = answer_back(shown(SAMPLING, ask), answer, version)
        if expected is None:
            assert isinstance(verdict, Refused)
            assert version in verdict.message
        else:
            assert verdict == Accepted({**answer, "content": expected})
