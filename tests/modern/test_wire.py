"""JSON in and out."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modern.errors import ProtocolError
from modern.wire import decode, encode, error_message

NOT_JSON = (
    *(b"", b"{", b"{} x", b"\xff", b'"\xed\xa0\x80"'),
    *(b'["\\ud800"]', b'["\\ud800x"]', b'["\\udc00"]'),
    *(b"NaN", b"[Infinity]", b"[-Infinity]", b"[1e999]", b"[" + b"9" * 400 + b".0]", b"9" * 6000),
)


@pytest.mark.parametrize("data", NOT_JSON)
def test_what_is_not_json_in_utf_8_is_32700(data: bytes) -> None:
    with pytest.raises(ProtocolError) as caught:
        decode(data, 64)
    assert (caught.value.code, caught.value.status) == (-32700, 400)


@pytest.mark.parametrize("data", [b'{"a":1,"a":2}', b'["\\ud83d\\ude00"]', b'["\\u0000"]', b"[1e300]", b'["1e999"]'])
def test_odd_but_valid_json_passes(data: bytes) -> None:
    encode({"v": decode(data, 64)})


def nested(depth: int) -> bytes:
    return b'{"a":[' * (depth // 2) + b"[]" * (depth % 2) + b"]}" * (depth // 2)


@pytest.mark.parametrize("depth", [1, 2, 3, 4, 5, 6])
def test_nesting_is_bounded_exactly(depth: int) -> None:
    decode(nested(depth), depth)
    if depth > 1:
        with pytest.raises(ProtocolError) as caught:
            decode(nested(depth), depth - 1)
        assert caught.value.code == -32600


def test_absurd_nesting_is_refused_and_brackets_in_a_row_are_not_nesting() -> None:
    with pytest.raises(ProtocolError) as caught:
        decode(b"[" * 100_000, 64)
    assert caught.value.code == -32600
    decode(b"[" + b",".join([b"[]"] * 1000) + b"]", 2)


@given(st.binary())
def test_arbitrary_bytes_decode_or_are_refused(data: bytes) -> None:
    with suppress(ProtocolError):
        decode(data, 8)


def test_an_error_without_a_readable_id_has_no_id() -> None:
    assert "id" not in error_message(None, ProtocolError(-32600, "x"))
