"""Streamable HTTP in all its moods, through the whole bridge: real servers of the old SDK, and what the field has."""

from __future__ import annotations

import os
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.abc import SocketAttribute, SocketStream

from legacy.targets import Limits
from tests.bridge.harness import Client, bridged, named, only_group, refused, text, value
from tests.bridge.test_restart import old_server
from tests.legacy.http_server import Exchange, HttpServer, serving
from tests.legacy.support import QUICK

pytestmark = pytest.mark.anyio
SERVER = Path(__file__).parents[1] / "servers" / "http_moods.py"
Moods = Callable[[str], str]
MOODS = {
    "sessions": (),
    "sessions, JSON only": ("--json",),
    "stateless": ("--stateless",),
    "stateless, JSON only": ("--stateless", "--json"),
    "resumable": ("--events",),
}


@pytest.fixture(scope="module")
def moody() -> Iterator[Moods]:
    """From a mood to the URL of a server that is in it, each started once."""
    urls: dict[str, str] = {}
    with ExitStack() as running:

        def url(mood: str) -> str:
            if mood not in urls:
                urls[mood] = running.enter_context(server_in(mood))
            return urls[mood]

        yield url


@contextmanager
def server_in(mood: str) -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    with old_server(port, [os.environ["MRTR_TEST_LEGACY_PYTHON"], str(SERVER), str(port), *MOODS[mood]]):
        yield f"http://127.0.0.1:{port}/mcp"


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Short waits on the way to the server."""
    monkeypatch.setattr("bridge.pool.Limits", partial(_quick, QUICK))


def _quick(usual: Limits, **given: Any) -> Limits:
    return usual


def says(name: str) -> Any:
    return lambda method, params: named(name)


# --- real servers -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mood", MOODS)
async def test_calls_and_lists_work_in_every_mood(mood: str, moody: Moods) -> None:
    url = moody(mood)
    async with bridged(url=url) as bridge:
        client = Client(bridge)
        assert len((await client.send("tools/list"))["tools"]) == 8
        async with anyio.create_task_group() as tasks:
            for number in range(20):
                tasks.start_soon(echoed, client, str(number))


async def echoed(client: Client, word: str) -> None:
    assert text(await client.call("echo", text=word)) == word


async def test_with_sessions_questions_come_by_the_calls_stream_and_by_get(moody: Moods) -> None:
    url = moody("sessions")
    async with bridged(url=url) as bridge:
        client = Client(bridge)
        assert text(await client.answered("ask", says("Ada"))) == "Ada"
        assert text(await client.answered("ask_by_get", says("Bo"))) == "Bo"


async def test_case_13_a_call_whose_stream_is_closed_early_is_asked_and_answers_by_resumption(
    moody: Moods,
) -> None:
    url = moody("resumable")
    async with bridged(url=url) as bridge:
        client = Client(bridge)
        assert text(await client.call("poll", seconds=0.3)) == "polled"
        assert text(await client.answered("ask_late", says("Ada"))) == "Ada"
        assert text(await client.answered("ask", says("Bo"))) == "Bo"


async def test_case_10_a_server_without_streams_cannot_ask_and_its_own_failure_passes_through(
    moody: Moods,
) -> None:
    url = moody("sessions, JSON only")
    async with bridged(url=url) as bridge:
        result = await Client(bridge).call("ask_briefly", seconds=0.5)
        assert result["isError"]
        assert "Timed out while waiting for response" in text(result)


@pytest.mark.parametrize("cap", ["silence", "call_ttl"])
async def test_case_11_an_answer_that_a_stateless_server_forgets_ends_with_the_reason(cap: str, moody: Moods) -> None:
    url = moody("stateless")
    async with bridged(url=url, **{cap: 2}) as bridge:
        client = Client(bridge)
        asked = await client.call("ask")
        [key] = asked["inputRequests"]
        error = await refused(client.retry("ask", asked["requestState"], {key: named("Ada")}))
        assert "it keeps no sessions (its initialize brought no Mcp-Session-Id)" in error.message
        assert text(await client.call("echo", text="still here")) == "still here"


async def test_a_server_that_is_silent_for_another_reason_is_not_blamed_for_that(moody: Moods) -> None:
    url = moody("sessions")
    async with bridged(url=url, silence=1) as bridge:
        client = Client(bridge)
        asked = await client.call("ask_and_stall")
        [key] = asked["inputRequests"]
        error = await refused(client.retry("ask_and_stall", asked["requestState"], {key: named("Ada")}))
        assert "said nothing for 1 s" in error.message
        assert "keeps no sessions" not in error.message


# --- a road that is cut -----------------------------------------------------------------------------------------------


class Road:
    """A TCP proxy that can be cut."""

    def __init__(self, port: int) -> None:
        self.port = 0
        self._to = port
        self._open: set[SocketStream] = set()

    async def serve(self, *, task_status: anyio.abc.TaskStatus[None]) -> None:
        listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
        self.port = listener.extra(SocketAttribute.local_port)
        task_status.started()
        await listener.serve(self._carry)

    async def _carry(self, near: SocketStream) -> None:
        self._open.add(near)
        try:
            async with near, await anyio.connect_tcp("127.0.0.1", self._to) as far, anyio.create_task_group() as tasks:
                tasks.start_soon(self._copy, near, far, tasks)
                tasks.start_soon(self._copy, far, near, tasks)
        finally:
            self._open.discard(near)

    async def _copy(self, source: SocketStream, sink: SocketStream, tasks: anyio.abc.TaskGroup) -> None:
        try:
            async for data in source:
                await sink.send(data)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass
        tasks.cancel_scope.cancel()

    async def cut(self) -> None:
        """Reset what is open."""
        for stream in list(self._open):
            raw = stream.extra(SocketAttribute.raw_socket)
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            await anyio.aclose_forcefully(stream)


@asynccontextmanager
async def road(url: str) -> AsyncIterator[tuple[Road, str]]:
    port = int(url.rsplit(":", 1)[1].split("/")[0])
    way = Road(port)
    async with anyio.create_task_group() as tasks:
        await tasks.start(way.serve)
        yield way, url.replace(str(port), str(way.port))
        tasks.cancel_scope.cancel()


async def test_case_12_an_ask_sent_while_the_get_stream_was_cut_is_redelivered_and_answered_once(
    moody: Moods,
) -> None:
    url = moody("resumable")
    async with road(url) as (way, through), bridged(url=through) as bridge:
        client = Client(bridge)
        for message in ("one", "two", "three"):
            asked = await client.call("ask_by_get", message=message)
            await way.cut()  # and the server, asked again for the stream, redelivers what it is not sure of
            [key] = asked["inputRequests"]
            result = await client.retry("ask_by_get", asked["requestState"], {key: named("Ada")}, message=message)
            assert text(result) == "Ada"
        answered = value(await client.call("asked"))
        assert [answered[message] for message in ("one", "two", "three")] == [1, 1, 1]


# --- what the field has -----------------------------------------------------------------------------------------------


class FieldServer(HttpServer):
    """With one tool; what happens to a call is scripted by its number."""

    def __init__(self) -> None:
        super().__init__()
        self.sessions = 0
        self.name = "s"
        self.on_initialize = self._new_session

    async def _new_session(self, x: Exchange) -> None:
        self.sessions += 1
        result = {
            "protocolVersion": "2025-11-25",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "s", "version": "1"},
        }
        await x.result(result, mcp_session_id=f"{self.name}{self.sessions}")

    async def _handle(self, x: Exchange) -> None:
        if x.method == "tools/list":
            await x.result({"tools": []})
        else:
            await super()._handle(x)

    @property
    def calls(self) -> list[Exchange]:
        return [x for x in self.seen if x.method == "tools/call"]


LOOK_ALIKES = [
    (404, None, ""),
    (404, -32001, "Session not found"),
    (404, -32603, "Session terminated"),
    (400, -32600, "Bad Request: No valid session ID provided"),
    (400, -32000, "Bad Request: Server not initialized"),
]


@pytest.mark.parametrize(("status", "code", "said"), LOOK_ALIKES)
async def test_case_08_a_call_that_a_forgotten_session_refused_is_sent_once_more_in_a_new_one(
    status: int, code: int | None, said: str
) -> None:
    server = FieldServer()

    async def call(x: Exchange) -> None:
        if x.headers["mcp-session-id"] != "s1":
            await x.result({"content": [{"type": "text", "text": "done"}]})
        elif code is None:
            await x.answer(status, said.encode())
        else:
            await x.error(status, code, said)

    server.on_call = call
    async with serving(server), bridged(url=server.target.url) as bridge:
        assert text(await Client(bridge).call("t")) == "done"
        assert [x.headers["mcp-session-id"] for x in server.calls] == ["s1", "s2"]


async def test_a_server_that_forgets_every_session_is_not_asked_for_ever() -> None:
    server = FieldServer()

    async def call(x: Exchange) -> None:
        await x.error(404, -32001, "Session not found")

    server.on_call = call
    async with serving(server), bridged(url=server.target.url) as bridge:
        error = await refused(Client(bridge).call("t"))
        assert "does not know the session" in error.message
        assert len(server.calls) == 1 + only_group(bridge).most_resent  # as many as there may have been sessions


async def test_case_08_a_call_whose_connection_broke_after_it_was_written_is_not_sent_again() -> None:
    server = FieldServer()
    async with serving(server), road(server.target.url) as (way, through), bridged(url=through) as bridge:

        async def call(x: Exchange) -> None:
            await way.cut()
            await x.gone()

        server.on_call = call
        error = await refused(Client(bridge).call("t"))
        assert "whether it was carried out is unknown" in error.message
        assert len(server.calls) == 1
        server.on_call = server._empty
        assert (await Client(bridge).call("t"))["resultType"] == "complete"
        assert server.sessions == 1


async def test_case_09_a_server_of_one_request_at_a_time_is_served_without_its_get_stream() -> None:
    server = FieldServer()
    server.slots = anyio.Semaphore(1)

    async def hold(x: Exchange) -> None:
        await x.stream()
        await x.gone()

    server.on_get = hold
    async with serving(server), bridged(url=server.target.url) as bridge:
        for _ in range(3):
            assert (await Client(bridge).call("t"))["resultType"] == "complete"
        assert [session.unlabelled for session in only_group(bridge).channels] == [False]


async def test_what_a_401_wants_reaches_the_client_of_a_call() -> None:
    server = FieldServer()

    async def call(x: Exchange) -> None:
        await x.answer(401, b"", www_authenticate='Bearer resource_metadata="https://a.example/meta"')

    server.on_call = call
    async with serving(server), bridged(url=server.target.url) as bridge:
        error = await refused(Client(bridge).call("t"))
        assert "HTTP 401 Unauthorized (Bearer, resource_metadata https://a.example/meta)" in error.message
        assert "--header-command" in error.message
        assert len(server.calls) == 1
