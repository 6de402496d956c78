"""What is said of a mistake in a configuration file: its line, its key, what is allowed; never the value. Pure."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ValidationError

from bridge.config_model import CacheEntry, Config, HttpEntry, ServerEntry, ToolEntry
from bridge.config_places import Path, line_of


@dataclass(frozen=True, slots=True)
class Fault:
    """One mistake."""

    key: str
    """Dotted; empty for the file as a whole."""
    line: int | None
    message: str
    """A sentence without the value."""

    def __str__(self) -> str:
        place = f"line {self.line}: " if self.line is not None else ""
        return f"{place}{self.key}: {self.message}" if self.key else f"{place}{self.message}"


class ConfigError(Exception):
    """A file that cannot be used."""

    def __init__(self, faults: list[Fault]) -> None:
        super().__init__(" ".join(map(str, faults)))
        self.faults = faults


def fault_at(places: Mapping[Path, int], path: Path, message: str) -> Fault:
    """A mistake at a key."""
    return Fault(".".join(map(_shown, path)), line_of(places, path), message)


def refused(error: ValidationError, places: Mapping[Path, int]) -> ConfigError:
    """What pydantic found, in our words."""
    found = error.errors(include_input=False, include_url=False)
    return ConfigError(_in_order([fault_at(places, *_told(one)) for one in found]))


def _shown(part: str) -> str:
    return part if re.fullmatch(r"[A-Za-z0-9_-]+", part) else json.dumps(part, ensure_ascii=False)


def as_keys(message: str) -> str:
    """What is said of options, of the keys that stand for them."""
    return re.sub(r"--([a-z-]+)", lambda option: option[1].replace("-", "_"), message)


def _told(error: Any) -> tuple[tuple[str, ...], str]:
    """The path of a mistake that pydantic found, and our sentence for it."""
    path = tuple(str(part) for part in error["loc"] if part not in ("str", "FromFile"))
    match error["type"]:
        case "extra_forbidden":
            return path, _unknown(path)
        case "missing":
            return path, "this is needed."
        case "literal_error":
            return path, f"this is one of {error['ctx']['expected']}."
        case _ if path[-1:] == ("command",):
            return path, 'this is a list of words, such as ["npx", "-y", "some-server"].'
        case "value_error":
            said = as_keys(str(error["ctx"]["error"]).rstrip("."))
            return path, f"{said}."
        case _:
            said = error["msg"].removeprefix("Input ").rstrip(".")
            return path, f"this {said}."


def _unknown(path: tuple[str, ...]) -> str:
    model: type[BaseModel] = Config
    match path:
        case ("servers", _, "tools", _, _):
            model = ToolEntry
        case ("servers", _, "cache", _):
            model = CacheEntry
        case ("servers", _, "env" | "headers", *_):
            return 'a value is a text, or { file = "…" }.'
        case ("servers", _, _):
            model = ServerEntry
        case ("http", _):
            model = HttpEntry
    known = sorted(model.model_fields)
    near = difflib.get_close_matches(path[-1], known, 1)
    return f"there is no such key here{f'; is it {near[0]}?' if near else ''} Known are {', '.join(known)}."


def _in_order(faults: list[Fault]) -> list[Fault]:
    """In the order of the file; of a value that is none of several kinds, what was said first."""
    first: dict[str, Fault] = {}
    for fault in faults:
        first.setdefault(fault.key, fault)
    return sorted(first.values(), key=lambda fault: fault.line or 0)
