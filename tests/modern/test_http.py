"""The HTTP face, in-process: admission, statuses, JSON and streams, cancellation."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping
from typing import Any

import pytest

from modern.envelope import Request
from modern.errors import ProtocolError
from modern.http import HttpFace, HttpSettings
from modern.http_app import PATH, Endpoint
from modern.serving import Leg
from tests.modern.asgi import Answer, Client
from tests.modern.helpers import DONE, META, Acting, for_ever, message

pytestmark = pytest.mark.anyio

QUICK = HttpSettings(watch_after=0.01, silence_before_sse=0.05, keep_alive=0.03)


async def ask(
    handler: Acting | None = None, settings: HttpSettings | None = None, body: Any = None, **more: Any
) -> Answer:
    answer = await Client(HttpFace(handler or Acting(), settings), body, **more).run()
    assert answer.whole
    assert "mcp-session-id" not in answer.headers
    return answer


async def test_a_call_is_answered_in_json() -> None:
    handler = Acting()
    answer = await ask(handler, body=message(id="x"))
    assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
    assert answer.json == {"jsonrpc": "2.0", "id": "x", "result": DONE}
    assert handler.served[0].principal == "anonymous"


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT", "HEAD", "OPTIONS"])
async def test_only_post_is_served(method: str) -> None:
    answer = await ask(method=method)
    assert (answer.status, answer.headers["allow"]) == (405, "POST")


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"content-type": "text/plain"}, 415),
        ({"content-type": None}, 415),
        ({"content-type": "application/json; charset=utf-8"}, 200),
        ({"accept": None}, 200),
        ({"accept": "*/*"}, 200),
        ({"accept": "text/event-stream;q=0.5"}, 200),
        ({"accept": "image/png"}, 406),
        ({"mcp-session-id": "s", "last-event-id": "1"}, 200),
    ],
)
async def test_types_and_relics_of_older_revisions(change: dict[str, str | None], status: int) -> None:
    assert (await ask(change=change)).status == status


def helpers_left() -> list[str]:
    """The names of tasks of an exchange that outlived it."""
    coroutines = [task.get_coro().__qualname__ for task in asyncio.all_tasks()]  # type: ignore[union-attr]
    return [name for name in coroutines if name.startswith("Exchange.")]


LOCAL, FAR = ("127.0.0.1", 1), ("10.0.0.1", 1)


@pytest.mark.parametrize(
    ("host", "server", "allowed", "status"),
    [
        ("localhost:8000", LOCAL, (), 200),
        ("127.0.0.1", LOCAL, (), 200),
        ("[::1]:9", ("::1", 9), (), 200),
        ("evil.example", LOCAL, (), 403),
        ("localhost.evil.example", LOCAL, (), 403),
        (None, LOCAL, (), 403),
        ("Bridge.example:1", LOCAL, ("bridge.example",), 200),
        ("bridge.example", LOCAL, ("bridge.example:443",), 200),
        ("evil.example", LOCAL, ("*",), 200),
        ("any.example", FAR, (), 200),
        ("bridge.example", FAR, ("bridge.example",), 200),
        ("localhost", FAR, ("bridge.example",), 403),
    ],
)
async def test_a_host_that_is_not_ours_is_403(host: Any, server: Any, allowed: tuple[str, ...], status: int) -> None:
    face = HttpFace(Acting(), HttpSettings(allowed_hosts=allowed))
    for _ in range(2):  # the second time from the cache
        answer = await Client(face, change={"host": host}, server=server).run()
        assert answer.status == status
        assert "id" not in answer.json or status == 200


async def test_a_second_host_header_is_403() -> None:
    assert (await ask(raw=[(b"host", b"localhost")])).status == 403


@pytest.mark.parametrize(
    ("origin", "host", "server", "status"),
    [
        ("https://app.example", "localhost", LOCAL, 200),
        ("https://APP.example", "localhost", LOCAL, 200),
        ("https://evil.example", "localhost", LOCAL, 403),
        ("null", "localhost", LOCAL, 403),
        ("", "localhost", LOCAL, 403),
        ("http://localhost:8000", "localhost:8000", LOCAL, 200),
        ("http://localhost:8001", "localhost:8000", LOCAL, 403),
        ("http://evil.example", "evil.example", FAR, 403),
    ],
)
async def test_an_origin_that_is_not_listed_is_403(origin: str, host: str, server: Any, status: int) -> None:
    settings = HttpSettings(allowed_origins=("https://app.example",))
    answer = await ask(settings=settings, change={"origin": origin, "host": host}, server=server)
    assert answer.status == status
    assert answer.headers.get("access-control-allow-origin") == (origin if status == 200 else None)


async def test_a_listed_origin_may_send_the_mirrored_headers() -> None:
    change = {
        "origin": "https://app.example",
        "access-control-request-method": "POST",
        "access-control-request-headers": "content-type, Mcp-Method, mcp-param-region, x-secret",
    }
    answer = await ask(
        settings=HttpSettings(allowed_origins=("https://app.example",), identify=lambda headers: None),
        method="OPTIONS",
        change=change,
    )
    assert answer.status == 204
    assert answer.headers["access-control-allow-headers"] == "content-type, mcp-method, mcp-param-region"
    assert answer.headers["access-control-allow-origin"] == "https://app.example"


async def test_nobody_is_401_and_errors_carry_cors_headers() -> None:
    settings = HttpSettings(allowed_origins=("https://app.example",), identify=lambda headers: headers.get("x-user"))
    answer = await ask(settings=settings, change={"origin": "https://app.example"})
    assert (answer.status, answer.headers["www-authenticate"]) == (401, "Bearer")
    assert answer.json["jsonrpc"] == "2.0"
    assert "id" not in answer.json
    assert "access-control-allow-origin" in answer.headers
    handler = Acting()
    await ask(handler, settings, change={"x-user": "anna"})
    assert handler.served[0].principal == "anna"


async def test_an_oversized_body_is_413_however_it_arrives() -> None:
    settings = HttpSettings(max_body=1000)
    assert (await ask(settings=settings, body=b" " * 1001)).status == 413
    assert (await ask(settings=settings, change={"content-length": "1001"})).status == 413
    assert (await ask(settings=settings, change={"content-length": "9" * 30, "expect": "100-continue"})).status == 413
    client = Client(HttpFace(Acting(), settings))
    client.incoming = asyncio.Queue()
    for more in (True, True, True, True, False):
        client.incoming.put_nowait({"type": "http.request", "body": b" " * 400, "more_body": more})
    answer = await client.run()
    assert (answer.status, answer.headers["connection"]) == (413, "close")


async def test_a_body_in_pieces_is_put_together_and_a_slow_one_is_408() -> None:
    data = json.dumps(message()).encode()
    for pieces, status in (([data[:9], data[9:]], 200), ([data[:9]], 408)):
        client = Client(HttpFace(Acting(), HttpSettings(body_within=0.05)))
        client.incoming = asyncio.Queue()
        for piece in pieces:
            client.incoming.put_nowait({"type": "http.request", "body": piece, "more_body": piece is not data[9:]})
        if status == 200:
            client.incoming.put_nowait({"type": "http.request", "body": b"", "more_body": False})
        assert (await client.run()).status == status


async def test_a_client_that_leaves_within_its_body_gets_nothing() -> None:
    client = Client(HttpFace(Acting()))
    client.incoming = asyncio.Queue()
    client.leave()
    assert (await client.run()).status == 0


@pytest.mark.parametrize(
    ("body", "status", "code", "id"),
    [
        (b"{", 400, -32700, None),
        (b'{"jsonrpc":"2.0","id":1,"method":"\\ud800"}', 400, -32700, None),
        (json.dumps([message()]).encode(), 400, -32600, None),
        (b'{"jsonrpc":"2.0","id":1,"result":{}}', 400, -32600, 1),
        (json.dumps(message(id=None)).encode(), 400, -32600, None),
        (json.dumps(message(meta={}, id=9)).encode(), 400, -32602, 9),
        (b"[" * 5000, 400, -32600, None),
    ],
)
async def test_what_is_no_valid_request_is_400(body: bytes, status: int, code: int, id: Any) -> None:
    answer = await ask(body=body)
    assert (answer.status, answer.json["error"]["code"], answer.json.get("id")) == (status, code, id)
    assert ("id" in answer.json) == (id is not None)


async def test_removed_methods_and_versions_have_their_statuses() -> None:
    answer = await ask(body=message("ping", id=5))
    assert (answer.status, answer.json["error"]["code"], answer.json["id"]) == (404, -32601, 5)
    body = message("tools/list", meta={**META, "io.modelcontextprotocol/protocolVersion": "v9"})
    assert (await ask(body=body, change={"mcp-protocol-version": "v9"})).json["error"]["code"] == -32022


async def test_a_notification_is_202_without_body_and_without_effect() -> None:
    face = HttpFace(handler := Acting(for_ever), QUICK)
    client = Client(face, message(id=1))
    running = asyncio.create_task(client.run())
    await asyncio.sleep(0.02)
    cancelled = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
    answer = await Client(face, cancelled).run()
    assert (answer.status, answer.body) == (202, b"")
    assert not handler.cancelled.is_set()
    client.leave()
    await running


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (ProtocolError(-32602, "x"), 200),
        (ProtocolError(-32603, "x"), 200),
        (ProtocolError(-32001, "x", {"a": 1}), 200),
        (ProtocolError(-32601, "x"), 404),
        (ProtocolError(-32021, "x", {"requiredCapabilities": {"sampling": {}}}), 400),
        (ProtocolError(-32602, "x", status=400), 400),
    ],
)
async def test_the_status_of_an_error_is_the_specifications(error: ProtocolError, status: int) -> None:
    async def serve(request: Request, leg: Leg) -> dict[str, Any]:
        raise error

    answer = await ask(Acting(serve))
    assert (answer.status, answer.json["error"]) == (status, error.body())


async def test_a_fault_of_the_handler_is_32603_and_its_values_stay_out_of_answer_and_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def serve(request: Request, leg: Leg) -> dict[str, Any]:
        raise RuntimeError("secret")

    async def unwritable(request: Request, leg: Leg) -> dict[str, Any]:
        return {"secret": object()}

    for acting in (serve, unwritable):
        with caplog.at_level(logging.ERROR, "mrtr.modern"):
            answer = await ask(Acting(acting))
        assert (answer.status, answer.json["error"]["code"], answer.json["id"]) == (200, -32603, 1)
        assert "secret" not in answer.body.decode() + caplog.text
    assert "RuntimeError" in caplog.text


ANNOTATED = {"type": "object", "properties": {"text": {"type": "string", "x-mcp-header": "Text"}}}


@pytest.mark.parametrize(("sent", "status"), [("hi", 200), (None, 400), ("ho", 400), ("=?base64?aGk=?=", 200)])
async def test_mirrored_parameters_are_compared_and_learnt_if_need_be(sent: str | None, status: int) -> None:
    known, unknown = Acting(schema=ANNOTATED), Acting()
    unknown.schema, unknown.learned = None, ANNOTATED
    for handler in (known, unknown):
        answer = await ask(handler, change={"mcp-param-text": sent})
        assert answer.status == status
        assert bool(handler.served) == (status == 200)


async def test_silence_while_tools_are_learnt_begins_no_stream() -> None:
    class Slow(Acting):
        async def learn_tools(self, request: Request) -> None:
            await asyncio.sleep(0.1)
            self.schema = ANNOTATED

    handler = Slow()
    handler.schema = None
    answer = await ask(handler, QUICK)
    assert (answer.status, answer.json["error"]["code"]) == (400, -32020)


async def test_a_notification_turns_the_answer_into_a_stream() -> None:
    async def serve(request: Request, leg: Leg) -> dict[str, Any]:
        leg.notify("notifications/progress", {"progressToken": 1, "progress": 1})
        await asyncio.sleep(0)
        leg.notify("notifications/progress", {"progressToken": 1, "progress": 2})
        return DONE

    answer = await ask(Acting(serve))
    assert (answer.status, answer.headers["content-type"]) == (200, "text/event-stream")
    assert answer.headers["x-accel-buffering"] == "no"
    assert answer.headers["cache-control"] == "no-cache"
    assert [event.get("method", event.get("id")) for event in answer.events] == ["notifications/progress"] * 2 + [1]
    assert b"\nid:" not in answer.body


async def test_silence_turns_the_answer_into_a_stream_with_comments() -> None:
    async def serve(request: Request, leg: Leg) -> dict[str, Any]:
        await asyncio.sleep(0.15)
        raise ProtocolError(-32601, "x")

    answer = await ask(Acting(serve), QUICK)
    assert answer.status == 200
    assert answer.body.count(b":\r\n\r\n") >= 2
    assert [event["error"]["code"] for event in answer.events] == [-32601]


async def test_what_is_notified_after_the_end_goes_nowhere() -> None:
    legs: list[Leg] = []

    async def serve(request: Request, leg: Leg) -> dict[str, Any]:
        legs.append(leg)
        return DONE

    answer = await ask(Acting(serve))
    legs[0].notify("notifications/progress", {})
    await asyncio.sleep(0)
    assert answer.json["result"] == DONE


async def test_a_notification_without_form_in_json_is_dropped_not_raised() -> None:
    async def serve(request: Request, leg: Leg) -> dict[str, Any]:
        leg.notify("notifications/message", {"data": object()})
        return DONE

    assert (await ask(Acting(serve))).json["result"] == DONE


@pytest.mark.parametrize("notified", [False, True])
async def test_the_clients_leaving_cancels_and_nothing_is_written(notified: bool) -> None:
    async def serve(request: Request, leg: Leg) -> dict[str, Any]:
        if notified:
            leg.notify("notifications/progress", {})
        return await for_ever(request, leg)

    handler = Acting(serve)
    client = Client(HttpFace(handler, QUICK))
    running = asyncio.create_task(client.run())
    await asyncio.sleep(0.02)
    client.leave()
    answer = await asyncio.wait_for(running, 1)
    assert handler.cancelled.is_set()
    assert not answer.whole
    assert not helpers_left()


async def test_a_handler_that_answers_in_spite_of_the_cancel_is_not_heard() -> None:
    async def serve(request: Request, leg: Leg) -> dict[str, Any]:
        try:
            return await for_ever(request, leg)
        except asyncio.CancelledError:
            leg.notify("notifications/progress", {})
            return DONE

    client = Client(HttpFace(Acting(serve), QUICK))
    running = asyncio.create_task(client.run())
    await asyncio.sleep(0.02)
    client.leave()
    answer = await asyncio.wait_for(running, 1)
    assert answer.status == 0
    assert not running.cancelled()


async def test_the_servers_own_cancel_passes_through() -> None:
    client = Client(HttpFace(handler := Acting(for_ever), QUICK))
    running = asyncio.create_task(client.run())
    await asyncio.sleep(0.02)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert handler.cancelled.is_set()
    assert not helpers_left()


async def test_both_cancels_at_once_end_as_the_servers() -> None:
    client = Client(HttpFace(Acting(for_ever), QUICK))
    running = asyncio.create_task(client.run())
    await asyncio.sleep(0.02)
    client.leave()
    await asyncio.sleep(0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


async def test_a_flooded_reader_loses_progress_but_never_the_response() -> None:
    release = asyncio.Event()

    async def serve(request: Request, leg: Leg) -> dict[str, Any]:
        for step in range(5000):
            leg.notify("notifications/progress", {"progressToken": 1, "progress": step})
        leg.notify("notifications/tools/list_changed", {})
        leg.notify("notifications/tools/list_changed", {})
        asyncio.get_running_loop().call_later(0.05, release.set)
        return DONE

    face = HttpFace(Acting(serve), HttpSettings(max_queued=100))
    client = Client(face)
    client.stall = release
    answer = await client.run()
    assert len(answer.events) == 102
    assert answer.events[-2]["method"] == "notifications/tools/list_changed"
    assert answer.events[-1]["result"] == DONE
    assert face.dropped == 4901


async def test_a_stream_with_too_many_different_changes_for_its_reader_is_ended() -> None:
    async def serve(request: Request, leg: Leg) -> dict[str, Any]:
        for number in range(50):
            leg.notify("notifications/resources/updated", {"uri": f"a:{number}"})
        return await for_ever(request, leg)

    handler = Acting(serve)
    client = Client(HttpFace(handler, HttpSettings(max_queued=10)))
    client.stall = asyncio.Event()
    answer = await asyncio.wait_for(client.run(), 1)
    assert handler.cancelled.is_set()
    assert not answer.whole


async def test_an_endpoint_serves_its_path_and_404_elsewhere() -> None:
    async def health(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"ok"})

    app = Endpoint({PATH: HttpFace(Acting()), "/healthz": health})
    statuses: Mapping[str, int] = {"/mcp": 200, "/mcp/": 200, "/healthz": 200, "/": 404, "/mcpx": 404}
    for path, status in statuses.items():
        assert (await Client(app, path=path).run()).status == status
