"""Any form that an old server can make of the usual parts: shown in the subset, answered, judged by its own schema."""

from __future__ import annotations

import copy
import string
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from bridge.translate.asks import Accepted, Presented, Unpresentable, answer_back, present
from bridge.translate.capabilities import Profile
from tests.translate.subset import refuses

NAMES = st.text(string.ascii_lowercase, min_size=1, max_size=4)
WORDS = st.text(string.ascii_letters + " é€", max_size=8)
NOTES = st.fixed_dictionaries(
    {}, optional={"title": WORDS | st.none(), "description": WORDS, "x-vendor": st.integers()}
)
SCALARS = st.one_of(WORDS, st.integers(-9, 9), st.booleans())


def noted(schemas: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    return st.builds(lambda notes, schema: {**notes, **schema}, NOTES, schemas)


STRINGS = noted(
    st.fixed_dictionaries(
        {"type": st.just("string")},
        optional={
            "format": st.sampled_from(["uuid", "password", "uri", None]),
            "maxLength": st.just(20),
            "default": SCALARS,
        },
    )
)
NUMBERS = noted(
    st.fixed_dictionaries(
        {"type": st.sampled_from(["integer", "number"])},
        optional={"minimum": st.just(-5), "maximum": st.just(5), "default": SCALARS},
    )
)
BOOLEANS = noted(st.fixed_dictionaries({"type": st.just("boolean")}, optional={"default": SCALARS}))
CHOICES = noted(
    st.one_of(
        st.builds(lambda values: {"enum": values}, st.lists(SCALARS, min_size=1, max_size=4, unique_by=repr)),
        st.builds(lambda value: {"const": value}, SCALARS),
        st.builds(
            lambda keyword, values: {keyword: [{"const": value, "title": str(value)} for value in values]},
            st.sampled_from(["oneOf", "anyOf"]),
            st.lists(SCALARS, min_size=1, max_size=4, unique_by=repr),
        ),
    )
)
ITEMS = st.one_of(st.just({"type": "string"}), CHOICES)
ARRAYS = noted(
    st.fixed_dictionaries(
        {"type": st.just("array"), "items": ITEMS},
        optional={"maxItems": st.just(9), "default": st.lists(SCALARS, max_size=2)},
    )
)
FLAT = st.one_of(STRINGS, NUMBERS, BOOLEANS, CHOICES, ARRAYS)
FIELDS = st.one_of(
    FLAT,
    st.builds(lambda field: {"anyOf": [field, {"type": "null"}], "default": None}, FLAT),
    st.builds(lambda field: {"oneOf": [{"type": "null"}, field]}, FLAT),
    st.builds(lambda field: {"allOf": [field], "title": "Outer"}, FLAT),
)


@st.composite
def forms(draw: st.DrawFn) -> dict[str, Any]:
    fields = draw(st.dictionaries(NAMES, FIELDS, max_size=4))
    schema: dict[str, Any] = {"type": "object", "properties": dict(fields), "$defs": {}}
    for name in fields:
        if draw(st.booleans()):
            schema["$defs"][name] = fields[name]
            schema["properties"][name] = {"$ref": f"#/$defs/{name}"}
    schema["required"] = [name for name in fields if draw(st.booleans())]
    return schema


@st.composite
def answers(draw: st.DrawFn, schema: dict[str, Any]) -> dict[str, Any]:
    """What somebody could enter into a form of the subset."""
    content: dict[str, Any] = {}
    for name, field in schema["properties"].items():
        if name in schema.get("required", []) or draw(st.booleans()):
            content[name] = draw(value(field))
    return content


def value(field: dict[str, Any]) -> st.SearchStrategy[Any]:
    match field:
        case {"type": "array", "items": {"anyOf": options}}:
            return st.lists(st.sampled_from([option["const"] for option in options]), max_size=3)
        case {"type": "array", "items": {"enum": values}}:
            return st.lists(st.sampled_from(values), max_size=3)
        case {"enum": values, "type": "string"}:
            return st.sampled_from(values)
        case {"oneOf": options}:
            return st.sampled_from([option["const"] for option in options])
        case {"type": "boolean"}:
            return st.booleans()
        case {"type": "integer"}:
            return st.integers(-5, 5)
        case {"type": "number"}:
            return st.integers(-5, 5) | st.floats(-5, 5)
    return st.text("abc\n ", max_size=9)


@settings(max_examples=200, deadline=None)
@given(data=st.data(), schema=forms())
def test_every_form_round_trips(data: st.DataObject, schema: dict[str, Any]) -> None:
    params = {"message": "m", "requestedSchema": schema}
    before = copy.deepcopy(params)
    presented = present("elicitation/create", params, Profile(form=True))
    assert params == before
    if isinstance(presented, Unpresentable):
        assert "look the same" in presented.message
        return
    assert isinstance(presented, Presented)
    shown = presented.request["params"]["requestedSchema"]
    assert refuses(shown) == []
    content = data.draw(answers(shown))
    verdict = answer_back(presented, {"action": "accept", "content": content}, "2025-11-25")
    assert isinstance(verdict, Accepted), verdict
    Draft202012Validator(schema).validate(verdict.result["content"])


KEYWORDS = [
    *("type", "enum", "const", "anyOf", "oneOf", "allOf", "items", "$ref", "$defs", "properties", "required", "title"),
    *("default", "format", "minLength", "enumNames", "a"),
]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["string", "object", "array", "#/$defs/a", "null"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(KEYWORDS),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)


@settings(max_examples=300, deadline=None)
@given(schema=JSON, content=JSON)
def test_no_schema_however_odd_breaks_anything(schema: Any, content: Any) -> None:
    for form in (schema, {"type": "object", "properties": {"a": schema}, "$defs": {"a": schema}, "required": ["a"]}):
        presented = present("elicitation/create", {"message": "m", "requestedSchema": form}, Profile(form=True))
        if isinstance(presented, Presented):
            assert refuses(presented.request["params"]["requestedSchema"]) == []
            answer_back(presented, {"action": "accept", "content": {"a": content}}, "2025-06-18")
