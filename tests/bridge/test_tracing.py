"""Trace context reaches the old server, and our own log lines carry the trace's id [basic/index, OpenTelemetry]."""

from __future__ import annotations

import io
import logging
from typing import Any

import anyio
import pytest

from bridge import telemetry
from tests.bridge.harness import Client, bridged, only_group, refused, value
from tests.bridge.listeners import announcer

pytestmark = pytest.mark.anyio

TRACE = "0af7651916cd43dd8448eb211c80319c"
OTHER = "1bf7651916cd43dd8448eb211c80319d"
CONTEXT = {
    "traceparent": f"00-{TRACE}-00f067aa0ba902b7-01",
    "tracestate": "rojo=00f067aa0ba902b7",
    "baggage": "userId=alice",
}


async def test_the_old_server_gets_the_context_as_it_was_sent() -> None:
    async with bridged(*announcer()) as bridge:
        client = Client(bridge)
        envelope = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "progressToken": 7}
        result = await client.send("tools/call", {"name": "traced", "_meta": {**envelope, **CONTEXT}})
        seen = value(result)
        assert seen.pop("progressToken") != 7
        assert seen == CONTEXT
        result = await client.send("tools/call", {"name": "traced", "_meta": {**CONTEXT, "traceparent": "broken"}})
        assert {key for key in value(result) if key != "progressToken"} == {"baggage"}


def traced(params: dict[str, Any], trace: str) -> dict[str, Any]:
    return {**params, "_meta": {"traceparent": f"00-{trace}-00f067aa0ba902b7-01"}}


@pytest.mark.parametrize("style", ["text", "json"])
async def test_a_line_that_a_request_leaves_in_the_log_has_its_trace(style: Any) -> None:
    log = io.StringIO()
    telemetry.setup("debug", style, log)
    try:
        async with bridged(*announcer()) as bridge:
            params = {"name": "x", "requestState": "made up"}
            async with anyio.create_task_group() as tasks:
                for trace in (TRACE, OTHER):
                    tasks.start_soon(refused, Client(bridge).send("tools/call", traced(params, trace)))
            await refused(Client(bridge).send("tools/call", params))
            # A session serves many requests: its lines belong to none of them, not even to the one that began it.
            await Client(bridge).send("tools/call", traced({"name": "level"}, TRACE))
            session = only_group(bridge).primary
            assert session is not None
            await refused(Client(bridge).send("tools/call", {"name": "die"}))
    finally:
        logging.getLogger().removeHandler(
            next(handler for handler in logging.getLogger().handlers if isinstance(handler, telemetry.Handler))
        )
    lines = log.getvalue().splitlines()
    retries = [line for line in lines if "a retry of" in line]
    assert sorted((TRACE in line, OTHER in line) for line in retries) == [(False, False), (False, True), (True, False)]
    assert all("trace_id" in line for line in retries if TRACE in line or OTHER in line)
    [opened] = [line for line in lines if "is open (protocol" in line]
    assert TRACE in opened
    [ended] = [line for line in lines if "exited with code 1" in line and "WARNING" in line.upper()]
    assert TRACE not in ended
    assert "trace_id" not in ended
