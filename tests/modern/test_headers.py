"""Value encoding and ``Mcp-Param-*`` [basic/transports/streamable-http]."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modern.errors import ProtocolError
from modern.headers import MirrorCache, check_parameters, collect, decode_value, encode_value, mirrored

STRING = {"type": "string", "x-mcp-header": "Region"}


def schema(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        ("us-west1", "us-west1"),
        ("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="),
        (" padded ", "=?base64?IHBhZGRlZCA=?="),
        ("line1\nline2", "=?base64?bGluZTEKbGluZTI=?="),
        ("=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
    ],
)
def test_the_examples_of_the_specification(value: str, encoded: str) -> None:
    assert encode_value(value) == encoded
    assert decode_value(encoded) == value


@given(st.text())
def test_every_text_survives_the_round_trip_as_a_valid_header(value: str) -> None:
    encoded = encode_value(value)
    assert encoded.isascii()
    assert encoded.isprintable()
    assert decode_value(encoded) == value


@given(st.text())
def test_decoding_arbitrary_text_never_raises(value: str) -> None:
    decode_value(value)


@pytest.mark.parametrize(
    ("sent", "value"),
    [
        ("SGVsbG8=", "SGVsbG8="),
        ("=?base64?SGVsbG8=", "=?base64?SGVsbG8="),
        ("=?base64?=", "=?base64?="),
        ("=?base64??=", ""),
        ("=?BASE64?SGVsbG8=?=", "=?BASE64?SGVsbG8=?="),
        ("  x\t", "x"),
        ("a\tb", "a\tb"),
        ("=?base64?SGVsbG8?=", None),
        ("=?base64?SGVs!!!bG8=?=", None),
        ("=?base64?SGVsbG9=?=", None),
        ("=?base64?/w==?=", None),
        ("caf\xe9", None),
        ("a\x00b", None),
        ("a\nb", None),
    ],
)
def test_what_a_header_value_stands_for(sent: str, value: str | None) -> None:
    assert decode_value(sent) == value


def test_annotations_are_found_along_properties_only() -> None:
    found = mirrored(schema(region=STRING, deep=schema(x={"type": "integer", "x-mcp-header": "X"})))
    assert {(parameter.path, parameter.header) for parameter in found} == {
        (("region",), "mcp-param-region"),
        (("deep", "x"), "mcp-param-x"),
    }


@pytest.mark.parametrize(
    "wrong",
    [
        schema(a=STRING, b={"type": "number", "x-mcp-header": "B"}),
        schema(a=STRING, b={"type": "string", "x-mcp-header": ""}),
        schema(a=STRING, b={"type": "string", "x-mcp-header": "a b"}),
        schema(a=STRING, b={"type": "string", "x-mcp-header": "a\r\n"}),
        schema(a=STRING, b={"type": "string", "x-mcp-header": "REGION"}),
        schema(a=STRING, b={"type": "string", "x-mcp-header": 7}),
        schema(a=STRING, b={"type": ["string", "null"], "x-mcp-header": "B"}),
        schema(a=STRING, b={"x-mcp-header": "B"}),
        schema(a=STRING, b={"type": "array", "items": {"type": "string", "x-mcp-header": "B"}}),
        schema(a=STRING, b={"anyOf": [{"type": "string", "x-mcp-header": "B"}]}),
        {**schema(a=STRING), "$defs": {"b": {"type": "string", "x-mcp-header": "B"}}},
        {**schema(a=STRING), "x-mcp-header": "Root", "type": "string"},
    ],
)
def test_one_invalid_annotation_leaves_nothing_to_validate(wrong: dict[str, Any]) -> None:
    assert mirrored(wrong) == ()


def test_data_in_a_schema_is_no_annotation() -> None:
    assert len(mirrored(schema(a=STRING, b={"type": "object", "default": {"x-mcp-header": ""}}))) == 1


ANY = schema(v={"type": "string", "x-mcp-header": "V"})


@pytest.mark.parametrize(
    ("value", "sent"),
    [
        (None, None),
        ("a", "a"),
        ("", ""),
        ("", "=?base64??="),
        ("é", "=?base64?w6k=?="),
        (42, "42"),
        (42, "42.0"),
        (42.0, "42"),
        (-7, "-7"),
        (0, "-0"),
        (1.5, "1.5"),
        (9007199254740993, "9007199254740993"),
        (True, "true"),
        (False, "false"),
    ],
)
def test_a_mirrored_value_matches(value: Any, sent: str | None) -> None:
    check_parameters(mirrored(ANY), {"v": value}, {} if sent is None else {"mcp-param-v": sent})


@pytest.mark.parametrize(
    ("arguments", "sent"),
    [
        ({"v": "a"}, None),
        ({"v": ""}, None),
        ({"v": 0}, None),
        ({"v": False}, None),
        ({"v": None}, "null"),
        ({}, ""),
        ({"v": "a"}, "A"),
        ({"v": "a"}, "a\na"),
        ({"v": 42}, "42.5"),
        ({"v": 42}, "4.2e1"),
        ({"v": 42}, "042x"),
        ({"v": 42}, "٤٢"),
        ({"v": 42}, "9" * 5000),
        ({"v": 9007199254740993}, "9007199254740992"),
        ({"v": True}, "True"),
        ({"v": 1}, "true"),
        ({"v": {}}, "{}"),
        ({"v": "a"}, "=?base64?YQ?="),
    ],
)
def test_a_mirrored_value_that_differs_is_32020(arguments: dict[str, Any], sent: str | None) -> None:
    with pytest.raises(ProtocolError) as caught:
        check_parameters(mirrored(ANY), arguments, {} if sent is None else {"mcp-param-v": sent})
    assert (caught.value.code, caught.value.status) == (-32020, 400)


def test_headers_that_mirror_nothing_are_ignored() -> None:
    check_parameters(mirrored(ANY), {"v": "a"}, {"mcp-param-v": "a", "mcp-param-other": "\x00"})


def test_copies_of_a_routing_header_match_nothing_and_lists_stay_lists() -> None:
    raw = [
        (b"Mcp-Name", b"a"),
        (b"mcp-name", b"a"),
        (b"accept", b"x"),
        (b"accept", b"y"),
        (b"host", b"a"),
        (b"Host", b"b"),
    ]
    assert collect(raw) == {"mcp-name": "a\na", "accept": "x, y", "host": "a\nb"}


def test_a_schema_is_walked_once_and_another_object_again() -> None:
    cache, first = MirrorCache(), schema(region=STRING)
    assert cache(first) is cache(first)
    assert cache(dict(first)) == cache(first)
    assert cache({}) == ()
