"""How a call ends, and how an attempt does: what the client hears, what the server hears. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from bridge import outcomes as o
from bridge.settings import Limits
from bridge.timing import Overdue
from bridge.translate import errors
from legacy.messages import Ask, Failure, Lost, Reply, Result
from modern.errors import INTERNAL_ERROR, ProtocolError

CANCELLED_ANSWER = {"action": "cancel"}
NO_ANSWER = -32603
NO_ANSWER_MESSAGE = "The client did not answer."


class Over(Exception):
    """The call has come to its end; ``outcome`` None when nobody is left to hear it."""

    def __init__(self, outcome: o.Final | None, *, cancel: str | None = None, keep: bool = False) -> None:
        self.outcome = outcome
        self.cancel = cancel
        """What the server hears, if its request is not over."""
        self.keep = keep
        """Keep the outcome for a retry, also where the call was cancelled with no leg open."""


class AttemptEnded(Exception):
    """The server replied, or it was given up: ``cancel``."""

    def __init__(self, reply: Reply | None, cancel: str | None = None) -> None:
        self.reply = reply
        self.cancel = cancel


class Missing:
    """Capabilities that the server asked for in this attempt and the client lacks."""

    __slots__ = ("_required",)

    def __init__(self) -> None:
        self._required: dict[str, Any] = {}

    def __bool__(self) -> bool:
        return bool(self._required)

    def add(self, required: Mapping[str, Any]) -> None:
        _merge(self._required, required)

    def clear(self) -> None:
        self._required = {}

    def failed(self) -> o.Failed:
        """The call failed for want of them."""
        return o.Failed(errors.missing_capability(self._required))


def failed(message: str) -> o.Failed:
    """The call failed on this side of the server."""
    return o.Failed(ProtocolError(INTERNAL_ERROR, message))


def of_reply(method: str, reply: Reply, missing: Missing, declared: Mapping[str, Any]) -> o.Complete | o.Failed:
    """What a server's reply means to the client, given what it could not be asked; ``declared``: what the server said
    it can do."""
    match reply:
        case Result(value=value) if missing and value.get("isError") is True:
            return missing.failed()
        case Result(value=value):
            return o.Complete(value)
        case Failure() if missing:
            return missing.failed()
        case Failure():
            return o.Failed(errors.to_modern(method, reply, declared=declared))
        case Lost(reason=reason):
            return o.Failed(errors.lost(reason))


def of_time(overdue: Overdue, limits: Limits, *, sure: bool = True) -> Over:
    """The end of a call that took too long for one of those who wait. Not ``sure``: its server may have forgotten an
    answer (`legacy.messages.Ask.sure`)."""
    why = "" if sure else FORGETFUL
    match overdue:
        case Overdue.CLIENT:
            return Over(None, cancel="The client went away.")
        case Overdue.CALL:
            message = f"The call took longer than it may (--call-ttl); it was cancelled.{why}"
            return Over(failed(message), cancel="The call took too long.")
        case Overdue.TASK:
            message = f"The task took longer than it may (--task-ttl); it was cancelled.{why}"
            return Over(failed(message), cancel="The task took too long.")
        case Overdue.SERVER:
            message = (
                f"The server said nothing for {limits.silence:g} s (--timeout); the call was cancelled."
                f" Whether it had an effect is unknown.{why}"
            )
            return Over(failed(message), cancel="The server was silent for too long.", keep=True)
        case Overdue.ROUND | Overdue.LEG:
            return Over(None, cancel=TOO_LATE)


FORGETFUL = (
    " It had been given an answer, but it keeps no sessions (its initialize brought no Mcp-Session-Id), so the answer"
    " may have reached a part of it that has forgotten the call: run a server that asks with sessions."
)
TOO_LATE = "The call was not continued in time."


def closing(left: Iterable[Ask], *, attempting: bool) -> list[o.Command]:
    """What becomes of asks that nobody will answer any more; one that came before the attempt is another call's now."""
    commands: list[o.Command] = []
    for ask in left:
        if not ask.open:
            continue
        if not attempting:
            commands.append(o.GiveBack(ask))
        elif ask.method == "elicitation/create":
            commands.append(o.Answer(ask, dict(CANCELLED_ANSWER)))
        else:
            commands.append(o.Refuse(ask, NO_ANSWER, NO_ANSWER_MESSAGE))
    return commands


def _merge(into: dict[str, Any], more: Any) -> None:
    for name, value in more.items():
        if isinstance(value, dict) and isinstance(into.get(name), dict):
            _merge(into[name], value)
        else:
            into[name] = dict(value) if isinstance(value, dict) else value
