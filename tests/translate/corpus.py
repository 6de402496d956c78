"""Forms that old servers send, what a modern client is shown for each, and how answers go back.

When these were written down, the official TypeScript client's own schema (2.0, 2026-07-28) read every form in
``shown``, and refused just the originals that have ``refused_by_typescript``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

SAME: Any = object()
"""The field is shown as it is."""


@dataclass(frozen=True)
class Case:
    """One field of a form."""

    rule: str
    original: Any
    shown: Any
    back: list[tuple[Any, Any]] = field(default_factory=list)
    """Answers, and what the server gets."""
    required: bool = True
    still_required: bool = True
    when_absent: Any = None
    """The content that the server gets when the client leaves the field out."""
    defs: dict[str, Any] = field(default_factory=dict)
    refused_by_typescript: bool = False
    """Whether the original, sent as it is, makes the client throw the round away."""


COLOURS = {"type": "string", "title": "Colour", "enum": ["red", "green"]}
TITLED = [{"const": "#f00", "title": "Red"}, {"const": "#0f0", "title": "Green"}]

CASES = [
    Case("a plain string", {"type": "string"}, SAME, [("x", "x")]),
    Case(
        "a string with all the subset has",
        {
            "type": "string",
            "title": "T",
            "description": "D",
            "minLength": 1,
            "maxLength": 9,
            "format": "email",
            "default": "a@b",
        },
        SAME,
        [("x@y", "x@y")],
    ),
    Case("a string with a pattern", {"type": "string", "pattern": "^a"}, SAME, [("ab", "ab")]),
    Case("a number", {"type": "number", "minimum": 0, "maximum": 1.5, "default": 0.5}, SAME, [(1, 1), (0.25, 0.25)]),
    Case("an integer", {"type": "integer", "minimum": 1, "default": 3}, SAME, [(4, 4)]),
    Case("a boolean", {"type": "boolean", "default": False}, SAME, [(True, True)]),
    Case("a boolean of both values", {"type": "boolean", "enum": [True, False]}, SAME, [(False, False)]),
    Case("one of several", COLOURS, SAME, [("red", "red")]),
    Case("one of several with enumNames", {**COLOURS, "enumNames": ["Red", "Green"]}, SAME, [("green", "green")]),
    Case(
        "one of several with titles", {"type": "string", "oneOf": TITLED, "default": "#f00"}, SAME, [("#0f0", "#0f0")]
    ),
    Case(
        "some of several",
        {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}, "minItems": 1, "default": ["a"]},
        SAME,
        [(["b"], ["b"])],
    ),
    Case("some of several with titles", {"type": "array", "items": {"anyOf": TITLED}}, SAME, [(["#f00"], ["#f00"])]),
    Case(
        "an optional string of pydantic's",
        {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None, "title": "Nick"},
        {"type": "string", "title": "Nick"},
        [("x", "x"), (None, None)],
        required=False,
        still_required=False,
        when_absent={},
        refused_by_typescript=True,
    ),
    Case(
        "a required string or null",
        {"oneOf": [{"type": "null"}, {"type": "string", "minLength": 2}]},
        {"type": "string", "minLength": 2},
        [("xy", "xy"), (None, None)],
        still_required=False,
        when_absent={"f": None},
        refused_by_typescript=True,
    ),
    Case(
        "a list of types with null",
        {"type": ["integer", "null"], "minimum": 0},
        {"type": "integer", "minimum": 0},
        [(3, 3)],
        still_required=False,
        when_absent={"f": None},
        refused_by_typescript=True,
    ),
    Case("a list of one type", {"type": ["string"]}, {"type": "string"}, [("x", "x")], refused_by_typescript=True),
    Case(
        "integer or number",
        {"type": ["integer", "number"]},
        {"type": "number"},
        [(1.5, 1.5)],
        refused_by_typescript=True,
    ),
    Case(
        "int or float of pydantic's",
        {"anyOf": [{"type": "integer"}, {"type": "number"}], "title": "N"},
        {"type": "number", "title": "N"},
        [(2, 2)],
        refused_by_typescript=True,
    ),
    Case(
        "an enum by reference",
        {"$ref": "#/$defs/Colour", "default": "red"},
        {**COLOURS, "default": "red"},
        [("red", "red")],
        defs={"Colour": COLOURS},
        refused_by_typescript=True,
    ),
    Case(
        "an enum by reference in allOf",
        {"allOf": [{"$ref": "#/$defs/Colour"}], "title": "Paint"},
        {**COLOURS, "title": "Paint"},
        [("green", "green")],
        defs={"Colour": COLOURS},
        refused_by_typescript=True,
    ),
    Case(
        "an optional enum by reference",
        {"anyOf": [{"$ref": "#/$defs/Colour"}, {"type": "null"}], "default": None},
        COLOURS,
        [("green", "green")],
        required=False,
        still_required=False,
        when_absent={},
        defs={"Colour": COLOURS},
        refused_by_typescript=True,
    ),
    Case(
        "an unknown format",
        {"type": "string", "format": "uuid"},
        {"type": "string"},
        [("x", "x")],
        refused_by_typescript=True,
    ),
    Case(
        "a format that is no string",
        {"type": "string", "format": None, "minLength": None},
        {"type": "string"},
        [],
        refused_by_typescript=True,
    ),
    Case("a null title", {"type": "number", "title": None}, {"type": "number"}, [(1, 1)], refused_by_typescript=True),
    Case(
        "a default of another type",
        {"type": "integer", "default": "3"},
        {"type": "integer"},
        [],
        refused_by_typescript=True,
    ),
    Case("a null default", {"type": "string", "default": None}, {"type": "string"}, [], refused_by_typescript=True),
    Case(
        "choices without a type",
        {"enum": ["a", "b"]},
        {"type": "string", "enum": ["a", "b"]},
        [("a", "a")],
        refused_by_typescript=True,
    ),
    Case(
        "choices with null",
        {"enum": ["a", None]},
        {"type": "string", "enum": ["a"]},
        [("a", "a")],
        still_required=False,
        when_absent={"f": None},
        refused_by_typescript=True,
    ),
    Case(
        "choices that are integers",
        {"type": "integer", "enum": [1, 2], "default": 2, "minimum": 1},
        {"type": "string", "enum": ["1", "2"], "default": "2"},
        [("2", 2), (1, 1)],
    ),
    Case(
        "choices that are integers, with names",
        {"type": "integer", "enum": [1, 2], "enumNames": ["One", "Two"]},
        {"type": "string", "oneOf": [{"const": "1", "title": "One"}, {"const": "2", "title": "Two"}]},
        [("1", 1)],
    ),
    Case(
        "titled choices without a type",
        {"oneOf": [{"const": 1, "title": "One"}, {"const": True}]},
        {"type": "string", "oneOf": [{"const": "1", "title": "One"}, {"const": "true", "title": "true"}]},
        [("1", 1), ("true", True)],
        refused_by_typescript=True,
    ),
    Case(
        "titled choices by anyOf",
        {"type": "string", "anyOf": TITLED},
        {"type": "string", "oneOf": TITLED},
        [("#f00", "#f00")],
    ),
    Case(
        "titled choices or null",
        {"anyOf": [*TITLED, {"const": None, "title": "None"}]},
        {"type": "string", "oneOf": TITLED},
        [("#f00", "#f00")],
        still_required=False,
        when_absent={"f": None},
        refused_by_typescript=True,
    ),
    Case(
        "one constant",
        {"const": "yes"},
        {"type": "string", "enum": ["yes"]},
        [("yes", "yes")],
        refused_by_typescript=True,
    ),
    Case(
        "a true that must be given",
        {"type": "boolean", "const": True},
        {"type": "string", "enum": ["true"]},
        [("true", True)],
    ),
    Case(
        "a list of strings",
        {"type": "array", "items": {"type": "string"}, "title": "Tags", "default": ["a", "b"]},
        {"type": "string", "title": "Tags", "description": "One item a line.", "default": "a\nb"},
        [("x\r\n\n y ", ["x", "y"]), ("", [])],
        still_required=False,
        when_absent={"f": []},
        refused_by_typescript=True,
    ),
    Case(
        "a list of strings with bounds",
        {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 2, "description": "Tags"},
        {"type": "string", "description": "Tags (One item a line, at least 1, at most 2.)"},
        [("x", ["x"])],
        refused_by_typescript=True,
    ),
    Case(
        "an optional list of strings",
        {"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}]},
        {"type": "string", "description": "One item a line."},
        [("x", ["x"])],
        required=False,
        still_required=False,
        when_absent={},
        refused_by_typescript=True,
    ),
    Case(
        "a list of integers",
        {"type": "array", "items": {"type": "integer"}},
        {"type": "string", "description": "One item a line, each a number."},
        [("1\n2", [1, 2])],
        still_required=False,
        when_absent={"f": []},
        refused_by_typescript=True,
    ),
    Case(
        "some of an enum by reference",
        {"type": "array", "items": {"$ref": "#/$defs/Colour"}},
        {"type": "array", "items": COLOURS},
        [(["red"], ["red"])],
        defs={"Colour": COLOURS},
        refused_by_typescript=True,
    ),
    Case(
        "some of several integers",
        {"type": "array", "items": {"type": "integer", "enum": [1, 2]}, "default": [1]},
        {"type": "array", "items": {"type": "string", "enum": ["1", "2"]}, "default": ["1"]},
        [(["2", "1"], [2, 1])],
        refused_by_typescript=True,
    ),
    Case(
        "some of several, named",
        {"type": "array", "items": {"type": "string", "enum": ["a"], "enumNames": ["A"]}},
        {"type": "array", "items": {"type": "string", "anyOf": [{"const": "a", "title": "A"}]}},
        [(["a"], ["a"])],
    ),
    Case(
        "some of several by oneOf",
        {"type": "array", "items": {"oneOf": TITLED}},
        {"type": "array", "items": {"anyOf": TITLED}},
        [(["#f00"], ["#f00"])],
        refused_by_typescript=True,
    ),
    Case(
        "two kinds of text",
        {"anyOf": [{"type": "string", "format": "email"}, {"type": "string", "format": "uri"}]},
        {"type": "string"},
        [("a@b", "a@b")],
        refused_by_typescript=True,
    ),
    Case(
        "exclusive rules beside a type",
        {"type": "string", "oneOf": [{"minLength": 3}, {"maxLength": 1}]},
        SAME,
        [("a", "a")],
    ),
    Case(
        "rules beside a type", {"type": "string", "anyOf": [{"minLength": 3}, {"maxLength": 1}]}, SAME, [("abc", "abc")]
    ),
]

UNFIT = [
    ({"type": "object", "properties": {}}, "is an object"),
    ({"type": "array", "items": {"type": "object"}}, "list"),
    ({"type": "array", "items": {"type": "array", "items": {"type": "string"}}}, "list"),
    ({"type": "array"}, "list"),
    ({"type": "array", "prefixItems": [{"type": "string"}]}, "list"),
    ({"anyOf": [{"type": "string"}, {"type": "integer"}]}, "several kinds"),
    ({"type": ["string", "number"]}, "several kinds"),
    ({}, "no type"),
    (True, "no schema"),
    ({"type": "null"}, "nothing but null"),
    ({"type": "string", "enum": []}, "no choices"),
    ({"enum": [{"a": 1}]}, "neither text nor numbers"),
    ({"enum": ["1", 1]}, "look the same"),
    ({"$ref": "#/$defs/Missing"}, "$ref"),
    ({"$ref": "https://example.com/schema.json"}, "$ref"),
    ({"$ref": "#/properties/f"}, "refers to itself"),
    ({"allOf": [{"type": "string"}, {"type": "integer"}]}, "cannot be made one"),
    ({"$dynamicRef": "#x"}, "$dynamicRef"),
]


def form(case: Case) -> dict[str, Any]:
    """The case's field as the only one of a form."""
    schema: dict[str, Any] = {"type": "object", "properties": {"f": case.original}}
    if case.required:
        schema["required"] = ["f"]
    if case.defs:
        schema["$defs"] = case.defs
    return schema
