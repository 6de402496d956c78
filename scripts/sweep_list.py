"""The pinned list of servers, ``sweep_servers.toml``: read and checked. Nothing is installed or run here."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

LIST = Path(__file__).resolve().parent / "sweep_servers.toml"
REGISTRIES = ("npm", "pypi")


class BadList(Exception):
    """The list does not say what it must."""


@dataclass(frozen=True, slots=True)
class Server:
    """One published server.

    In ``command``, ``{bin}`` is the folder of installed programs, ``{package}`` that of the package itself (npm), and
    there as well as in ``env``, ``call`` and ``questions``, ``{work}`` is a folder made anew for each run.
    """

    name: str
    registry: str
    package: str
    version: str
    command: list[str]
    kind: str = "community"
    """``reference``, ``vendor`` or ``community``."""
    call: dict[str, Any] | None = None
    """``tool`` and ``arguments``; without it, the first read-only tool that needs none is called."""
    questions: list[dict[str, Any]] = field(default_factory=list)
    """Further calls, of tools that ask."""
    env: dict[str, str] = field(default_factory=dict)
    """Never a real secret: dummies that let the server start."""
    extra: list[str] = field(default_factory=list)
    """Further packages, where the newest ones of its day do not fit it."""
    varies: list[str] = field(default_factory=list)
    """Steps whose answers differ from run to run; of these only the shape is compared."""
    seconds: float = 20
    """How long a step may take."""
    quick: bool = False
    """Whether it belongs to the few that run with all the tests."""
    note: str = ""
    """Explains what the table shows; never a verdict."""

    @property
    def pin(self) -> str:
        return f"{self.package}@{self.version}" if self.registry == "npm" else f"{self.package}=={self.version}"


def servers(path: Path = LIST) -> list[Server]:
    """All servers, in the order of the list."""
    known = {one.name for one in fields(Server)}
    found: list[Server] = []
    for entry in tomllib.loads(path.read_text(encoding="utf-8"))["server"]:
        name = entry.get("name", "?")
        if wrong := entry.keys() - known:
            raise BadList(f"{path.name}: {name} has unknown keys: {', '.join(sorted(wrong))}")
        try:
            server = Server(**entry)
        except TypeError as error:
            raise BadList(f"{path.name}: {name}: {error}") from None
        if server.registry not in REGISTRIES:
            raise BadList(f"{path.name}: {name} comes from {server.registry}, which is none of {REGISTRIES}")
        if any(server.name == other.name for other in found):
            raise BadList(f"{path.name}: {name} is there twice")
        found.append(server)
    return found


def placed(value: Any, places: dict[str, str]) -> Any:
    """``value`` with ``{bin}``, ``{work}`` … replaced wherever they stand."""
    match value:
        case str():
            for place, path in places.items():
                value = value.replace("{" + place + "}", path)
            return value
        case list():
            return [placed(item, places) for item in value]
        case dict():
            return {key: placed(item, places) for key, item in value.items()}
    return value
