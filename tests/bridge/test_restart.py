"""An HTTP server that is started anew knows no session; the next call must not feel it (field case 8)."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import anyio
import pytest

from tests.bridge.harness import Client, bridged, text, until

SERVER = Path(__file__).parents[1] / "servers" / "conformance_server.py"


@contextmanager
def old_server(port: int, command: Sequence[str] = ()) -> Iterator[None]:
    """The SDK server of the old protocol on Streamable HTTP; its Python is MRTR_TEST_LEGACY_PYTHON."""
    command = command or [os.environ["MRTR_TEST_LEGACY_PYTHON"], str(SERVER), "--http", str(port)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE)
    assert process.stderr is not None
    try:
        while b"http://" not in process.stderr.readline():
            assert process.poll() is None, "the server did not start"
        yield
    finally:
        process.kill()
        process.wait()
        process.stderr.close()


@pytest.mark.anyio
async def test_the_next_call_works_after_a_restart_however_many_sessions_there_were() -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    async with bridged(url=f"http://127.0.0.1:{port}/mcp") as bridge:
        client = Client(bridge)
        with old_server(port):
            async with anyio.create_task_group() as tasks:  # askers at once, each on a session of its own
                for _ in range(4):
                    tasks.start_soon(client.call, "test_input_required_result_elicitation")
            group = next(iter(bridge.pool.groups.values()))
            await until(lambda: len(group.channels) > 1)
        with old_server(port):
            assert "simple text" in text(await client.call("test_simple_text"))
            assert (await client.send("tools/list"))["tools"]
