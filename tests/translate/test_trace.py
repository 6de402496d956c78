"""Trace context on its way through: well-formed values as they are, others not at all."""

from __future__ import annotations

from typing import Any

import pytest

from bridge.translate.requests import to_legacy
from bridge.translate.trace import trace_id

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = f"00-{TRACE}-00f067aa0ba902b7-01"


@pytest.mark.parametrize(
    "value",
    [
        PARENT,
        f"00-{TRACE}-00f067aa0ba902b7-00",
        f"01-{TRACE}-00f067aa0ba902b7-01",
        f"cc-{TRACE}-00f067aa0ba902b7-01-what-the-future-may-be-like",
    ],
)
def test_a_parent_of_this_or_a_later_version_passes_and_names_the_trace(value: str) -> None:
    meta = {"traceparent": value, "vendor/key": 1}
    assert to_legacy("tools/call", {"name": "x", "_meta": meta})["_meta"] == meta
    assert trace_id(meta) == TRACE


@pytest.mark.parametrize(
    "value",
    [
        "",
        TRACE,
        PARENT.upper(),
        f" {PARENT}",
        f"{PARENT}\n",
        f"{PARENT}-more",
        f"ff-{TRACE}-00f067aa0ba902b7-01",
        f"00-{'0' * 32}-00f067aa0ba902b7-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE[:-1]}-00f067aa0ba902b7-01",
        f"cc-{TRACE}-00f067aa0ba902b7-01-{'x' * 10_000}",
        7,
        None,
        [PARENT],
    ],
)
def test_what_is_no_parent_is_dropped_with_the_state_that_belongs_to_it(value: Any) -> None:
    meta = {"traceparent": value, "tracestate": "a=b", "baggage": "user=7", "vendor/key": 1}
    assert to_legacy("tools/call", {"_meta": meta})["_meta"] == {"baggage": "user=7", "vendor/key": 1}
    assert trace_id(meta) is None


@pytest.mark.parametrize(
    ("value", "passes"),
    [
        ("congo=t61rcWkgMzE", True),
        ("rojo=00f067aa0ba902b7,congo=t61rcWkgMzE", True),
        ("a=1 , b=2,, \t c=3", True),
        ("tenant@system=x y", True),
        (",".join(f"k{n}=v" for n in range(32)), True),
        (",".join(f"k{n}=v" for n in range(33)), False),
        ("Upper=1", False),
        ("a=", False),
        ("a", False),
        ("a=b=c", False),
        ("a=\N{SNOWMAN}", False),
        ("a=1\nb=2", False),
        ("", False),
        (",", False),
        ("a=" + "x" * 300, False),
        ({"a": 1}, False),
    ],
)
def test_a_state_passes_if_it_is_a_list_of_entries(value: Any, passes: bool) -> None:
    meta = {"traceparent": PARENT, "tracestate": value}
    assert ("tracestate" in to_legacy("tools/call", {"_meta": meta})["_meta"]) is passes


@pytest.mark.parametrize(
    ("value", "passes"),
    [
        ("userId=alice", True),
        ("userId=Am%C3%A9lie,serverNode=DF%2028 ; sampled; ttl = 30,isProduction=false", True),
        ("empty=", True),
        (",".join(f"k{n}=v" for n in range(500)), True),
        ("k=" + "v" * 8190, True),
        ("k=" + "v" * 8191, False),
        ("no value", False),
        ("k=a b", False),
        ('k="quoted"', False),
        ("k=\N{SNOWMAN}", False),
        ("=v", False),
        ("", False),
        (["k=v"], False),
        ("k=v;" * 2000, False),
    ],
)
def test_baggage_passes_if_it_is_a_list_of_entries_with_or_without_a_trace(value: Any, passes: bool) -> None:
    for meta in ({"baggage": value, "x/y": 1}, {"baggage": value, "traceparent": PARENT}):
        assert ("baggage" in to_legacy("tools/call", {"_meta": meta})["_meta"]) is passes


@pytest.mark.parametrize("meta", [None, 5, [], {}, "traceparent"])
def test_without_a_trace_there_is_none(meta: Any) -> None:
    assert trace_id(meta) is None
