"""The vocabulary of a call: what happens to it, what it wants done, and how a leg of it can end.

Everything else speaks in these; nothing here decides anything. Events go into `bridge.call.Call`, commands and outcomes
come out of it, and whoever drives it (`bridge.conduct`, or a test) carries the commands out in their order.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

from legacy.messages import Ask, Reply
from modern.errors import ProtocolError

LegId = Hashable
"""Names an open leg of a call; only compared."""


# -- how a leg ends ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Complete:
    """The server's own result, untranslated."""

    result: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Failed:
    """The call ended with this error."""

    error: ProtocolError


@dataclass(frozen=True, slots=True)
class InputRequired:
    """The client is asked; with no ``requests`` it is only told to come back."""

    requests: dict[str, dict[str, Any]]
    step: int
    expires: float
    """Monotonic seconds until when a retry can resume."""


@dataclass(frozen=True, slots=True)
class Cancelled:
    """The client cancelled the task that the call had become."""


@dataclass(frozen=True, slots=True)
class BecameTask:
    """The call goes on without a leg, as a task of the tasks extension."""


Final = Complete | Failed | Cancelled
"""What a call can come to."""
Outcome = Final | InputRequired | BecameTask


# -- what happens to a call -------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Sent:
    """The request is on its way to the server, in a session of this revision."""

    protocol_version: str


@dataclass(slots=True)
class Asked:
    """The server asked, and the ask is this call's."""

    ask: Ask


@dataclass(slots=True)
class Withdrawn:
    """An ask of this call is gone: the server took it back, or it turned out to be another call's."""

    ask: Ask


@dataclass(slots=True)
class Replied:
    """The server answered the call's request, or never will."""

    reply: Reply
    cancelled: bool = False
    """The server ended it as a task that was cancelled."""


@dataclass(slots=True)
class Unserved:
    """The call never reached a server: none could be started."""

    error: ProtocolError


@dataclass(slots=True)
class Heard:
    """The server showed that it is still at it."""


@dataclass(slots=True)
class LegJoined:
    """A leg waits for what the call comes to."""

    leg: LegId


@dataclass(slots=True)
class LegGone:
    """A leg's client went away before it had its outcome."""

    leg: LegId


@dataclass(slots=True)
class AnswersTaken:
    """Answers of the current step are ready to be delivered."""


@dataclass(slots=True)
class Resumed:
    """The call has its session's turn again, or waited for it long enough."""


@dataclass(slots=True)
class SignedIn:
    """The server says that a person has done what a URL was for."""

    id: str


@dataclass(slots=True)
class RootsSettled:
    """The server has what it asked for outside any call."""


@dataclass(slots=True)
class MadeTask:
    """The server made a task of the request: the call may become one too, if its client takes tasks."""


@dataclass(slots=True)
class TaskCancelled:
    """The client wants the task no more that the call has become."""


@dataclass(slots=True)
class GivenUp:
    """The bridge itself gives the call up."""

    reason: str


@dataclass(slots=True)
class Tick:
    """Time has passed."""


Event = (
    Sent
    | Asked
    | Withdrawn
    | Replied
    | Unserved
    | Heard
    | LegJoined
    | LegGone
    | AnswersTaken
    | Resumed
    | RootsSettled
    | SignedIn
    | MadeTask
    | TaskCancelled
    | GivenUp
    | Tick
)


# -- what a call wants done -------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Begin:
    """Find a session for the call's request and send it there; a second time, run it again."""


@dataclass(slots=True)
class Settle:
    """The leg ends with this outcome."""

    leg: LegId
    outcome: Outcome


@dataclass(slots=True)
class Suspend:
    """The call waits for answers: its turn is free."""


@dataclass(slots=True)
class Resume:
    """The call has answers to deliver: it wants its session's turn."""


@dataclass(slots=True)
class Answer:
    """Give the server its answer."""

    ask: Ask
    result: dict[str, Any]


@dataclass(slots=True)
class Refuse:
    """Give the server an error for its ask."""

    ask: Ask
    code: int
    message: str


@dataclass(slots=True)
class GiveBack:
    """The call ended before it could carry this start-up ask: another may."""

    ask: Ask


@dataclass(slots=True)
class AwaitSignIn:
    """Tell `SignedIn` when the server announces any of these."""

    ids: frozenset[str]


@dataclass(slots=True)
class SettleRoots:
    """Roots were answered before the call was sent: tell `RootsSettled` when the server has taken them in."""


@dataclass(slots=True)
class Cancel:
    """Tell the server that its request is given up."""

    reason: str


@dataclass(slots=True)
class AskProgress:
    """Tell the server that its ask is still being looked after."""

    ask: Ask
    beat: int


Command = (
    Begin | Settle | Suspend | Resume | Answer | Refuse | GiveBack | AwaitSignIn | SettleRoots | Cancel | AskProgress
)
