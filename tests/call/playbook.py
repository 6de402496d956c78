"""A whole exchange as a few lines: ``play >> event`` feeds a call, ``<< "command"`` says what it must want next.

Time stands still unless `after` moves it. Every command must be expected: one that nobody asked for fails at the next
event, or at `end`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bridge import outcomes as o
from bridge.call import Call, StepUsed
from bridge.settings import Limits
from bridge.translate.capabilities import Profile
from legacy.messages import Ask, Failure, Lost, Result
from modern.errors import ProtocolError

EVERYTHING = {"elicitation": {"form": {}, "url": {}}, "sampling": {"tools": {}, "context": {}}, "roots": {}}

Play = Callable[["Playbook"], list[o.Command]]


class Playbook:
    def __init__(
        self,
        method: str = "tools/call",
        *,
        declares: dict[str, Any] | None = None,
        siblings: float = 0.05,
        server: dict[str, Any] | None = None,
        replayable: bool = False,
        takes_tasks: bool = False,
        **limits: Any,
    ) -> None:
        self.now = 1000.0
        self.siblings = siblings
        self.profile = Profile.of(EVERYTHING if declares is None else declares)
        self.call = Call(
            method,
            self.profile,
            Limits(**limits),
            lambda: self.siblings,
            lambda: server if server is not None else {"tools": {}, "prompts": {}, "resources": {}},
            self.now,
            replayable=lambda: replayable,
            takes_tasks=takes_tasks,
        )
        self.names: dict[int, str] = {}
        self.settled: dict[object, o.Outcome] = {}
        self._pending: list[str] = []

    def __rshift__(self, event: Play) -> Playbook:
        assert not self._pending, f"nobody expected {self._pending}"
        self._pending = [self._say(command) for command in event(self)]
        return self

    def __lshift__(self, expected: str) -> Playbook:
        assert self._pending, f"expected {expected!r}, nothing happened"
        assert self._pending.pop(0) == expected
        return self

    def end(self) -> None:
        assert not self._pending, f"nobody expected {self._pending}"

    def name(self, ask: Ask) -> str:
        return self.names[id(ask)]

    def _say(self, command: o.Command) -> str:
        match command:
            case o.Settle(leg=leg, outcome=outcome):
                self.settled[leg] = outcome
                return f"{leg}: {self._outcome(outcome)}"
            case o.Answer(ask=ask, result=result):
                action = result.get("action", "")
                return f"answer {self.name(ask)} {action}".rstrip()
            case o.Refuse(ask=ask, code=code):
                return f"refuse {self.name(ask)} {code}"
            case o.GiveBack(ask=ask):
                return f"give back {self.name(ask)}"
            case o.AskProgress(ask=ask, beat=beat):
                return f"progress {self.name(ask)} {beat}"
            case o.Cancel():
                return "cancel"
            case o.AwaitSignIn(ids=ids):
                return f"await sign-in {' '.join(sorted(ids))}".rstrip()
            case _:
                return {o.Begin: "begin", o.Suspend: "suspend", o.Resume: "resume", o.SettleRoots: "settle roots"}[
                    type(command)
                ]

    @staticmethod
    def _outcome(outcome: o.Outcome) -> str:
        match outcome:
            case o.Complete(result=result):
                return f"complete {result.get('text', '')}".rstrip()
            case o.Failed(error=error):
                return f"error {error.code}"
            case o.BecameTask():
                return "task"
            case o.Cancelled():
                return "cancelled"
            case o.InputRequired(requests=requests, step=step):
                return f"round {step}: {' '.join(requests) or 'nothing'}"


# -- asks -------------------------------------------------------------------------------------------------------------


def form(schema: dict[str, Any] | None = None, **params: Any) -> dict[str, Any]:
    schema = schema or {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    return {"message": "Who?", "requestedSchema": schema, **params}


ELICIT = ("elicitation/create", form())
SAMPLE = (
    "sampling/createMessage",
    {"messages": [{"role": "user", "content": {"type": "text", "text": "?"}}], "maxTokens": 9},
)
ROOTS: tuple[str, dict[str, Any]] = ("roots/list", {})

ACCEPT = {"action": "accept", "content": {"name": "Ada"}}
SAMPLED = {"role": "assistant", "content": {"type": "text", "text": "!"}, "model": "m"}
ROOTED = {"roots": [{"uri": "file:///tmp"}]}


def ask(play: Playbook, name: str, what: tuple[str, dict[str, Any]]) -> Ask:
    made = Ask(what[0], what[1], server_id=name, request_id=None, at=play.now)
    play.names[id(made)] = name
    play.names[name] = made  # type: ignore[index,assignment]
    return made


def the(play: Playbook, name: str) -> Ask:
    return play.names[name]  # type: ignore[index,return-value]


# -- events -----------------------------------------------------------------------------------------------------------


def start(leg: str, roots_first: str | None = None) -> Play:
    def event(play: Playbook) -> list[o.Command]:
        return play.call.start(leg, play.now, ask(play, roots_first, ROOTS) if roots_first else None)

    return event


def sent(play: Playbook) -> list[o.Command]:
    return play.call.feed(o.Sent("2025-11-25"), play.now)


def asks(name: str, what: tuple[str, dict[str, Any]] = ELICIT) -> Play:
    return lambda play: play.call.feed(o.Asked(ask(play, name, what)), play.now)


def withdraws(name: str) -> Play:
    def event(play: Playbook) -> list[o.Command]:
        the(play, name).open = False
        return play.call.feed(o.Withdrawn(the(play, name)), play.now)

    return event


def replies(text: str = "", **result: Any) -> Play:
    return lambda play: play.call.feed(o.Replied(Result({"text": text, **result})), play.now)


def fails(code: int = -32000, message: str = "no", data: Any = None) -> Play:
    return lambda play: play.call.feed(o.Replied(Failure(code, message, data)), play.now)


def dies(play: Playbook) -> list[o.Command]:
    return play.call.feed(o.Replied(Lost("The server ended.", processed=True)), play.now)


def after(seconds: float) -> Play:
    def event(play: Playbook) -> list[o.Command]:
        play.now += seconds
        return play.call.feed(o.Tick(), play.now)

    return event


def resumed(play: Playbook) -> list[o.Command]:
    return play.call.feed(o.Resumed(), play.now)


def roots_settled(play: Playbook) -> list[o.Command]:
    return play.call.feed(o.RootsSettled(), play.now)


def signed_in(id: str) -> Play:
    return lambda play: play.call.feed(o.SignedIn(id), play.now)


def made_task(play: Playbook) -> list[o.Command]:
    return play.call.feed(o.MadeTask(), play.now)


def task_cancelled(play: Playbook) -> list[o.Command]:
    return play.call.feed(o.TaskCancelled(), play.now)


def update(**answers: Any) -> Play:
    return lambda play: play.call.update({key.replace("_", "-"): value for key, value in answers.items()}, play.now)


def heard(play: Playbook) -> list[o.Command]:
    return play.call.feed(o.Heard(), play.now)


def gone(leg: str) -> Play:
    return lambda play: play.call.feed(o.LegGone(leg), play.now)


def retry(leg: str, step: int, /, *, declares: dict[str, Any] | None = None, **answers: Any) -> Play:
    """Answers by key, with ``_`` for ``-``: ``elicit_1=ACCEPT``."""
    responses = {key.replace("_", "-"): value for key, value in answers.items()}
    return retry_with(leg, step, responses, declares=declares)


def retry_with(leg: str, step: int, responses: object, *, declares: dict[str, Any] | None = None) -> Play:
    def event(play: Playbook) -> list[o.Command]:
        profile = play.profile if declares is None else Profile.of(declares)
        return play.call.retry(leg, step, responses, profile, play.now)

    return event


__all__ = [
    "ACCEPT", "ELICIT", "EVERYTHING", "ROOTED", "ROOTS", "SAMPLE", "SAMPLED", "Playbook", "ProtocolError", "StepUsed",
    "after", "asks", "dies", "fails", "form", "gone", "heard", "made_task", "replies", "resumed", "retry", "retry_with",
    "roots_settled", "sent", "signed_in", "start", "task_cancelled", "the", "update", "withdraws",
]  # fmt: skip
