"""The examples of docs/testing.md print what it says."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

from tests.docs.documents import ROOT, example, marks

TESTING = ROOT / "docs" / "testing.md"
ASKED = "Which room?\nRoom 7 is yours.\n"
MY_SERVER = """
from mcp.server.mcpserver import Context, MCPServer
from pydantic import BaseModel

server = MCPServer("rooms")


class Room(BaseModel):
    number: int


@server.tool()
async def book(ctx: Context) -> str:
    answer = await ctx.elicit("Which room?", Room)
    return f"Room {answer.data.number} is yours."


app = server.streamable_http_app()
"""


def run(python: str, folder: Path, code: str) -> str:
    """What an example prints; the bridge and what it needs come last, after what this Python has of its own."""
    script = folder / "example.py"
    ways = f"import sys\nsys.path += [{str(ROOT)!r}, {sysconfig.get_path('purelib')!r}]\n"
    script.write_text(ways + code, encoding="utf-8")
    done = subprocess.run([python, str(script)], cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_example_that_says_so_is_tested() -> None:
    assert marks(TESTING) == ["old sdk", "modern client"]


def test_a_server_of_the_old_sdk_is_called_in_one_process(tmp_path: Path) -> None:
    assert run(os.environ["MRTR_TEST_LEGACY_PYTHON"], tmp_path, example(TESTING, "old sdk")) == ASKED
    assert "It prints `Which room?` and `Room 7 is yours.`" in TESTING.read_text(encoding="utf-8")


def test_the_official_modern_client_calls_an_application_in_one_process(tmp_path: Path) -> None:
    (tmp_path / "my_server.py").write_text(MY_SERVER, encoding="utf-8")
    assert run(sys.executable, tmp_path, example(TESTING, "modern client")) == ASKED
