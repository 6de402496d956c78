"""Deprecated features are named when negotiated and when used: once, with all that is needed to act."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import pytest

from bridge.deprecation import (
    MAX_CLIENTS,
    MAX_NAME,
    MAX_SESSIONS,
    NAMELESS_CLIENT,
    NOTICES,
    OTHER_CLIENTS,
    Deprecations,
    Feature,
    features_of,
    features_used,
)


class Heard:
    """Keeps the warnings."""

    def __init__(self) -> None:
        self.warnings: list[tuple[str, Mapping[str, str]]] = []
        self.now = 100.0
        self.deprecations = Deprecations("files", self.warn, clock=lambda: self.now)

    def warn(self, sentence: str, fields: Mapping[str, str]) -> None:
        self.warnings.append((sentence, fields))


@pytest.fixture
def heard() -> Heard:
    return Heard()


def test_every_feature_has_a_notice() -> None:
    assert set(NOTICES) == set(Feature)


def test_negotiation_warns_once_per_session_and_feature(heard: Heard) -> None:
    for session in ("s1", "s1", "s2"):
        heard.deprecations.negotiated(session, {Feature.ROOTS})
    heard.deprecations.negotiated("s1", {Feature.SAMPLING})
    said = [(fields["session"], fields["feature"]) for _, fields in heard.warnings]
    assert said == [("s1", "roots"), ("s2", "roots"), ("s1", "sampling")]


def test_a_negotiation_is_one_short_line_with_everything_in_its_fields(heard: Heard) -> None:
    heard.deprecations.negotiated("files#1", {Feature.SAMPLING})
    ((sentence, fields),) = heard.warnings
    assert sentence == "Server files negotiated Sampling in session files#1: deprecated since 2026-07-28."
    notice = NOTICES[Feature.SAMPLING]
    assert (fields["instead"], fields["earliest_removal"]) == (notice.instead, notice.earliest_removal)
    assert (fields["event"], fields["session"]) == ("deprecated_negotiated", "files#1")


def test_a_transport_is_in_use_at_once_and_said_in_full_the_first_time(heard: Heard) -> None:
    for session in ("old#1", "old#2"):
        heard.deprecations.negotiated(session, {Feature.HTTP_SSE})
    said = [sentence for sentence, _ in heard.warnings]
    removal = "earliest removal: three months after SEP-2596 reaches Final. Instead: serve Streamable HTTP."
    assert said[0].endswith(f"in session old#1: deprecated since 2025-03-26, {removal}")
    assert said[1].endswith("in session old#2: deprecated since 2025-03-26.")


def test_use_warns_once_per_feature_and_client_and_is_counted(heard: Heard) -> None:
    for client in ("a", "b", "a", "a"):
        heard.deprecations.used(Feature.SAMPLING, client)
    assert [fields["client"] for _, fields in heard.warnings] == ["a", "b"]
    (row,) = heard.deprecations.report()
    assert row["clients"] == {"a": 3, "b": 1}
    assert row["used"] == 4


@pytest.mark.parametrize("feature", Feature)
def test_a_warning_says_who_what_when_and_what_instead(heard: Heard, feature: Feature) -> None:
    heard.deprecations.used(feature, "editor")
    ((sentence, fields),) = heard.warnings
    notice = NOTICES[feature]
    for part in ("files", "editor", notice.title, notice.since, notice.earliest_removal, notice.instead):
        assert part in sentence
    assert fields == {
        "event": "deprecated_used",
        "feature": feature.value,
        "server": "files",
        "since": notice.since,
        "earliest_removal": notice.earliest_removal,
        "instead": notice.instead,
        "client": "editor",
    }


def test_client_names_are_bounded(heard: Heard) -> None:
    for number in range(MAX_CLIENTS + 100):
        heard.deprecations.used(Feature.ROOTS, f"client {number}")
    heard.deprecations.used(Feature.ROOTS, "client 0")
    assert len(heard.warnings) == MAX_CLIENTS + 1
    clients = heard.deprecations.report()[0]["clients"]
    assert clients[OTHER_CLIENTS] == 100
    assert clients["client 0"] == 2
    heard.deprecations.used(Feature.SAMPLING, "x" * 10_000)
    assert list(heard.deprecations.report()[1]["clients"]) == ["x" * MAX_NAME]


def test_a_client_without_a_name_counts_too(heard: Heard) -> None:
    heard.deprecations.used(Feature.ROOTS, None)
    heard.deprecations.used(Feature.ROOTS, "")
    assert heard.deprecations.report()[0]["clients"] == {NAMELESS_CLIENT: 2}


def test_sessions_are_bounded(heard: Heard) -> None:
    for number in range(MAX_SESSIONS * 6):
        heard.deprecations.negotiated(str(number), {Feature.ROOTS})
    assert len(heard.deprecations._sessions) <= MAX_SESSIONS * len(Feature)
    assert heard.deprecations.report()[0]["negotiated"] == MAX_SESSIONS * 6


def test_the_report_is_plain_and_in_the_tables_order(heard: Heard) -> None:
    assert heard.deprecations.report() == []
    heard.deprecations.used(Feature.LOGGING, "a")
    heard.now = 200.0
    heard.deprecations.negotiated("s1", {Feature.ROOTS})
    roots, log = heard.deprecations.report()
    assert (roots["feature"], roots["negotiated"], roots["used"], roots["last_seen"]) == ("roots", 1, 0, 200.0)
    assert (log["feature"], log["negotiated"], log["used"], log["last_seen"]) == ("logging", 0, 1, 100.0)
    assert log["since"] == "2026-07-28"


def test_the_usual_warning_is_a_structured_log_record(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "mrtr.deprecation"):
        Deprecations("files").used(Feature.SAMPLING, "50 %s editor")
    (record,) = caplog.records
    assert "50 %s editor" in record.getMessage()
    assert record.__dict__["feature"] == "sampling"
    assert record.__dict__["earliest_removal"] == NOTICES[Feature.SAMPLING].earliest_removal


@pytest.mark.parametrize(
    ("declared", "server", "sse", "expected"),
    [
        ({}, {}, False, set()),
        ({"elicitation": {}}, {"tools": {}}, False, set()),
        ({"roots": {"listChanged": True}}, {}, False, {Feature.ROOTS}),
        ({"sampling": {}}, {"logging": {}}, False, {Feature.SAMPLING, Feature.LOGGING}),
        ({"sampling": {"context": {}}}, {}, False, {Feature.SAMPLING, Feature.INCLUDE_CONTEXT}),
        ({"sampling": {"tools": {}}}, {}, True, {Feature.SAMPLING, Feature.HTTP_SSE}),
    ],
)
def test_what_a_session_negotiated(
    declared: dict[str, Any], server: dict[str, Any], sse: bool, expected: set[Feature]
) -> None:
    assert features_of(declared, server, http_sse=sse) == expected


@pytest.mark.parametrize(
    ("method", "params", "expected"),
    [
        ("elicitation/create", {}, set()),
        ("roots/list", None, {Feature.ROOTS}),
        ("notifications/message", {}, {Feature.LOGGING}),
        ("logging/setLevel", {}, {Feature.LOGGING}),
        ("sampling/createMessage", {}, {Feature.SAMPLING}),
        ("sampling/createMessage", {"includeContext": "none"}, {Feature.SAMPLING}),
        ("sampling/createMessage", {"includeContext": "allServers"}, {Feature.SAMPLING, Feature.INCLUDE_CONTEXT}),
        ("sampling/createMessage", {"includeContext": ["thisServer"]}, {Feature.SAMPLING}),
    ],
)
def test_what_a_message_uses(method: str, params: dict[str, Any] | None, expected: set[Feature]) -> None:
    assert features_used(method, params) == expected
