"""The keywords of the 2026-07-28 subset of forms: which there are by type, and what they must look like to be read.

Keywords that clients do not know stay where they are, since clients skip them. A known one of the wrong type goes: the
official TypeScript client refuses the whole round for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from bridge.translate.shapes import are_texts, is_count, is_list, is_number, is_text, is_whole

FORMATS: Final = frozenset({"date", "date-time", "email", "uri"})

_RULES: Final = frozenset(
    [
        *("$ref", "allOf", "anyOf", "const", "contains"),
        *("default", "enum", "enumNames", "exclusiveMaximum", "exclusiveMinimum"),
        *("format", "items", "maxContains", "maxItems", "maxLength", "maximum"),
        *("minContains", "minItems", "minLength", "minimum", "multipleOf", "not"),
        *("oneOf", "pattern", "prefixItems", "type", "unevaluatedItems", "uniqueItems"),
    ]
)
"""Keywords that speak of the value and would be wrong of another kind of field."""

_DEFAULTS: Final[dict[str, Callable[[object], bool]]] = {
    "boolean": lambda value: isinstance(value, bool),
    "integer": is_whole,
    "number": is_number,
    "string": is_text,
}
_NOTES: Final[dict[str, Callable[[object], bool]]] = {"title": is_text, "description": is_text}
_COMPOSED: Final[dict[str, Callable[[object], bool]]] = {
    "$ref": is_text,
    "allOf": is_list,
    "anyOf": is_list,
    "oneOf": is_list,
}
_KNOWN: Final[dict[str, dict[str, Callable[[object], bool]]]] = {
    "boolean": {},
    "integer": {"minimum": is_number, "maximum": is_number},
    "number": {"minimum": is_number, "maximum": is_number},
    "string": {"minLength": is_count, "maxLength": is_count},
    "array": {"minItems": is_count, "maxItems": is_count},
}
"""What a keyword of the subset must look like, by type, for the official clients to read the form."""


def known(schema: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """The keywords of a field that clients read as it is, less those they would refuse."""
    checks = {**_NOTES, **_COMPOSED, **_KNOWN[kind]}
    shown = {key: value for key, value in schema.items() if key not in checks or checks[key](value)}
    if kind == "string" and "format" in shown and not (is_text(shown["format"]) and shown["format"] in FORMATS):
        del shown["format"]
    if "default" in shown and not _DEFAULTS.get(kind, are_texts)(shown["default"]):
        del shown["default"]
    return shown


def foreign(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The keywords that a field keeps when it is shown as another kind."""
    return {
        key: value
        for key, value in schema.items()
        if key not in _RULES and (key not in _NOTES or isinstance(value, str))
    }
