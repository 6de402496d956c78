"""``requestedSchema``: a legacy form as 2026-07-28 has it, its answer as the server meant it, and whether that fits.

`bring` shows each field by `bridge.translate.fields`; a form that is within the subset already is shown as the very
object that the server sent. `Form.back` undoes what `bring` did, and `Form.fault` checks the result against the
*original* schema [client/elicitation, Requested Schema].
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from bridge.translate import checking
from bridge.translate.fields import ABSENT, Field, fit
from bridge.translate.schemas import Unfit, check_bounds

MAX_FIELDS: Final = 200
_DEFINITIONS: Final = ("$defs", "definitions")


@dataclass(frozen=True, slots=True)
class Form:
    """A form and the way back."""

    schema: dict[str, Any]
    """``requestedSchema`` for the client."""
    original: dict[str, Any]
    fields: Mapping[str, Field]

    def back(self, content: Mapping[str, Any]) -> dict[str, Any]:
        """The content for the server, as far as it can be mapped.

        Null for a field that need not be filled in and takes no null says that it was left empty. Fields that nobody
        asked for are passed on, unless the server's schema forbids them.
        """
        closed = self.original.get("additionalProperties") is False
        back: dict[str, Any] = {}
        for name, value in content.items():
            field = self.fields.get(name)
            if field is None:
                if not closed:
                    back[name] = value
            elif value is not None:
                back[name] = field.back(value)
            elif field.nullable or field.required:
                back[name] = None
        for name, field in self.fields.items():
            if name not in back and field.when_absent is not ABSENT:
                back[name] = field.when_absent
        return back

    def fault(self, content: Mapping[str, Any]) -> str | None:
        """What is wrong with content that was mapped back, in a sentence without its values; None if it fits."""
        return checking.fault(self.original, content, frozenset(self.fields))


def bring(schema: object) -> Form:
    """The form that a client of 2026-07-28 can show.

    Raises:
        Unfit: it cannot be shown; the message names the field and the reason.
    """
    if not isinstance(schema, dict):
        raise Unfit("requestedSchema must be an object.")
    check_bounds(schema)
    properties = schema.get("properties", {})
    if schema.get("type", "object") != "object" or not isinstance(properties, dict):
        raise Unfit("requestedSchema must describe an object with properties.")
    if len(properties) > MAX_FIELDS:
        raise Unfit(f"requestedSchema has more than {MAX_FIELDS} fields.")
    listed = schema.get("required")
    required = [name for name in listed if isinstance(name, str)] if isinstance(listed, list) else []
    fields: dict[str, Field] = {}
    for name, original in properties.items():
        try:
            fields[name] = fit(schema, original, required=name in required)
        except Unfit as unfit:
            reason = str(unfit)
            raise Unfit(reason if reason.startswith("requestedSchema") else f"Field {name!r} {reason}.") from None
    shown = _shown(schema, fields, required)
    return Form(schema if shown == schema else shown, schema, fields)


def _shown(schema: dict[str, Any], fields: Mapping[str, Field], required: list[str]) -> dict[str, Any]:
    shown = dict(schema)
    shown["type"] = "object"
    shown["properties"] = {name: field.schema for name, field in fields.items()}
    if not isinstance(shown.get("$schema", ""), str):
        del shown["$schema"]
    still_required = [name for name in required if name not in fields or fields[name].required]
    if still_required or schema.get("required") == []:
        shown["required"] = still_required
    else:
        shown.pop("required", None)
    if any(field.schema is not schema["properties"][name] for name, field in fields.items()):
        for key in _DEFINITIONS:
            shown.pop(key, None)
    return shown
