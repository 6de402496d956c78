"""Reading the JSON Schemas of old servers: bounds, local references, unions with null.

Legacy servers make their forms with pydantic, zod and by hand: ``$ref`` to an enum, ``anyOf: [T, null]``, ``allOf`` of
one. `normal` takes one field's schema apart until a single flat schema is left, or says why there is none. Nothing is
fetched, and what a schema can cost is bounded before anything else looks at it (`check_bounds`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

MAX_NODES: Final = 20_000
"""Values a form may hold once its references are followed; the largest honest enum is far below."""
MAX_DEPTH: Final = 32
_DEFINITIONS: Final = frozenset({"$defs", "definitions"})
_DATA: Final = frozenset({"const", "default", "enum", "enumNames", "examples"})
"""Keywords whose values are data: a ``$ref`` in there is none."""
PRIMITIVE: Final = frozenset({"boolean", "integer", "number", "string"})
_SAYS_KIND: Final = frozenset({"$ref", "allOf", "anyOf", "const", "enum", "oneOf", "type"})
_NOTES: Final = ("title", "description", "default")


class Unfit(Exception):
    """A form, or a field of it, that no modern client can show; the message says which and why, without any values."""


@dataclass(frozen=True, slots=True)
class Node:
    """One field's schema, references followed and unions with null undone."""

    schema: dict[str, Any]
    nullable: bool
    """Whether the original accepts null."""


def check_bounds(root: Mapping[str, Any]) -> None:
    """Refuse a schema that is too big or deep, that is recursive, or that refers to another document."""
    left = MAX_NODES
    stack = list(_below(root, 1, is_data=False))
    while stack:
        value, depth, is_data = stack.pop()
        left -= 1
        if left < 0 or depth > MAX_DEPTH:
            raise Unfit("requestedSchema is too large, too deep or refers to itself.")
        if isinstance(value, list):
            stack.extend((item, depth + 1, is_data) for item in value)
        elif isinstance(value, dict):
            if not is_data:
                if "$dynamicRef" in value:
                    raise Unfit("requestedSchema uses $dynamicRef.")
                if isinstance(value.get("$ref"), str):
                    stack.append((deref(root, value["$ref"]), depth + 1, False))
            stack.extend(_below(value, depth + 1, is_data=is_data))


def _below(schema: Mapping[str, Any], depth: int, *, is_data: bool) -> Iterator[tuple[Any, int, bool]]:
    """What a schema holds. Names of properties are no keywords; definitions count where they are referred to."""
    for key, value in schema.items():
        if is_data or key in _DATA:
            yield value, depth, True
        elif key == "properties" and isinstance(value, dict):
            yield from ((field, depth + 1, False) for field in value.values())
        elif key not in _DEFINITIONS:
            yield value, depth, False


def deref(root: Mapping[str, Any], ref: str) -> Any:
    """What a local reference (``#`` and a JSON pointer) names."""
    if ref != "#" and not ref.startswith("#/"):
        raise Unfit("requestedSchema has a $ref to another document.")
    target: Any = root
    for part in ref.split("/")[1:]:
        part = part.replace("~1", "/").replace("~0", "~")
        if isinstance(target, Mapping) and part in target:
            target = target[part]
        elif isinstance(target, list) and part.isdecimal() and int(part) < len(target):
            target = target[int(part)]
        else:
            raise Unfit("requestedSchema has a $ref to something that is not there.")
    return target


def normal(root: Mapping[str, Any], schema: object, depth: int = 0) -> Node:
    """One flat schema for a field, or `Unfit`.

    The result has a ``type`` that is one string, or ``enum``, ``const`` or titled choices (``oneOf`` of constants)
    without one. The input itself comes back when there was nothing to undo.
    """
    if not isinstance(schema, dict):
        raise Unfit("has no schema that says what to enter")
    if depth > MAX_DEPTH:
        raise Unfit("refers to itself")
    kinds = schema.get("type", "string")
    if not all(isinstance(kind, str) for kind in (kinds if isinstance(kinds, list) else [kinds])):
        raise Unfit("has no type that a form can show")
    if isinstance(schema.get("$ref"), str):
        target = normal(root, deref(root, schema["$ref"]), depth + 1)
        return _over(target, _less(schema, "$ref"))
    if isinstance(schema.get("allOf"), list):
        return _all_of(root, schema, depth)
    for keyword in ("anyOf", "oneOf"):
        if isinstance(schema.get(keyword), list):
            return _one_of(root, schema, keyword, depth)
    return _without_null(schema)


def options_of(schema: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    """The titled choices of a flat schema, if it has such: every branch is one constant."""
    options = schema.get("oneOf")
    if not isinstance(options, list) or not options:
        return None
    return options if all(isinstance(option, dict) and "const" in option for option in options) else None


def _all_of(root: Mapping[str, Any], schema: dict[str, Any], depth: int) -> Node:
    """Older pydantic wraps a reference so, to put a default beside it. Parts that disagree have no flat form."""
    merged: dict[str, Any] = {}
    nullable = True
    for part in schema["allOf"]:
        node = normal(root, part, depth + 1)
        if any(key in merged and merged[key] != value for key, value in node.schema.items() if key not in _NOTES):
            raise Unfit("combines schemas that cannot be made one")
        merged = {**merged, **node.schema}
        nullable = nullable and node.nullable
    return _over(Node(merged, nullable and bool(schema["allOf"])), _less(schema, "allOf"))


def _one_of(root: Mapping[str, Any], schema: dict[str, Any], keyword: str, depth: int) -> Node:
    branches = schema[keyword]
    if keyword == "oneOf" and schema.get("type") == "string" and all(map(_is_string_option, branches)):
        return Node(schema, False)
    if (
        isinstance(schema.get("type"), str)
        and schema["type"] in PRIMITIVE
        and not any(isinstance(part, dict) and _SAYS_KIND & part.keys() for part in branches)
    ):
        return Node(schema, False)  # only rules beside a plain type: clients look past them
    if branches and all(isinstance(branch, dict) and "const" in branch for branch in branches):
        options = [branch for branch in branches if branch["const"] is not None]
        kinds = schema.get("type")
        nullable = len(options) < len(branches) and (kinds is None or (isinstance(kinds, list) and "null" in kinds))
        return Node(_without_null({**_less(schema, keyword), "oneOf": options}).schema, nullable)
    nodes = [normal(root, branch, depth + 1) for branch in branches]
    real = [node for node in nodes if node.schema.get("type") != "null"]
    nullable = len(real) < len(nodes) or any(node.nullable for node in real)
    if not real:
        raise Unfit("has nothing to enter")
    rest = _less(schema, keyword)
    if isinstance(rest.get("type"), list):
        if "null" not in rest["type"]:
            nullable = False
        del rest["type"]
    return _over(Node(_merged([node.schema for node in real]), nullable), rest)


def _merged(schemas: list[dict[str, Any]]) -> dict[str, Any]:
    """Several kinds of one type: what they have in common. (The answer is checked against the original.)"""
    if len(schemas) == 1:
        return schemas[0]
    choices = [list(_choices(schema)) for schema in schemas]
    if all(choices):
        return {"oneOf": [option for options in choices for option in options]}
    types = {str(schema.get("type")) for schema in schemas}
    if types == {"integer", "number"}:
        types = {"number"}
    if len(types) > 1 or not types <= PRIMITIVE:
        raise Unfit("takes values of several kinds")
    first = schemas[0]
    common = {
        key: value for key, value in first.items() if all(key in other and other[key] == value for other in schemas)
    }
    return {**common, "type": types.pop()}


def _choices(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A schema's choices as titled options, whichever way it writes them."""
    options = options_of(schema)
    if options is not None:
        yield from options
    elif "const" in schema:
        yield schema if "title" in schema else {**schema, "title": str(schema["const"])}
    elif isinstance(schema.get("enum"), list):
        values = schema["enum"]
        names = schema.get("enumNames")
        titles = names if isinstance(names, list) and len(names) == len(values) else values
        yield from ({"const": value, "title": str(title)} for value, title in zip(values, titles, strict=True))


def _over(node: Node, outer: dict[str, Any]) -> Node:
    """What stands beside a reference or a union holds too; it wins where both speak."""
    beside = _without_null(outer)
    nullable = node.nullable and (beside.nullable or not {"type", "enum", "const", "oneOf"} & outer.keys())
    return Node({**node.schema, **beside.schema}, nullable)


def _without_null(schema: dict[str, Any], nullable: bool = False) -> Node:
    """Null out of ``type`` and ``enum``; a list of one type becomes that type."""
    flat = dict(schema)
    kinds = flat.get("type")
    enum = flat.get("enum")
    if isinstance(kinds, list):
        real = [kind for kind in kinds if kind != "null"]
        if set(map(str, real)) == {"integer", "number"}:
            real = ["number"]
        if len(real) > 1:
            raise Unfit("takes values of several kinds")
        nullable = nullable or "null" in kinds
        flat["type"] = real[0] if real else "null"
    if isinstance(enum, list) and None in enum:
        names = flat.get("enumNames")
        if isinstance(names, list) and len(names) == len(enum):
            flat["enumNames"] = [name for name, value in zip(names, enum, strict=True) if value is not None]
        flat["enum"] = [value for value in enum if value is not None]
        nullable = kinds is None or (isinstance(kinds, list) and "null" in kinds)
        if not flat["enum"]:
            flat = {**_less(flat, "enum"), "type": "null"}
    elif isinstance(enum, list):
        nullable = False
    if "const" in flat and flat["const"] is None:
        flat = {**_less(flat, "const"), "type": "null"}
    return Node(schema if flat == schema else flat, nullable)


def _is_string_option(option: object) -> bool:
    return isinstance(option, dict) and isinstance(option.get("const"), str) and isinstance(option.get("title"), str)


def _less(schema: Mapping[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in schema.items() if name != key}
