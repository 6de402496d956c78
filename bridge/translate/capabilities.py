"""What clients and servers can do, across the eras.

A legacy server learns what its client can do once, in ``initialize``; a modern client says it with every request. So
a client's capabilities are reduced to a `Profile` of known flags, by which sessions are kept: varying anything else
starts no session. The other way, `discover` turns a legacy server's capabilities into modern ones [server/discover].
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from modern import tasks

NO_MODERN_FORM: Final = frozenset({"tasks"})
"""Server capabilities that 2026-07-28 does not have. (Tasks are an extension, which the bridge declares itself.)"""
_LIVE: Final = frozenset({"listChanged", "subscribe"})
_KNOWN: Final = ("completions", "logging", "prompts", "resources", "tools")


@dataclass(frozen=True, slots=True)
class Profile:
    """What a client declared, as far as it makes a difference to a legacy server."""

    form: bool = False
    url: bool = False
    sampling: bool = False
    sampling_tools: bool = False
    sampling_context: bool = False
    roots: bool = False
    extensions: frozenset[str] = frozenset()

    @classmethod
    def of(cls, capabilities: Mapping[str, Any], extensions_allowed: frozenset[str] = frozenset()) -> Profile:
        """The profile of a client; a capability that is no object counts as not declared.

        ``elicitation: {}`` means form mode, ``{"url": {}}`` means url mode only [client/elicitation, Capabilities].
        """
        elicitation = _object(capabilities, "elicitation")
        sampling = _object(capabilities, "sampling")
        extensions = _object(capabilities, "extensions") or {}
        modes = elicitation if elicitation is not None else {}
        implied = elicitation is not None and modes.get("form") is None and modes.get("url") is None
        return cls(
            form=implied or _object(modes, "form") is not None,
            url=_object(modes, "url") is not None,
            sampling=sampling is not None,
            sampling_tools=sampling is not None and _object(sampling, "tools") is not None,
            sampling_context=sampling is not None and _object(sampling, "context") is not None,
            roots=_object(capabilities, "roots") is not None,
            extensions=frozenset(name for name in extensions_allowed if isinstance(extensions.get(name), Mapping)),
        )

    def to_legacy(self) -> dict[str, Any]:
        """The ``capabilities`` of ``initialize``, in the shape of 2025-11-25.

        Form mode is written out, since servers of 2025-11-25 look for ``elicitation.form``; to one of 2025-06-18 any
        object says that there is elicitation, and its SDKs keep keys they do not know.
        """
        legacy: dict[str, Any] = {}
        if self.roots:
            legacy["roots"] = {"listChanged": True}
        if self.sampling:
            legacy["sampling"] = _flags(tools=self.sampling_tools, context=self.sampling_context)
        if self.form or self.url:
            legacy["elicitation"] = _flags(form=self.form, url=self.url)
        if self.extensions:
            legacy["extensions"] = {name: {} for name in sorted(self.extensions)}
        return legacy

    @property
    def asks_anything(self) -> bool:
        """Whether a server could ask this client anything at all."""
        return self.form or self.url or self.sampling or self.roots

    def missing_for(self, ask_method: str, params: Mapping[str, Any] | None) -> dict[str, Any] | None:
        """The capabilities that this ask needs and this client lacks, as ``requiredCapabilities``; None if it has all.

        An ask of an unknown method or mode needs no capability: it is refused for another reason.
        """
        asked: Mapping[str, Any] = params if isinstance(params, Mapping) else {}
        match ask_method:
            case "elicitation/create" if asked.get("mode") == "url":
                return None if self.url else {"elicitation": {"url": {}}}
            case "elicitation/create":
                return None if self.form or asked.get("mode") not in (None, "form") else {"elicitation": {"form": {}}}
            case "sampling/createMessage" if uses_tools(asked):
                return None if self.sampling_tools else {"sampling": {"tools": {}}}
            case "sampling/createMessage":
                return None if self.sampling else {"sampling": {}}
            case "roots/list":
                return None if self.roots else {"roots": {}}
        return None


EVERYTHING: Final = Profile(form=True, url=True, sampling=True, sampling_tools=True, sampling_context=True, roots=True)
"""All that can be asked of clients through us: for a session that has to serve every one of them."""


def uses_tools(params: Mapping[str, Any]) -> bool:
    """Whether a sampling ask needs ``sampling.tools``: ``tools`` or ``toolChoice`` are given [client/sampling]."""
    return params.get("tools") not in (None, []) or params.get("toolChoice") is not None


def discover(
    legacy_capabilities: Mapping[str, Any],
    protocol_version: str,
    *,
    streams: bool,
    completions: bool | None,
) -> dict[str, Any]:
    """The ``capabilities`` of `server/discover` for a server that declared these at ``protocol_version``.

    ``streams``: whether a listen stream could bring ``list_changed`` and ``updated``; where none can, nothing may say
    that they come. ``completions``: whether the server has the method, though its revision (2024-11-05) had no way to
    say so.
    """
    modern: dict[str, Any] = {}
    for name, capability in legacy_capabilities.items():
        if name in NO_MODERN_FORM or capability is None:
            continue
        if name in _KNOWN and not isinstance(capability, Mapping):
            if not capability:
                continue
            capability = {}  # `true` where the schema has an object
        if not streams and name in _KNOWN and not _LIVE.isdisjoint(capability):
            capability = {key: value for key, value in capability.items() if key not in _LIVE}
        modern[name] = capability
    if completions and protocol_version == "2024-11-05":
        modern.setdefault("completions", {})
    extensions = modern.get("extensions")
    modern["extensions"] = {**(extensions if isinstance(extensions, Mapping) else {}), tasks.EXTENSION: {}}
    return modern


def _object(parent: Mapping[str, Any], key: str) -> Mapping[str, Any] | None:
    value = parent.get(key)
    return value if isinstance(value, Mapping) else None


def _flags(**flags: bool) -> dict[str, Any]:
    return {name: {} for name, on in flags.items() if on}
