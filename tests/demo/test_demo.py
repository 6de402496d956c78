"""`mrtr-bridge demo` as a child: in a pipe, at a terminal, and without the official client."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("mcp_types", reason="the demo needs the official client of 2026-07-28")

ROOT = Path(__file__).resolve().parents[2]
COMMAND = [sys.executable, "-m", "bridge", "demo"]
SECONDS = 60


def environment(**more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in ("FORCE_COLOR", "NO_COLOR", "COLUMNS")}
    return kept | more


def play(*arguments: str, stdin: str = "", **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=SECONDS,
        cwd=ROOT,
        env=environment(**more),
        check=False,
    )


@pytest.fixture(scope="module")
def played() -> subprocess.CompletedProcess[str]:
    return play()


def flat(text: str) -> str:
    """Without the line breaks that the width made."""
    return " ".join(text.split())


def test_it_ends_well_by_itself(played: subprocess.CompletedProcess[str]) -> None:
    assert played.returncode == 0, played.stdout + played.stderr
    assert played.stderr == ""
    assert "Released lighthouse 2.4.0 “Fresnel” (announced)." in played.stdout


@pytest.mark.parametrize(
    "words", ["roots-1 roots/list", "elicit-2 elicitation/create", "sample-3 sampling/createMessage"]
)
def test_all_three_kinds_of_question_are_shown(played: subprocess.CompletedProcess[str], words: str) -> None:
    key, method = words.split()
    assert re.search(rf"{key.partition('-')[0]}-\d +{method}", played.stdout)


def test_each_round_shows_a_short_token(played: subprocess.CompletedProcess[str]) -> None:
    lengths = [int(number) for number in re.findall(r"requestState +(\d+) characters", played.stdout)]
    assert len(lengths) == 3
    assert all(0 < length <= 96 for length in lengths)


@pytest.mark.parametrize("feature", ["Roots", "Sampling"])
@pytest.mark.parametrize("event", ["negotiated", "used"])
def test_deprecation_is_shown(played: subprocess.CompletedProcess[str], feature: str, event: str) -> None:
    assert f"release-helper {event} {feature}" in flat(played.stdout)


def test_a_pipe_gets_plain_text(played: subprocess.CompletedProcess[str]) -> None:
    assert "\x1b" not in played.stdout
    assert max(map(len, played.stdout.splitlines())) <= 80


def test_a_pipe_that_takes_ascii_only_gets_that() -> None:
    done = play(PYTHONIOENCODING="ascii:replace")
    assert done.returncode == 0, done.stderr
    assert "-> tools/call" in done.stdout


@pytest.mark.parametrize("lines", [0, 1, 12])
def test_a_reader_that_has_read_enough_ends_it_quietly(lines: int) -> None:
    with subprocess.Popen(
        COMMAND, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, cwd=ROOT, env=environment()
    ) as demo:
        assert demo.stdout is not None
        assert demo.stderr is not None
        for _ in range(lines):
            demo.stdout.readline()
        demo.stdout.close()
        assert demo.stderr.read() == b""
        assert demo.wait(SECONDS) == 1


def test_a_narrow_terminal_is_kept_to() -> None:
    done = play(COLUMNS="50")
    assert max(map(len, done.stdout.splitlines())) <= 50


def test_end_of_input_declines_and_nothing_breaks() -> None:
    done = play("--interactive", stdin="file:///home/ada/lighthouse\n")
    assert done.returncode == 0, done.stderr
    assert re.search(r"elicit-\d +decline", done.stdout)
    assert "Nothing was released" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr


def test_without_the_official_client_it_says_what_to_install(tmp_path: Path) -> None:
    """A module of the same name that is not the one."""
    (tmp_path / "mcp_types.py").write_text("raise ModuleNotFoundError('no', name='mcp_types')\n")
    done = play(PYTHONPATH=str(tmp_path))
    assert done.returncode == 2
    assert "mrtr-bridge[demo]" in done.stderr
    assert "./scripts/run" in done.stderr
    assert done.stdout == ""


@pytest.mark.skipif(os.name != "posix", reason="needs a pseudo terminal")
class TestAtATerminal:
    """Types when asked, as a person does."""

    @staticmethod
    def play(typed: list[tuple[str, bytes]]) -> tuple[int, str]:
        import pty
        import select

        pid, terminal = pty.fork()
        if pid == 0:
            os.chdir(ROOT)
            os.execvpe(COMMAND[0], [*COMMAND, "--interactive"], environment(COLUMNS="100", TERM="xterm"))
        shown, seen, end = b"", 0, time.monotonic() + SECONDS
        try:
            while time.monotonic() < end:
                if typed and typed[0][0].encode() in shown[seen:]:
                    seen = len(shown)
                    os.write(terminal, typed.pop(0)[1])
                if not select.select([terminal], [], [], 0.1)[0]:
                    continue
                try:
                    chunk = os.read(terminal, 65536)
                except OSError:  # Linux says it so when the other end is closed.
                    break
                if not chunk:
                    break
                shown += chunk
            else:
                os.kill(pid, 9)
        finally:
            os.close(terminal)
            _, status = os.waitpid(pid, 0)
        return os.waitstatus_to_exitcode(status), re.sub(r"\x1b\[[0-9;]*m", "", shown.decode(errors="replace"))

    def test_a_person_answers_each_field(self) -> None:
        code, shown = self.play(
            [
                ("root", b"/tmp/lamp\r"),
                ("file:///", b"file:///srv/lamp\r"),
                ("Release", b"huge\r"),
                ("Choose one of", b"major\r"),
                ("Code name", b"Al\r"),
                ("3 to 20", b"Alba\r"),
                ("Announce it", b"\r"),
                ("the model", b"Brighter than ever.\r"),
            ]
        )
        assert code == 0, shown
        assert "Released lamp 3.0.0 “Alba” (not announced)." in shown
        assert "Brighter than ever." in shown

    def test_ctrl_c_at_a_form_declines_it(self) -> None:
        code, shown = self.play([("root", b"\r"), ("Release", b"\x03")])
        assert code == 0, shown
        assert re.search(r"elicit-\d +decline", shown)
        assert "Nothing was released" in shown
        assert "Traceback" not in shown

    def test_ctrl_d_where_no_refusal_exists_gives_up(self) -> None:
        code, shown = self.play([("root", b"\x04")])
        assert code == 0, shown
        assert "declined" in shown
        assert "Traceback" not in shown
