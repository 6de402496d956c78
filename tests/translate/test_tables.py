"""Requests, results, errors, capabilities and notifications between the eras."""

from __future__ import annotations

import copy
import math
from typing import Any

import pytest

from bridge.translate import capabilities, errors, notifications, requests, results
from bridge.translate.capabilities import Profile
from bridge.translate.methods import ASK_PREFIX, SAME_NAME, SUSPENDABLE
from bridge.translate.notifications import ProgressGate, Route
from legacy.messages import Failure
from modern.caching import CACHEABLE
from modern.results import input_required

INFO = {"name": "old", "version": "1"}
PREFIX = "io.modelcontextprotocol/"

# -- requests ---------------------------------------------------------------------------------------------------------


def test_a_request_loses_the_modern_envelope_and_keeps_everything_else() -> None:
    meta = {PREFIX + key: 1 for key in ("protocolVersion", "clientInfo", "clientCapabilities", "logLevel")}
    kept = {"traceparent": f"00-{'a' * 32}-{'b' * 16}-01", "vendor/x": {"a": 1}}
    params = {
        "name": "t",
        "arguments": {"requestState": "mine"},
        "inputResponses": {},
        "requestState": "s",
        "_meta": {**meta, "progressToken": 1, **kept},
    }
    before = copy.deepcopy(params)
    assert requests.to_legacy("tools/call", params) == {
        "name": "t",
        "arguments": {"requestState": "mine"},
        "_meta": kept,
    }
    assert params == before


@pytest.mark.parametrize("meta", [{}, {"progressToken": 1}, None])
def test_an_empty_meta_is_not_sent(meta: Any) -> None:
    assert requests.to_legacy("tools/list", {"cursor": "c", "_meta": meta}) == {"cursor": "c"}


def test_what_can_be_suspended_or_cached_goes_under_the_same_name() -> None:
    assert SUSPENDABLE <= SAME_NAME
    assert CACHEABLE - {"server/discover"} <= SAME_NAME
    assert set(ASK_PREFIX) == {"elicitation/create", "sampling/createMessage", "roots/list"}


# -- results ----------------------------------------------------------------------------------------------------------


def translated(method: str, result: dict[str, Any]) -> dict[str, Any]:
    return results.to_modern(method, result, server_info=INFO, ttl_ms=5, cache_scope="private")


@pytest.mark.parametrize("method", sorted(SAME_NAME | {"server/discover"}))
def test_a_result_is_complete_names_the_server_and_has_cache_hints_where_it_may_be_cached(method: str) -> None:
    result = {"x": [1], "_meta": {"v/x": 1}, "resultType": "odd"}
    before = copy.deepcopy(result)
    hints = {"ttlMs": 5, "cacheScope": "private"} if method in CACHEABLE else {}
    modern = translated(method, result)
    assert modern == {"x": [1], "_meta": {"v/x": 1, PREFIX + "serverInfo": INFO}, "resultType": "complete", **hints}
    assert modern["x"] is result["x"]
    assert result == before


def test_a_meta_that_is_no_object_gives_way() -> None:
    assert translated("tools/call", {"_meta": None})["_meta"] == {PREFIX + "serverInfo": INFO}


def test_an_input_required_result_is_never_cacheable_and_never_empty() -> None:
    asked = {"roots-1": {"method": "roots/list"}}
    meta = {PREFIX + "serverInfo": INFO}
    both = input_required(asked, "s", INFO)
    assert both == {"resultType": "input_required", "inputRequests": asked, "requestState": "s", "_meta": meta}
    assert "inputRequests" not in input_required({}, "s", INFO)
    assert "requestState" not in input_required(asked, None, INFO)
    with pytest.raises(ValueError, match="needs"):
        input_required({}, None, INFO)


# -- errors -----------------------------------------------------------------------------------------------------------

DECLARED = {"tools": {}, "prompts": {}}


@pytest.mark.parametrize(
    ("method", "failure", "expected"),
    [
        ("tools/call", Failure(-32000, "m", {"a": 1}), (-32000, "m", {"a": 1}, 200)),
        ("tools/call", Failure(-32019, "m"), (-32019, "m", None, 200)),
        ("tools/call", Failure(-32100, "m"), (-32100, "m", None, 200)),
        ("tools/call", Failure(-32020, "m"), (-32603, "m", {"originalCode": -32020}, 200)),
        ("tools/call", Failure(-32099, "m", {"a": 1}), (-32603, "m", {"a": 1, "originalCode": -32099}, 200)),
        ("tools/call", Failure(-32042, "m", [1]), (-32603, "m", {"originalCode": -32042, "originalData": [1]}, 200)),
        ("resources/read", Failure(-32002, "m", {"uri": "u"}), (-32602, "m", {"uri": "u"}, 200)),
        ("tools/call", Failure(-32601, "m"), (-32602, "m", None, 200)),
        ("prompts/get", Failure(-32601, "m", 1), (-32602, "m", 1, 200)),
        ("resources/read", Failure(-32601, "m"), (-32601, "m", None, 404)),
        ("tools/list", Failure(-32601, "m"), (-32601, "m", None, 404)),
        ("completion/complete", Failure(-32601, "m"), (-32601, "m", None, 404)),
        ("tools/call", Failure(-32602, "m"), (-32602, "m", None, 200)),
        ("tools/call", Failure(401, "m", ""), (401, "m", "", 200)),
    ],
)
def test_an_error_is_the_servers_own_unless_its_code_means_something_else_now(
    method: str, failure: Failure, expected: Any
) -> None:
    error = errors.to_modern(method, failure, declared=DECLARED)
    assert (error.code, error.message, error.data, error.status) == expected


@pytest.mark.parametrize("code", ["-32000", None, True, 1.5])
def test_a_code_that_is_no_integer_is_an_internal_error(code: Any) -> None:
    error = errors.to_modern("tools/call", Failure(code, None, {"a": 1}), declared=DECLARED)  # type: ignore[arg-type]
    assert error.code == -32603
    assert error.message == errors.NO_MESSAGE
    assert error.data == {"a": 1}


def test_a_missing_capability_is_named() -> None:
    error = errors.missing_capability({"elicitation": {"url": {}}})
    assert error.body()["data"] == {"requiredCapabilities": {"elicitation": {"url": {}}}}
    assert (error.code, error.status) == (-32021, 400)
    assert "elicitation.url" in error.message


def test_what_breaks_on_our_side_is_an_internal_error() -> None:
    assert (errors.lost("The server exited.").code, errors.lost("x").message) == (-32603, "x")


# -- capabilities -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("declared", "profile"),
    [
        ({}, Profile()),
        ({"elicitation": {}}, Profile(form=True)),
        ({"elicitation": {"form": {}}}, Profile(form=True)),
        ({"elicitation": {"form": {"applyDefaults": True}, "url": {}}}, Profile(form=True, url=True)),
        ({"elicitation": {"url": {}}}, Profile(url=True)),
        ({"elicitation": {"vendor": 1}}, Profile(form=True)),
        ({"elicitation": {"form": None, "url": {}}}, Profile(url=True)),
        ({"elicitation": {"url": True}}, Profile()),
        ({"elicitation": True, "sampling": [], "roots": None}, Profile()),
        ({"sampling": {}}, Profile(sampling=True)),
        (
            {"sampling": {"tools": {}, "context": {}}},
            Profile(sampling=True, sampling_tools=True, sampling_context=True),
        ),
        ({"sampling": {"tools": True}}, Profile(sampling=True)),
        ({"roots": {"listChanged": True}, "experimental": {"x": {}}, "extensions": {"a/b": {}}}, Profile(roots=True)),
    ],
)
def test_a_profile_is_the_known_flags_and_nothing_else(declared: Any, profile: Profile) -> None:
    assert Profile.of(declared) == profile
    assert Profile.of(profile.to_legacy()) == profile
    assert hash(Profile.of(declared)) == hash(profile)


def test_only_extensions_that_are_let_through_make_a_difference() -> None:
    profile = Profile.of({"extensions": {"a/b": {}, "c/d": {}, "e/f": 1}}, frozenset({"a/b", "e/f"}))
    assert profile.extensions == {"a/b"}
    assert profile.to_legacy() == {"extensions": {"a/b": {}}}


def test_initialize_declares_form_mode_by_name_and_roots_that_change() -> None:
    assert Profile(form=True, roots=True).to_legacy() == {"elicitation": {"form": {}}, "roots": {"listChanged": True}}
    assert Profile(sampling=True, sampling_tools=True).to_legacy() == {"sampling": {"tools": {}}}


def test_a_client_can_be_asked_something_if_it_declared_anything_that_is_asked() -> None:
    assert not Profile(extensions=frozenset({"a/b"})).asks_anything
    assert all(Profile(**{flag: True}).asks_anything for flag in ("form", "url", "sampling", "roots"))


def test_discover_declares_what_the_server_declared_less_what_has_no_modern_form_and_the_tasks_extension() -> None:
    old = {
        "tools": {"listChanged": True},
        "resources": {"subscribe": True, "listChanged": True, "x": 1},
        "prompts": None,
        "logging": {},
        "tasks": {"list": {}},
        "experimental": {"e": {}},
        "extensions": {"a/b": {}},
        "vendor": True,
    }
    before = copy.deepcopy(old)
    kept = {key: value for key, value in old.items() if key not in ("tasks", "prompts")}
    kept["extensions"] = {"a/b": {}, "io.modelcontextprotocol/tasks": {}}
    assert capabilities.discover(old, "2025-11-25", streams=True, completions=None) == kept
    assert capabilities.discover(old, "2025-11-25", streams=False, completions=None) == {
        **kept,
        "tools": {},
        "resources": {"x": 1},
    }
    assert old == before


@pytest.mark.parametrize(
    ("version", "probed", "declared"),
    [
        ("2024-11-05", True, True),
        ("2024-11-05", False, False),
        ("2024-11-05", None, False),
        ("2025-03-26", True, False),
    ],
)
def test_completions_are_declared_for_a_server_whose_revision_could_not(
    version: str, probed: Any, declared: bool
) -> None:
    found = capabilities.discover({"tools": {}}, version, streams=True, completions=probed)
    assert ("completions" in found) is declared


# -- notifications ----------------------------------------------------------------------------------------------------


def test_progress_passes_only_while_it_rises() -> None:
    gate = ProgressGate()
    values = [0, 1, 1, 0.5, 1.5, "2", None, True, math.nan, math.inf, 2]
    assert [value for value in values if gate.admits(value)] == [0, 1, 1.5, 2]


@pytest.mark.parametrize(
    ("wanted", "level", "passes"),
    [
        ("debug", "debug", True),
        ("info", "debug", False),
        ("notice", "info", False),
        ("warning", "error", True),
        ("error", "critical", True),
        ("critical", "alert", True),
        ("emergency", "alert", False),
        ("debug", "loud", False),
        ("debug", None, False),
        ("loud", "emergency", False),
    ],
)
def test_a_log_message_passes_at_or_above_the_level_wanted(wanted: str, level: Any, passes: bool) -> None:
    assert notifications.admits(wanted, level) is passes


def test_a_notification_goes_where_its_table_says_without_related_task() -> None:
    params = {"uri": "u", "_meta": {PREFIX + "related-task": {"taskId": "1"}}}
    assert notifications.to_modern("notifications/resources/updated", params) == {"uri": "u"}
    assert notifications.to_modern("notifications/tools/list_changed", None) == {}
    assert notifications.to_modern("notifications/elicitation/complete", {"elicitationId": "e"}) is None
    assert notifications.to_modern("notifications/vendor", {}) is None
    assert notifications.route("notifications/message") is Route.LOG
    assert params["_meta"]
