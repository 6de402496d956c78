"""Subscription streams: their filter, and what every message on them carries [basic/patterns/subscriptions].

Pure. Which streams are open, and what the wrapped server was asked for their sake, is known to the handler.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final

from pydantic_core import Url

from modern.errors import INVALID_PARAMS, ProtocolError

ACKNOWLEDGED: Final = "notifications/subscriptions/acknowledged"
UPDATED: Final = "notifications/resources/updated"
SUBSCRIPTION_ID_KEY: Final = "io.modelcontextprotocol/subscriptionId"
MOST_RESOURCES: Final = 10_000
"""URIs that one stream may name: each costs a request to the server behind us."""
_BELOW: Final = "/?#"
"""What stands between a resource's URI and the rest of a sub-resource's."""


@dataclass(frozen=True, slots=True)
class Filter:
    """What a stream brings; nothing that was not asked for."""

    tools_changed: bool = False
    prompts_changed: bool = False
    resources_changed: bool = False
    resources: tuple[str, ...] = ()
    """URIs in the client's order, each once."""
    tasks: tuple[str, ...] | None = None
    """Ids of tasks, each once; None if the filter does not speak of tasks."""
    _wanted: frozenset[str] = frozenset()
    _lengths: frozenset[int] = frozenset()

    @classmethod
    def read(cls, params: Mapping[str, Any]) -> Filter:
        """The filter in the params of ``subscriptions/listen``; fields that we do not know are ignored.

        Raises:
            ProtocolError: -32602, HTTP 400, for a field of the wrong type.
        """
        asked = params.get("notifications")
        if not isinstance(asked, dict):
            raise _wrong("'notifications' must be an object.")
        uris = asked.get("resourceSubscriptions", [])
        if not isinstance(uris, list) or not all(isinstance(uri, str) for uri in uris):
            raise _wrong("'resourceSubscriptions' must be a list of strings.")
        if len(uris) > MOST_RESOURCES:
            raise _wrong(f"'resourceSubscriptions' has more than {MOST_RESOURCES} entries; open several streams.")
        ids = asked.get("taskIds")
        if ids is not None and not (isinstance(ids, list) and all(isinstance(task_id, str) for task_id in ids)):
            raise _wrong("'taskIds' must be a list of strings.")
        return cls(
            _flag(asked, "toolsListChanged"),
            _flag(asked, "promptsListChanged"),
            _flag(asked, "resourcesListChanged"),
            tasks=None if ids is None else tuple(dict.fromkeys(ids)),
        ).only(uris)

    def supported(self, capabilities: Mapping[str, Any], *, pushes: bool = True) -> Filter:
        """What of it a server with these capabilities can bring; ``pushes``: whether it can say anything unasked."""
        if not pushes:
            return Filter()
        resources = capabilities.get("resources")
        return replace(
            self,
            tools_changed=self.tools_changed and _declares(capabilities.get("tools"), "listChanged"),
            prompts_changed=self.prompts_changed and _declares(capabilities.get("prompts"), "listChanged"),
            resources_changed=self.resources_changed and _declares(resources, "listChanged"),
        ).only(self.resources if _declares(resources, "subscribe") else ())

    def only(self, uris: Iterable[str]) -> Filter:
        """The same filter with these resources."""
        kept = tuple(dict.fromkeys(uris))
        wanted = frozenset(kept).union(map(_normal, kept))
        return replace(self, resources=kept, _wanted=wanted, _lengths=frozenset(map(len, wanted)))

    def admits(self, method: str, params: Mapping[str, Any]) -> bool:
        """Whether the stream asked for this notification. Progress and log messages never travel here."""
        match method:
            case "notifications/tools/list_changed":
                return self.tools_changed
            case "notifications/prompts/list_changed":
                return self.prompts_changed
            case "notifications/resources/list_changed":
                return self.resources_changed
            case "notifications/resources/updated":
                uri = params.get("uri")
                return isinstance(uri, str) and (self._covers(uri) or self._covers(_normal(uri)))
        return False

    def as_params(self) -> dict[str, Any]:
        """The filter as it is written on the wire; what is off is left out."""
        written: dict[str, Any] = {}
        if self.tools_changed:
            written["toolsListChanged"] = True
        if self.prompts_changed:
            written["promptsListChanged"] = True
        if self.resources_changed:
            written["resourcesListChanged"] = True
        if self.resources:
            written["resourceSubscriptions"] = list(self.resources)
        if self.tasks:
            written["taskIds"] = list(self.tasks)
        return written

    def _covers(self, uri: str) -> bool:
        """Whether ``uri`` is subscribed, or is a sub-resource of one that is: below it in its path, query or fragment.

        Looks at prefixes of ``uri`` of the lengths that subscribed URIs have, so that a stream with many URIs costs
        hardly more than one with few, and a long ``uri`` no more than a short one.
        """
        if uri in self._wanted:
            return True
        return any(
            (uri[length - 1] in _BELOW or uri[length] in _BELOW) and uri[:length] in self._wanted
            for length in self._lengths
            if 0 < length < len(uri)
        )


def _normal(uri: str) -> str:
    """The spelling in which servers name a resource that parse its URI, as those of the Python SDK do: lower case where
    case means nothing, escapes where they have to be."""
    return _parsed(uri) if len(uri) <= 2048 else uri


@lru_cache(maxsize=1024)
def _parsed(uri: str) -> str:
    try:
        return str(Url(uri))
    except ValueError:
        return uri


def acknowledgement(subscription: str | int, honoured: Filter) -> dict[str, Any]:
    """The params of the first message on a stream."""
    return {"_meta": {SUBSCRIPTION_ID_KEY: subscription}, "notifications": honoured.as_params()}


def stamped(subscription: str | int, params: Mapping[str, Any] | None) -> dict[str, Any]:
    """``params`` of a notification as it goes out on a stream; the given ones stay as they are."""
    made = dict(params or {})
    meta = made.get("_meta")
    made["_meta"] = {**(meta if isinstance(meta, dict) else {}), SUBSCRIPTION_ID_KEY: subscription}
    return made


def closing(subscription: str | int) -> dict[str, Any]:
    """The result that ends a stream from this side."""
    return {"resultType": "complete", "_meta": {SUBSCRIPTION_ID_KEY: subscription}}


def _flag(asked: Mapping[str, Any], name: str) -> bool:
    value = asked.get(name, False)
    if not isinstance(value, bool):
        raise _wrong(f"{name!r} must be true or false.")
    return value


def _declares(capability: Any, flag: str) -> bool:
    return isinstance(capability, dict) and capability.get(flag) is True


def _wrong(say: str) -> ProtocolError:
    return ProtocolError(INVALID_PARAMS, f"Invalid params: {say}", status=400)
