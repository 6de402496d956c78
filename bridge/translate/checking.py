"""Whether a form's content fits the server's schema, and what to tell the person who filled it in.

JSON Schema 2020-12 by `jsonschema`, with nothing fetched. The server has the last word anyway: where its schema cannot
be judged here (an unknown ``$ref``, a keyword of the wrong type, a pattern of another dialect or one that could take
for ever), the content counts as fitting. Reasons name fields and rules, never what was entered.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

from jsonschema import Draft202012Validator, FormatChecker, ValidationError
from jsonschema.validators import extend
from referencing import Registry

MAX_PATTERN: Final = 300
MAX_MATCHED: Final = 1000
"""Characters; a pattern is not tried on more."""
MAX_ENTERED: Final = 100_000
"""Characters and items of an answer; the server judges a bigger one itself."""
MAX_REASONS: Final = 3


def fault(schema: Mapping[str, Any], content: Mapping[str, Any], fields: frozenset[str]) -> str | None:
    """Why ``content`` does not fit, in one line; None if it does, or nobody here can say."""
    if sum(len(value) for value in content.values() if isinstance(value, list | str)) > MAX_ENTERED:
        return None
    try:
        errors = list(_Validator(schema, registry=_NOWHERE, format_checker=_FORMATS).iter_errors(dict(content)))
    except Exception:  # whatever a schema by hand can do to a validator
        return None
    reasons = [reason for error in errors for reason in _reasons(error, fields)]
    return " ".join(dict.fromkeys(reasons[:MAX_REASONS])) if errors else None


def _pattern(validator: Any, pattern: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    """``pattern``, tried only where it is quick."""
    if not isinstance(instance, str) or len(instance) > MAX_MATCHED:
        return
    compiled = _quick(pattern) if isinstance(pattern, str) else None
    if compiled is not None and not compiled.search(instance):
        yield ValidationError("does not match")


@lru_cache(maxsize=256)
def _quick(pattern: str) -> re.Pattern[str] | None:
    """The compiled pattern, or None if it may backtrack without end: a repeated group, or many open repetitions."""
    repeated = re.search(r"\)\s*[*+{?]", pattern)
    open_ended = len(re.findall(r"[*+]|\{\d*,\d*\}", pattern))
    if len(pattern) > MAX_PATTERN or repeated or open_ended > 2:
        return None
    try:
        return re.compile(pattern)
    except re.error:
        return None


def _skip(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    """Not judged here."""
    yield from ()


_NOWHERE: Final[Registry[Any]] = Registry()
"""References to other documents lead nowhere, instead of to the network."""
_FORMATS: Final = FormatChecker(formats=("date", "email"))
_Validator: Final = extend(Draft202012Validator, {"pattern": _pattern, "patternProperties": _skip})  # type: ignore[no-untyped-call]

_RULES: Final[dict[str, Callable[[Any], str]]] = {
    "const": lambda _: "must be the one value offered",
    "enum": lambda _: "must be one of the choices",
    "exclusiveMaximum": lambda limit: f"must be less than {limit}",
    "exclusiveMinimum": lambda limit: f"must be greater than {limit}",
    "format": lambda name: f"must be a valid {name}",
    "maxItems": lambda limit: f"must have at most {limit} items",
    "maxLength": lambda limit: f"must have at most {limit} characters",
    "maximum": lambda limit: f"must be at most {limit}",
    "minItems": lambda limit: f"must have at least {limit} items",
    "minLength": lambda limit: f"must have at least {limit} characters",
    "minimum": lambda limit: f"must be at least {limit}",
    "multipleOf": lambda step: f"must be a multiple of {step}",
    "pattern": lambda pattern: f"must match {pattern}",
    "type": lambda kind: f"must be of type {kind if isinstance(kind, str) else ' or '.join(map(str, kind))}",
    "uniqueItems": lambda _: "must not have the same item twice",
}


def _reasons(error: ValidationError, fields: frozenset[str], subject: str | None = None) -> Iterator[str]:
    """One error as sentences. Only names that the form has are repeated: others were entered."""
    name = next((part for part in error.absolute_path if isinstance(part, str)), None)
    subject = subject or (f"{name!r}" if name in fields else "The form")
    rule = error.validator if isinstance(error.validator, str) else ""
    if rule == "required" and isinstance(error.instance, Mapping) and isinstance(error.validator_value, list):
        missing = [key for key in error.validator_value if isinstance(key, str) and key not in error.instance]
        yield from (f"{key!r} is required." for key in missing)
    elif rule in ("anyOf", "oneOf", "allOf") and error.context:
        telling = [inner for inner in error.context if inner.validator not in ("type", "const")]
        if telling:
            yield from _reasons(telling[0], fields, subject)
        else:
            yield f"{subject} must be one of what is allowed."
    elif rule in _RULES:
        yield f"{subject} {_RULES[rule](error.validator_value)}."
    else:
        yield f"{subject} does not fit its rule {rule or 'of the form'!r}."
