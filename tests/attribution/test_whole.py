"""Whatever calls, questions, answers, cancellations, time-outs and deaths do in whatever order: nothing crosses, every
ask comes to something, everything ends."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator

import anyio
import pytest

from bridge.serving import Bridge
from tests.attribution import virtual
from tests.attribution.world import World


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


async def whole(world: World) -> None:
    async with world.bridged() as bridge:
        await world.play(bridge)
        await anyio.sleep(150)
        everything_has_ended(world, bridge)
    assert all(server.gone for server in world.servers)
    assert all(asked.outcome for asked in world.asked)


def everything_has_ended(world: World, bridge: Bridge) -> None:
    assert not world.crossed, world.crossed
    open_ = [asked for asked in world.asked if not asked.outcome and asked.method != "roots/list"]
    assert not open_, open_
    assert not bridge._live
    assert not bridge._calls
    assert not bridge._forget_at
    for group in bridge.pool.groups.values():
        assert not group._runs
        # A start-up ask for roots may wait for a call that can carry it.
        assert all(ask.method == "roots/list" for ask in group._asked_on)
        assert len(group._asked_on) == group.attribution._verdicts.held
        assert not group.attribution.waiting()
        for channel in group.channels.values():
            assert not channel.open
            assert not channel.active
            assert not channel.suspended
            assert not channel.doubts


def play(seeds: range) -> Counter[str]:
    ended: Counter[str] = Counter()
    for seed in seeds:
        world = World(seed)
        try:
            virtual.run(whole(world))
        except BaseException as error:
            error.add_note(f"in the world of seed {seed}")
            raise
        ended += world.ended
        ended.update(f"ask {asked.outcome}" for asked in world.asked)
    return ended


def test_nothing_crosses_and_everything_ends() -> None:
    ended = play(range(400))
    for what in ("ask answered", "ask refused", "ask withdrawn", "ask session ended", "call: complete", "left"):
        assert ended[what] > 15, ended


@pytest.mark.full
@pytest.mark.parametrize("first", range(1000, 9000, 500))
def test_nothing_crosses_in_thousands_of_worlds(first: int) -> None:
    play(range(first, first + 500))
