"""A server that is modern already: everything goes through as it is, both ways (`bridge.passthrough`)."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import anyio
import httpx
import pytest

from bridge.app import bridge_running
from bridge.front import Front
from bridge.keyring import KeyRing
from bridge.settings import Limits, Server, Target
from bridge.testing import URL, http_face, in_process
from legacy.credentials import HeaderCommand
from modern.envelope import Request
from modern.errors import ProtocolError
from tests.bridge.harness import Leg, until
from tests.legacy.http_server import Exchange, HttpServer, serving
from tests.modern.helpers import META, headers, message

pytestmark = pytest.mark.anyio
VERSION = "2026-07-28"
DISCOVERED = {"resultType": "complete", "supportedVersions": [VERSION], "capabilities": {}, "ttlMs": 0}


class ModernServer(HttpServer):
    """Discovers, and knows no handshake; the rest is a test's."""

    def __init__(self, versions: tuple[str, ...] = (VERSION,)) -> None:
        super().__init__()
        self.versions = versions
        self.on_initialize = self._no_handshake

    async def _handle(self, x: Exchange) -> None:
        if x.method == "server/discover":
            await x.result({**DISCOVERED, "supportedVersions": list(self.versions)})
        else:
            await super()._handle(x)

    async def _no_handshake(self, x: Exchange) -> None:
        error = {"code": -32601, "message": "no handshake", "data": {"supported": list(self.versions)}}
        await x.answer(404, {"jsonrpc": "2.0", "id": x.id, "error": error})

    @property
    def calls(self) -> list[Exchange]:
        """What came besides the bridge's own look."""
        return [x for x in self.seen if x.method not in ("initialize", "server/discover")]


@asynccontextmanager
async def fronted(server: HttpServer, *, silence: float = 30, **target: Any) -> AsyncIterator[Front]:
    async with serving(server):
        settings = Server(target=Target(url=server.target.url, name="srv", **target), limits=Limits(silence=silence))
        async with bridge_running(settings, KeyRing.random()) as front:
            yield front


@asynccontextmanager
async def reached(server: HttpServer, **options: Any) -> AsyncIterator[httpx.AsyncClient]:
    """A client of the HTTP face."""
    async with (
        fronted(server, **options) as front,
        httpx.AsyncClient(transport=in_process(http_face(front)), timeout=10) as client,
    ):
        yield client


async def post(client: httpx.AsyncClient, body: dict[str, Any], **more: str) -> httpx.Response:
    sent = {**headers(body), **more}
    del sent["host"]
    return await client.post(URL, json=body, headers=sent)


def events(response: httpx.Response) -> list[dict[str, Any]]:
    lines = response.text.splitlines()
    return [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: ")]


def over_stdio(method: str, id: Any = 1, **params: Any) -> Request:
    """A request as the stdio face reads it."""
    return Request(id, method, {**params, "_meta": META}, VERSION, {})


async def test_a_request_and_its_result_are_the_same_at_both_ends_unknown_fields_and_all() -> None:
    server = ModernServer()
    result = {"resultType": "input_required", "requestState": "s" * 500, "inputRequests": {"a": {"x": 1}}, "odd": [1.5]}

    async def call(x: Exchange) -> None:
        await x.result(result)

    server.on_call = call
    body = message(
        "tools/call", id="seven", name="t", arguments={"ü": [None]}, requestState="r", inputResponses={}, odd=2
    )
    body["params"]["_meta"]["vendor/thing"] = {"deep": True}
    async with reached(server) as client:
        response = await post(client, body)
        assert (response.status_code, response.json()) == (200, {"jsonrpc": "2.0", "id": "seven", "result": result})
        assert server.calls[-1].message == body


async def test_headers_of_the_message_pass_and_those_of_the_person_do_not() -> None:
    server = ModernServer()
    async with reached(server, headers={"Authorization": "Bearer operator", "Mcp-Tenant": "ours"}) as client:
        more = {
            "mcp-param-region": "=?base64?WsO8cmljaA==?=",
            "mcp-param-unknown": " kept\t",
            "mcp-tenant": "theirs",
            "mcp-session-id": "old",
            "traceparent": "00-1",
            "authorization": "Bearer client",
            "cookie": "client",
            "x-api-key": "client",
            "last-event-id": "1",
        }
        assert (await post(client, message(), **more)).status_code == 200
        seen = server.calls[-1].headers
        assert seen["mcp-param-region"] == "=?base64?WsO8cmljaA==?="
        assert (seen["mcp-param-unknown"], seen["traceparent"]) == ("kept", "00-1")
        assert (seen["mcp-protocol-version"], seen["mcp-method"], seen["mcp-name"]) == (VERSION, "tools/call", "echo")
        assert (seen["authorization"], seen["mcp-tenant"]) == ("Bearer operator", "ours")
        assert not {"cookie", "x-api-key", "mcp-session-id", "last-event-id"} & set(seen)


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (400, {"code": -32602, "message": "bad", "data": {"why": [1]}}),
        (404, {"code": -32601, "message": "never heard of it"}),
        (400, {"code": -32021, "message": "x", "data": {"requiredCapabilities": {"elicitation": {}}}}),
        (200, {"code": -32042, "message": "theirs"}),
        (503, {"code": -32603, "message": "later", "data": {"retry": 5}}),
    ],
)
async def test_errors_are_the_servers_own_status_included(status: int, error: dict[str, Any]) -> None:
    server = ModernServer()

    async def call(x: Exchange) -> None:
        await x.answer(status, {"jsonrpc": "2.0", "id": x.id, "error": error})

    server.on_call = call
    async with reached(server) as client:
        response = await post(client, message())
        assert (response.status_code, response.json()["error"]) == (status, error)


async def test_methods_and_versions_that_the_bridge_does_not_know_are_the_servers_to_judge() -> None:
    server = ModernServer(("2027-03-01",))

    async def call(x: Exchange) -> None:
        await x.result({"resultType": "complete", "said": x.method})

    server.on_call = call
    meta = {**META, "io.modelcontextprotocol/protocolVersion": "2027-03-01"}
    body = message("vendor/new", meta=meta)
    async with reached(server) as client:
        response = await post(client, body, **{"mcp-protocol-version": "2027-03-01", "mcp-name": "given"})
        assert response.json()["result"]["said"] == "vendor/new"
        assert server.calls[-1].headers["mcp-protocol-version"] == "2027-03-01"
        assert server.calls[-1].headers["mcp-name"] == "given"


async def test_notifications_of_a_stream_arrive_as_they_happen_and_in_order_before_the_result() -> None:
    server = ModernServer()
    go_on = anyio.Event()
    progress = {"method": "notifications/progress", "params": {"progressToken": "p", "progress": 1, "odd": "é"}}
    other = {"method": "notifications/vendor", "params": {"_meta": {"a": 1}}}

    async def call(x: Exchange) -> None:
        await x.event(message=progress)
        await go_on.wait()
        await x.event(message=other)
        await x.event(message={"id": x.id, "result": {"resultType": "complete"}})
        await x.end()

    server.on_call = call
    body = message()
    async with reached(server) as client:
        sent = {name: value for name, value in headers(body).items() if name != "host"}
        async with client.stream("POST", URL, json=body, headers=sent) as response:
            lines = response.aiter_lines()
            async for line in lines:
                if line.startswith("data: "):
                    assert json.loads(line[6:]) == {"jsonrpc": "2.0", **progress}
                    break
            go_on.set()
            rest = [json.loads(line[6:]) async for line in lines if line.startswith("data: ")]
        assert rest == [{"jsonrpc": "2.0", **other}, {"jsonrpc": "2.0", "id": 1, "result": {"resultType": "complete"}}]


async def test_a_client_that_leaves_closes_the_request_at_the_server() -> None:
    server = ModernServer()
    left = anyio.Event()

    async def call(x: Exchange) -> None:
        await x.event(message={"method": "notifications/x", "params": {}})
        await x.gone()
        left.set()

    server.on_call = call
    async with reached(server) as client:
        body = message()
        sent = {name: value for name, value in headers(body).items() if name != "host"}
        async with client.stream("POST", URL, json=body, headers=sent) as response:
            await anext(response.aiter_lines())
        with anyio.fail_after(5):
            await left.wait()


async def test_a_request_that_is_cancelled_on_stdio_is_closed_at_the_server_too() -> None:
    server = ModernServer()
    left = anyio.Event()

    async def call(x: Exchange) -> None:
        await x.stream()
        await x.gone()
        left.set()

    server.on_call = call
    async with fronted(server) as front:
        with anyio.move_on_after(5) as scope:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(front.serve, over_stdio("tools/call", name="t"), Leg())
                await until(lambda: server.calls)
                tasks.cancel_scope.cancel()
        assert not scope.cancelled_caught
        with anyio.fail_after(5):
            await left.wait()


async def test_on_stdio_the_headers_are_made_from_the_message_and_the_tools_schemas() -> None:
    server = ModernServer()
    schema = {
        "type": "object",
        "properties": {
            "region": {"type": "string", "x-mcp-header": "Region"},
            "deep": {"type": "object", "properties": {"n": {"type": "integer", "x-mcp-header": "N"}}},
            "sure": {"type": "boolean", "x-mcp-header": "Sure"},
            "none": {"type": "string", "x-mcp-header": "None"},
        },
    }

    async def call(x: Exchange) -> None:
        if x.method == "tools/list" and "cursor" not in x.message["params"]:
            await x.result({"tools": [], "nextCursor": "2"})
        elif x.method == "tools/list":
            await x.result({"tools": [{"name": "tü", "inputSchema": schema}]})
        else:
            await x.result({"resultType": "complete"})

    server.on_call = call
    arguments = {"region": " Zürich", "deep": {"n": 42.0}, "sure": True, "none": None}
    async with fronted(server) as front:
        for _ in range(2):
            await front.serve(over_stdio("tools/call", name="tü", arguments=arguments), Leg())
        assert [x.method for x in server.calls] == ["tools/list", "tools/list", "tools/call", "tools/call"]
        seen = server.calls[-1].headers
        assert {name: value for name, value in seen.items() if name.startswith("mcp-")} == {
            "mcp-protocol-version": VERSION,
            "mcp-method": "tools/call",
            "mcp-name": "=?base64?dMO8?=",
            "mcp-param-region": "=?base64?IFrDvHJpY2g=?=",
            "mcp-param-n": "42",
            "mcp-param-sure": "true",
        }
        await front.serve(over_stdio("tasks/get", taskId="t-1"), Leg())
        assert server.calls[-1].headers["mcp-name"] == "t-1"


async def test_on_stdio_a_tool_that_has_changed_is_listed_again_and_called_once_more() -> None:
    server = ModernServer()
    name = "Old"

    async def call(x: Exchange) -> None:
        if x.method == "tools/list":
            schema = {"type": "object", "properties": {"a": {"type": "string", "x-mcp-header": name}}}
            await x.result({"tools": [{"name": "t", "inputSchema": schema}]})
        elif f"mcp-param-{name.lower()}" in x.headers:
            await x.result({"resultType": "complete"})
        else:
            await x.error(400, -32020, "Header mismatch")

    server.on_call = call
    async with fronted(server) as front:
        request = over_stdio("tools/call", name="t", arguments={"a": "1"})
        await front.serve(request, Leg())
        name = "New"
        assert await front.serve(request, Leg()) == {"resultType": "complete"}
        methods = [x.method for x in server.calls]
        assert methods == ["tools/list", "tools/call", "tools/call", "tools/list", "tools/call"]


async def test_a_subscription_ends_with_its_own_result_when_the_bridge_does() -> None:
    server = ModernServer()
    acknowledged = {"_meta": {"io.modelcontextprotocol/subscriptionId": "sub"}, "notifications": {}}

    async def call(x: Exchange) -> None:
        await x.event(message={"method": "notifications/subscriptions/acknowledged", "params": acknowledged})
        await x.gone()

    server.on_call = call
    leg = Leg()
    results: list[dict[str, Any]] = []
    async with fronted(server, silence=0.2) as front, anyio.create_task_group() as tasks:

        async def listen() -> None:
            results.append(await front.serve(over_stdio("subscriptions/listen", "sub", notifications={}), leg))

        tasks.start_soon(listen)
        await until(lambda: leg.notifications)
        await anyio.sleep(0.4)  # its silence is no fault
        front.stop_listening()
    assert leg.notifications == [("notifications/subscriptions/acknowledged", acknowledged)]
    assert results == [{"resultType": "complete", "_meta": {"io.modelcontextprotocol/subscriptionId": "sub"}}]


@pytest.mark.parametrize("how", ["silent", "cut", "html", "401", "gave up"])
async def test_what_goes_wrong_on_the_way_is_said(how: str) -> None:
    server = ModernServer()

    async def call(x: Exchange) -> None:
        match how:
            case "cut":
                await x.event(message={"method": "notifications/x", "params": {}})
                await x.end()
            case "html":
                await x.answer(502, b"<html>hush")
            case "401":
                await x.answer(401, {"error": {"code": 1, "message": "hush"}}, www_authenticate="Bearer")
            case _:
                await x.gone()

    server.on_call = call
    says = {
        "silent": "The server 'srv' was silent on tools/call for 0.5 s.",
        "cut": "The connection to the server 'srv' for tools/call ended before it answered; "
        "whether it was carried out is unknown.",
        "html": "The server 'srv' answered tools/call with HTTP 502 Bad Gateway.",
        "401": "The server 'srv' answered tools/call with HTTP 401 Unauthorized (Bearer); give the bridge credentials "
        "that the server takes with --header, or with --header-command if they run out.",
        "gave up": "The bridge is shutting down; whether the call had an effect is unknown.",
    }
    errors: list[ProtocolError] = []
    async with fronted(server, silence=0.5 if how == "silent" else 30) as front, anyio.create_task_group() as tasks:

        async def serve() -> None:
            try:
                await front.serve(over_stdio("tools/call", name="t"), Leg())
            except ProtocolError as error:
                errors.append(error)

        tasks.start_soon(serve)
        if how == "gave up":
            await until(lambda: server.calls)
            front.give_up()
    assert [(error.code, error.message) for error in errors] == [(-32603, says[how])]


async def test_a_server_that_is_not_there_is_an_error_and_is_found_modern_when_it_is(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "mrtr")
    server = ModernServer()
    async with serving(server):
        target = server.target.url
    settings = Server(target=Target(url=target, name="srv"))
    async with bridge_running(settings, KeyRing.random()) as front:
        with pytest.raises(ProtocolError, match="could not be reached"):
            await front.serve(over_stdio("tools/list"), Leg())
        assert sum(record.levelno == logging.ERROR for record in caplog.records) == 1  # one try for one request
        async with serving(server, server.port):
            for _ in range(3):
                assert await front.serve(over_stdio("tools/list"), Leg()) == {}
    said = [record.getMessage() for record in caplog.records if "served through" in record.getMessage()]
    assert said == ["the server srv speaks 2026-07-28 itself: it is served through as it is"]
    assert [x.method for x in server.seen] == ["initialize", *["tools/list"] * 3]
    assert await front.ready() is None
    assert front.trouble() is None


async def test_what_is_wrong_with_a_request_is_said_also_while_the_server_is_away() -> None:
    server = ModernServer()
    async with serving(server):
        target = server.target.url
    settings = Server(target=Target(url=target, name="srv"))
    async with (
        bridge_running(settings, KeyRing.random()) as front,
        httpx.AsyncClient(transport=in_process(http_face(front)), timeout=10) as client,
    ):
        meta = {**META, "io.modelcontextprotocol/protocolVersion": "2020-01-01"}
        old = await post(client, message(meta=meta), **{"mcp-protocol-version": "2020-01-01"})
        assert (old.status_code, old.json()["error"]["code"]) == (400, -32022)
        unknown = await post(client, message("vendor/new"))
        assert (unknown.status_code, unknown.json()["error"]["code"]) == (404, -32601)
        right = await post(client, message())
        assert (right.status_code, right.json()["error"]["code"]) == (200, -32603)


async def test_a_request_that_needs_no_session_is_the_servers_too_if_it_is_the_first() -> None:
    server = ModernServer()
    async with reached(server) as client:
        body = message("tasks/get", taskId="theirs")
        response = await post(client, body, **{"mcp-name": "theirs"})
        assert response.json()["result"] == {}
        assert [x.method for x in server.calls] == ["tasks/get"]


@pytest.mark.parametrize("transport", ["auto", "streamable-http"])
async def test_a_server_of_both_eras_is_served_through_unless_its_old_side_is_asked_for(transport: str) -> None:
    server = ModernServer()
    server.on_initialize = server._initialize
    async with fronted(server, transport=transport) as front:
        for _ in range(2):
            await front.serve(over_stdio("tools/list"), Leg())
        methods = [x.method or x.verb for x in server.seen]
        first = ["initialize", "notifications/initialized"]
        if transport == "auto":
            assert methods == [*first, "GET", "server/discover", "DELETE", "tools/list", "tools/list"]
        else:
            assert methods == [*first, "GET", "tools/list", "tools/list"]
        assert front.modern is (transport == "auto")


@pytest.mark.parametrize("how", ["unknown method", "unknown version", "session", "silence"])
async def test_an_old_server_is_looked_at_once_in_its_session_and_is_not_hurt(
    how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("legacy.probe.DISCOVER_WAIT", 0.3)
    server = HttpServer()

    async def call(x: Exchange) -> None:
        match x.method, how:
            case "server/discover", "unknown method":
                error = {"code": -32601, "message": "Method not found"}
                await x.answer(200, {"jsonrpc": "2.0", "id": x.id, "error": error})
            case "server/discover", "unknown version":
                await x.error(400, -32600, "Bad Request: Unsupported protocol version: 2026-07-28")
            case "server/discover", "session":
                await x.error(404, -32001, "Session not found")
            case "server/discover", _:
                await x.gone()
            case _:
                await x.result({})

    server.on_call = call
    async with fronted(server) as front:
        for _ in range(2):
            await front.serve(over_stdio("tools/list"), Leg())
        assert not front.modern
    asked = [(x.method, x.headers.get("mcp-session-id")) for x in server.seen if x.id is not None]
    assert asked == [("initialize", None), ("server/discover", "s1"), ("tools/list", "s1"), ("tools/list", "s1")]
    [look] = [x for x in server.seen if x.method == "server/discover"]
    assert look.sent("mcp-protocol-version") == [VERSION]
    assert len(server.verbs("GET")) == 1


@pytest.mark.parametrize("modern", [True, False])
async def test_credentials_are_shared_by_all_who_reach_the_server_and_renewed_for_all(
    modern: bool, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bridge.reach.HeaderCommand", partial(HeaderCommand, pause=0))
    runs = tmp_path / "runs"
    server = ModernServer() if modern else HttpServer()
    good = ["Bearer 1"]
    handle = server._handle

    async def guarded(x: Exchange) -> None:
        if x.headers.get("authorization") not in good:
            await x.answer(401)
        else:
            await handle(x)

    monkeypatch.setattr(server, "_handle", guarded)
    command = f"echo x >> {runs}; echo Authorization: Bearer $(wc -l < {runs})"
    async with fronted(server, header_command=command) as front:
        for capabilities in ({}, {"roots": {}}, {"sampling": {}}):  # a session each, where there are sessions
            request = over_stdio("tools/list")
            request.capabilities = capabilities
            assert (await front.serve(request, Leg())).get("resultType", "complete") == "complete"
        assert runs.read_text().count("x") == 1
        good[:] = ["Bearer 2"]
        async with anyio.create_task_group() as tasks:
            for number in range(20):
                tasks.start_soon(front.serve, over_stdio("tools/list", number), Leg())
        assert runs.read_text().count("x") == 2


async def test_a_modern_command_is_an_error_that_says_so(tmp_path: Any) -> None:
    script = tmp_path / "modern.py"
    script.write_text(
        "import json, sys\nfor line in sys.stdin:\n    m = json.loads(line)\n    if 'id' in m:\n"
        "        e = {'code': -32022, 'message': 'no', 'data': {'supported': ['2026-07-28'], 'requested': ''}}\n"
        "        print(json.dumps({'jsonrpc': '2.0', 'id': m['id'], 'error': e}), flush=True)\n"
    )
    settings = Server(target=Target(command=(sys.executable, str(script)), name="srv"))
    async with bridge_running(settings, KeyRing.random()) as front:
        with pytest.raises(ProtocolError, match=r"speaks 2026-07-28 itself.*without a bridge"):
            await front.serve(over_stdio("tools/list"), Leg())
