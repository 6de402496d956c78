"""One field of a form, as 2026-07-28 has it, and what its answer meant to the old server [client/elicitation].

The subset: a string (format email, uri, date, date-time), a number, an integer, a boolean, one of several strings, some
of several strings. `fit` brings a legacy field there without loss of meaning:

===============================  ======================================================  =====================
legacy                           modern                                                  the answer goes back
===============================  ======================================================  =====================
``T`` or null                    ``T``, not required                                     absent: null, if required
choices that are not strings     choices by their JSON text                              as the value itself
``const``                        one choice
titles without a form of theirs  ``oneOf`` / ``items.anyOf`` of const and title
array of strings or numbers      a string, one item a line                               as an array
===============================  ======================================================  =====================

What becomes of the other keywords of a field is `bridge.translate.keywords`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from bridge.translate.keywords import foreign, known
from bridge.translate.schemas import PRIMITIVE, Unfit, normal, options_of
from bridge.translate.shapes import are_texts, is_count, is_scalar, is_text

ABSENT: Final = object()
"""No value at all."""
_LINE_ENDS: Final = re.compile(r"\r\n|\r|\n")


def _is_both(value: object) -> bool:
    return (
        isinstance(value, list) and [item for item in value if isinstance(item, bool)] == value and len(set(value)) == 2
    )


@dataclass(frozen=True, slots=True)
class Field:
    """A field as the client is shown it, and the way back."""

    schema: dict[str, Any]
    required: bool
    """Whether the client must fill it in."""
    nullable: bool = False
    """Whether null is an answer that the server takes."""
    when_absent: Any = ABSENT
    """What the server gets when the client left it out; `ABSENT`: nothing."""
    lines_of: str | None = None
    """The type of the items, when an array is shown as one string."""
    values: Mapping[str, Any] = field(default_factory=dict)
    """For choices: what each stands for, where that is not the string itself."""

    def back(self, value: Any) -> Any:
        """The server's value for the client's. What cannot be mapped stays, for the server's schema to judge."""
        if self.lines_of is not None and isinstance(value, str):
            return _items(value, self.lines_of)
        if isinstance(value, str):
            return self.values.get(value, value)
        if isinstance(value, list) and self.values:
            return [self.values.get(item, item) if isinstance(item, str) else item for item in value]
        return value


def fit(root: Mapping[str, Any], original: object, *, required: bool) -> Field:
    """Bring one field of the form ``root`` to the subset.

    Raises:
        Unfit: there is no way to show it; the message continues a sentence that began with the field's name.
    """
    node = normal(root, original)
    shown = _shown(root, node.schema, required)
    if node.nullable:
        shown = replace(shown, required=False, nullable=True, when_absent=None if required else ABSENT)
    return replace(shown, schema=original) if isinstance(original, dict) and shown.schema == original else shown


def _shown(root: Mapping[str, Any], schema: dict[str, Any], required: bool) -> Field:
    kind = schema.get("type")
    if kind == "boolean" and _is_both(schema.get("enum")):
        return Field(known(schema, "boolean"), required)
    if kind not in ("array", "object") and ({"const", "enum"} & schema.keys() or options_of(schema) is not None):
        return _choice(schema, required)
    if kind in PRIMITIVE:
        return Field(known(schema, str(kind)), required)
    if kind == "array":
        return _several(root, schema, required)
    if kind == "object" or "properties" in schema:
        raise Unfit("is an object, and forms are flat")
    if kind == "null":
        raise Unfit("takes nothing but null")
    raise Unfit("has no type that a form can show")


# -- choices ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Choices:
    labels: list[str]
    titles: list[str] | None
    values: dict[str, Any]
    """Labels that stand for something else than themselves."""

    def label(self, value: Any) -> str | None:
        """How a value of the original is shown."""
        text = _label(value)
        return text if text in self.labels else None


def _choices(schema: Mapping[str, Any]) -> _Choices:
    options = options_of(schema)
    titles: list[str] | None = None
    if options is not None:
        raw = [option.get("const") for option in options]
        titles = [
            option["title"] if is_text(option.get("title")) else _label(option.get("const")) for option in options
        ]
    elif "const" in schema:
        raw = [schema["const"]]
    else:
        raw = schema["enum"] if isinstance(schema["enum"], list) else []
        names = schema.get("enumNames")
        if are_texts(names) and names is not None and len(names) == len(raw):
            titles = list(names)
    values: dict[str, Any] = {}
    for value in raw:
        if isinstance(value, dict | list) or value is None:
            raise Unfit("has choices that are neither text nor numbers")
        label = _label(value)
        if label in values and (values[label] != value or type(values[label]) is not type(value)):
            raise Unfit("has choices that look the same")
        values[label] = value
    if not values:
        raise Unfit("has no choices")
    labels = [_label(value) for value in raw]
    return _Choices(labels, titles, {label: value for label, value in values.items() if not isinstance(value, str)})


def _choice(schema: dict[str, Any], required: bool) -> Field:
    choices = _choices(schema)
    if choices.values or "const" in schema:
        shown = foreign(schema)
    else:
        shown = known({key: value for key, value in schema.items() if key != "default"}, "string")
        shown.pop("enumNames", None)
    shown["type"] = "string"
    options = options_of(schema)
    if "enum" in schema and not choices.values:
        shown["enum"] = schema["enum"]
        if are_texts(schema.get("enumNames")):
            shown["enumNames"] = schema["enumNames"]
    elif options is not None or choices.titles is not None:
        shown["oneOf"] = _titled(choices, options)
    else:
        shown["enum"] = choices.labels
    default = choices.label(schema["default"]) if is_scalar(schema.get("default")) else None
    if default is not None:
        shown["default"] = default
    elif is_text(schema.get("default")) and not choices.values:
        shown["default"] = schema["default"]
    return Field(shown, required, values=choices.values)


def _titled(choices: _Choices, options: list[dict[str, Any]] | None) -> list[dict[str, Any]]:
    titles = choices.titles or choices.labels
    pairs = zip(choices.labels, titles, strict=True)
    if options is None:
        return [{"const": label, "title": title} for label, title in pairs]
    return [{**option, "const": label, "title": title} for option, (label, title) in zip(options, pairs, strict=True)]


# -- several ----------------------------------------------------------------------------------------------------------


def _several(root: Mapping[str, Any], schema: dict[str, Any], required: bool) -> Field:
    if "prefixItems" in schema or isinstance(schema.get("items"), list):
        raise Unfit("is a list with a kind of its own for each place")
    try:
        items = normal(root, _with_options(schema.get("items"))).schema
    except Unfit:
        raise Unfit("is a list of things that a form cannot show") from None
    if "enum" in items or "const" in items or options_of(items) is not None:
        return _multiple(schema, items, required)
    kind = items.get("type")
    if kind in ("string", "integer", "number"):
        return _lines(schema, str(kind), required)
    raise Unfit("is a list of things that a form cannot show")


def _with_options(items: object) -> object:
    """The titled options of multiple choice (``anyOf``) in the words of single choice (``oneOf``)."""
    if isinstance(items, dict) and isinstance(items.get("anyOf"), list) and "oneOf" not in items:
        options = items["anyOf"]
        if options and all(isinstance(option, dict) and "const" in option for option in options):
            return {("oneOf" if key == "anyOf" else key): value for key, value in items.items()}
    return items


def _multiple(schema: dict[str, Any], items: dict[str, Any], required: bool) -> Field:
    choices = _choices(items)
    shown = known({key: value for key, value in schema.items() if key not in ("default", "items")}, "array")
    original = schema.get("items")
    options = options_of(items)
    if options is not None or choices.titles is not None:
        extras = foreign(items) if items.get("type") != "string" else {**foreign(items), "type": "string"}
        shown["items"] = {**extras, "anyOf": _titled(choices, options)}
    elif choices.values or "const" in items:
        shown["items"] = {**foreign(items), "type": "string", "enum": choices.labels}
    else:
        shown["items"] = {**items, "type": "string"}
    if shown["items"] == original:
        shown["items"] = original
    default = schema.get("default")
    if isinstance(default, list):
        labels = [choices.label(item) if is_scalar(item) else None for item in default]
        if None not in labels:
            shown["default"] = labels
    return Field(shown, required, values=choices.values)


def _lines(schema: dict[str, Any], kind: str, required: bool) -> Field:
    """An array of free text: one string, an item a line. An empty one need not be filled in."""
    shown: dict[str, Any] = {**foreign(schema), "type": "string"}
    least, most = schema.get("minItems"), schema.get("maxItems")
    least = least if is_count(least) else 0
    bounds = (f"at least {least}" if least else "", f"at most {most}" if is_count(most) else "")
    hint = ", ".join(filter(None, ("One item a line", *bounds, "each a number" if kind != "string" else ""))) + "."
    shown["description"] = f"{shown['description']} ({hint})" if shown.get("description") else hint
    default = schema.get("default")
    if isinstance(default, list):
        texts = [_label(item) for item in default if is_scalar(item)]
        text = "\n".join(texts)
        if _items(text, kind) == default:
            shown["default"] = text
    empty: Any = [] if required and not least else ABSENT
    return Field(shown, required and bool(least), when_absent=empty, lines_of=kind)


def _items(text: str, kind: str) -> list[Any]:
    lines = [line.strip() for line in _LINE_ENDS.split(text)]
    return [_item(line, kind) for line in lines if line]


def _item(text: str, kind: str) -> Any:
    if kind == "string":
        return text
    try:
        number = float(text)
    except ValueError:
        return text
    if number.is_integer() and re.fullmatch(r"[+-]?\d{1,300}", text):
        return int(text)
    return number


def _label(value: object) -> str:
    """How a choice is written: text as it is, anything else as its JSON."""
    return value if isinstance(value, str) else json.dumps(value)
