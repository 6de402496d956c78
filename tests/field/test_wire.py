"""Cases 1 to 3, 17 to 19 and 25: what is on the wires."""

from __future__ import annotations

import logging
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.bridge.harness import Client, refused, shown, text, usual_answer, value
from tests.bridge.harness import named as person
from tests.faults.processes import ASKER, FACES, running, tool_call
from tests.faults.processes import text as text_of
from tests.field.site import Web, application, everywhere, over_http, site
from tests.legacy.http_server import Exchange
from tests.modern.asgi import Client as Post
from tests.modern.helpers import message
from tests.peers.talking import PYTHON, TYPESCRIPT, Script, bridge_serving, converse

pytestmark = pytest.mark.anyio


@everywhere
async def test_case_01_what_is_no_message_harms_none_that_is(transport: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "mrtr.server")
    async with site(transport, env={"ASKER_BANNER": "1"}) as bridge:
        client = Client(bridge)
        for number in range(5):
            assert text(await client.call("echo", text=str(number))) == str(number)
        answers = value(await client.answered("ask_many", lambda method, params: person(params["message"]), n=3))
        assert [answer["content"]["name"] for answer in answers] == [f"Question ({n})" for n in (1, 2, 3)]
        assert len(bridge.pool.groups) == 1
    logged = [record for record in caplog.records if record.name.startswith("mrtr.server.")]
    assert {record.name for record in logged} == {"mrtr.server.server#1"}, "one session, and its name"
    assert sum(record.levelno == logging.DEBUG for record in logged) >= 5
    warnings = [record for record in logged if record.levelno > logging.DEBUG and "not messages" in record.getMessage()]
    assert len(warnings) == (transport == "stdio")


SEPARATORS = "line\u2028paragraph\u2029next\x85form\x0cfeed"


@everywhere
async def test_case_02_only_a_newline_ends_a_line_and_no_character_is_cut(transport: str) -> None:
    async with site(transport, env={"ASKER_RAW": "1", "ASKER_PIECES": "1"}) as bridge:
        client = Client(bridge)
        for said in (SEPARATORS, "naïve café \N{ROCKET}\N{FAMILY}" * 20):
            assert text(await client.call("echo", text=said)) == said


@everywhere
async def test_case_02_a_message_of_5_mb_arrives_whole(transport: str) -> None:
    async with site(transport, env={"ASKER_RAW": "1"}) as bridge:
        size = 5 * 1024 * 1024
        assert text(await Client(bridge).call("big", n=size)) == "x" * size
        said = SEPARATORS * 40_000
        assert text(await Client(bridge).call("echo", text=said)) == said


@everywhere
async def test_case_03_the_same_id_twice_at_once_gives_each_its_own_result(transport: str) -> None:
    async with site(transport) as bridge:
        web = Web(bridge)
        posts = [web.call("echo", id=id, text=f"{number}") for number, id in enumerate([7, 7, "7", 7, "7"] * 8)]
        async with anyio.create_task_group() as tasks:
            for post in posts:
                tasks.start_soon(post.run)
        for number, post in enumerate(posts):
            assert post.answer.json["result"]["content"][0]["text"] == str(number)
            assert repr(post.answer.json["id"]) == ["7", "7", "'7'", "7", "'7'"][number % 5]


def test_case_03_a_number_and_its_text_are_two_ids_on_stdio(tmp_path: Path) -> None:
    with running("stdio", tmp_path, "--", *ASKER) as bridge:
        bridge.send(tool_call(7, "slow", seconds=0.3), tool_call("7", "echo", text="the text"))
        assert text_of(bridge.answer_to("7")) == "the text"
        assert text_of(bridge.answer_to(7)) == "slept 0.3"


@everywhere
async def test_case_17_capabilities_and_errors_are_the_servers_own(transport: str) -> None:
    async with site(transport, env={"ASKER_ONLY_TOOLS": "1"}) as bridge:
        client = Client(bridge)
        capabilities = (await client.send("server/discover"))["capabilities"]
        assert "tools" in capabilities
        assert not {"prompts", "resources", "completions", "logging"} & set(capabilities)
        for method in ("prompts/list", "resources/list", "resources/templates/list", "no/such/method"):
            error = await refused(client.send(method))
            assert error.code == -32601, method


@everywhere
@pytest.mark.parametrize("data", [None, {"why": ["\N{ROCKET}", {"deep": None}], "n": 1.5}, "plain"])
async def test_case_18_code_message_and_data_are_the_servers(transport: str, data: Any) -> None:
    said = 'calling "tools/call": \u201cdivision by zero\u201d\n\tat line 3 \N{ROCKET}'
    given = {} if data is None else {"data": data}
    async with site(transport) as bridge:
        for code in (-32000, -32603, 17):
            error = await refused(Client(bridge).call("fail", code=code, message=said, **given))
            assert shown(error) == (code, said, data)


@over_http
async def test_case_19_a_modern_request_reaches_a_server_that_wants_a_session(transport: str) -> None:
    async with site(transport) as bridge:
        app = application(bridge)
        client = Client(bridge)
        if transport == "streamable-http":
            refusal = await Post(app, message()).run()
            assert refusal.status == 400
            assert "Missing session ID" in refusal.body.decode()
        for number in range(3):
            assert text(await client.call("echo", text=str(number))) == str(number)
        assert value(await client.answered("ask_once", usual_answer))["action"] == "accept"
        assert len(app.sessions) == 1
        calls: list[Exchange] = [x for x in app.seen if x.method == "tools/call" and "mcp-method" not in x.headers]
        assert len(calls) == 4
        if transport == "streamable-http":
            assert {x.headers.get("mcp-session-id") for x in calls} == {"s1"}
        else:
            assert {x.path for x in calls} == {"/messages/1"}


ODD = ("größe", " spaced ", "=?base64?IQ==?=", "\N{ROCKET}")
ODD_URI = "asker://straße/ä b"


@everywhere
async def test_case_25_names_and_uris_that_are_not_ascii_are_found(transport: str) -> None:
    async with site(transport, env={"ASKER_ODD_NAMES": "1"}) as bridge:
        web = Web(bridge)
        for name in ODD:
            answer = await web.call(name, text=name).run()
            assert answer.json["result"]["content"][0]["text"] == name
            wrong = web.call(name, text=name, change={"mcp-name": "other"})
            assert (await wrong.run()).status == 400
        answer = await web.post("resources/read", uri=ODD_URI).run()
        assert answer.json["result"]["contents"][0]["text"] == "odd text"


@pytest.mark.parametrize("client", [PYTHON, TYPESCRIPT])
async def test_case_25_the_official_clients_call_such_a_tool(client: str) -> None:
    calls = [{"method": "tools/call", "params": {"name": name, "arguments": {"text": "hello"}}} for name in ODD]
    script = Script([*calls, {"method": "resources/read", "params": {"uri": ODD_URI}}])
    with bridge_serving("--env", "ASKER_ODD_NAMES=1", "--", *ASKER) as served:
        transcript = await anyio.to_thread.run_sync(partial(converse, client, served, script))
    assert [transcript.text(number) for number in range(len(ODD))] == ["hello"] * len(ODD)
    assert transcript.result(len(ODD))["contents"][0]["text"] == "odd text"


@pytest.mark.parametrize("face", FACES)
def test_case_33_over_stdio_the_server_has_the_clients_environment(
    face: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who starts the bridge over stdio means its environment for the server; a service's is the service's own."""
    monkeypatch.setenv("GITHUB_TOKEN", "of the client's config")
    with running(face, tmp_path, "--", *ASKER) as bridge:
        said = text_of(bridge.call("environment", name="GITHUB_TOKEN"))
        assert said == ("of the client's config" if face == "stdio" else "not set")
