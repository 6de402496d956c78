"""The main job over stdio: a real old server that asks mid-call, and a client that retries."""

from __future__ import annotations

import pytest

from tests.bridge.harness import ACCEPT, Client, bridged, text, usual_answer, value

pytestmark = pytest.mark.anyio


async def test_a_plain_call_passes_through() -> None:
    async with bridged() as bridge:
        result = await Client(bridge).call("echo", text="hello")
    assert result["resultType"] == "complete"
    assert text(result) == "hello"
    assert result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "asker"


async def test_an_elicitation_becomes_a_round_and_its_answer_the_tools_result() -> None:
    async with bridged() as bridge:
        client = Client(bridge)
        asked = await client.call("ask_once")
        assert asked["resultType"] == "input_required"
        assert list(asked["inputRequests"]) == ["elicit-1"]
        assert len(asked["requestState"]) <= 96
        done = await client.retry("ask_once", asked["requestState"], {"elicit-1": ACCEPT})
    assert done["resultType"] == "complete"
    assert value(done) == ACCEPT


@pytest.mark.parametrize("tool", ["ask_once", "ask_twice", "ask_both", "ask_many", "ask_sampling", "ask_roots"])
async def test_every_kind_of_ask_is_answered(tool: str) -> None:
    async with bridged() as bridge:
        result = await Client(bridge).answered(tool, usual_answer)
    assert result["resultType"] == "complete"
    assert not result.get("isError")
