"""What is typed, as the fields of a form."""

from __future__ import annotations

from typing import Any

import pytest

from bridge.demo.answers import choices, read_field

ENUM = {"type": "string", "enum": ["patch", "minor", "major"], "enumNames": ["fixes", "features", "breaks"]}
TITLED = {"type": "string", "oneOf": [{"const": "patch", "title": "fixes"}, {"const": "minor", "title": "features"}]}


@pytest.mark.parametrize(
    ("text", "field", "value"),
    [
        ("minor", ENUM, "minor"),
        ("pa", ENUM, "patch"),
        ("minor", TITLED, "minor"),
        ("y", {"type": "boolean"}, True),
        ("No", {"type": "boolean"}, False),
        ("7", {"type": "integer"}, 7),
        ("Ada", {"type": "string", "minLength": 3}, "Ada"),
    ],
)
def test_what_fits_is_taken(text: str, field: dict[str, Any], value: object) -> None:
    assert read_field(text, field) == value


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("huge", ENUM),
        ("m", ENUM),
        ("", ENUM),
        ("perhaps", {"type": "boolean"}),
        ("x", {"type": "integer"}),
        ("Al", {"type": "string", "minLength": 3}),
    ],
)
def test_what_does_not_fit_is_refused_with_a_sentence(text: str, field: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"\.$"):
        read_field(text, field)


def test_both_forms_of_a_choice_are_read() -> None:
    assert choices(ENUM)[0] == choices(TITLED)[0] == ("patch", "fixes")
    assert choices({"type": "string"}) == []
