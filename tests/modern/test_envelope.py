"""The ladder of `modern.envelope`, rung by rung."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modern.envelope import KNOWN_METHODS, LOG_LEVELS, Notification, Request, read, read_id
from modern.errors import ProtocolError
from tests.modern.helpers import META, headers, message

V = "io.modelcontextprotocol/protocolVersion"
C = "io.modelcontextprotocol/clientCapabilities"


def refused(body: Any, sent: dict[str, str] | None = None) -> ProtocolError:
    with pytest.raises(ProtocolError) as caught:
        read(body, sent)
    return caught.value


def without(key: str) -> dict[str, Any]:
    return {name: value for name, value in META.items() if name != key}


def test_a_valid_request_keeps_what_it_came_with() -> None:
    meta = {
        **META,
        C: {"elicitation": {}},
        "io.modelcontextprotocol/clientInfo": {"name": "c", "version": "1"},
        "io.modelcontextprotocol/logLevel": "info",
        "progressToken": 7,
    }
    body = message(meta=meta, id="a")
    request = read(body, headers(body))
    assert isinstance(request, Request)
    assert (request.id, request.method, request.version) == ("a", "tools/call", "2026-07-28")
    assert request.params is body["params"]
    assert request.capabilities == {"elicitation": {}}
    assert request.client_info == {"name": "c", "version": "1"}
    assert (request.log_level, request.progress_token) == ("info", 7)


@pytest.mark.parametrize(
    "body",
    [
        [],
        [message()],
        "text",
        None,
        7,
        {},
        {"jsonrpc": "2.0", "id": 1, "result": {}},
        {"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": ""}},
        {**message(), "jsonrpc": "1.0"},
        {"id": 1, "method": "tools/list"},
        {**message(), "method": 7},
        message(id=None),
        message(id=True),
        message(id=1.0),
        message(id=[1]),
    ],
)
def test_what_is_not_one_request_or_notification_is_32600(body: Any) -> None:
    error = refused(body)
    assert (error.code, error.status) == (-32600, 400)


def test_a_message_without_id_is_a_notification() -> None:
    got = read({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}})
    assert got == Notification("notifications/cancelled", {"requestId": 1})


@pytest.mark.parametrize(
    "meta",
    [
        {},
        without(V),
        without(C),
        {**META, V: 20260728},
        {**META, C: []},
        {**META, C: {"elicitation": True}},
        {**META, C: None},
        {**META, "io.modelcontextprotocol/clientInfo": "me"},
        {**META, "io.modelcontextprotocol/clientInfo": {"name": 1}},
        {**META, "io.modelcontextprotocol/logLevel": "loud"},
        {**META, "io.modelcontextprotocol/logLevel": []},
        {**META, "progressToken": 1.5},
        {**META, "progressToken": True},
        {**META, "progressToken": None},
    ],
)
def test_wrong_metadata_is_32602(meta: dict[str, Any]) -> None:
    for sent in (None, headers(message())):
        error = refused(message(meta=meta), sent)
        assert (error.code, error.status) == (-32602, 400)


@pytest.mark.parametrize("params", [None, [], "x", {}, {"_meta": None}, {"_meta": []}])
def test_params_without_metadata_are_32602(params: Any) -> None:
    error = refused({**message(), "params": params})
    assert (error.code, error.status) == (-32602, 400)


@pytest.mark.parametrize("level", sorted(LOG_LEVELS))
def test_every_log_level_of_the_schema_is_known(level: str) -> None:
    assert isinstance(read(message(meta={**META, "io.modelcontextprotocol/logLevel": level})), Request)


@pytest.mark.parametrize(
    ("header", "value"),
    [
        ("mcp-protocol-version", None),
        ("mcp-protocol-version", "2025-11-25"),
        ("mcp-protocol-version", "2026-07-28\n2026-07-28"),
        ("mcp-method", None),
        ("mcp-method", "TOOLS/CALL"),
        ("mcp-method", "tools/list"),
        ("mcp-name", None),
        ("mcp-name", "other"),
        ("mcp-name", "ECHO"),
        ("mcp-name", "echo\necho"),
        ("mcp-name", "=?base64?ZWNobw?="),
        ("mcp-name", "=?base64?!!!!?="),
    ],
)
def test_a_header_that_contradicts_the_body_is_32020(header: str, value: str | None) -> None:
    body = message()
    sent = headers(body)
    sent.pop(header)
    if value is not None:
        sent[header] = value
    error = refused(body, sent)
    assert (error.code, error.status) == (-32020, 400)


@pytest.mark.parametrize("name", ["echo", "  echo ", "\techo", "=?base64?ZWNobw==?="])
def test_a_name_is_compared_after_decoding_and_without_white_space_around_it(name: str) -> None:
    body = message()
    assert isinstance(read(body, {**headers(body), "mcp-name": name}), Request)


def test_a_raw_latin_1_name_is_not_valid_even_if_it_reads_the_same() -> None:
    body = message(name="caf\xe9", arguments={})
    assert refused(body, headers(body)).code == -32020


def test_a_client_that_contradicts_itself_hears_of_that_before_the_version() -> None:
    body = message(meta={**META, V: "v999"})
    assert refused(body, headers(body)).code == -32020


@pytest.mark.parametrize("sent", [True, False])
def test_an_unknown_version_is_32022_with_both_lists(sent: bool) -> None:
    body = message(meta={**META, V: "v999"})
    error = refused(body, {**headers(body), "mcp-protocol-version": "v999"} if sent else None)
    assert (error.code, error.status) == (-32022, 400)
    assert error.data == {"supported": ["2026-07-28"], "requested": "v999"}


@pytest.mark.parametrize(
    "method",
    [
        "ping",
        "logging/setLevel",
        "resources/subscribe",
        "resources/unsubscribe",
        "tasks/list",
        "tasks/result",
        "",
        "x/y",
    ],
)
def test_unknown_and_removed_methods_are_404_and_32601(method: str) -> None:
    body = message(method)
    error = refused(body, headers(body))
    assert (error.code, error.status) == (-32601, 404)


def test_a_task_is_named_by_its_id() -> None:
    body = message("tasks/get", taskId="t1")
    assert isinstance(read(body, headers(body), KNOWN_METHODS), Request)
    with pytest.raises(ProtocolError) as caught:
        read(body, {**headers(body), "mcp-name": "t2"}, KNOWN_METHODS)
    assert caught.value.code == -32020


INITIALIZE = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-11-25"}}


@pytest.mark.parametrize(
    ("sent", "code", "status"),
    [
        (None, -32022, 400),
        ({}, -32020, 400),
        ({"mcp-protocol-version": "2025-11-25"}, -32020, 400),
        ({"mcp-protocol-version": "2025-11-25", "mcp-method": "initialize"}, -32601, 404),
    ],
)
def test_initialize_is_judged_before_its_metadata_and_told_the_versions(
    sent: dict[str, str] | None, code: int, status: int
) -> None:
    error = refused(INITIALIZE, sent)
    assert (error.code, error.status) == (code, status)
    assert error.data == {"supported": ["2026-07-28"], "requested": "2025-11-25"}
    assert "2026-07-28" in error.message


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("tools/call", {"arguments": {}}),
        ("tools/call", {"name": 7}),
        ("tools/call", {"name": "a", "arguments": []}),
        ("tools/call", {"name": "a", "arguments": None}),
        ("prompts/get", {"name": None}),
        ("prompts/get", {"name": "a", "arguments": "x"}),
        ("resources/read", {"uri": 7}),
        ("resources/read", {}),
        ("tools/list", {"cursor": 7}),
        ("completion/complete", {"ref": "x", "argument": {"name": "a", "value": "b"}}),
        ("completion/complete", {"ref": {"type": "ref/prompt"}, "argument": {"name": "a"}}),
        ("subscriptions/listen", {}),
        ("subscriptions/listen", {"notifications": []}),
    ],
)
def test_parameters_of_the_wrong_type_are_32602(method: str, params: dict[str, Any]) -> None:
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": META}}
    for sent in (None, headers(body)):
        error = refused(body, sent)
        assert (error.code, error.status) == (-32602, 400)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=12,
)
FIELDS = st.fixed_dictionaries(
    {},
    optional={
        "jsonrpc": st.just("2.0") | JSON,
        "id": st.integers() | JSON,
        "method": st.sampled_from([*sorted(KNOWN_METHODS), "initialize", "ping"]) | JSON,
        "params": st.fixed_dictionaries(
            {},
            optional={
                "_meta": st.fixed_dictionaries(
                    {}, optional={V: st.just("2026-07-28") | JSON, C: JSON, "progressToken": JSON}
                )
                | JSON,
                "name": JSON,
                "arguments": JSON,
                "uri": JSON,
                "ref": JSON,
                "argument": JSON,
                "notifications": JSON,
            },
        )
        | JSON,
    },
)


@given(body=JSON | FIELDS, sent=st.none() | st.dictionaries(st.sampled_from(["mcp-name", "mcp-method"]), st.text()))
def test_arbitrary_json_ends_in_a_message_or_a_protocol_error(body: Any, sent: dict[str, str] | None) -> None:
    read_id(body)
    with suppress(ProtocolError):
        read(body, sent)
