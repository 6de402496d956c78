"""Compare what two clients saw of one server: the old one directly, the new one through a bridge. Pure.

The pass mark: no failure that the old client does not show too, and no answer that says something else. What the new
protocol adds to answers by itself is taken away before they are compared; of answers that differ from run to run, only
the shape is. The old client keeps fields that no protocol knows, and the new one drops them; so the old one's answers
are read as the new one would before they are compared.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum
from typing import Any

import mcp_types as types
from pydantic import TypeAdapter, ValidationError
from sweep_drive import LISTS, Json, Run, Step

NEW_FIELDS = {"resultType", "ttlMs", "cacheScope"}
"""What 2026-07-28 adds to results."""
LOST_FIELDS = {"execution"}
"""What 2026-07-28 took from tools: tasks are an extension there."""
READ_AS: dict[str, Any] = {
    "tools/list": types.Tool,
    "prompts/list": types.Prompt,
    "resources/list": types.Resource,
    "resources/templates/list": types.ResourceTemplate,
    "discover": types.Implementation,
    "prompts/get": types.GetPromptResult,
    "resources/read": types.ReadResourceResult,
    "tools/call": types.CallToolResult,
}
OUR_META = "io.modelcontextprotocol/"
CAPABILITIES = ("tools", "prompts", "resources", "completions")
"""Those that both protocols have."""


class Verdict(Enum):
    OK = "ok"
    AS_OLD = "fails as with the old client"
    FAILS = "fails"
    DIFFERS = "differs"

    @property
    def passes(self) -> bool:
        return self in (Verdict.OK, Verdict.AS_OLD)


@dataclass(frozen=True, slots=True)
class Finding:
    step: str
    verdict: Verdict
    detail: str = ""


def judge(baseline: Run, run: Run, varies: Collection[str] = (), *, own_name: bool = False) -> list[Finding]:
    """One finding for each step of either run, and one for the questions.

    ``own_name``: what stands between may give its own name for the server's.
    """
    old = {step.name: step for step in baseline.steps}
    new = {step.name: step for step in run.steps}
    findings = [_step(old.get(name), new.get(name), name in varies, own_name) for name in {**old, **new}]
    if baseline.asks or run.asks:
        findings.append(_asks(baseline.asks, run.asks))
    return findings


def _step(old: Step | None, new: Step | None, varies: bool, own_name: bool) -> Finding:
    if new is None:
        assert old is not None
        return Finding(old.name, Verdict.AS_OLD if old.error else Verdict.FAILS, "" if old.error else "not reached")
    if new.error is not None:
        if old is None or old.error is None:
            return Finding(new.name, Verdict.FAILS, new.error)
        return Finding(new.name, Verdict.AS_OLD, "" if new.error == old.error else f"but says: {new.error}")
    if old is None:
        return Finding(new.name, Verdict.DIFFERS, "the old client does not get this far")
    if old.error is not None:
        return Finding(new.name, Verdict.OK, f"the old client fails: {old.error}")
    seen, expected = comparable(new.name, new.answer or {}), comparable(old.name, as_new_client_reads(old))
    if own_name and new.name == "discover":
        seen["serverInfo"] = expected["serverInfo"]
    if varies:
        seen, expected = shape(seen), shape(expected)
    difference = first_difference(expected, seen)
    return Finding(new.name, Verdict.OK if difference is None else Verdict.DIFFERS, difference or "")


def _asks(old: list[Json], new: list[Json]) -> Finding:
    """The same questions in the same order; of roots, which a bridge may keep, only whether they were asked for."""

    def said(asks: list[Json]) -> list[str]:
        texts = [f"{ask['method']} {ask['params'].get('message', '')}".strip() for ask in asks]
        return sorted({text for text in texts if text.startswith("roots")}) + [
            text for text in texts if not text.startswith("roots")
        ]

    if said(old) == said(new):
        return Finding("questions", Verdict.OK)
    return Finding("questions", Verdict.DIFFERS, f"asked {_brief(said(new))}, not {_brief(said(old))}")


def as_new_client_reads(old: Step) -> Json:
    """The old client's answer with the fields that the new client keeps."""
    answer = old.answer or {}
    if old.name in LISTS:
        _, held = LISTS[old.name]
        return {**answer, held: [_read(READ_AS[old.name], item) for item in answer.get(held, [])]}
    if old.name == "discover":
        capabilities = _read(types.ServerCapabilities, answer.get("capabilities") or {})
        return {**answer, "serverInfo": _read(READ_AS[old.name], answer["serverInfo"]), "capabilities": capabilities}
    name = "tools/call" if old.name.startswith("question") else old.name
    return _read(READ_AS[name], answer) if name in READ_AS else answer


def _read(model: Any, value: Any) -> Any:
    try:
        read = TypeAdapter(model).validate_python({**_typed(value), "ttlMs": 0, "cacheScope": "private"})
    except ValidationError:
        return value
    return read.model_dump(by_alias=True, mode="json", exclude_none=True)


def comparable(step: str, answer: Json) -> Any:
    """An answer without what only one of the protocols has."""
    if step == "tools/list":
        answer = {**answer, "tools": [_typed(tool) for tool in answer.get("tools", [])]}
    if step in LISTS:
        _, held = LISTS[step]
        answer = {**answer, held: sorted(answer.get(held, []), key=lambda item: str(item.get("uri") or item["name"]))}
    if step == "discover":
        capabilities = answer.get("capabilities") or {}
        return {
            "serverInfo": answer.get("serverInfo"),
            "instructions": answer.get("instructions") or None,
            "capabilities": {name: _told(capabilities[name]) for name in CAPABILITIES if name in capabilities},
        }
    return _without(answer, LOST_FIELDS if step == "tools/list" else set())


def _typed(value: Json) -> Json:
    """A tool with the type of its schema, which old servers may leave out and the new protocol wants."""
    if "inputSchema" not in value:
        return value
    return {**value, "inputSchema": {"type": "object", **value["inputSchema"]}}


def _told(capability: Json) -> Json:
    return {name: value for name, value in capability.items() if value}


def _without(value: Any, lost: set[str]) -> Any:
    match value:
        case dict():
            kept = {key: _without(item, lost) for key, item in value.items() if key not in NEW_FIELDS | lost}
            if isinstance(kept.get("_meta"), dict):
                kept["_meta"] = {key: item for key, item in kept["_meta"].items() if not key.startswith(OUR_META)}
                if not kept["_meta"]:
                    del kept["_meta"]
            return kept
        case list():
            return [_without(item, lost) for item in value]
    return value


def shape(value: Any) -> Any:
    """What kind of answer it is: its fields and their types, without what they say."""
    match value:
        case dict():
            return {key: item if key in ("type", "isError", "role") else shape(item) for key, item in value.items()}
        case list():
            return [shape(item) for item in value]
        case bool() | None:
            return value
        case int() | float():
            return "a number"
    return "a text"


def first_difference(old: Any, new: Any, path: str = "") -> str | None:
    """Where two values part, and how; None if they do not."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in [*old, *(key for key in new if key not in old)]:
            inner = f"{path}.{key}".lstrip(".")
            if key not in new:
                return f"{inner} is missing"
            if key not in old:
                return f"{inner} was added: {_brief(new[key])}"
            if found := first_difference(old[key], new[key], inner):
                return found
        return None
    if isinstance(old, list) and isinstance(new, list):
        for index, (one, other) in enumerate(zip(old, new, strict=False)):
            if found := first_difference(one, other, f"{path}[{index}]"):
                return found
        return None if len(old) == len(new) else f"{path or 'the list'} has {len(new)} items, not {len(old)}"
    return None if old == new else f"{path or 'it'} is {_brief(new)}, not {_brief(old)}"


def _brief(value: Any) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= 100 else text[:99] + "…"
