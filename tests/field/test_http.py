"""Cases 8, 12, 30, 32 and 43: what HTTP adds. 9 to 11, 13 and more of these are in `tests.bridge.test_http_servers`."""

from __future__ import annotations

from functools import partial
from typing import Any

import anyio
import pytest

from legacy.transports.http_wire import session_is_gone
from tests.bridge.harness import Client, Journal, named, refused, text, usual_answer, value
from tests.field.site import Web, application, everywhere, over_http, site
from tests.legacy.http_server import Exchange, HttpServer, serving
from tests.legacy.support import Ears, connected, eventually

pytestmark = pytest.mark.anyio

CONFLICT = "Conflict: Only one SSE stream is allowed per session"


@over_http
async def test_case_08_a_server_that_has_forgotten_everything_is_no_trouble(transport: str, journal: Journal) -> None:
    async with site(transport, env=journal.env) as bridge:
        client = Client(bridge)
        assert text(await client.call("echo", text="before")) == "before"
        application(bridge).sessions.clear()
        assert text(await client.call("echo", text="after")) == "after"
        assert len(journal.messages("initialize")) == 2
        assert [call["params"]["arguments"]["text"] for call in journal.calls("echo")] == ["before", "after"]
        assert value(await client.answered("ask_once", usual_answer))["action"] == "accept"


@over_http
async def test_case_08_what_may_have_been_carried_out_is_not_sent_again(transport: str, journal: Journal) -> None:
    async with site(transport, env=journal.env) as bridge:
        client = Client(bridge)
        error = await refused(client.call("die_now", code=1))
        assert any(words in error.message for words in ("unknown", "session ends with it")), error.message
        assert len(journal.calls("die_now")) == 1
        assert text(await client.call("echo", text="after")) == "after"


RENDER = "Session registration failed: session already exists"
REFUSALS = [
    (409, -32000, CONFLICT),
    (409, None, ""),
    (400, -32000, CONFLICT),
    (400, None, CONFLICT),
    (429, None, ""),
    (400, None, RENDER),
]


@pytest.mark.parametrize(("status", "code", "said"), REFUSALS)
async def test_case_43_a_server_that_thinks_the_old_stream_is_open_is_asked_again_until_it_does_not(
    status: int, code: int | None, said: str
) -> None:
    server = HttpServer()
    ask = {"id": 9, "method": "elicitation/create", "params": {"message": "?"}}

    async def get(x: Exchange) -> None:
        match len(server.verbs("GET")):
            case 1:
                await x.event(message={"method": "notifications/message", "params": {}}, id="e1")
                raise ConnectionResetError  # the server closes the connection without the last chunk
            case 2 | 3 if code is None:
                await x.answer(status, said.encode())
            case 2 | 3:
                await x.error(status, code, said)
            case 4:
                await x.event(message=ask, id="e2")
                await x.end()
            case _:
                await x.event(message=ask, id="e2")
                await x.gone()

    server.on_get = get
    ears = Ears(on_ask=lambda session, ask: session.answer(ask, {"action": "decline"}))
    async with serving(server), connected(server.target, ears):
        await eventually(lambda: len(server.verbs("GET")) == 5)
        await eventually(lambda: server.pushed(None))
        await anyio.sleep(0.2)
        assert [answer["id"] for answer in server.pushed(None)] == [9], "answered once, though it came twice"
        ids = [x.headers.get("last-event-id") for x in server.verbs("GET")]
        assert ids == [None, "e1", "e1", "e1", "e2"]
        assert ears.losses == []
        assert len([x for x in server.seen if x.method == "initialize"]) == 1


@pytest.mark.parametrize(
    "said", [CONFLICT, RENDER, "Session already connected", "A stream is already open for this session"]
)
def test_case_43_that_a_stream_is_still_open_does_not_mean_that_the_session_is_gone(said: str) -> None:
    assert not session_is_gone(400, said.encode(), had_session=True)
    assert session_is_gone(400, b"No valid session ID provided", had_session=True)


@everywhere
async def test_case_30_with_single_session_no_server_object_has_a_second_connection(
    transport: str, journal: Journal
) -> None:
    """A server object for all connections puts a question on the stream of whoever came last; nobody comes."""
    async with site(transport, env=journal.env, single_session=True, silence=10) as bridge:
        able, unable = Client(bridge), Client(bridge, capabilities={})
        told: dict[str, Any] = {}

        async def call(name: str) -> None:
            def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
                assert params["message"] == name
                return named(name)

            told[name] = value(await able.answered("ask_once", answer, message=name))

        async with anyio.create_task_group() as tasks:
            for number in range(5):
                tasks.start_soon(call, f"number {number}")
                tasks.start_soon(partial(unable.call, "echo", text="x"))
        assert told == {f"number {number}": named(f"number {number}") for number in range(5)}
        assert (await refused(unable.call("ask_sampling"))).code == -32021
        assert len(journal.messages("initialize")) == 1


@everywhere
async def test_case_32_a_browser_on_an_allowed_origin_gets_through_with_its_headers(transport: str) -> None:
    page = "https://app.example"
    wanted = "content-type, mcp-protocol-version, mcp-method, mcp-name, mcp-param-region, authorization, traceparent"
    async with site(transport) as bridge:
        web = Web(bridge, allowed_origins=(page,))
        answer = await web.preflight(
            origin=page, access_control_request_method="POST", access_control_request_headers=wanted
        ).run()
        assert answer.status == 204
        assert answer.headers["access-control-allow-origin"] == page
        assert answer.headers["access-control-allow-headers"] == wanted
        answer = await web.call("echo", text="from a page", change={"origin": page}).run()
        assert answer.headers["access-control-allow-origin"] == page
        assert answer.json["result"]["content"][0]["text"] == "from a page"
        elsewhere = web.call("echo", text="x", change={"origin": "https://evil.example"})
        assert (await elsewhere.run()).status == 403
