"""Calls that run long, and clients that read slowly, behind the HTTP face: field cases 20 and 34 with shorter times."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from bridge.serving import Bridge
from modern.http import HttpFace, HttpSettings
from tests.bridge.harness import bridged, only_group, until
from tests.bridge.listeners import announcer
from tests.bridge.test_notifications import talker
from tests.modern.asgi import Client
from tests.modern.helpers import META, message

pytestmark = pytest.mark.anyio

SILENCE = 0.3
Post = Callable[..., Client]


@asynccontextmanager
async def served(*command: str, max_queued: int = 1024, silence: float = SILENCE) -> AsyncIterator[tuple[Post, Bridge]]:
    """POSTs to a bridge; its server has started."""
    async with bridged(*command) as bridge:
        face = HttpFace(bridge, HttpSettings(silence_before_sse=silence, keep_alive=0.1, max_queued=max_queued))

        def post(method: str, id: Any = 1, token: Any = None, **params: Any) -> Client:
            meta = META if token is None else {**META, "progressToken": token}
            return Client(face, message(method, id, meta, **params))

        await post("tools/list").run()
        yield post, bridge


def call(post: Post, tool: str, token: Any = None, id: Any = 1, **arguments: Any) -> Client:
    return post("tools/call", id, token, name=tool, arguments=arguments)


def is_stream(client: Client) -> bool:
    return client.answer.headers["content-type"] == "text/event-stream"


async def test_a_silent_call_turns_to_an_event_stream_that_comments_keep_alive() -> None:
    async with served(*announcer()) as (post, _):
        client = call(post, "quiet", seconds=1.2)
        answer = await client.run()
        assert is_stream(client)
        assert answer.headers["x-accel-buffering"] == "no"
        assert answer.body.count(b":\r\n\r\n") >= 3
        [result] = answer.events
        assert result["result"]["content"][0]["text"] == '"done"'


async def test_a_call_that_is_answered_before_the_silence_is_over_is_one_json_object() -> None:
    async with served(*announcer(), silence=30) as (post, _):
        client = call(post, "quiet", seconds=0.01, token="t")
        answer = await client.run()
        assert not is_stream(client)
        assert answer.json["result"]["content"]


async def test_progress_flows_as_it_happens_and_the_result_comes_last() -> None:
    async with served() as (post, _):
        client = call(post, "progress", n=4, pause=0.25, token="t")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.run)
            await until(lambda: client.answer.chunks)
            assert is_stream(client)
            assert not client.answer.whole
        *told, result = client.answer.events
        assert [one["params"]["progress"] for one in told] == [1, 2, 3, 4]
        assert {one["params"]["progressToken"] for one in told} == {"t"}
        assert result["result"]["content"][0]["text"] == "4 steps"


@pytest.mark.parametrize("token", ["t", None])
async def test_progress_that_was_not_asked_for_does_not_make_a_stream(token: Any) -> None:
    async with served(silence=30) as (post, _):
        client = call(post, "progress", n=2, pause=0.01, token=token)
        await client.run()
        assert is_stream(client) is (token is not None)


async def test_a_flood_of_progress_is_bounded_for_a_client_that_does_not_read() -> None:
    async with served(*talker({"tools": {}}, 10_000), max_queued=100) as (post, bridge):
        client = call(post, "x", token="t")
        client.stall = asyncio.Event()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.run)
            other = post("tools/list", 2)
            await other.run()  # nobody else has to wait until it reads
            assert other.answer.whole
            await until(lambda: not only_group(bridge)._runs, 20)  # all was said; the client has read nothing
            client.stall.set()
        *told, result = client.answer.events
        values = [one["params"]["progress"] for one in told]
        assert values == sorted(set(values))
        assert 0 < len(values) <= 250  # what was being written, and what waited
        assert result["result"]["content"][0]["text"] == "tools/call"


async def test_a_stream_that_nobody_reads_is_ended_and_stalls_no_other() -> None:
    wanted = {"notifications": {"resourceSubscriptions": ["watch://one"], "toolsListChanged": True}}
    async with served(*announcer(), max_queued=20) as (post, _):
        slow, quick = (post("subscriptions/listen", id, **wanted) for id in ("slow", "quick"))
        async with anyio.create_task_group() as tasks:
            for client in (slow, quick):
                tasks.start_soon(client.run)
                await until(lambda client=client: client.answer.events)  # type: ignore[misc]
            slow.stall = asyncio.Event()
            for n in range(150):
                await call(post, "touch", id=n, uri=f"watch://one/{n}").run()
            await until(lambda: len(quick.answer.events) == 151)
            for _ in range(5):
                await call(post, "change", id="change", kind="tool").run()
            await until(lambda: len(quick.answer.events) == 156)
            assert len(slow.answer.events) == 1
            slow.stall.set()
            quick.leave()
        assert not slow.answer.whole  # it was cut off, not left with gaps
