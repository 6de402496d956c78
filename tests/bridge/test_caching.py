"""Cache hints of what comes through the bridge [server/utilities/caching]: on six methods, and never on what depends
on more than the request."""

from __future__ import annotations

import pytest

from tests.bridge.harness import ACCEPT, Client, bridged

pytestmark = pytest.mark.anyio

CACHED = {
    "server/discover": {},
    "tools/list": {},
    "prompts/list": {},
    "resources/list": {},
    "resources/templates/list": {},
    "resources/read": {"uri": "asker://plain"},
}


async def test_the_six_methods_carry_what_the_operator_says_and_no_others_do() -> None:
    async with bridged(ttl_ms=60_000, cache_scope="public") as bridge:
        client = Client(bridge)
        for method, params in CACHED.items():
            result = await client.send(method, params)
            assert (result["ttlMs"], result["cacheScope"]) == (60_000, "public"), method
        for method, params in (
            ("tools/call", {"name": "echo", "arguments": {"text": "x"}}),
            ("prompts/get", {"name": "greeting"}),
            (
                "completion/complete",
                {"ref": {"type": "ref/prompt", "name": "p"}, "argument": {"name": "", "value": ""}},
            ),
        ):
            assert not {"ttlMs", "cacheScope"} & (await client.send(method, params)).keys(), method


async def test_what_an_operator_says_nothing_of_is_stale_at_once_and_private() -> None:
    async with bridged() as bridge:
        for method, params in CACHED.items():
            result = await Client(bridge).send(method, params)
            assert (result["ttlMs"], result["cacheScope"]) == (0, "private"), method


async def test_what_came_of_answers_is_not_to_be_kept() -> None:
    async with bridged(ttl_ms=60_000) as bridge:
        client = Client(bridge)
        params = {"uri": "asker://question"}
        asked = await client.send("resources/read", params)
        assert asked["resultType"] == "input_required"
        assert not {"ttlMs", "cacheScope"} & asked.keys()
        sealed = {"requestState": asked["requestState"], "inputResponses": {"elicit-1": ACCEPT}}
        result = await client.send("resources/read", {**params, **sealed})
        assert result["resultType"] == "complete"
        assert result["ttlMs"] == 0
