"""Results, cache hints and subscription filters."""

from __future__ import annotations

from typing import Any

import pytest

from modern import listen
from modern.caching import CACHEABLE, CacheHints
from modern.envelope import KNOWN_METHODS
from modern.errors import ProtocolError
from modern.results import SERVER_INFO_KEY, complete, input_required


@pytest.mark.parametrize("method", sorted(KNOWN_METHODS))
def test_cache_hints_are_on_the_six_cacheable_methods_only(method: str) -> None:
    made = complete(method, {}, hints=CacheHints(5, "public"))
    expected = {"ttlMs": 5, "cacheScope": "public"} if method in CACHEABLE else {}
    assert made == {"resultType": "complete", **expected}


def test_an_input_required_result_has_no_cache_hints() -> None:
    made = input_required({"elicit-1": {}}, "state", {"name": "s", "version": "1"})
    assert made["resultType"] == "input_required"
    assert not {"ttlMs", "cacheScope"} & made.keys()
    with pytest.raises(ValueError, match="needs"):
        input_required({}, None)


def test_a_result_is_copied_and_unknown_fields_stay() -> None:
    given: dict[str, Any] = {"content": [], "x": 1, "_meta": {"k": 1}}
    info = {"name": "s", "version": "1"}
    made = complete("tools/call", given, info)
    assert made == {"content": [], "x": 1, "resultType": "complete", "_meta": {"k": 1, SERVER_INFO_KEY: info}}
    assert given == {"content": [], "x": 1, "_meta": {"k": 1}}


def test_a_negative_time_to_live_cannot_be_made() -> None:
    with pytest.raises(ValueError, match="negative"):
        CacheHints(-1)


def read(**asked: Any) -> listen.Filter:
    return listen.Filter.read({"notifications": asked})


@pytest.mark.parametrize(
    "asked",
    [
        {"toolsListChanged": 1},
        {"promptsListChanged": None},
        {"resourceSubscriptions": "x"},
        {"resourceSubscriptions": [1]},
    ],
)
def test_a_filter_of_the_wrong_type_is_32602(asked: dict[str, Any]) -> None:
    with pytest.raises(ProtocolError) as caught:
        read(**asked)
    assert (caught.value.code, caught.value.status) == (-32602, 400)


def test_unknown_filter_fields_are_ignored_and_what_is_off_is_not_acknowledged() -> None:
    wanted = read(toolsListChanged=True, promptsListChanged=False, other=["t"], resourceSubscriptions=["a:b", "a:b"])
    assert listen.acknowledgement("s", wanted) == {
        "_meta": {"io.modelcontextprotocol/subscriptionId": "s"},
        "notifications": {"toolsListChanged": True, "resourceSubscriptions": ["a:b"]},
    }


def test_only_what_was_asked_for_is_admitted() -> None:
    wanted = read(toolsListChanged=True)
    assert wanted.admits("notifications/tools/list_changed", {})
    for method in ("prompts/list_changed", "resources/list_changed", "resources/updated", "progress", "message"):
        assert not wanted.admits(f"notifications/{method}", {"uri": "a:b"})


@pytest.mark.parametrize(
    ("uri", "admitted"),
    [
        ("file:///p/a", True),
        ("file:///p/a/", True),
        ("file:///p/a/b/c", True),
        ("file:///p/a?q", True),
        ("file:///p/a#f", True),
        ("file:///p/ab", False),
        ("file:///p", False),
        ("file:///dir/x", True),
        ("file:///dir", False),
        (7, False),
    ],
)
def test_an_update_may_name_a_sub_resource(uri: Any, admitted: bool) -> None:
    wanted = read(resourceSubscriptions=["file:///p/a", "file:///dir/"])
    assert wanted.admits(listen.UPDATED, {"uri": uri}) is admitted


@pytest.mark.parametrize(
    ("wanted", "uri"),
    [
        ("HTTPS://Example.com/A", "https://example.com/A"),
        ("https://example.com", "https://example.com/"),
        ("file:///caf\N{LATIN SMALL LETTER E WITH ACUTE}", "file:///caf%C3%A9"),
        ("file:///caf%C3%A9", "file:///caf\N{LATIN SMALL LETTER E WITH ACUTE}/menu"),
        ("not a uri", "not a uri"),
    ],
)
def test_an_update_may_spell_the_uri_as_servers_do_that_parse_it(wanted: str, uri: str) -> None:
    asked = read(resourceSubscriptions=[wanted])
    assert asked.resources == (wanted,)
    assert asked.admits(listen.UPDATED, {"uri": uri})
    assert not asked.admits(listen.UPDATED, {"uri": "file:///CAF%C3%A9"})


def test_a_long_uri_costs_no_more_than_a_short_one() -> None:
    wanted = read(resourceSubscriptions=[f"a:{n}" for n in range(listen.MOST_RESOURCES)])
    assert not wanted.admits(listen.UPDATED, {"uri": "a:/" + "b/" * 1_000_000})
    assert wanted.admits(listen.UPDATED, {"uri": "a:9/" + "b/" * 1_000_000})
    with pytest.raises(ProtocolError):
        read(resourceSubscriptions=[f"a:{n}" for n in range(listen.MOST_RESOURCES + 1)])


def test_what_the_server_does_not_declare_is_not_honoured() -> None:
    wanted = read(
        toolsListChanged=True, promptsListChanged=True, resourcesListChanged=True, resourceSubscriptions=["a:b"]
    )
    assert wanted.supported({}).as_params() == {}
    able = {"tools": {"listChanged": True}, "resources": {"subscribe": True}}
    assert wanted.supported(able).as_params() == {"toolsListChanged": True, "resourceSubscriptions": ["a:b"]}


def test_every_message_on_a_stream_carries_its_id() -> None:
    params = {"uri": "a:b", "_meta": {"k": 1}}
    assert listen.stamped(7, params)["_meta"] == {"k": 1, "io.modelcontextprotocol/subscriptionId": 7}
    assert params["_meta"] == {"k": 1}
    assert listen.closing(7) == {"resultType": "complete", "_meta": {"io.modelcontextprotocol/subscriptionId": 7}}
