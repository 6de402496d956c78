"""What the shape of a result must be for the official clients to read it."""

from __future__ import annotations

from bridge.translate.results import to_modern


def test_a_tool_whose_schema_leaves_out_that_arguments_are_an_object_gets_it_said() -> None:
    tool = {"name": "read", "inputSchema": {"$schema": "http://json-schema.org/draft-07/schema#"}}
    listed = {"tools": [tool, {"name": "plain", "inputSchema": {"type": "object", "properties": {}}}, "odd"]}
    modern = to_modern("tools/list", listed, server_info=None, ttl_ms=0, cache_scope="private")
    assert modern["tools"][0]["inputSchema"] == {"$schema": "http://json-schema.org/draft-07/schema#", "type": "object"}
    assert modern["tools"][1:] == listed["tools"][1:]
    assert "type" not in tool["inputSchema"]


def test_a_completion_has_at_most_a_hundred_values_and_says_that_there_are_more() -> None:
    many = {"completion": {"values": [str(n) for n in range(101)], "total": 101, "hasMore": False}, "x": 1}
    for count, more in ((100, False), (101, True)):
        given = {**many, "completion": {**many["completion"], "values": many["completion"]["values"][:count]}}
        modern = to_modern("completion/complete", given, server_info=None, ttl_ms=0, cache_scope="private")
        assert len(modern["completion"]["values"]) == 100
        assert (modern["completion"]["hasMore"], modern["completion"]["total"], modern["x"]) == (more, 101, 1)
    for odd in ({}, {"completion": 5}, {"completion": {"values": None}}):
        made = to_modern("completion/complete", odd, server_info=None, ttl_ms=0, cache_scope="private")
        assert made == {**odd, "resultType": "complete"}
