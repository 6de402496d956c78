"""The digest in a requestState: a retry is the same request of the same principal, or it is refused."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.keyring import KeyRing, generate
from bridge.state import Sealer, State, canonical

SEALER = Sealer(KeyRing.random())
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)


def shuffled(value: Any) -> Any:
    match value:
        case dict():
            return {name: shuffled(value[name]) for name in reversed(list(value))}
        case list():
            return [shuffled(item) for item in value]
        case _:
            return value


def of(params: Any) -> bytes:
    return SEALER.digest("ann", "tools/call", params)


@given(st.dictionaries(st.text(max_size=4), JSON, max_size=4))
def test_the_order_of_keys_does_not_matter(params: dict[str, Any]) -> None:
    assert of(params) == of(shuffled(params)) == of(json.loads(json.dumps(params)))


@given(JSON, JSON)
def test_different_data_has_different_bytes(one: Any, two: Any) -> None:
    assert (canonical(one) == canonical(two)) == (json.dumps(one, sort_keys=True) == json.dumps(two, sort_keys=True))


DISTINCT = [1, 1.0, "1", True, None, 0, 0.0, "", False, [], {}, [1], ["1"], {"1": 1}, [[1], []], [[], [1]], "null"]


@pytest.mark.parametrize(("one", "two"), list(itertools.combinations(DISTINCT, 2)))
def test_json_values_that_python_or_a_join_would_mix_up_stay_apart(one: Any, two: Any) -> None:
    assert of({"arguments": one}) != of({"arguments": two})


def test_null_is_not_absent() -> None:
    assert of({"name": "x", "arguments": None}) != of({"name": "x"})


def test_principal_method_and_target_count() -> None:
    base = SEALER.digest("ann", "tools/call", {"name": "x"})
    assert base != SEALER.digest("bob", "tools/call", {"name": "x"})
    assert base != SEALER.digest("ann", "prompts/get", {"name": "x"})
    assert base != SEALER.digest("ann", "tools/call", {"name": "y"})


def test_what_changes_on_a_retry_does_not_count() -> None:
    retry = {"name": "x", "_meta": {"progressToken": 7}, "inputResponses": {"elicit-1": {}}, "requestState": "abc"}
    assert of({"name": "x"}) == of(retry)


def test_the_same_names_inside_the_arguments_do_count() -> None:
    assert of({"arguments": {"_meta": 1}}) != of({"arguments": {"_meta": 2}})
    assert of({"arguments": {"requestState": 1}}) != of({"arguments": {}})


def test_no_params_are_empty_params() -> None:
    assert of(None) == of({})


def test_depth_and_size_do_no_harm() -> None:
    deep: Any = 1
    for _ in range(200_000):
        deep = [deep]
    assert of({"arguments": deep}) != of({"arguments": 1})
    assert of({"arguments": 10**10_000}) != of({"arguments": -(10**10_000)})
    assert len(of({"arguments": "\ud800"})) == 8


def test_only_json_data_is_digested() -> None:
    with pytest.raises(TypeError, match="bytes is not JSON data"):
        of({"arguments": b""})


def test_another_key_makes_another_digest() -> None:
    assert Sealer(KeyRing.random()).digest("ann", "ping", {}) != Sealer(KeyRing.random()).digest("ann", "ping", {})


def test_a_state_still_matches_after_the_keys_rotated() -> None:
    old, new = generate(), generate()
    before, after = Sealer(KeyRing.parse(old)), Sealer(KeyRing.parse(f"{new},{old}"))
    params = {"name": "x", "arguments": {"a": 1}}
    state = State(b"i" * 4, b"c" * 8, 1, 2_000_000_000, before.digest("ann", "tools/call", params))
    unsealed = after.unseal(before.seal(state, "files"), "files", now=0)
    assert after.matches(unsealed, "ann", "tools/call", params | {"requestState": "…"})
    assert not after.matches(unsealed, "bob", "tools/call", params)
    assert not after.matches(unsealed, "ann", "tools/call", {"name": "x", "arguments": {"a": 1.0}})
    assert after.digest("ann", "tools/call", params) != unsealed.digest
