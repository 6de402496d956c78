"""A legacy server's ask as an input request of 2026-07-28, and its answer on the way back.

An ask is shown to a client only if that client declared what it needs and can read it: an official client throws the
whole round away for one request that it cannot read. So `present` says yes, or which refusal the server gets; the ask
alone is refused, as an old client would have refused it [basic/patterns/mrtr; client/elicitation, sampling, roots].
`answer_back` judges what the client sent and puts it into the words of the session's revision.

Verdicts never repeat what a person entered or a server asked for: they name fields and rules.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

from bridge.translate import sampling
from bridge.translate.capabilities import Profile, uses_tools
from bridge.translate.forms import Form, bring
from bridge.translate.meta import ASK_ONLY, ENVELOPE, INPUT_KEY, SERVER_INFO, without
from bridge.translate.methods import ASK_PREFIX
from bridge.translate.schemas import Unfit
from modern.errors import INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND

_KEY: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_ACTIONS: Final = ("accept", "cancel", "decline")
_CONTEXTS: Final = ("allServers", "thisServer")
_GONE: Final = {"elicitation/create": {"task"}, "sampling/createMessage": {"task"}, "roots/list": {"task"}}
"""Parameters that 2026-07-28 does not have (tasks are an extension there)."""
_MAYBE_NULL: Final = {
    "elicitation/create": {"mode"},
    "sampling/createMessage": {*sampling.OPTIONAL, "includeContext"},
    "roots/list": set[str](),
}
"""Optional parameters for which some servers write null, and official clients read no null."""
_CHANGES_EACH_TIME: Final = frozenset({"elicitationId", "task"})
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*")


@dataclass(frozen=True, slots=True)
class Presented:
    """An ask that the client can be shown, and what is needed to map the answer back."""

    request: dict[str, Any]
    """What goes into ``inputRequests``: ``method`` and ``params``."""
    original: dict[str, Any]
    """The params as the server sent them."""
    form: Form | None = None
    """Set for form mode."""

    @property
    def method(self) -> str:
        return str(self.request["method"])

    def with_note(self, note: str) -> dict[str, Any]:
        """The request with a reason added to its message: it is asked again."""
        params = self.request.get("params", {})
        if "message" not in params:
            return self.request
        return {**self.request, "params": {**params, "message": f"{params['message']}\n\n{note}"}}


@dataclass(frozen=True, slots=True)
class Undeclared:
    """This client did not declare what the ask needs: the server gets this error."""

    code: int
    message: str
    required: dict[str, Any]
    """The capabilities, as in ``requiredCapabilities``."""


@dataclass(frozen=True, slots=True)
class Unpresentable:
    """No client of 2026-07-28 could read the ask: the server gets ``-32602`` with this message."""

    message: str
    code: int = INVALID_PARAMS


@dataclass(frozen=True, slots=True)
class Accepted:
    """The answer for the server. (Never in a ``repr``: it may be a secret.)"""

    result: dict[str, Any] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Malformed:
    """The answer has the wrong shape: the client's mistake."""

    message: str


@dataclass(frozen=True, slots=True)
class Mismatch:
    """The content breaks the form's schema."""

    reason: str
    """A line for the person who is asked again."""
    raw: dict[str, Any] = field(repr=False)
    """The answer for the server all the same, mapped back as far as it could be."""


@dataclass(frozen=True, slots=True)
class Refused:
    """The answer cannot be said in the session's revision: the server gets this error for its ask."""

    code: int
    message: str


Verdict = Accepted | Malformed | Mismatch | Refused


def suggested_key(params: Mapping[str, Any] | None) -> str | None:
    """The key that the server would like its ask to have, if it says a usable one in ``_meta``."""
    meta = params.get("_meta") if isinstance(params, Mapping) else None
    key = meta.get(INPUT_KEY) if isinstance(meta, Mapping) else None
    return key if isinstance(key, str) and _KEY.fullmatch(key) else None


def digest(method: str, params: dict[str, Any]) -> bytes:
    """What is the same when the same thing is asked again: the method, and the params without the names that a server
    gives this one request."""
    said = {name: value for name, value in without(params, ASK_ONLY).items() if name not in _CHANGES_EACH_TIME}
    text = json.dumps([method, said], sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


# -- out to the client ------------------------------------------------------------------------------------------------


def present(method: str, params: Mapping[str, Any] | None, profile: Profile) -> Presented | Undeclared | Unpresentable:
    """An ask as a client of this profile is shown it, or why it is not."""
    original = dict(params) if isinstance(params, Mapping) else {}
    if method not in ASK_PREFIX:
        return Undeclared(METHOD_NOT_FOUND, f"Method not found: {method}", {})
    undeclared = _undeclared(method, original, profile)
    if undeclared is not None:
        return undeclared
    nullable = _MAYBE_NULL[method]
    shown = {
        name: value
        for name, value in without(original, ASK_ONLY).items()
        if name not in _GONE[method] and (value is not None or name not in nullable)
    }
    match method:
        case "elicitation/create":
            return _elicitation(original, shown)
        case "sampling/createMessage":
            return _sampling(original, shown, profile)
    return Presented({"method": method, "params": shown} if shown else {"method": method}, original)


def _undeclared(method: str, params: Mapping[str, Any], profile: Profile) -> Undeclared | None:
    required = profile.missing_for(method, params)
    match method:
        case "elicitation/create" if not (profile.form or profile.url):
            return Undeclared(METHOD_NOT_FOUND, "Method not found: elicitation/create", required or {"elicitation": {}})
        case "elicitation/create" if required is not None:
            mode = "url" if params.get("mode") == "url" else "form"
            return Undeclared(INVALID_PARAMS, f"The client does not support elicitation in {mode} mode.", required)
        case "sampling/createMessage" if profile.sampling and required is not None:
            return Undeclared(INVALID_PARAMS, "The client does not support tools in sampling.", required)
    return None if required is None else Undeclared(METHOD_NOT_FOUND, f"Method not found: {method}", required)


def _elicitation(original: dict[str, Any], shown: dict[str, Any]) -> Presented | Unpresentable:
    if not isinstance(shown.get("message"), str):
        return Unpresentable("elicitation/create: message must be a string.")
    match shown.get("mode", "form"):
        case "url":
            if not _is_url(shown.get("url")):
                return Unpresentable("elicitation/create: url must be an absolute URL.")
            shown.pop("elicitationId", None)
            return Presented({"method": "elicitation/create", "params": shown}, original)
        case "form":
            try:
                form = bring(shown.get("requestedSchema"))
            except Unfit as unfit:
                return Unpresentable(f"elicitation/create: {unfit}")
            shown["requestedSchema"] = form.schema
            return Presented({"method": "elicitation/create", "params": shown}, original, form)
    return Unpresentable("elicitation/create: mode must be form or url.")


def _sampling(original: dict[str, Any], shown: dict[str, Any], profile: Profile) -> Presented | Unpresentable:
    context = shown.get("includeContext")
    if context is not None and context != "none" and not (profile.sampling_context and context in _CONTEXTS):
        del shown["includeContext"]
    if shown.get("tools") == [] and not profile.sampling_tools:
        del shown["tools"]
    fault = sampling.request_fault(shown)
    if fault is not None:
        return Unpresentable(f"sampling/createMessage: {fault}.")
    return Presented({"method": "sampling/createMessage", "params": shown}, original)


def _is_url(url: object) -> bool:
    """Whether every client's URL parser takes it."""
    if not isinstance(url, str) or not url or any(char.isspace() or not char.isprintable() for char in url):
        return False
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return False
    if not _SCHEME.fullmatch(parts.scheme):
        return False
    return bool(parts.hostname) if parts.scheme in ("http", "https", "ws", "wss", "ftp") else True


# -- back to the server -----------------------------------------------------------------------------------------------


def answer_back(presented: Presented, answer: object, protocol_version: str) -> Verdict:
    """The client's answer for a server of this revision, or what is wrong with it."""
    if not isinstance(answer, dict):
        return Malformed("the answer must be an object.")
    result = without(answer, ENVELOPE | {SERVER_INFO})
    result = {name: value for name, value in result.items() if name != "resultType"}
    match presented.method:
        case "elicitation/create":
            return _elicited(presented, result)
        case "sampling/createMessage":
            return _sampled(presented, result, protocol_version)
    return _rooted(result)


def _elicited(presented: Presented, result: dict[str, Any]) -> Verdict:
    if result.get("action") not in _ACTIONS:
        return Malformed("action must be accept, decline or cancel.")
    content = result.get("content")
    if content is None:
        result.pop("content", None)  # some clients write null for none, which old servers do not read
    if result["action"] != "accept" or presented.form is None:
        return Accepted(result)
    if content is not None and not isinstance(content, dict):
        return Malformed("content must be an object.")
    result["content"] = presented.form.back(content or {})
    reason = presented.form.fault(result["content"])
    return Accepted(result) if reason is None else Mismatch(reason, result)


def _sampled(presented: Presented, result: dict[str, Any], protocol_version: str) -> Verdict:
    fault = sampling.answer_fault(result)
    if fault is not None:
        return Malformed(fault)
    content = sampling.down(result["content"], protocol_version, with_tools=uses_tools(presented.original))
    if isinstance(content, str):
        return Refused(INTERNAL_ERROR, content)
    return Accepted({**result, "content": content})


def _rooted(result: dict[str, Any]) -> Verdict:
    roots = result.get("roots")
    if not isinstance(roots, list):
        return Malformed("roots must be a list.")
    if not all(isinstance(root, dict) and isinstance(root.get("uri"), str) for root in roots):
        return Malformed("every root must be an object with a uri.")
    return Accepted(result)
