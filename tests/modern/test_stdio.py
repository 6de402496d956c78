"""The stdio face over real pipes and files."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from modern.envelope import Request
from modern.errors import ProtocolError
from modern.serving import Leg
from modern.stdio import StdioSettings, serve_stdio
from tests.modern.helpers import DONE, META, Acting, for_ever, message

pytestmark = pytest.mark.anyio


class Peer:
    """The client's ends of two pipes."""

    def __init__(self, reader: asyncio.StreamReader, to_server: int, read_end: int) -> None:
        self._reader, self._to_server, self.read_end = reader, to_server, read_end
        self.ended: asyncio.Task[None] | None = None

    async def send(self, *bodies: dict[str, Any] | bytes) -> None:
        lines = (body if isinstance(body, bytes) else json.dumps(body).encode() + b"\n" for body in bodies)
        rest = memoryview(b"".join(lines))
        while rest:  # a pipe takes 64 KiB at a time
            try:
                rest = rest[os.write(self._to_server, rest) :]
            except BlockingIOError:
                await asyncio.sleep(0.001)

    async def get(self) -> Any:
        return json.loads(await asyncio.wait_for(self._reader.readline(), 2))

    async def nothing(self) -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(self._reader.readline(), 0.05)

    def close(self) -> None:
        if self._to_server >= 0:
            os.close(self._to_server)
            self._to_server = -1


@asynccontextmanager
async def serving(handler: Acting, settings: StdioSettings | None = None, *, read: bool = True) -> AsyncIterator[Peer]:
    stdin, to_server = os.pipe()
    from_server, stdout = os.pipe()
    os.set_blocking(to_server, False)
    reader = asyncio.StreamReader(limit=2**26)
    transport = None
    if read:
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(os.dup(from_server), "rb", 0)
        )
    peer = Peer(reader, to_server, from_server)
    face = peer.ended = asyncio.create_task(serve_stdio(handler, settings, stdin=stdin, stdout=stdout))
    try:
        yield peer
    finally:
        peer.close()
        await asyncio.wait_for(face, 3)
        if transport is not None:
            transport.close()
        for fd in (stdin, stdout, peer.read_end):
            with contextlib.suppress(OSError):
                os.close(fd)


def cancelled(id: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}


async def test_requests_are_answered_with_either_line_end_and_blank_lines_ignored() -> None:
    async with serving(handler := Acting()) as peer:
        await peer.send(json.dumps(message(id=1)).encode() + b"\r\n\n \n", message(id="1"))
        answers = [await peer.get(), await peer.get()]
        assert [answer["id"] for answer in answers] == [1, "1"]
        assert answers[0]["result"] == DONE
        assert handler.served[0].principal == "anonymous"


async def test_unicode_line_separators_do_not_end_a_line() -> None:
    async def serve(request: Request, leg: Leg) -> dict[str, Any]:
        return {"text": request.params["arguments"]["text"]}

    async with serving(Acting(serve)) as peer:
        body = message(name="echo", arguments={"text": "a\u2028b\x85c"})
        await peer.send(json.dumps(body, ensure_ascii=False).encode() + b"\n")
        assert (await peer.get())["result"]["text"] == "a\u2028b\x85c"


@pytest.mark.parametrize(
    ("line", "code", "id"),
    [
        (b"{\n", -32700, None),
        (b"\xff\n", -32700, None),
        (b"[]\n", -32600, None),
        (b"[" * 1000 + b"\n", -32600, None),
        (json.dumps(message(id=None)).encode() + b"\n", -32600, None),
        (json.dumps(message("ping", id=3)).encode() + b"\n", -32601, 3),
        (json.dumps(message(id=4, meta={})).encode() + b"\n", -32602, 4),
        (b"x" * 3000 + b"\n", -32600, None),
    ],
)
async def test_what_is_no_valid_request_gets_its_error_and_the_next_is_served(line: bytes, code: int, id: Any) -> None:
    async with serving(Acting(), StdioSettings(max_line=2000)) as peer:
        await peer.send(line, message(id="next"))
        error = await peer.get()
        assert (error["error"]["code"], error.get("id"), "id" in error) == (code, id, id is not None)
        assert (await peer.get())["id"] == "next"


async def test_malformed_notifications_are_not_answered() -> None:
    async with serving(Acting()) as peer:
        await peer.send({"jsonrpc": "2.0", "method": "notifications/x", "params": []}, cancelled(99), cancelled(None))
        await peer.nothing()


async def test_cancelling_ends_the_named_request_and_nothing_is_written_for_it() -> None:
    async def serve(request: Request, leg: Leg) -> dict[str, Any]:
        try:
            return await for_ever(request, leg)
        except asyncio.CancelledError:
            leg.notify("notifications/progress", {})
            if request.id == 7:
                return DONE  # in spite of it
            raise

    async with serving(handler := Acting(serve)) as peer:
        await peer.send(message(id=7), message(id="7"))
        await asyncio.sleep(0.02)
        await peer.send(cancelled(7))
        await peer.nothing()
        assert not handler.cancelled.is_set()  # "7" is another request
        await peer.send(cancelled("7"))
        await asyncio.wait_for(handler.cancelled.wait(), 1)
        await peer.nothing()


async def test_an_id_in_use_is_refused_and_free_again_after_its_end() -> None:
    gate = asyncio.Event()

    async def serve(request: Request, leg: Leg) -> dict[str, Any]:
        await gate.wait()
        return DONE

    async with serving(Acting(serve)) as peer:
        await peer.send(message(id=1), message(id=1))
        assert (await peer.get())["error"]["code"] == -32600
        gate.set()
        assert (await peer.get())["result"] == DONE
        await peer.send(message(id=1))
        assert (await peer.get())["result"] == DONE


async def test_the_refusal_of_initialize_begins_with_what_is_wrong_besides() -> None:
    """A client that could not be served falls back to it, and shows nothing but this."""

    async def ready() -> str:
        return "The server 'x' exited with code 1."

    body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-11-25"}}
    async with serving(Acting(), StdioSettings(ready=ready)) as peer:
        await peer.send(body)
        error = (await peer.get())["error"]
        assert error["code"] == -32022
        assert error["message"].startswith("The server 'x' exited with code 1. (")


async def test_initialize_is_refused_with_the_versions_once_the_session_is_ready() -> None:
    gate = asyncio.Event()

    async def ready() -> None:
        await gate.wait()

    body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-11-25"}}
    async with serving(Acting(), StdioSettings(ready=ready)) as peer:
        await peer.send(body)
        await peer.nothing()
        gate.set()
        error = (await peer.get())["error"]
        assert error["code"] == -32022
        assert error["data"] == {"supported": ["2026-07-28"], "requested": "2025-11-25"}
    async with serving(Acting()) as peer:
        await peer.send(body)
        assert (await peer.get())["error"]["code"] == -32022


async def test_errors_and_faults_of_the_handler_are_answers(caplog: pytest.LogCaptureFixture) -> None:
    async def serve(request: Request, leg: Leg) -> dict[str, Any]:
        match request.id:
            case 1:
                raise ProtocolError(-32001, "x", {"a": 1})
            case 2:
                raise RuntimeError("secret")
        return {"secret": object()}

    async with serving(Acting(serve)) as peer:
        await peer.send(message(id=1), message(id=2), message(id=3))
        codes = [(await peer.get())["error"]["code"] for _ in range(3)]
    assert codes == [-32001, -32603, -32603]
    assert "secret" not in caplog.text


async def test_notifications_come_before_the_response_in_order() -> None:
    async def serve(request: Request, leg: Leg) -> dict[str, Any]:
        for step in (1, 2):
            leg.notify("notifications/progress", {"progressToken": 1, "progress": step})
        return DONE

    async with serving(Acting(serve)) as peer:
        await peer.send(message())
        assert [(await peer.get()).get("params", {}).get("progress") for _ in range(3)] == [1, 2, None]


async def test_a_stream_that_ends_from_this_side_is_closed_by_its_result_and_then_cancelled() -> None:
    async with serving(Acting()) as peer:
        await peer.send(message("subscriptions/listen", id="s", notifications={}))
        assert (await peer.get())["id"] == "s"
        assert await peer.get() == {
            "jsonrpc": "2.0",
            "method": "notifications/cancelled",
            "params": {"requestId": "s"},
        }


async def test_the_end_of_stdin_cancels_what_runs_and_ends_the_face() -> None:
    async with serving(handler := Acting(for_ever)) as peer:
        await peer.send(message())
        await asyncio.sleep(0.02)
        peer.close()
        assert peer.ended is not None
        await asyncio.wait_for(peer.ended, 1)
        assert handler.cancelled.is_set()


async def test_a_request_that_will_not_end_does_not_hold_up_the_end() -> None:
    gate = asyncio.Event()

    async def serve(request: Request, leg: Leg) -> dict[str, Any]:
        while not gate.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await gate.wait()
        return DONE

    async with serving(Acting(serve), StdioSettings(end_within=0.05, flush_within=0.05)) as peer:
        await peer.send(message())
        await asyncio.sleep(0.02)
        peer.close()
        assert peer.ended is not None
        await asyncio.wait_for(peer.ended, 1)
        gate.set()
        await asyncio.sleep(0)


async def test_a_closed_stdout_ends_the_face() -> None:
    async with serving(handler := Acting(for_ever), read=False) as peer:
        await peer.send(message(id=1))
        await asyncio.sleep(0.02)
        os.close(peer.read_end)
        await peer.send(message("ping", id=2))
        assert peer.ended is not None
        await asyncio.wait_for(peer.ended, 1)
        assert handler.cancelled.is_set()


async def test_a_client_that_does_not_read_loses_progress_only_and_stalls_its_own_requests() -> None:
    steps = 3000

    async def serve(request: Request, leg: Leg) -> dict[str, Any]:
        if request.id == "flood":
            for step in range(steps):
                leg.notify("notifications/progress", {"progress": step, "message": "x" * 1000})
        return {"big": "y" * 1000}

    handler = Acting(serve)
    settings = StdioSettings(max_queued=50, max_unsent=100_000, flush_within=0.05)
    async with serving(handler, settings, read=False) as peer:
        await peer.send(message(id="flood"))
        await asyncio.sleep(0.05)
        sending = asyncio.create_task(peer.send(*(message(id=number) for number in range(2000))))
        await asyncio.sleep(0.2)
        assert len(handler.served) < 1500  # reading has stopped
        out, answers, progress = b"", 0, 0
        os.set_blocking(peer.read_end, False)
        async with asyncio.timeout(3):
            while answers < 2001:
                with contextlib.suppress(BlockingIOError):
                    out += os.read(peer.read_end, 1 << 20)
                *lines, out = out.split(b"\n")
                answers += sum(b'"id":' in line for line in lines)
                progress += sum(b'"method":' in line for line in lines)
                await asyncio.sleep(0)
        await sending
        assert progress < steps


async def test_what_waits_for_a_cancelled_request_is_not_written() -> None:
    async def serve(request: Request, leg: Leg) -> dict[str, Any]:
        for number in range(400):
            leg.notify("notifications/progress", {"for": request.id, "progress": number, "message": "x" * 1000})
        return await for_ever(request, leg)

    async with serving(Acting(serve), read=False) as peer:
        await peer.send(message(id="a"), message(id="b"))
        await asyncio.sleep(0.05)
        await peer.send(cancelled("b"))
        await asyncio.sleep(0.05)
        os.set_blocking(peer.read_end, False)
        out = b""
        for _ in range(200):
            with contextlib.suppress(BlockingIOError):
                out += os.read(peer.read_end, 1 << 20)
            await asyncio.sleep(0.001)
        assert out.count(b'"for":"a"') == 400
        assert b'"for":"b"' not in out


async def test_a_subscription_read_too_slowly_is_ended_and_told_so() -> None:
    async def serve(request: Request, leg: Leg) -> dict[str, Any]:
        for number in range(500):
            leg.notify("notifications/resources/updated", {"uri": f"a:{number}", "pad": "x" * 1000})
        return await for_ever(request, leg)

    async with serving(handler := Acting(serve), StdioSettings(max_queued=20), read=False) as peer:
        await peer.send(message("subscriptions/listen", id="s", notifications={}))
        await asyncio.wait_for(handler.cancelled.wait(), 1)
        os.set_blocking(peer.read_end, False)
        out = b""
        for _ in range(200):
            with contextlib.suppress(BlockingIOError):
                out += os.read(peer.read_end, 1 << 20)
            await asyncio.sleep(0.001)
        last = [json.loads(line) for line in out.splitlines()[-2:]]
        assert last[0]["error"]["code"] == -32603
        assert last[1]["method"] == "notifications/cancelled"


async def test_a_line_of_5_mb_takes_linear_time() -> None:
    async def serve(request: Request, leg: Leg) -> dict[str, Any]:
        return {"size": len(request.params["arguments"]["text"])}

    async with serving(Acting(serve)) as peer:
        body = message(name="echo", arguments={"text": "x" * 5_000_000})
        await asyncio.wait_for(peer.send(body), 2)
        assert (await peer.get())["result"]["size"] == 5_000_000


async def test_files_serve_as_well_as_pipes(tmp_path: Path) -> None:
    requests, answers = tmp_path / "in", tmp_path / "out"
    requests.write_bytes(b"{\n[]\n" + json.dumps(message("ping", id=3)).encode() + b"\n")
    with requests.open("rb") as stdin, answers.open("wb") as stdout:
        await asyncio.wait_for(serve_stdio(Acting(), stdin=stdin.fileno(), stdout=stdout.fileno()), 2)
    codes = [json.loads(line)["error"]["code"] for line in answers.read_bytes().splitlines()]
    assert codes == [-32700, -32600, -32601]


PROGRAM = """
import asyncio, os, sys
sys.path[:0] = sys.argv[2:]
from modern.stdio import serve_stdio
from tests.modern.helpers import Acting, DONE

async def serve(request, leg):
    print("stray")
    os.write(1, b"stray\\n")
    return DONE

run = asyncio.run
if sys.argv[1] == "uvloop":
    import uvloop
    run = uvloop.run
run(serve_stdio(Acting(serve)))
"""


@pytest.mark.parametrize("buffered", [True, False])
@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_what_is_printed_never_reaches_stdout_on_either_event_loop(loop: str, buffered: bool) -> None:
    if loop == "uvloop":
        pytest.importorskip("uvloop")
    root = str(Path(__file__).parents[2])
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", PROGRAM, loop, root]
    env = {**os.environ, "PYTHONUNBUFFERED": "" if buffered else "1"}
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, env=env) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(message(meta=META)).encode() + b"\n")
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["result"] == DONE
        out, err = process.communicate(timeout=5)
        assert out == b""
        assert err.count(b"stray") == 2
        assert process.returncode == 0
