"""What the words of a command line mean: pure functions from text to settings, and one sentence for each mistake.

A message names the option and says what to write instead. Values that may be secret (headers, environment) are never
repeated in it.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from legacy.header_rules import OURS, is_name, is_value

if TYPE_CHECKING:
    from bridge.knowledge import Hint

PASSED_ON: Final = (
    (
        *("APPDATA", "HOMEDRIVE", "HOMEPATH", "LOCALAPPDATA", "PATH", "PATHEXT", "PROCESSOR_ARCHITECTURE"),
        *("SYSTEMDRIVE", "SYSTEMROOT", "TEMP", "USERNAME", "USERPROFILE"),
    )
    if sys.platform == "win32"
    else ("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER")
)
"""The variables that the official SDKs pass to a server they start."""
OUR_SECRETS: Final = frozenset({"MRTR_BRIDGE_KEYS"})
"""Never passed on unless named."""

_UNITS: Final = {"ms": 0.001, "": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
_SIZES: Final = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3}
_LONGEST: Final = 366 * 86400
_HINTS: Final[Mapping[str, Hint]] = {"never": "never", "one": "one", "many": "many"}
_LAUNCHERS: Final = frozenset(
    {
        *("bash", "bun", "bunx", "cmd", "deno", "docker", "dotnet", "java", "node", "npx", "php", "pipx"),
        *("podman", "poetry", "ruby", "sh", "uv", "uvx"),
    }
)
_BEFORE_A_NAME: Final = frozenset(
    {
        "-",
        "--",
        "-m",
        "-y",
        "--yes",
        "-q",
        "--quiet",
        "-i",
        "-t",
        "-it",
        "--rm",
        "-u",
        "-B",
        "-s",
        "-S",
        "--from",
        "-jar",
    }
)
"""Options of launchers that are followed by what is launched."""
_LAUNCHER_WORDS: Final = frozenset({"exec", "run", "tool", "x"})


class WrongUse(ValueError):
    """A command line that cannot be followed; the message is a sentence that says what to do."""


def duration(option: str, text: str) -> float:
    """Seconds in ``90``, ``90s``, ``10m``, ``1h``."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d|)", text.strip().lower(), re.ASCII)
    seconds = float(match[1]) * _UNITS[match[2]] if match else 0
    if not 0 < seconds <= _LONGEST:
        raise WrongUse(f"{option} takes a time such as 90, 90s, 10m or 1h, more than nothing; {text!r} is none.")
    return seconds


def task_times(after: str | None, ttl: str, poll: str) -> dict[str, float | None]:
    """The fields of `Limits` that are about tasks."""
    return {
        "task_after": None if after is None else duration("--task-after", after),
        "task_ttl": duration("--task-ttl", ttl),
        "task_poll": duration("--task-poll", poll),
    }


def size(option: str, text: str) -> int:
    """Bytes in ``1000000``, ``512k``, ``4m``."""
    match = re.fullmatch(r"(\d+)\s*([kmg]?)(?:i?b)?", text.strip().lower(), re.ASCII)
    count = int(match[1][:20]) * _SIZES[match[2]] if match else 0
    if not 0 < count < 2**40:
        raise WrongUse(f"{option} takes a number of bytes such as 1000000, 512k or 4m; {text!r} is none.")
    return count


def hints(given: Sequence[str]) -> dict[str, Hint]:
    """``TOOL=never``, ``TOOL=one``, ``TOOL=many`` each."""
    found: dict[str, Hint] = {}
    for text in given:
        tool, _, how = text.rpartition("=")
        hint = _HINTS.get(how)
        if not tool or hint is None:
            raise WrongUse("--asks takes a tool and never, one or many: --asks deploy=one.")
        found[tool] = hint
    return found


def replay(given: Sequence[str]) -> dict[str, bool]:
    """``TOOL=yes``, ``TOOL=no`` each; ``*`` for all that are not named."""
    found: dict[str, bool] = {}
    for text in given:
        tool, _, harmless = text.rpartition("=")
        if not tool or harmless not in ("yes", "no"):
            raise WrongUse("--replay takes a tool and yes or no: --replay search=yes, --replay '*=no'.")
        found[tool] = harmless == "yes"
    return found


def one_call(wanted: bool, ttl: str, url: str | None) -> float | None:
    """For how long the questions of a server that reads answers inline are good; None: it is not like that."""
    seconds = duration("--one-call-ttl", ttl)
    if wanted and url is not None:
        raise WrongUse("--one-call belongs to a command; over HTTP an answer is a request of its own.")
    return seconds if wanted else None


def target_words(command: Sequence[str], url: str | None) -> None:
    """Exactly one of a command and a URL."""
    if command and url is not None:
        raise WrongUse("Give either a command or --url, not both.")
    if url is None and (not command or not command[0]):
        raise WrongUse("Say which server to bridge: its command after --, or --url URL.")
    if command and re.match(r"https?://", command[0], re.IGNORECASE):
        raise WrongUse("A server that runs already is given with --url URL; what follows -- is a command to start.")


def server_url(text: str) -> str:
    """A URL that a legacy server can be reached at."""
    try:
        parts = urlsplit(text)
        usable = bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        usable = False
    if not usable or re.search(r"[\s\x00-\x20\x7f]", text) or parts.scheme not in ("http", "https"):
        raise WrongUse(
            "--url takes an address that begins with http:// or https://, such as http://localhost:3000/mcp."
        )
    if parts.username is not None or parts.password is not None:
        raise WrongUse("--url may not hold a user or password; give them with --header 'Authorization: ...'.")
    if parts.fragment:
        raise WrongUse("--url may not have a fragment; leave out the # and what follows it.")
    import httpx

    try:
        httpx.URL(text)
    except (httpx.InvalidURL, UnicodeError):
        raise WrongUse("--url is no address that can be asked; look at its host, and at its length.") from None
    return text


def headers(given: Sequence[str]) -> dict[str, str]:
    """``Name: value`` each."""
    found: dict[str, str] = {}
    for text in given:
        name, colon, value = text.partition(":")
        value = value.strip(" \t")
        if not colon or not is_name(name):
            raise WrongUse("--header takes a name and a value: --header 'Authorization: Bearer ...'.")
        if not is_value(value):
            raise WrongUse(f"--header {name}: the value must be printable ASCII on one line.")
        if name.lower() in OURS:
            raise WrongUse(f"--header {name}: the bridge sets this header itself; leave it out.")
        if name.lower() in (known.lower() for known in found):
            raise WrongUse(f"--header {name} is given twice; give it once.")
        found[name] = value
    return found


def header_command(text: str | None) -> str | None:
    """A shell's words, that is any that are."""
    if text is not None and (not text.strip() or "\0" in text):
        raise WrongUse("--header-command takes a command that prints headers, such as 'print-token --as-header'.")
    return text


def environment(given: Sequence[str], *, inherit: bool, ours: Mapping[str, str]) -> dict[str, str]:
    """The whole environment of a child: what is passed on of ``ours``, and what ``--env`` adds."""
    if inherit:
        env = {name: value for name, value in ours.items() if name not in OUR_SECRETS}
    else:
        # As in the SDKs: a value that begins with "()" is a shell function, and no business of a child's.
        env = {name: ours[name] for name in PASSED_ON if name in ours and not ours[name].startswith("()")}
    for text in given:
        name, equals, value = text.partition("=")
        if not name or "\0" in text:
            raise WrongUse("--env takes a name to pass on, or NAME=VALUE to set.")
        if not equals:
            if name not in ours:
                raise WrongUse(f"--env {name}: there is no such variable to pass on; set it, or write {name}=VALUE.")
            value = ours[name]
        env[name] = value
    return env


def directory(path: str) -> str:
    if not Path(path).is_dir():
        raise WrongUse(f"--cwd {path}: there is no such directory.")
    return path


def executable(command: Sequence[str], *, env: Mapping[str, str], cwd: str | None) -> None:
    """Refuse a command that cannot be started, before anybody waits for it."""
    program = command[0]
    if os.path.dirname(program):
        found = shutil.which(os.path.join(cwd or ".", program))
    else:
        found = shutil.which(program, path=env.get("PATH", os.defpath))
    if found is None:
        raise WrongUse(f"The command {program} was not found, or may not be run; check its spelling and the PATH.")


def origin(text: str) -> str:
    """An origin as browsers send it."""
    match = re.fullmatch(r"([a-z][a-z0-9+.-]*)://([^/?#\s@*]+)/?", text.strip().lower(), re.ASCII)
    if match is None:
        raise WrongUse(f"--allowed-origin takes an origin such as https://app.example.org; {text!r} is none.")
    return f"{match[1]}://{match[2]}"


def host(text: str) -> str:
    """A ``Host`` value."""
    if not re.fullmatch(r"(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(:\d{1,5})?", text.strip().lower(), re.ASCII):
        raise WrongUse(
            f"--allowed-host takes a name such as mcp.example.org, with or without a port; {text!r} is none."
        )
    return text.strip().lower()


def server_name(command: Sequence[str], url: str | None) -> str:
    """What to call a server that was given no name: its host, or the first telling word of its command."""
    if url is not None:
        return urlsplit(url).netloc.rpartition("@")[2] or "server"
    inline = next((at for at, word in enumerate(command) if word in ("-c", "-e")), None)  # a script is no name
    words = [
        PurePath(word).name
        for before, word in zip(("", *command), command[:inline], strict=False)
        if word and not word.startswith("-") and not _takes_a_value(before)
    ]
    telling = [word for word in words if not _is_launcher(word)] or words
    match = re.search(r"[A-Za-z0-9_][A-Za-z0-9_.-]*", telling[0])
    return match[0].removesuffix(".py").removesuffix(".js").removesuffix(".exe")[:40] if match else "server"


def _takes_a_value(word: str) -> bool:
    """Whether the word after this one may be an option's value, which may be a secret."""
    return word.startswith("-") and "=" not in word and word not in _BEFORE_A_NAME


def _is_launcher(word: str) -> bool:
    stem = word.lower().removesuffix(".exe")
    return stem in _LAUNCHERS or stem in _LAUNCHER_WORDS or re.fullmatch(r"(python|pypy)[0-9.]*w?", stem) is not None
