"""Cases 36 to 50: what the trackers of peers hold, each with its place there in `docs/field.md`.

37, 38, 41, 43 and 50 are beside their kind: `tests.bridge.test_cursors`, `tests.faults`, `tests.field.test_http`.
"""

from __future__ import annotations

import errno
import logging
import os
import signal
import time
from pathlib import Path
from typing import Any

import anyio
import pytest

from legacy.transports import stdio
from legacy.transports.http_wire import session_is_gone
from tests.bridge.harness import Client, Journal, bridged, only_group, refused, text, until, usual_answer, value
from tests.bridge.test_http_servers import FieldServer
from tests.faults.processes import FACES, RUDE, running, says, tool_call
from tests.field.site import Web, application, everywhere, over_http, site
from tests.legacy.http_server import Exchange, serving

pytestmark = pytest.mark.anyio


async def test_case_36_a_session_that_is_refused_as_unauthorized_is_opened_anew() -> None:
    server = FieldServer()

    async def call(x: Exchange) -> None:
        if x.headers["mcp-session-id"] == "s1":
            await x.answer(401, b"Unauthorized: Session not found")
        else:
            await x.result({"content": [{"type": "text", "text": "done"}]})

    server.on_call = call
    async with serving(server), bridged(url=server.target.url) as bridge:
        assert text(await Client(bridge).call("t")) == "done"
        assert [x.headers["mcp-session-id"] for x in server.calls] == ["s1", "s2"]


@pytest.mark.parametrize("said", [b"", b"Unauthorized", b'{"error":"invalid_token"}', b"No session cookie; sign in"])
def test_case_36_other_refusals_for_want_of_credentials_cost_no_session(said: bytes) -> None:
    assert not session_is_gone(401, said, had_session=True)
    assert session_is_gone(401, b"Unauthorized: Session not found", had_session=True)


async def test_case_36_a_session_is_named_to_its_server_byte_for_byte() -> None:
    server = FieldServer()
    server.name = "s\xe9"  # one byte of Latin-1, which is no UTF-8

    async def call(x: Exchange) -> None:
        await x.result({"content": [{"type": "text", "text": "done"}]})

    server.on_call = call
    async with serving(server), bridged(url=server.target.url) as bridge:
        assert text(await Client(bridge).call("t")) == "done"
        assert [x.headers["mcp-session-id"] for x in server.calls] == ["s\xe91"]


@everywhere
@pytest.mark.parametrize("token", [0, "0", 7, ""])
async def test_case_39_any_progress_token_is_a_progress_token(transport: str, token: Any) -> None:
    async with site(transport) as bridge:
        post = Web(bridge).call("progress", token=token, n=3)
        *told, result = (await post.run()).events
        assert [one["params"]["progressToken"] for one in told] == [token] * 3
        assert type(told[0]["params"]["progressToken"]) is type(token)
        assert result["result"]["content"][0]["text"] == "3 steps"


RESULT: dict[str, Any] = {
    "content": [
        {"type": "text", "text": "a summary", "_meta": {"k": 1}, "annotations": {"audience": ["user"], "x": 2}},
        {"type": "resource_link", "uri": "file:///a b", "name": "link", "size": 0, "icons": [{"src": "data:,"}]},
        {"type": "of-tomorrow", "anything": {"deep": [None, 1.5]}},
    ],
    "structuredContent": {"rows": [{"id": 1, "none": None}], "total": 0},
    "isError": False,
    "_meta": {"example.com/trace": "x", "list": []},
    "x-vendor": {"kept": True},
}


@everywhere
async def test_case_40_nothing_of_a_result_is_lost_on_the_way(transport: str) -> None:
    async with site(transport) as bridge:
        result = await Client(bridge).call("returns", result=RESULT)
        meta = result.pop("_meta")
        assert meta.items() >= RESULT["_meta"].items()
        assert result == {**{key: kept for key, kept in RESULT.items() if key != "_meta"}, "resultType": "complete"}
        read = await Client(bridge).send("resources/read", {"uri": "asker://app"})
        [entry] = read["contents"]
        assert entry["mimeType"] == "text/html;profile=mcp-app"
        assert entry["_meta"] == {"ui": {"csp": []}}
        assert (entry["x-more"], read["x-more"], read["_meta"]["whole"]) == (1, [2], True)


async def test_case_42_a_session_that_cannot_fork_costs_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit itself does not bind a test that runs as root, so the system's refusal is played."""
    async with site("stdio") as bridge:
        ada, bo = Client(bridge, "ada"), Client(bridge, "bo")
        asked = await ada.call("ask_once")

        def no_process(*arguments: Any, **options: Any) -> Any:
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))

        with monkeypatch.context() as full:
            full.setattr(stdio, "start", no_process)
            error = await refused(bo.call("echo", text="x"))
            assert "could not be started: Resource temporarily unavailable" in error.message
            answers = dict.fromkeys(asked["inputRequests"], usual_answer("elicitation/create", {}))
            assert value(await ada.retry("ask_once", asked["requestState"], answers))["action"] == "accept"
        assert text(await bo.call("echo", text="now")) == "now"


@pytest.mark.parametrize("face", FACES)
def test_case_44_a_server_that_reads_nothing_ends_its_call_and_no_more(face: str, tmp_path: Path) -> None:
    with running(face, tmp_path, "--timeout", "2s", "--", *RUDE, "leaves-child") as bridge:
        bridge.works()
        server = bridge.server_pids()[0]
        os.kill(server, signal.SIGSTOP)
        began = time.monotonic()
        try:
            says(bridge.exchange(tool_call("big", "echo", text="x" * 1_000_000)), "2 s", "--timeout")
        finally:
            os.kill(server, signal.SIGCONT)
        assert time.monotonic() - began < 8
        bridge.works()


@everywhere
async def test_case_45_the_answer_to_what_was_cancelled_is_nobodys(
    transport: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "mrtr")
    async with site(transport, env={"ASKER_GHOST": "1"}) as bridge:
        client = Client(bridge)
        await client.call("echo", text="first")
        caplog.clear()
        with anyio.move_on_after(0.2):
            await client.call("slow", seconds=0.5)
        assert text(await client.call("slow", seconds=0.8)) == "slept 0.8"
        assert text(await client.call("echo", text="next")) == "next"
    assert {record.name for record in caplog.records if record.name.startswith("mrtr")} <= {"mrtr.deprecation"}


async def test_case_46_bytes_that_are_no_utf_8_cost_their_characters_and_no_message() -> None:
    async with site("stdio", env={"ASKER_LATIN": "1"}) as bridge:
        client = Client(bridge)
        assert text(await client.call("echo", text="café au lait")) == "caf\ufffd au lait"
        assert text(await client.call("echo", text="coffee")) == "coffee"
        assert len(only_group(bridge).channels) == 1


async def test_case_47_a_get_stream_that_is_refused_later_means_that_the_session_is_gone(journal: Journal) -> None:
    async with site("streamable-http", env=journal.env) as bridge:
        client = Client(bridge)
        assert text(await client.call("echo", text="before")) == "before"
        app = application(bridge)
        [session] = app.sessions.values()
        app.sessions.clear()
        session.over()  # its GET stream ends, and is refused from now on
        await until(lambda: not only_group(bridge).channels)
        assert text(await client.call("echo", text="after")) == "after"
        calls = [x for x in app.seen if x.method == "tools/call"]
        assert [x.headers["mcp-session-id"] for x in calls] == ["s1", "s1"], "its name is the same, the session is not"
        assert len(journal.messages("initialize")) == 2


@over_http
async def test_case_48_after_an_idle_stream_has_ended_the_next_call_works_at_once(
    transport: str, journal: Journal
) -> None:
    async with site(transport, env=journal.env) as bridge:
        client = Client(bridge)
        for number in range(3):
            assert text(await client.call("echo", text=str(number))) == str(number)
            for pid in journal.pids()[-1:]:
                os.kill(pid, signal.SIGKILL)
            await until(lambda: not only_group(bridge).channels)
        assert len(journal.calls("echo")) == 3
        assert value(await client.answered("ask_once", usual_answer))["action"] == "accept"


@everywhere
async def test_case_49_calls_do_not_each_start_a_process(transport: str, journal: Journal) -> None:
    async with site(transport, env=journal.env) as bridge:
        web = Web(bridge)
        for number in range(30):
            answer = await web.call("echo", id=number, text=str(number)).run()
            assert answer.json["result"]["content"][0]["text"] == str(number)
        assert len(journal.pids()) == 1
