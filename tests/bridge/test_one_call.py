"""``--one-call``: a server that reads its answers inline is sent nothing but answers while a call is open there."""

from __future__ import annotations

import random
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from bridge.serving import Bridge
from tests.bridge.harness import Client, Journal, bridged, forget_ghosts_soon, named, only_group, refused, text, until
from tests.bridge.harness import value as value_of

pytestmark = pytest.mark.anyio

INLINE = Path(__file__).parents[1] / "servers" / "inline.py"


class Inline(Journal):
    """The journal of the server's processes, and whether one of them ever took something else for an answer."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._broken = folder / "broken"
        self.env["INLINE_BROKEN"] = str(self._broken)

    def broken(self) -> str:
        return self._broken.read_text(encoding="utf-8") if self._broken.exists() else ""

    @asynccontextmanager
    async def bridged(self, **options: Any) -> AsyncIterator[Bridge]:
        async with bridged(sys.executable, str(INLINE), env=self.env, **({"one_call": 60} | options)) as bridge:
            yield bridge


@pytest.fixture
def inline(tmp_path: Path) -> Inline:
    return Inline(tmp_path)


async def test_without_the_option_a_list_breaks_such_a_server(inline: Inline) -> None:
    """What the option is for: if this passes no more, the server is not what the other tests need."""
    async with inline.bridged(one_call=None) as bridge:
        client = Client(bridge)
        assert (await client.call("ask"))["resultType"] == "input_required"
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.send, "tools/list")
            await until(inline.broken)
            tasks.cancel_scope.cancel()
    assert inline.broken() == "tools/list\n"


async def test_lists_and_other_calls_go_to_another_session(inline: Inline) -> None:
    async with inline.bridged() as bridge:
        client = Client(bridge)
        asked = await client.call("ask", message="Who?")
        assert len((await client.send("tools/list"))["tools"]) == 4
        assert text(await client.call("echo", text="beside")) == "beside"
        await bridge.learn_tools(client.request("tools/call", {"name": "ask"}))
        done = await client.retry("ask", asked["requestState"], {"elicit-1": named("Ada")}, message="Who?")
        assert value_of(done) == [named("Ada")]
        assert len(inline.pids()) == 2
    assert not inline.broken()


async def test_with_one_session_they_wait_until_the_call_is_over(inline: Inline) -> None:
    async with inline.bridged(max_sessions=1) as bridge:
        client, other = Client(bridge), Client(bridge)
        asked = await client.call("ask")
        lists: list[Any] = []

        async def list_tools() -> None:
            lists.append(await other.send("tools/list"))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(list_tools)
            await anyio.sleep(0.2)
            assert not lists
            assert inline.order()[-1] == "tools/call"
            await client.retry("ask", asked["requestState"], {"elicit-1": named("Ada")})
        assert lists[0]["resultType"] == "complete"
        assert len(inline.pids()) == 1
    assert not inline.broken()


async def test_a_log_level_is_told_to_no_session_that_has_a_call_open(inline: Inline) -> None:
    async with inline.bridged() as bridge:
        client = Client(bridge)
        asked = await client.call("ask")
        await client.send("tools/list", log_level="debug")
        [busy, _] = inline.pids()

        def told() -> bool:
            heard = [entry["message"].get("method") for entry in inline.entries() if entry["pid"] == busy]
            return "logging/setLevel" in heard

        assert not told()
        await client.retry("ask", asked["requestState"], {"elicit-1": named("Ada")})
        await client.send("tools/list", log_level="debug")
        assert told()
    assert not inline.broken()


async def test_a_client_that_leaves_is_not_told_to_the_server_which_ends_by_itself(inline: Inline) -> None:
    async with inline.bridged() as bridge:
        client = Client(bridge)
        await client.call("echo", text="started")
        with anyio.move_on_after(0.1):
            await client.call("sleep", seconds=1)
        assert text(await client.call("echo", text="elsewhere")) == "elsewhere"
        assert len(inline.pids()) == 2
        await until(lambda: only_group(bridge).idle)
        assert text(await client.call("echo", text="first again")) == "first again"
        assert len(only_group(bridge).channels) == 2
    assert "notifications/cancelled" not in inline.order()


async def test_a_question_expires_by_a_clock_of_its_own_and_the_server_hears_its_answer_only(inline: Inline) -> None:
    async with inline.bridged(one_call=0.3) as bridge:
        client = Client(bridge)
        asked = await client.call("ask", times=2)
        await until(lambda: not bridge._live)
        error = await refused(client.retry("ask", asked["requestState"], {"elicit-1": named("Ada")}, times=2))
        assert error.code == -32602
        await until(lambda: only_group(bridge).idle)
        first, second = inline.answers()
        assert first["result"] == {"action": "cancel"}
        assert second["error"]["message"] == "It came from a call that was cancelled."
    assert "notifications/cancelled" not in inline.order()
    assert not inline.broken()


async def test_a_server_that_does_not_come_back_is_ended_and_the_next_call_gets_another(inline: Inline) -> None:
    async with inline.bridged(max_sessions=1) as bridge:
        client = Client(bridge)
        await client.call("echo", text="x")
        forget_ghosts_soon(bridge)
        with anyio.move_on_after(0.1):
            await client.call("sleep", seconds=600)
        assert text(await client.call("echo", text="new")) == "new"
        assert len(inline.pids()) == 2
    assert "notifications/cancelled" not in inline.order()


async def test_roots_that_it_asks_for_inline_at_the_start_are_answered_before_anything_else(inline: Inline) -> None:
    inline.env["INLINE_ROOTS"] = "1"
    home = {"roots": [{"uri": "file:///home"}]}
    async with inline.bridged() as bridge:
        client = Client(bridge)
        done = await client.answered("roots", lambda method, params: home)
        assert value_of(done) == home["roots"]
    assert not inline.broken()


async def test_a_list_before_the_first_call_is_complete_though_the_server_waits_for_roots(inline: Inline) -> None:
    inline.env["INLINE_ROOTS"] = "1"
    async with inline.bridged() as bridge:
        client = Client(bridge)
        await client.send("server/discover")
        only_group(bridge).attribution._verdicts._settle_max = 0.2
        assert (await client.send("tools/list"))["resultType"] == "complete"
    assert not inline.broken()


async def test_whatever_a_crowd_does_the_server_reads_only_answers(inline: Inline) -> None:
    rng = random.Random(7)
    async with inline.bridged(max_sessions=3) as bridge:

        async def one(number: int) -> None:
            client, me = Client(bridge), f"client {number}"
            for _ in range(3):
                await anyio.sleep(rng.uniform(0, 0.1))
                match rng.randrange(4):
                    case 0:
                        await client.send("tools/list")
                    case 1:
                        assert text(await client.call("echo", text=me)) == me
                    case 2:
                        with anyio.move_on_after(rng.uniform(0, 0.05)):
                            await client.call("ask", message=me)
                    case 3:
                        done = await client.answered("ask", lambda method, params: named(me), message=me, times=2)
                        assert value_of(done) == [named(me)] * 2

        async with anyio.create_task_group() as tasks:
            for number in range(8):
                tasks.start_soon(one, number)
        assert len(inline.pids()) <= 3
    assert not inline.broken()
    assert "notifications/cancelled" not in inline.order()
