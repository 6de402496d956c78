"""Headers that mirror the body: collecting them, their value encoding, and ``Mcp-Param-*`` against a tool's schema.

Pure. Rules: [basic/transports/streamable-http, Custom Headers from Tool Parameters, Value Encoding, Server Validation].
The routing headers themselves are compared in `modern.envelope`.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from modern.errors import HEADER_MISMATCH, ProtocolError

ANNOTATION: Final = "x-mcp-header"
PREFIX: Final = "mcp-param-"
_SENTINEL: Final = "=?base64?"
_SENTINEL_END: Final = "?="
_TOKEN: Final = frozenset("!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")
_PRIMITIVES: Final = frozenset({"string", "integer", "boolean"})

# JSON Schema 2020-12 keywords that hold schemas, by the shape of what they hold. `properties` keeps a path static;
# behind any of these it is not. Data (`default`, `enum`, `const`, `examples`) and references are never entered.
_ONE_SCHEMA: Final = frozenset(
    {
        "items",
        "contains",
        "additionalItems",
        "unevaluatedItems",
        "additionalProperties",
        "unevaluatedProperties",
        "propertyNames",
        "not",
        "if",
        "then",
        "else",
        "contentSchema",
    }
)
_LIST_OF_SCHEMAS: Final = frozenset({"allOf", "anyOf", "oneOf", "prefixItems", "items"})
_MAP_OF_SCHEMAS: Final = frozenset({"patternProperties", "dependentSchemas", "$defs", "definitions"})

_NAMES: Final = {
    name.encode(): name
    for name in (
        "accept", "accept-encoding", "accept-language", "authorization", "connection", "content-length",
        "content-type", "host", "mcp-method", "mcp-name", "mcp-protocol-version", "origin", "traceparent",
        "tracestate", "user-agent",
    )
}  # fmt: skip
"""Names that come with nearly every request, decoded once."""
_ONCE: Final = frozenset({"host", "origin", "content-type", "authorization"})


def collect(raw: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """The headers of a request by lower-case name.

    A header sent twice is joined as HTTP joins lists, except those that must say one thing: their copies are joined by
    a line feed, which no valid value holds, so that they match nothing. Readers of the first and of the last copy
    would otherwise disagree about the request.
    """
    headers: dict[str, str] = {}
    for raw_name, raw_value in raw:
        name, value = _NAMES.get(raw_name) or raw_name.decode("latin-1").lower(), raw_value.decode("latin-1")
        if name in headers:
            between = "\n" if name in _ONCE or name.startswith("mcp-") else ", "
            value = headers[name] + between + value
        headers[name] = value
    return headers


def decode_value(value: str) -> str | None:
    """What a header's value stands for; None if it is not a valid value.

    White space around it belongs to HTTP and not to the value (RFC 9110, 5.5).
    """
    if not (value.isascii() and value.isprintable()):
        value = value.strip(" \t")
        if not (value.isascii() and value.replace("\t", " ").isprintable()):
            return None
    elif value[:1] == " " or value[-1:] == " ":
        value = value.strip(" \t")
    if not (value.startswith(_SENTINEL) and value.endswith(_SENTINEL_END) and len(value) > len(_SENTINEL) + 1):
        return value
    payload = value[len(_SENTINEL) : -len(_SENTINEL_END)]
    try:
        decoded = base64.b64decode(payload, validate=True)
        # Stray bits in the last character would give one value several encodings.
        return decoded.decode("utf-8") if base64.b64encode(decoded).decode("ascii") == payload else None
    except (binascii.Error, UnicodeDecodeError):
        return None


def encode_value(value: str) -> str:
    """The header's value for ``value``: itself where that survives HTTP, else wrapped."""
    plain = value.isascii() and value.isprintable() and value == value.strip()
    if plain and not (value.startswith(_SENTINEL) and value.endswith(_SENTINEL_END)):
        return value
    return f"{_SENTINEL}{base64.b64encode(value.encode()).decode('ascii')}{_SENTINEL_END}"


@dataclass(frozen=True, slots=True)
class Mirrored:
    """One parameter that a header mirrors."""

    path: tuple[str, ...]
    header: str
    """In lower case, prefix included."""


def mirrored(schema: Mapping[str, Any]) -> tuple[Mirrored, ...]:
    """The parameters of a tool that headers mirror; none if any annotation breaks a rule.

    One wrong annotation makes the whole definition invalid, clients drop the tool, and nothing is left to validate.
    """
    found: list[Mirrored] = []
    names: set[str] = set()
    for path, node in _positions(schema):
        if ANNOTATION not in node:
            continue
        name = node[ANNOTATION]
        if not path or type(name) is not str or not name or not _TOKEN.issuperset(name):
            return ()
        kind, header = node.get("type"), PREFIX + name.lower()
        if type(kind) is not str or kind not in _PRIMITIVES or header in names:
            return ()
        names.add(header)
        found.append(Mirrored(path, header))
    return tuple(found)


class MirrorCache:
    """`mirrored`, remembered by the identity of the schema object.

    Invariant: an entry holds its schema, so an ``id`` in here cannot have been given to another object.
    """

    __slots__ = ("_known",)

    LIMIT: Final = 4096

    def __init__(self) -> None:
        self._known: dict[int, tuple[Mapping[str, Any], tuple[Mirrored, ...]]] = {}

    def __call__(self, schema: Mapping[str, Any]) -> tuple[Mirrored, ...]:
        if not schema:
            return ()
        entry = self._known.get(id(schema))
        if entry is None or entry[0] is not schema:
            if len(self._known) >= self.LIMIT:
                self._known.clear()
            entry = self._known[id(schema)] = schema, mirrored(schema)
        return entry[1]


def check_parameters(parameters: Iterable[Mirrored], arguments: Mapping[str, Any], headers: Mapping[str, str]) -> None:
    """Compare each mirrored parameter with its header; headers that mirror nothing are ignored.

    Raises:
        ProtocolError: -32020, HTTP 400.
    """
    for parameter in parameters:
        value, sent = _at(arguments, parameter.path), headers.get(parameter.header)
        if sent is None:
            if type(value) in (str, int, float, bool):
                raise _mismatch(parameter, "is missing although the argument has a value")
            continue
        decoded = decode_value(sent)
        if decoded is None:
            raise _mismatch(parameter, "was sent more than once" if "\n" in sent else "has an invalid value")
        if value is None:
            raise _mismatch(parameter, "has a value although the argument has none")
        if not _same(value, decoded):
            raise _mismatch(parameter, "does not match the argument")


def written_parameters(parameters: Iterable[Mirrored], arguments: Mapping[str, Any]) -> dict[str, str]:
    """The headers that a client sends for these arguments; none for what has no value, or none that a header holds."""
    written: dict[str, str] = {}
    for parameter in parameters:
        match _at(arguments, parameter.path):
            case bool() as value:
                written[parameter.header] = "true" if value else "false"
            case int() as value:
                written[parameter.header] = str(value)
            case float() as value:
                written[parameter.header] = str(int(value)) if value.is_integer() else repr(value)
            case str() as value:
                written[parameter.header] = encode_value(value)
    return written


def _mismatch(parameter: Mirrored, what: str) -> ProtocolError:
    header = "Mcp-Param-" + parameter.header[len(PREFIX) :]
    say = f"Header mismatch: the header {header} (parameter {'.'.join(parameter.path)}) {what}."
    return ProtocolError(HEADER_MISMATCH, say, status=400)


def _at(arguments: Mapping[str, Any], path: tuple[str, ...]) -> Any:
    node: Any = arguments
    for key in path:
        if not isinstance(node, Mapping):
            return None
        node = node.get(key)
    return node


def _same(value: Any, sent: str) -> bool:
    """Whether ``sent`` is how a client writes ``value``: numbers by what they are worth, the rest by its text."""
    match value:
        case bool():
            return sent == ("true" if value else "false")
        case int() | float():
            return _same_number(value, sent)
        case str():
            return sent == value
    return False  # an object or a list has no form in a header


def _same_number(value: float, sent: str) -> bool:
    """Exact, without a detour over floating point: ``42``, ``42.0`` and ``-0`` are integers, ``4.2e1`` is nobody's."""
    whole, _, fraction = sent.partition(".")
    digits = whole.removeprefix("-")
    if not (digits.isdecimal() and (fraction.isdecimal() or "." not in sent)):
        return False
    try:
        if fraction.strip("0"):
            return type(value) is float and float(sent) == value
        return int(whole) == value
    except ValueError:  # more digits than Python converts
        return False


def _positions(root: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...] | None, dict[str, Any]]]:
    """Every schema in ``root`` with its chain of ``properties`` keys, None where other keywords are on the way."""
    stack: list[tuple[tuple[str, ...] | None, Any]] = [((), root)]
    while stack:
        path, node = stack.pop()
        if not isinstance(node, dict):
            continue
        yield path, node
        for keyword, held in node.items():
            if keyword == "properties" and isinstance(held, dict):
                stack.extend((None if path is None else (*path, name), sub) for name, sub in held.items())
            elif isinstance(held, dict) and keyword in _ONE_SCHEMA:
                stack.append((None, held))
            elif isinstance(held, list) and keyword in _LIST_OF_SCHEMAS:
                stack.extend((None, sub) for sub in held)
            elif isinstance(held, dict) and keyword in _MAP_OF_SCHEMAS:
                stack.extend((None, sub) for sub in held.values())
