"""Where in a configuration file something is: from the path of a key to its line. Pure.

Parsers of TOML and JSON give values and forget where they were; an error that names its line is found at once.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any, Final

Path = tuple[str, ...]

_TABLE: Final = re.compile(r"\s*\[(\[?)(?P<key>[^\]]+)\]?\]\s*(#.*)?$")
_PART: Final = r"""(?:"(?:[^"\\]|\\.)*"|'[^']*'|[A-Za-z0-9_-]+)"""
_KEY: Final = re.compile(rf"\s*(?P<key>{_PART}(?:\s*\.\s*{_PART})*)\s*=")
_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]:,]|[^\s{}\[\]:,"]+')
_COMMENT: Final = re.compile(r'("(?:[^"\\\n]|\\.)*")|//[^\n]*|/\*.*?\*/', re.DOTALL)
_LAST_COMMA: Final = re.compile(r'("(?:[^"\\\n]|\\.)*")|,(?=\s*[}\]])')


def line_of(places: Mapping[Path, int], path: Path) -> int | None:
    """The line of a key, or of the nearest one above it."""
    while path:
        if path in places:
            return places[path]
        path = path[:-1]
    return None


def in_toml(text: str) -> dict[Path, int]:
    """The line of every table and key that begins one."""
    found: dict[Path, int] = {}
    table: Path = ()
    for number, line in enumerate(text.splitlines(), 1):
        if (header := _TABLE.match(line)) is not None:
            table = _path(header["key"]) or table
            found.setdefault(table, number)
        elif (key := _KEY.match(line)) is not None:
            path = table + (_path(key["key"]) or ())
            for depth in range(len(table) + 1, len(path) + 1):
                found.setdefault(path[:depth], number)
    return found


def _path(key: str) -> Path | None:
    """The parts of a dotted key, by the parser that knows them."""
    try:
        value: Any = tomllib.loads(f"{key} = 0")
    except tomllib.TOMLDecodeError:
        return None
    parts: list[str] = []
    while isinstance(value, dict):
        [(name, value)] = value.items()
        parts.append(name)
    return tuple(parts)


def plain_json(text: str) -> str:
    """JSON without the comments and last commas that editors allow in theirs; every line stays where it is."""
    without = _COMMENT.sub(lambda found: found[1] or "\n" * found[0].count("\n"), text)
    return _LAST_COMMA.sub(lambda found: found[1] or "", without)


def in_json(text: str) -> dict[Path, int]:
    """The line of every key; ``text`` is JSON that can be read."""
    found: dict[Path, int] = {}
    tokens = _tokens(text)
    _json_value(next(tokens), tokens, (), found)
    return found


def _tokens(text: str) -> Iterator[tuple[str, int]]:
    line, at = 1, 0
    for token in _TOKEN.finditer(text):
        line += text.count("\n", at, token.start())
        at = token.start()
        yield token[0], line


def _json_value(first: tuple[str, int], tokens: Iterator[tuple[str, int]], path: Path, found: dict[Path, int]) -> None:
    match first[0]:
        case "{":
            for token, line in tokens:
                if token == "}":
                    return
                if token != ",":
                    key = (*path, json.loads(token))
                    found[key] = line
                    next(tokens)  # the colon
                    _json_value(next(tokens), tokens, key, found)
        case "[":
            number = 0
            for token, line in tokens:
                if token == "]":
                    return
                if token != ",":
                    found[*path, str(number)] = line
                    _json_value((token, line), tokens, (*path, str(number)), found)
                    number += 1
