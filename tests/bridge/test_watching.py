"""Any interleaving of streams that come and go, answers, refusals, silence and lost sessions leaves the server watching
what is wanted, and nobody waiting."""

from __future__ import annotations

import random
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bridge.watching import Watch, Watching
from legacy.errors import SessionClosed
from legacy.messages import Failure, Lost, Reply, Result

URIS = ("a", "b", "c")


class Server:
    """A session whose server answers when it is told to, in any order; what it watches once it has answered."""

    def __init__(self, refuses: frozenset[str] = frozenset()) -> None:
        self.closed = False
        self.watched: set[str] = set()
        self.refuses = refuses
        self.under_way: list[tuple[str, str, list[Reply], anyio.Event]] = []

    async def request(self, method: str, params: dict[str, Any], *, timeout: float) -> Reply:  # noqa: ASYNC109
        if self.closed:
            raise SessionClosed("It is closed.")
        uri = params["uri"]
        assert uri not in [other for _, other, _, _ in self.under_way], "two requests about one resource at a time"
        entry: tuple[str, str, list[Reply], anyio.Event] = (method, uri, [], anyio.Event())
        self.under_way.append(entry)
        await entry[3].wait()
        return entry[2][0]

    def answer(self, chance: random.Random, *, silent: bool = False) -> None:
        """One request, whichever: carried out and answered, or carried out (or not) without an answer."""
        if not self.under_way:
            return
        method, uri, replies, answered = self.under_way.pop(chance.randrange(len(self.under_way)))
        if silent and chance.random() < 0.5:
            replies.append(Lost("time-out", processed=True))
        elif method == "resources/unsubscribe":
            self.watched.discard(uri)
            replies.append(Lost("time-out", processed=True) if silent else Result({}))
        elif uri in self.refuses:
            replies.append(Failure(-32602, "no"))
        else:
            self.watched.add(uri)
            replies.append(Lost("time-out", processed=True) if silent else Result({}))
        answered.set()

    def close(self) -> None:
        self.closed = True
        for _, _, replies, answered in self.under_way:
            replies.append(Lost("gone", processed=True))
            answered.set()
        self.under_way.clear()


async def play(seed: int, silent: bool) -> None:
    chance = random.Random(seed)
    async with anyio.create_task_group() as tasks:
        told: list[str] = []
        streams: list[Watch] = []
        watching = Watching(tasks.start_soon, lambda uri: told.append(f"+{uri}"), lambda uri: told.append(f"-{uri}"))
        server = Server()
        watching.move(server)  # type: ignore[arg-type]
        for _ in range(60):
            match chance.randrange(6):
                case 0 | 1:
                    streams.append(watching.add(chance.choice(URIS)))
                case 2 if streams:
                    watching.release(streams.pop(chance.randrange(len(streams))))
                case 3:
                    server.answer(chance, silent=silent and chance.random() < 0.3)
                case 4:
                    await anyio.lowlevel.checkpoint()
                case 5 if chance.random() < 0.2:
                    server.close()
                    server = Server()
                    watching.move(None if chance.random() < 0.3 else server)  # type: ignore[arg-type]
                    watching.move(server)  # type: ignore[arg-type]
        for _ in range(300):  # now it answers everything
            server.answer(chance)
            await anyio.lowlevel.checkpoint()
        wanted = {watch.uri for watch in streams if not watch.refused}
        assert server.watched >= wanted
        assert silent or server.watched == wanted
        with anyio.fail_after(1):
            for watch in streams:
                await watch.settled()
        for watch in streams:
            watching.release(watch)
        for _ in range(300):
            server.answer(chance)
            await anyio.lowlevel.checkpoint()
        assert not watching
        assert watching._workers == 0
        assert silent or not server.watched  # an unsubscription that nobody answered is not sent again


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32), st.booleans())
def test_the_server_watches_what_is_wanted_when_all_is_answered(seed: int, silent: bool) -> None:
    anyio.run(play, seed, silent)


@pytest.mark.anyio
async def test_what_a_new_session_watches_again_is_told_and_what_it_refuses_too() -> None:
    told: list[str] = []
    async with anyio.create_task_group() as tasks:
        watching = Watching(tasks.start_soon, lambda uri: told.append(f"+{uri}"), lambda uri: told.append(f"-{uri}"))
        first, second = Server(), Server(refuses=frozenset("b"))
        watching.move(first)  # type: ignore[arg-type]
        watches = [watching.add(uri) for uri in URIS]
        for _ in range(20):
            first.answer(random.Random(1))
            await anyio.lowlevel.checkpoint()
        assert told == []
        watching.release(watches[2])
        first.close()
        watching.move(second)  # type: ignore[arg-type]
        for _ in range(20):
            second.answer(random.Random(1))
            await anyio.lowlevel.checkpoint()
        assert sorted(told) == ["+a", "-b"]
        assert second.watched == {"a"}
        assert len(watching) == 2
