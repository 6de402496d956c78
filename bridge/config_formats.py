"""What a configuration file is written in: TOML, or the JSON in which clients keep their servers. Pure."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from typing import Any, Final, Literal

from bridge.config_faults import ConfigError, Fault, fault_at
from bridge.config_places import Path, in_json, in_toml, plain_json

Kind = Literal["toml", "json"]

_CLIENTS_OWN: Final = frozenset(
    {"alwaysAllow", "autoApprove", "disabledTools", "enabled", "description", "timeout", "gallery", "version", "dev"}
)
"""What clients keep beside a server in their configuration, for themselves."""


def parsed(text: str, kind: Kind) -> tuple[Any, dict[Path, int], list[str]]:
    """The file's value in our words, the line of each key, and what of it is a client's own.

    Raises:
        ConfigError: it cannot be read, or is none of the two.
    """
    try:
        value, places, notes = _parsed(text, kind)
        faults = [fault_at(places, path, message) for path, message in _unusable(value)]
    except RecursionError:
        raise ConfigError([Fault("", None, "this is nested too deeply.")]) from None
    if faults:
        raise ConfigError(faults)
    return value, places, notes


def _unusable(value: Any, path: Path = ()) -> Iterator[tuple[Path, str]]:
    """The texts that no command, file or header can hold."""
    if isinstance(value, str):
        if "\0" in value or (not value.isprintable() and any("\ud800" <= one <= "\udfff" for one in value)):
            yield path, "this holds a zero byte, or half a character."
    elif isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _unusable(inner, (*path, str(key)))


def _parsed(text: str, kind: Kind) -> tuple[Any, dict[Path, int], list[str]]:
    if kind == "toml":
        try:
            return tomllib.loads(text), in_toml(text), []
        except tomllib.TOMLDecodeError as error:
            found = re.search(r"\(at line (\d+), column \d+\)", str(error))
            said = re.sub(r" *\(at [^)]*\)", "", str(error)).rstrip(".")
            line = int(found[1]) if found else len(text.splitlines())
            raise ConfigError([Fault("", line, f"this is no TOML: {said}.")]) from None
        except ValueError:
            raise ConfigError([Fault("", None, "there is a number of too many digits in it.")]) from None
    plain = plain_json(text)
    try:
        value = json.loads(plain)
    except json.JSONDecodeError as error:
        raise ConfigError([Fault("", error.lineno, f"this is no JSON: {error.msg}.")]) from None
    except ValueError:
        raise ConfigError([Fault("", None, "there is a number of too many digits in it.")]) from None
    places = in_json(plain)
    if not isinstance(value, dict):
        raise ConfigError([Fault("", 1, "this is no object with mcpServers, servers or both.")])
    own = next((key for key in ("mcpServers", "servers") if isinstance(value.get(key), dict)), None)
    if own is None:
        raise ConfigError([Fault("", 1, "there is neither mcpServers nor servers in it.")])
    notes: list[str] = []
    servers = {name: _of_client(name, entry, notes) for name, entry in value[own].items()}
    servers = {name: entry for name, entry in servers.items() if entry is not None}
    moved = {("servers", *path[1:]): line for path, line in places.items() if path[0] == own}
    return {"servers": servers}, moved, notes


def _of_client(name: str, entry: Any, notes: list[str]) -> Any:
    """A server as Claude Desktop, Cursor and VS Code write it, in our words; None: it is switched off."""
    if not isinstance(entry, dict):
        return entry
    given = dict(entry)
    if given.pop("disabled", False) is True or given.get("enabled") is False:
        notes.append(f"{name} is disabled and left out.")
        return None
    for key in sorted(_CLIENTS_OWN & set(given)):
        del given[key]
        notes.append(f"{name}: {key} is the client's own and has no effect here.")
    if isinstance(given.get("command"), str):
        arguments = given.pop("args", [])
        given["command"] = [given["command"], *(arguments if isinstance(arguments, list) else [arguments])]
    match given.pop("type", None):
        case "sse":
            given["transport"] = "http-sse"
        case "http" | "streamable-http" | "streamableHttp":
            given["transport"] = "streamable-http"
    if isinstance(given.get("serverUrl"), str):
        given["url"] = given.pop("serverUrl")
    return given
