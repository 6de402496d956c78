"""Forms of old servers, for clients of 2026-07-28 and back [client/elicitation, Requested Schema]."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from bridge.translate.forms import MAX_FIELDS, bring
from bridge.translate.schemas import Unfit
from tests.translate.corpus import CASES, SAME, UNFIT, Case, form
from tests.translate.subset import refuses

every_case = pytest.mark.parametrize("case", CASES, ids=[case.rule for case in CASES])


@every_case
def test_a_field_is_shown_in_the_subset_without_loss(case: Case) -> None:
    schema = form(case)
    before = copy.deepcopy(schema)
    brought = bring(schema)
    shown = brought.schema
    assert schema == before
    assert refuses(shown) == []
    assert shown["properties"]["f"] == (case.original if case.shown is SAME else case.shown)
    assert ("f" in shown.get("required", [])) is (case.required and case.still_required)
    assert "$defs" not in shown
    if case.shown is SAME:
        assert shown is schema


@every_case
def test_an_answer_goes_back_as_the_server_meant_it(case: Case) -> None:
    schema = form(case)
    brought = bring(schema)
    for answer, expected in case.back:
        back = brought.back({"f": answer})
        assert back == {"f": expected}
        assert type(back["f"]) is type(expected)
        assert brought.fault(back) is None
        assert Draft202012Validator(schema).is_valid(back)


@every_case
def test_a_field_left_out_is_null_only_where_the_server_demands_something(case: Case) -> None:
    if case.when_absent is not None:
        brought = bring(form(case))
        assert brought.back({}) == case.when_absent
        assert brought.fault(case.when_absent) is None


@every_case
def test_bringing_a_brought_form_changes_nothing(case: Case) -> None:
    shown = bring(form(case)).schema
    assert bring(shown).schema is shown


@pytest.mark.parametrize(("field", "reason"), UNFIT)
def test_what_cannot_be_shown_is_named(field: Any, reason: str) -> None:
    with pytest.raises(Unfit) as unfit:
        bring({"type": "object", "properties": {"fine": {"type": "string"}, "f": field}})
    message = str(unfit.value)
    assert reason in message
    assert "'f'" in message or message.startswith("requestedSchema")


@pytest.mark.parametrize("schema", [None, [], "x", {"type": "string"}, {"type": "object", "properties": []}])
def test_a_form_must_describe_an_object(schema: Any) -> None:
    with pytest.raises(Unfit, match="requestedSchema"):
        bring(schema)


def test_a_form_without_fields_is_a_confirmation() -> None:
    schema: dict[str, Any] = {"type": "object", "properties": {}}
    brought = bring(schema)
    assert brought.schema is schema
    assert brought.fault(brought.back({})) is None
    assert bring({"type": "object"}).schema == schema


def test_extras_that_clients_read_over_stay_and_a_form_in_the_subset_is_the_same_object() -> None:
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Sign up",
        "type": "object",
        "additionalProperties": False,
        "properties": {"a": {"type": "string", "x-order": 1}},
        "required": [],
    }
    assert bring(schema).schema is schema


def test_a_form_is_bounded() -> None:
    fields = {f"f{number}": {"type": "string"} for number in range(MAX_FIELDS + 1)}
    with pytest.raises(Unfit, match="fields"):
        bring({"type": "object", "properties": fields})
    deep: dict[str, Any] = {"type": "string"}
    for _ in range(60):
        deep = {"anyOf": [deep, {"type": "null"}]}
    with pytest.raises(Unfit, match="too deep"):
        bring({"type": "object", "properties": {"f": deep}})
    doubling = {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(28)} | {
        "d28": {"type": "string"}
    }
    for name in ("f", "enum", "default", "$defs"):
        with pytest.raises(Unfit, match="too large"):
            bring({"type": "object", "properties": {name: {"$ref": "#/$defs/d0"}}, "$defs": doubling})


@pytest.mark.parametrize(
    ("field", "answer", "reason"),
    [
        ({"type": "string", "minLength": 8}, "hunter2", "'f' must have at least 8 characters."),
        ({"type": "string", "maxLength": 3}, "hunter2", "'f' must have at most 3 characters."),
        ({"type": "string", "format": "email"}, "hunter2", "'f' must be a valid email."),
        ({"type": "string", "pattern": "^[0-9]+$"}, "hunter2", "'f' must match ^[0-9]+$."),
        ({"type": "integer"}, "hunter2", "'f' must be of type integer."),
        ({"type": "number", "maximum": 3}, 4242, "'f' must be at most 3."),
        ({"enum": ["a", "b"]}, "hunter2", "'f' must be one of the choices."),
        (
            {"anyOf": [{"type": "string", "maxLength": 3}, {"type": "null"}]},
            "hunter2",
            "'f' must have at most 3 characters.",
        ),
        ({"type": "array", "items": {"type": "integer"}}, "1\nhunter2", "'f' must be of type integer."),
        ({"type": "string", "not": {"const": "hunter2"}}, "hunter2", "'f' does not fit its rule 'not'."),
    ],
)
def test_a_fault_names_the_field_and_the_rule_and_never_the_value(field: Any, answer: Any, reason: str) -> None:
    brought = bring({"type": "object", "properties": {"f": field}, "required": ["f"]})
    assert brought.fault(brought.back({"f": answer})) == reason


def test_a_missing_field_is_named_and_an_entered_name_is_not() -> None:
    schema = {"type": "object", "properties": {"f": {"type": "string"}}, "required": ["f"]}
    assert bring(schema).fault({}) == "'f' is required."
    strict = {**schema, "additionalProperties": {"type": "integer"}}
    assert bring(strict).fault({"f": "x", "hunter2": "secret"}) == "The form must be of type integer."


def test_what_nobody_asked_for_is_passed_on_unless_the_server_forbids_it() -> None:
    schema = {"type": "object", "properties": {"f": {"type": "string"}}}
    assert bring(schema).back({"f": "x", "extra": 1}) == {"f": "x", "extra": 1}
    assert bring({**schema, "additionalProperties": False}).back({"f": "x", "extra": 1}) == {"f": "x"}


def test_null_for_a_field_that_need_not_be_filled_in_says_that_it_is_empty() -> None:
    schema = {"type": "object", "properties": {"f": {"type": "string"}, "g": {"type": "string"}}, "required": ["g"]}
    brought = bring(schema)
    assert brought.back({"f": None, "g": None}) == {"g": None}
    assert brought.fault({"g": None}) == "'g' must be of type string."


@pytest.mark.parametrize(
    "field",
    [
        {"type": "string", "pattern": "^(a+)+$"},
        {"type": "string", "pattern": "a*a*a*a*a*b"},
        {"type": "string", "pattern": "(?<name>x"},
        {"type": "string", "pattern": 3},
    ],
)
def test_a_pattern_that_cannot_be_tried_here_is_left_to_the_server(field: Any) -> None:
    brought = bring({"type": "object", "properties": {"f": field}})
    assert brought.fault({"f": "a" * 60}) is None


def test_nothing_is_fetched_to_judge_content(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a schema was fetched")

    monkeypatch.setattr("urllib.request.urlopen", refuse)
    with pytest.raises(Unfit):
        bring({"type": "object", "properties": {}, "allOf": [{"$ref": "http://127.0.0.1:9/x"}]})
