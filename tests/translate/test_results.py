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
