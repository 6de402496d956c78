"""An independent, strict reader of the 2026-07-28 subset of forms, from the official wire types."""

from __future__ import annotations

from typing import Any

from mcp_types import _v2026_07_28 as wire
from pydantic import BaseModel, ValidationError

BY_TYPE: dict[str, list[type[BaseModel]]] = {
    "string": [
        wire.TitledSingleSelectEnumSchema,
        wire.LegacyTitledEnumSchema,
        wire.UntitledSingleSelectEnumSchema,
        wire.StringSchema,
    ],
    "number": [wire.NumberSchema],
    "integer": [wire.NumberSchema],
    "boolean": [wire.BooleanSchema],
    "array": [wire.TitledMultiSelectEnumSchema, wire.UntitledMultiSelectEnumSchema],
}


def refuses(schema: Any) -> list[str]:
    """The fields (or ``requestedSchema`` itself) that are outside the subset."""
    try:
        wire.RequestedSchema.model_validate(schema, strict=True)
    except ValidationError:
        return ["requestedSchema"]
    return [name for name, field in schema["properties"].items() if not _reads(field)]


def _reads(field: Any) -> bool:
    if not isinstance(field, dict):
        return False
    if {"$ref", "allOf"} & field.keys() or field.get("format", "email") not in ("email", "uri", "date", "date-time"):
        return False
    for model in BY_TYPE.get(field.get("type", ""), []):
        names = {info.alias or name for name, info in model.model_fields.items()}
        if any(name in field and field[name] is None for name in names):
            continue  # where the wire types read null, the TypeScript client does not
        try:
            model.model_validate(field, strict=True)
        except ValidationError:
            continue
        return True
    return False
