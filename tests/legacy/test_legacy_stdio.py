"""A child process as a server, well-behaved and not (2025-11-25 basic/transports, stdio; basic/lifecycle, shutdown)."""

from __future__ import annotations

import logging
import os
import sys
import time

import anyio
import anyio.lowlevel
import pytest

from legacy.errors import CannotStart
from legacy.messages import Failure, Lost, Result
from legacy.targets import StdioTarget
from tests.legacy.scripted import group_is_gone, server
from tests.legacy.support import Ears, connected, eventually, start

pytestmark = pytest.mark.anyio


async def test_a_call_is_answered_and_the_process_ends_with_its_input() -> None:
    target = server("""
        welcome()
        m = hear()
        say(id=m["id"], result={"pid": os.getpid(), "token": m["params"]["_meta"]["progressToken"], "id": m["id"]})
        hear()
    """)
    async with connected(target) as session:
        assert (session.protocol_version, session.server_info["name"], session.unlabelled) == ("2025-11-25", "s", True)
        reply = await session.request("tools/call", {"name": "x"}, timeout=5)
        assert isinstance(reply, Result)
        assert reply.value["token"] == reply.value["id"]
    assert group_is_gone(reply.value["pid"])


async def test_what_is_no_message_harms_nobody(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "mrtr.server.srv")
    target = server(r"""
        put("Banner \x1b[31m🚀\n\n   \n[INFO] starting\n{not json\n{\"level\": 30}\n[1, 2]\n{\"method\": \"x\"}\r\n")
        welcome()
        put("{\"jsonrpc\": \"2.0\", \"secret\n")
        m = hear()
        put("between\n")
        answer = {"jsonrpc": "2.0", "id": m["id"], "result": {"text": "a\u2028b\u2029c\u0085d\f"}}
        put(json.dumps(answer, ensure_ascii=False) + "\r\n")
        hear()
    """)
    async with connected(target) as session:
        reply = await session.request("tools/call", timeout=5)
    assert reply == Result({"text": "a\u2028b\u2029c\u0085d\f"})
    stray = [record for record in caplog.records if record.getMessage().startswith("stdout:")]
    assert len(stray) == 8
    assert {record.levelno for record in stray} == {logging.DEBUG}
    assert sum(record.levelno == logging.WARNING for record in caplog.records) == 1
    assert "\x1b" not in caplog.text
    assert "secret" not in caplog.text


async def test_a_message_of_five_megabytes_arrives_whole_in_linear_time() -> None:
    target = server("""
        welcome()
        m = hear()
        say(id=m["id"], result={"text": "é" * 2_500_000, "got": len(m["params"]["text"])})
        hear()
    """)
    async with connected(target) as session:
        began = time.monotonic()
        reply = await session.request("tools/call", {"text": "x" * 5_000_000}, timeout=10)
        assert time.monotonic() - began < 5
    assert reply == Result({"text": "é" * 2_500_000, "got": 5_000_000})


async def test_string_ids_null_errors_batches_and_double_answers_are_taken() -> None:
    target = server(r"""
        welcome()
        say(id=None, error={"code": -32700, "message": "Parse error"})
        a = hear(); b = hear(); c = hear()
        say(id=str(a["id"]), result={"n": 1}, error=None)
        say(id=a["id"], result={"n": 99})
        three = {"jsonrpc": "2.0", "id": c["id"], "result": {"n": 3}}
        error = {"code": 5, "message": "no", "data": [1]}
        put(json.dumps([three, {"jsonrpc": "2.0", "id": b["id"], "error": error, "result": None}]) + "\n")
        hear()
    """)
    async with connected(target) as session:
        replies = [start(session, "tools/call")[1] for _ in range(3)]
        await eventually(lambda: all(replies))
    assert replies == [[Result({"n": 1})], [Failure(5, "no", [1])], [Result({"n": 3})]]


async def test_asks_may_come_before_the_start_has_returned() -> None:
    ears = Ears()
    target = server("""
        m = hear()
        say(method="notifications/message", params={"level": "info", "data": "early"})
        say(id="p", method="ping")
        say(id=0, method="roots/list")
        assert hear() == {"jsonrpc": "2.0", "id": "p", "result": {}}
        say(id=m["id"], result=hello("2024-11-05"))
        hear()
        say(id="r", method="roots/list")
        say(id=1, method="tools/list")
        say(method="notifications/x", params={"got": [hear(), hear()]})
        hear()
    """)
    async with connected(target, ears) as session:
        await eventually(lambda: len(ears.asks) == 2)
        assert [ask.server_id for ask in ears.asks] == [0, "r"]
        session.answer(ears.asks[1], {"roots": []})
        await eventually(lambda: len(ears.notifications) == 2)
        got = ears.notifications[1][1]["got"]
        assert [message["id"] for message in got] == [1, "r"] or [message["id"] for message in got] == ["r", 1]
        assert {message.get("error", {}).get("code") for message in got} == {None, -32601}


async def test_an_exit_mid_call_loses_the_call_and_says_how(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "mrtr.server.srv")
    ears = Ears()
    target = server("""
        welcome()
        m = hear()
        say(method="notifications/progress", params={"progressToken": m["id"], "progress": 1})
        sys.stderr.write("boom \\x1b[0m" + "y" * 9000 + chr(10)); sys.stderr.flush()
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", "method": "notifications/last"})); sys.stdout.flush()
        os._exit(3)
    """)
    async with connected(target, ears) as session:
        request_id, replies = start(session, "tools/call")
        await eventually(lambda: ears.losses)
        assert ears.losses == ["The server 'srv' exited with code 3."]
        assert replies == [Lost("The server 'srv' exited with code 3.", processed=True)]
        assert [(method, label) for method, _, label in ears.notifications] == [
            ("notifications/progress", request_id),
            ("notifications/last", None),
        ]
        assert session.closed
    assert "boom \\x1b[0m" in caplog.text
    assert "y" * 4097 not in caplog.text


async def test_a_clean_exit_and_a_signal_are_told_apart() -> None:
    for code, words in (("sys.exit(0)", "exited with code 0"), ("os.kill(os.getpid(), 9)", "was killed by SIGKILL")):
        ears = Ears()
        async with connected(server(f"welcome()\nhear()\n{code}"), ears) as session:
            _, replies = start(session, "tools/call")
            await eventually(lambda: replies)  # noqa: B023
        assert words in ears.losses[0]


async def test_a_server_that_stops_reading_loses_its_session_not_our_memory() -> None:
    ears = Ears()
    async with connected(server("welcome(); time.sleep(60)"), ears, max_unsent=1_000_000) as session:
        for _ in range(20):
            if not session.closed:
                session.notify("notifications/x", {"text": "x" * 100_000})
            await anyio.lowlevel.checkpoint()
        await eventually(lambda: ears.losses)
        assert "does not read its input" in ears.losses[0]


async def test_a_full_stderr_never_blocks_the_server(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "mrtr.server.srv")
    target = server("""
        welcome()
        m = hear()
        for n in range(50_000): sys.stderr.write("noise %d\\n" % n)
        sys.stderr.flush()
        say(id=m["id"], result={})
        hear()
    """)
    async with connected(target) as session:
        assert await session.request("tools/call", timeout=10) == Result({})
    assert len(caplog.records) < 5_000
    assert "not shown" in caplog.text


@pytest.mark.parametrize(
    ("target", "words"),
    [
        (StdioTarget(("no-such-command-here",), {"PATH": os.environ["PATH"]}), "was not found on the PATH"),
        (StdioTarget(("/no/such/file",)), "does not exist; check its path"),
        (StdioTarget((os.devnull,)), "may not be run"),
        (StdioTarget((sys.executable,), cwd="/no/such/directory"), "working directory"),
        (StdioTarget(()), "No command"),
        (server("sys.exit(7)"), "exited with code 7"),
        (server("hear(); time.sleep(60)"), "was not ready within 0.5 s"),
        (server("welcome('1999-01-01')"), "wants protocol version '1999-01-01'"),
        (server("m = hear(); say(id=m['id'], error={'code': -32603, 'message': 'go away'}); hear()"), "go away"),
    ],
)
async def test_a_failed_start_says_what_to_do(target: StdioTarget, words: str) -> None:
    ears = Ears()
    with pytest.raises((CannotStart, BaseExceptionGroup)) as caught:
        async with connected(target, ears, start=0.5 if "0.5" in words else 5):
            pass
    error: BaseException = caught.value
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    assert isinstance(error, CannotStart)
    assert words in str(error)
    assert ears.losses == []


async def test_a_server_that_lists_its_versions_is_asked_again() -> None:
    target = server("""
        m = hear()
        data = {"supported": ["1.0", "2025-03-26", "2024-11-05"], "requested": "2025-11-25"}
        say(id=m["id"], error={"code": -32602, "message": "Unsupported", "data": data})
        welcome("2025-03-26")
        hear()
    """)
    async with connected(target) as session:
        assert session.protocol_version == "2025-03-26"


async def test_half_an_emoji_and_broken_utf_8_still_arrive() -> None:
    target = server(r"""
        welcome()
        m = hear()
        put('{"jsonrpc": "2.0", "id": %d, "result": {"text": "\\ud83d"}}' % m["id"] + "\n")
        m = hear()
        sys.stdout.buffer.write(b'{"jsonrpc": "2.0", "id": %d, "result": {"text": "\xff"}}\n' % m["id"])
        sys.stdout.flush()
        hear()
    """)
    async with connected(target) as session:
        assert await session.request("tools/call", timeout=5) == Result({"text": "?"})
        assert await session.request("tools/call", timeout=5) == Result({"text": "\ufffd"})
