"""From a decoded JSON body (and, on HTTP, its headers) to a valid request, or to the one right error.

A ladder: each rung is one rule of 2026-07-28, the first that fails decides.

1. One JSON-RPC request or notification; no batch, no response [basic/index, Messages]: -32600.
2. ``initialize``, which only a client of an older revision sends, is told which versions there are
   [basic/versioning, Backward Compatibility].
3. ``params._meta`` holds the required fields, each of its type [basic/index, _meta]: -32602.
4. The headers say what the body says [basic/transports/streamable-http, Server Validation]: -32020.
5. The version is one of ours [basic/versioning]: -32022.
6. The method exists: -32601.
7. The parameters that routing and translation rely on have their types: -32602.

Pure, and on the hot path: comparisons, no models. What a method means, and whether its target exists, is not judged
here; ``Mcp-Param-*`` headers need the tool's schema and are in `modern.headers`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass
from typing import Any, Final

from modern.errors import (
    HEADER_MISMATCH,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    UNSUPPORTED_PROTOCOL_VERSION,
    ProtocolError,
)
from modern.headers import decode_value

SUPPORTED_VERSIONS: Final = ("2026-07-28",)

VERSION_KEY: Final = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES_KEY: Final = "io.modelcontextprotocol/clientCapabilities"
CLIENT_INFO_KEY: Final = "io.modelcontextprotocol/clientInfo"
LOG_LEVEL_KEY: Final = "io.modelcontextprotocol/logLevel"

LOG_LEVELS: Final = frozenset({"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"})

KNOWN_METHODS: Final = frozenset(
    {
        "server/discover",
        "tools/list",
        "tools/call",
        "prompts/list",
        "prompts/get",
        "resources/list",
        "resources/templates/list",
        "resources/read",
        "completion/complete",
        "subscriptions/listen",
        "tasks/get",
        "tasks/update",
        "tasks/cancel",
    }
)

NAMED_BY: Final[Mapping[str, str]] = {
    "tools/call": "name",
    "prompts/get": "name",
    "resources/read": "uri",
    "tasks/get": "taskId",
    "tasks/update": "taskId",
    "tasks/cancel": "taskId",
}
"""The parameter that the ``Mcp-Name`` header mirrors; methods not here need no such header."""

_OBJECT_CAPABILITIES: Final = frozenset({"elicitation", "sampling", "roots", "experimental", "extensions"})


@dataclass(slots=True)
class Request:
    """A request whose envelope passed every rule."""

    id: str | int
    method: str
    params: dict[str, Any]
    """``params`` as received, ``_meta`` included; never changed in place."""
    version: str
    capabilities: dict[str, Any]
    """The client's capabilities, those of this request only."""
    client_info: dict[str, Any] | None = None
    log_level: str | None = None
    progress_token: str | int | None = None
    principal: str = "anonymous"
    """Who the request belongs to; set by the face."""
    headers: Mapping[str, str] | None = None
    """The HTTP headers that it came with, names in lower case; set by the face. None on stdio."""


@dataclass(frozen=True, slots=True)
class Notification:
    """A well-formed notification; what it means depends on the transport."""

    method: str
    params: dict[str, Any]


def read(
    body: Any,
    headers: Mapping[str, str] | None = None,
    known: Set[str] = KNOWN_METHODS,
    *,
    judged: bool = True,
) -> Request | Notification:
    """Climb the ladder. ``headers`` (names in lower case) on HTTP, None on stdio; ``known``: the methods there are.
    Not ``judged``: only up to rung 4, because somebody else knows what versions and methods there are.

    Raises:
        ProtocolError: the first rung that failed.
    """
    if type(body) is not dict:
        raise _invalid("A message is one JSON object: batches do not exist in this revision.")
    method = body.get("method")
    if type(method) is not str:
        if "result" in body or "error" in body:
            raise _invalid("A client sends requests and notifications, never responses.")
        raise _invalid("'method' must be a string.")
    if body.get("jsonrpc") != "2.0":
        raise _invalid("'jsonrpc' must be \"2.0\".")
    if "id" not in body:
        params = body.get("params", {})
        if type(params) is not dict:
            raise _bad_params("'params' must be an object.")
        return Notification(method, params)
    id = body["id"]
    if type(id) is not int and type(id) is not str:
        raise _invalid("'id' must be a string or an integer.")
    params = body.get("params")
    if method == "initialize":
        raise _initialize(params, headers)
    if type(params) is not dict:
        raise _bad_params(f"'params' must be an object whose '_meta' holds {VERSION_KEY!r} and {CAPABILITIES_KEY!r}.")
    request = _read_meta(id, method, params)
    if headers is not None:
        request.headers = headers
        _compare_headers(request, headers)
    if judged:
        judge(request, known)
    return request


def judge(request: Request, known: Set[str] = KNOWN_METHODS) -> None:
    """The rungs from 5 on.

    Raises:
        ProtocolError: the first that failed.
    """
    method, params = request.method, request.params
    if request.version not in SUPPORTED_VERSIONS:
        raise unsupported_version(request.version)
    if method not in known:
        raise ProtocolError(
            METHOD_NOT_FOUND, f"Method not found: {_shown(method)} does not exist in {_ours()}.", status=404
        )
    check = _CHECKS.get(method)
    if check is not None:
        check(params)


def read_id(body: Any) -> str | int | None:
    """The id that an error about ``body`` must carry; None if there is none that can be read."""
    if type(body) is dict:
        id = body.get("id")
        if type(id) is int or type(id) is str:
            return id
    return None


def unsupported_version(requested: str) -> ProtocolError:
    """-32022, naming what there is [basic/versioning, Protocol Version Negotiation]."""
    return ProtocolError(
        UNSUPPORTED_PROTOCOL_VERSION,
        f"Unsupported protocol version; this server speaks {_ours()}.",
        {"supported": list(SUPPORTED_VERSIONS), "requested": requested},
        status=400,
    )


def _initialize(params: Any, headers: Mapping[str, str] | None) -> ProtocolError:
    """What a legacy client's handshake is answered with: it can show its user nothing but this message."""
    requested = params.get("protocolVersion") if type(params) is dict else None
    data = {"supported": list(SUPPORTED_VERSIONS), "requested": requested if type(requested) is str else ""}
    say = f"There is no initialize handshake here: this server speaks only {_ours()}, with per-request metadata."
    if headers is None:
        return ProtocolError(UNSUPPORTED_PROTOCOL_VERSION, say, data, status=400)
    if "mcp-protocol-version" not in headers or headers.get("mcp-method") != "initialize":
        missing = f"Header mismatch: MCP-Protocol-Version and Mcp-Method are required. {say}"
        return ProtocolError(HEADER_MISMATCH, missing, data, status=400)
    return ProtocolError(METHOD_NOT_FOUND, f"Method not found: initialize. {say}", data, status=404)


def _read_meta(id: str | int, method: str, params: dict[str, Any]) -> Request:
    meta = params.get("_meta")
    if type(meta) is not dict:
        raise _bad_params(f"'params._meta' must be an object with {VERSION_KEY!r} and {CAPABILITIES_KEY!r}.")
    version = meta.get(VERSION_KEY)
    if type(version) is not str:
        raise _bad_params(f"'params._meta' must hold {VERSION_KEY!r}, a string.")
    capabilities = meta.get(CAPABILITIES_KEY)
    if type(capabilities) is not dict:
        raise _bad_params(f"'params._meta' must hold {CAPABILITIES_KEY!r}, an object.")
    for name, value in capabilities.items():
        if type(value) is not dict and name in _OBJECT_CAPABILITIES:
            raise _bad_params(f"The client capability {name!r} must be an object.")
    request = Request(id, method, params, version, capabilities)
    if CLIENT_INFO_KEY in meta:
        info = meta[CLIENT_INFO_KEY]
        if type(info) is not dict or type(info.get("name", "")) is not str or type(info.get("version", "")) is not str:
            raise _bad_params(f"{CLIENT_INFO_KEY!r} must be an object with a name and a version.")
        request.client_info = info
    if LOG_LEVEL_KEY in meta:
        level = meta[LOG_LEVEL_KEY]
        if type(level) is not str or level not in LOG_LEVELS:
            raise _bad_params(f"{LOG_LEVEL_KEY!r} must be one of {', '.join(sorted(LOG_LEVELS))}.")
        request.log_level = level
    if "progressToken" in meta:
        token = meta["progressToken"]
        if type(token) is not str and type(token) is not int:
            raise _bad_params("'progressToken' must be a string or an integer.")
        request.progress_token = token
    return request


def _compare_headers(request: Request, headers: Mapping[str, str]) -> None:
    """The routing headers say what the body says. A repeated header arrives joined by a line feed and never matches."""
    if headers.get("mcp-protocol-version") != request.version:
        raise _mismatch("MCP-Protocol-Version", headers.get("mcp-protocol-version"), f"_meta {VERSION_KEY!r}")
    if headers.get("mcp-method") != request.method:
        raise _mismatch("Mcp-Method", headers.get("mcp-method"), "the method")
    source = NAMED_BY.get(request.method)
    if source is None:
        return
    name = request.params.get(source)
    if type(name) is not str:
        return  # a wrong type is -32602, by a later rung
    sent = headers.get("mcp-name")
    if sent is None or decode_value(sent) != name:
        raise _mismatch("Mcp-Name", sent, f"params.{source}")


def _mismatch(header: str, sent: str | None, source: str) -> ProtocolError:
    if sent is None:
        what = f"the required header {header} is missing"
    elif "\n" in sent:
        what = f"the header {header} was sent more than once"
    else:
        what = f"the header {header} does not match {source} of the body"
    return ProtocolError(HEADER_MISMATCH, f"Header mismatch: {what}.", status=400)


def _check_named(params: dict[str, Any]) -> None:
    if type(params.get("name")) is not str:
        raise _bad_params("'name' must be a string.")
    if type(params.get("arguments", params)) is not dict:
        raise _bad_params("'arguments' must be an object.")


def _check_uri(params: dict[str, Any]) -> None:
    if type(params.get("uri")) is not str:
        raise _bad_params("'uri' must be a string.")


def _check_cursor(params: dict[str, Any]) -> None:
    if type(params.get("cursor", "")) is not str:
        raise _bad_params("'cursor' must be a string.")


def _check_completion(params: dict[str, Any]) -> None:
    ref, argument = params.get("ref"), params.get("argument")
    if type(ref) is not dict or type(ref.get("type")) is not str:
        raise _bad_params("'ref' must be an object with a type.")
    if type(argument) is not dict or type(argument.get("name")) is not str or type(argument.get("value")) is not str:
        raise _bad_params("'argument' must be an object with a name and a value, both strings.")
    if type(params.get("context", params)) is not dict:
        raise _bad_params("'context' must be an object.")


def _check_filter(params: dict[str, Any]) -> None:
    if type(params.get("notifications")) is not dict:
        raise _bad_params("'notifications' must be an object.")


def _check_task(params: dict[str, Any]) -> None:
    if type(params.get("taskId")) is not str:
        raise _bad_params("'taskId' must be a string.")


def _check_update(params: dict[str, Any]) -> None:
    _check_task(params)
    if type(params.get("inputResponses")) is not dict:
        raise _bad_params("'inputResponses' must be an object.")


_CHECKS: Final[Mapping[str, Callable[[dict[str, Any]], None]]] = {
    "tools/call": _check_named,
    "prompts/get": _check_named,
    "resources/read": _check_uri,
    "tools/list": _check_cursor,
    "prompts/list": _check_cursor,
    "resources/list": _check_cursor,
    "resources/templates/list": _check_cursor,
    "completion/complete": _check_completion,
    "subscriptions/listen": _check_filter,
    "tasks/get": _check_task,
    "tasks/update": _check_update,
    "tasks/cancel": _check_task,
}


def _invalid(say: str) -> ProtocolError:
    return ProtocolError(INVALID_REQUEST, f"Invalid request: {say}", status=400)


def _bad_params(say: str) -> ProtocolError:
    return ProtocolError(INVALID_PARAMS, f"Invalid params: {say}", status=400)


def _ours() -> str:
    return "MCP " + ", ".join(SUPPORTED_VERSIONS)


def _shown(method: str) -> str:
    """A client's text, cut to what an error message can bear."""
    return repr(method if len(method) <= 80 else method[:80] + "…")
