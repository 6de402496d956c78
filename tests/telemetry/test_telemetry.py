"""The log: where it goes, how it looks, and that no peer can forge it, read secrets in it or stop it."""

from __future__ import annotations

import io
import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from bridge import telemetry


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _logging_as_it_was() -> Iterator[None]:
    root, ours = logging.getLogger(), logging.getLogger("mrtr")
    level, our_level = root.level, ours.level
    yield
    for handler in [h for h in root.handlers if isinstance(h, telemetry.Handler)]:
        root.removeHandler(handler)
    root.setLevel(level)
    ours.setLevel(our_level)


def logged(style: Any, *args: Any, level: str = "info", **extra: Any) -> str:
    stream = io.StringIO()
    telemetry.setup(level, style, stream)
    logging.getLogger("mrtr.call").info(*args, extra=extra)
    return stream.getvalue()


def test_text_is_aligned_and_says_who_and_what() -> None:
    stream = io.StringIO()
    telemetry.setup("info", "text", stream)
    logging.getLogger("mrtr.call").info("A retry was refused.", extra={"reason": "expired"})
    telemetry.server_logger("files").warning("disk full")
    one, two = stream.getvalue().splitlines()
    assert one.endswith(" INFO    call         A retry was refused. reason=expired")
    assert two.endswith(" WARNING server.files disk full")


def test_text_does_not_repeat_what_the_sentence_says() -> None:
    assert logged("text", "Server files is gone.", server="files", event="gone").endswith("Server files is gone.\n")


def test_colour_is_for_terminals_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert "\x1b" not in logged("text", "plain")
    terminal = Terminal()
    telemetry.setup("info", "text", terminal)
    logging.getLogger("mrtr").info("painted")
    assert "\x1b[36m" in terminal.getvalue()
    monkeypatch.setenv("NO_COLOR", "1")
    terminal = Terminal()
    telemetry.setup("info", "text", terminal)
    logging.getLogger("mrtr").info("plain")
    assert "\x1b" not in terminal.getvalue()


def test_json_is_one_object_a_line_with_the_extras() -> None:
    line = logged("json", "A retry was refused:\n%s", "é\x7f", reason="expired", size=3, odd={1, 2}.__class__)
    assert line.count("\n") == 1
    assert line.isascii()
    assert "\x7f" not in line
    record = json.loads(line)
    assert record["message"] == "A retry was refused:\né\x7f"
    assert (record["level"], record["logger"], record["reason"], record["size"]) == ("info", "mrtr.call", "expired", 3)
    assert record["time"].endswith("+00:00")


def test_an_extra_cannot_pose_as_the_record() -> None:
    assert json.loads(logged("json", "true", level="info", logger="forged"))["logger"] == "mrtr.call"


@pytest.mark.parametrize(
    "bad", ["\n", "\r", "\x1b[2J", "\x9b", "\x00", "\u202e", "\u2028", "\ud800", "\x7f"], ids=ascii
)
def test_peers_cannot_forge_lines_or_steer_terminals(bad: str) -> None:
    text = logged("text", "Client %s came.", f"a{bad}b", tool=f"x{bad}y")
    assert text.count("\n") == 1
    assert bad not in text[:-1]
    telemetry.server_logger(f"a{bad}b.c").info("hello")


def test_long_texts_are_cut() -> None:
    assert len(logged("text", "x" * 1_000_000)) < 10_000


def test_an_exception_shows_its_kind_and_place_but_not_its_text() -> None:
    stream = io.StringIO()
    telemetry.setup("info", "text", stream)
    try:
        try:
            raise KeyError("hunter2")
        except KeyError as error:
            raise ExceptionGroup("hunter2", [ValueError("hunter2"), FileNotFoundError(2, "No such file")]) from error
    except ExceptionGroup:
        logging.getLogger("mrtr").exception("A call broke.")
    text = stream.getvalue()
    assert "hunter2" not in text
    for part in ("ExceptionGroup", "because of: builtins.KeyError", "in this group: builtins.ValueError", __file__):
        assert part in text
    assert "FileNotFoundError: No such file" in text
    assert all(line.startswith("    | ") for line in text.splitlines()[1:])


def test_an_exceptions_circle_ends() -> None:
    one, two = ValueError(), KeyError()
    one.__cause__, two.__cause__ = two, one
    assert len(list(telemetry.describe(one))) == 2


def test_levels_are_for_ours_and_libraries_only_warn() -> None:
    stream = io.StringIO()
    telemetry.setup("debug", "text", stream)
    logging.getLogger("mrtr.x").debug("ours")
    for name in ("httpx", "httpcore", "uvicorn.error", "uvicorn.access", "asyncio"):
        logging.getLogger(name).info("theirs %s", name)
    logging.getLogger("uvicorn.error").warning("heard")
    logging.getLogger("uvicorn.access").error("not heard")
    assert [line.split()[-1] for line in stream.getvalue().splitlines()] == ["ours", "heard"]


def test_set_up_twice_writes_once() -> None:
    telemetry.setup("info", "text", io.StringIO())
    assert logged("text", "once").count("once") == 1


def test_a_bad_record_does_not_raise() -> None:
    stream = io.StringIO()
    handler = telemetry.Handler(stream)
    handler.setFormatter(telemetry.Text())
    handler.handle(logging.makeLogRecord({"name": "mrtr.call", "msg": "%d", "args": ("no number",)}))
    assert stream.getvalue() == "A log record of mrtr.call could not be written: TypeError\n"


def test_a_closed_stream_does_not_raise() -> None:
    stream = io.StringIO()
    telemetry.setup("info", "text", stream)
    stream.close()
    logging.getLogger("mrtr").info("lost")


PROGRAM = """
import logging, sys
from bridge import telemetry
telemetry.setup("info", sys.argv[1])
sys.stdin.readline()
for number in range(int(sys.argv[2])):
    logging.getLogger("mrtr").info("%d %s", number, "x" * 100)
print("done")
"""


def start(*args: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", PROGRAM, *args]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


@pytest.mark.parametrize("style", ["text", "json"])
def test_everything_is_written_by_the_end_and_nothing_on_stdout(style: str) -> None:
    with start(style, "500") as process:
        out, err = process.communicate(b"\n", timeout=20)
    assert (process.returncode, out.strip()) == (0, b"done")
    assert len(err.splitlines()) == 500


def test_a_closed_stderr_does_not_end_the_process() -> None:
    with start("text", "500") as process:
        assert process.stderr is not None
        process.stderr.close()
        process.stderr = None
        out, _ = process.communicate(b"\n", timeout=20)
    assert (process.returncode, out.strip()) == (0, b"done")


def test_a_stderr_that_nobody_reads_does_not_stop_the_process() -> None:
    with start("text", "30000") as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"\n")
        process.stdin.flush()
        assert process.stdout.readline().strip() == b"done"
        assert process.wait(timeout=20) == 0


def test_no_stderr_at_all_is_survived() -> None:
    command = [sys.executable, "-c", PROGRAM, "text", "5"]
    script = '"$@" 2>&-'
    done = subprocess.run(["sh", "-c", script, "sh", *command], input=b"\n", stdout=subprocess.PIPE, timeout=20)
    assert (done.returncode, done.stdout.strip()) == (0, b"done")
