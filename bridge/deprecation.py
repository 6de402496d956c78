"""Says, once and to the point, that a server relies on something the specification is going to remove.

Two moments matter: a session *negotiates* a deprecated feature, and somebody *uses* it. The rule: one warning per
session and feature at negotiation; one per server, feature and client name at use; everything after that is counted.
A warning of use says who, what, since when, when it may go away and what replaces it; one of negotiation is a short
line, since a client that declares everything makes one of each with servers that never ask; what is in use as soon as
it is negotiated (a transport) is said in full the first time. The table below follows the registry of deprecated
features of 2026-07-28 (deprecated.mdx), as far as a wrapped server can meet them.

What clients call themselves is theirs to choose, so the number of names that are remembered is bounded.
"""

from __future__ import annotations

import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final

MAX_CLIENTS: Final = 64
"""Client names remembered for each feature; the rest are counted together."""
MAX_SESSIONS: Final = 1024
"""Session labels remembered, the latest ones."""
MAX_NAME: Final = 80
OTHER_CLIENTS: Final = "(other clients)"
NAMELESS_CLIENT: Final = "(a client without a name)"

_logger = logging.getLogger("mrtr.deprecation")


class Feature(StrEnum):
    """A deprecated feature that a wrapped server can negotiate or use."""

    ROOTS = "roots"
    SAMPLING = "sampling"
    LOGGING = "logging"
    INCLUDE_CONTEXT = "includeContext"
    HTTP_SSE = "http+sse"


@dataclass(frozen=True, slots=True)
class Notice:
    """A row of the registry."""

    title: str
    since: str
    earliest_removal: str
    instead: str
    proposal: str


_AFTER_A_YEAR: Final = "the first revision released on or after 2027-07-28"

NOTICES: Final[Mapping[Feature, Notice]] = MappingProxyType(
    {
        Feature.ROOTS: Notice(
            "Roots",
            "2026-07-28",
            _AFTER_A_YEAR,
            "pass directories or files via tool parameters, resource URIs or server configuration",
            "SEP-2577",
        ),
        Feature.SAMPLING: Notice(
            "Sampling",
            "2026-07-28",
            _AFTER_A_YEAR,
            "integrate directly with the API of an LLM provider",
            "SEP-2577",
        ),
        Feature.LOGGING: Notice(
            "Logging",
            "2026-07-28",
            _AFTER_A_YEAR,
            "log to stderr on stdio transports, and use OpenTelemetry for observability",
            "SEP-2577",
        ),
        Feature.INCLUDE_CONTEXT: Notice(
            'includeContext "thisServer" and "allServers"',
            "2025-11-25",
            f"the same revision as Sampling, {_AFTER_A_YEAR}",
            'omit the field or send "none"',
            "SEP-2596",
        ),
        Feature.HTTP_SSE: Notice(
            "the HTTP+SSE transport",
            "2025-03-26",
            "three months after SEP-2596 reaches Final",
            "serve Streamable HTTP",
            "SEP-2596",
        ),
    }
)


_IN_USE_AT_ONCE: Final = frozenset({Feature.HTTP_SSE})


def warn_in_log(sentence: str, fields: Mapping[str, str]) -> None:
    """The usual ``warn``: a record of ``mrtr.deprecation`` with the fields as its extras."""
    _logger.warning("%s", sentence, extra=dict(fields))


@dataclass(slots=True)
class _Count:
    times: int = 0
    last_seen: float = 0.0

    def add(self, now: float) -> bool:
        """Count one more; True for the first."""
        self.times += 1
        self.last_seen = now
        return self.times == 1


@dataclass(slots=True)
class _Seen:
    """What one feature came to. ``used`` has at most `MAX_CLIENTS` names and `OTHER_CLIENTS`."""

    negotiated: _Count = field(default_factory=_Count)
    used: dict[str, _Count] = field(default_factory=dict)


class Deprecations:
    """What one server negotiated and used of what is going away."""

    def __init__(
        self,
        server_name: str,
        warn: Callable[[str, Mapping[str, str]], None] = warn_in_log,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._server = server_name
        self._warn = warn
        self._clock = clock
        self._seen: dict[Feature, _Seen] = {}
        self._sessions: OrderedDict[tuple[str, Feature], None] = OrderedDict()

    def negotiated(self, session_label: str, features: Collection[Feature]) -> None:
        """A session was initialised with these."""
        for feature in sorted(features, key=list(Feature).index):
            if (session_label, feature) in self._sessions:
                continue
            self._sessions[session_label, feature] = None
            if len(self._sessions) > MAX_SESSIONS * len(Feature):
                self._sessions.popitem(last=False)
            first = self._seen.setdefault(feature, _Seen()).negotiated.add(self._clock())
            notice = NOTICES[feature]
            what = f"negotiated {notice.title} in session {session_label}"
            sentence = f"Server {self._server} {what}: deprecated since {notice.since}"
            if first and feature in _IN_USE_AT_ONCE:
                sentence += f", earliest removal: {notice.earliest_removal}. Instead: {notice.instead}"
            sentence += "."
            self._warn(sentence, self._fields(feature, "negotiated") | {"session": session_label})

    def used(self, feature: Feature, client_name: str | None) -> None:
        """The server used ``feature`` on behalf of a client of this name, or the client used it itself."""
        counts = self._seen.setdefault(feature, _Seen()).used
        name = client_name[:MAX_NAME] if client_name else NAMELESS_CLIENT
        if name not in counts and len(counts) >= MAX_CLIENTS:
            name = OTHER_CLIENTS
        if counts.setdefault(name, _Count()).add(self._clock()):
            notice = NOTICES[feature]
            sentence = (
                f"Server {self._server} used {notice.title} with client {name}: deprecated since {notice.since}, "
                f"earliest removal: {notice.earliest_removal}. Instead: {notice.instead}."
            )
            self._warn(sentence, self._fields(feature, "used") | {"client": name})

    def was_used(self, feature: Feature) -> bool:
        """Whether the server, or a client, has used it so far."""
        seen = self._seen.get(feature)
        return seen is not None and bool(seen.used)

    def report(self) -> list[dict[str, Any]]:
        """One plain dict for each feature seen, in the table's order; times are Unix seconds."""
        return [
            {
                "feature": feature.value,
                "title": notice.title,
                "server": self._server,
                "since": notice.since,
                "earliest_removal": notice.earliest_removal,
                "instead": notice.instead,
                "proposal": notice.proposal,
                "negotiated": seen.negotiated.times,
                "used": sum(count.times for count in seen.used.values()),
                "clients": {name: count.times for name, count in seen.used.items()},
                "last_seen": max([seen.negotiated.last_seen, *(count.last_seen for count in seen.used.values())]),
            }
            for feature, notice in NOTICES.items()
            if (seen := self._seen.get(feature)) is not None
        ]

    def _fields(self, feature: Feature, event: str) -> dict[str, str]:
        notice = NOTICES[feature]
        return {
            "event": f"deprecated_{event}",
            "feature": feature.value,
            "server": self._server,
            "since": notice.since,
            "earliest_removal": notice.earliest_removal,
            "instead": notice.instead,
        }


def features_of(
    declared: Mapping[str, Any], server_capabilities: Mapping[str, Any], *, http_sse: bool = False
) -> frozenset[Feature]:
    """What a session negotiated.

    ``declared`` are the client capabilities that the server got in ``initialize``, ``server_capabilities`` what it
    declared itself, ``http_sse`` whether the session runs over that transport.
    """
    found = set()
    if declared.get("roots") is not None:
        found.add(Feature.ROOTS)
    if (sampling := declared.get("sampling")) is not None:
        found.add(Feature.SAMPLING)
        if isinstance(sampling, Mapping) and sampling.get("context") is not None:
            found.add(Feature.INCLUDE_CONTEXT)
    if server_capabilities.get("logging") is not None:
        found.add(Feature.LOGGING)
    if http_sse:
        found.add(Feature.HTTP_SSE)
    return frozenset(found)


def features_used(method: str, params: Mapping[str, Any] | None) -> frozenset[Feature]:
    """What a server's (or, for the log level, a client's) message uses."""
    match method:
        case "roots/list":
            return frozenset({Feature.ROOTS})
        case "notifications/message" | "logging/setLevel":
            return frozenset({Feature.LOGGING})
        case "sampling/createMessage":
            if (params or {}).get("includeContext") in ("thisServer", "allServers"):
                return frozenset({Feature.SAMPLING, Feature.INCLUDE_CONTEXT})
            return frozenset({Feature.SAMPLING})
        case _:
            return frozenset()
