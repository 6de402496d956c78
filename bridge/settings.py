"""What an operator can set for one wrapped server, with the defaults and their reasons.

Values only, checked when they are made; reading them from a command line or a file is the caller's business.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, InstanceOf, model_validator

from bridge.knowledge import Hint
from legacy.targets import AppTarget, MemoryTarget

Seconds = Annotated[float, Field(gt=0)]


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Target(_Frozen):
    """Where the legacy server is: a command to start, a URL to reach, or in this process; exactly one of the three."""

    command: tuple[str, ...] = ()
    url: str | None = None
    inside: InstanceOf[AppTarget] | InstanceOf[MemoryTarget] | None = None
    """See `bridge.testing`."""
    env: dict[str, str] = {}
    """The whole environment of the child; the caller has decided what is passed on."""
    cwd: str | None = None
    headers: dict[str, str] = {}
    """Sent with every HTTP request to the URL."""
    header_command: str | None = None
    """Prints further headers: run before the first request, and again when the server answers 401."""
    transport: Literal["auto", "streamable-http", "http-sse"] = "auto"
    """What is spoken at the URL; ``auto``: found out."""
    name: str = "server"
    """What the server is called in logs and in the requestState's binding."""

    @model_validator(mode="after")
    def _one_of_both(self) -> Target:
        if bool(self.command) + (self.url is not None) + (self.inside is not None) != 1:
            raise ValueError("give either a command to start or a URL to reach, not both and not neither")
        return self


class Limits(_Frozen):
    """Times in seconds, sizes in bytes, counts."""

    elicitation_ttl: Seconds = 600
    """How long a person may take to answer."""
    sampling_ttl: Seconds = 120
    """How long a model call of the client may take; a client can refuse it only by never coming back."""
    roots_ttl: Seconds = 120
    call_ttl: Seconds = 3600
    """The cap on one call over all its rounds."""
    silence: Seconds = 600
    """How long a running call may hear nothing from its server (``--timeout``)."""
    remember: Seconds = 60
    """How long an outcome is kept for the same token with the same answers."""
    disconnect_grace: Annotated[float, Field(ge=0)] = 0
    """How long a call outlives its last open leg."""
    start: Seconds = 60
    """How long a server may take to start and shake hands (``--start-timeout``)."""
    ask_progress: Seconds = 15
    """How often a server that gave its ask a progress token hears from us while the call is suspended."""
    sign_in: Annotated[float, Field(ge=0)] = 25
    """How long a person who agreed to open a URL may take there before the request is sent again (``--sign-in``)."""
    leg: Seconds | None = None
    """End a leg after this long with a state-only round; None: hold the leg open. Clients count rounds."""
    task_after: Seconds | None = None
    """Make a task of a call that has taken this long, if its client takes tasks; None: only of what the server does."""
    task_ttl: Seconds = 3600
    """How long a task may take, and is remembered."""
    task_poll: Seconds = 1
    """How often clients are told to look after a task; the server's own word goes before it."""
    max_sessions: Annotated[int, Field(ge=1)] = 4
    """Sessions per principal and profile."""
    max_sessions_per_principal: Annotated[int, Field(ge=1)] = 16
    max_sessions_total: Annotated[int, Field(ge=1)] = 256
    session_idle: Seconds = 300
    """Further sessions are retired after this long without a call; the primary stays."""
    one_call: Seconds | None = None
    """Not None: the server reads answers inline, so nothing but its answers is sent on a session while a call is open
    there (``--one-call``), and a question expires after this long: it keeps everything else from that session."""
    roots_age: Seconds = 300
    """After this long a client is asked again for the roots that its server wants outside calls (``--roots-age``)."""

    @classmethod
    def for_sessions(cls, count: int, **others: Any) -> Limits:
        """So many sessions per principal and profile, and caps that leave room for them."""
        usual = cls()
        return cls(
            max_sessions=count,
            max_sessions_per_principal=max(usual.max_sessions_per_principal, count),
            max_sessions_total=max(usual.max_sessions_total, count),
            **others,
        )


class Server(_Frozen):
    """One wrapped server."""

    target: Target
    limits: Limits = Limits()
    attribution: Literal["infer", "strict"] = "infer"
    asks: dict[str, Hint] = {}
    """What the operator knows of a tool, whatever it did so far: whether it asks, and how. Prompts and resources are
    named ``prompts/get:NAME`` and ``resources/read:URI``."""
    replay: dict[str, bool] = {}
    """Whether a call whose server did not wait for its answers may be run again; otherwise prompts and resources are,
    and tools that say that they only read or may be repeated. By tool, prompt or resource as in ``asks``; ``*`` stands
    for all that are not named."""
    shared_session: bool = False
    """All principals share sessions, on the operator's word. Nothing is inferred then: an ask never reaches another
    principal."""
    roots: Literal["shared", "per-call"] = "shared"
    """Whether clients of one principal share what their server knows of roots, or each call asks for them first and
    runs where the server knows these and no others (one round more)."""
    single_session: bool = False
    """The server can have one session only: it is negotiated with everything that can be asked, all clients of the
    first principal use it, and another is refused unless ``shared_session``."""

    strict_tasks: bool = False
    """What the server runs only as a task is refused to clients without the tasks extension, instead of being run to
    its end for them."""

    ttl_ms: Annotated[int, Field(ge=0)] = 0
    cache_scope: Literal["private", "public"] = "private"

    @model_validator(mode="after")
    def _room_for_workspaces(self) -> Server:
        if self.roots == "per-call" and self.single_session:
            raise ValueError("a server with a single session cannot tell workspaces apart: roots have to be shared")
        return self

    @property
    def hints(self) -> dict[str, Hint]:
        """`asks`, by the names that tools have in `bridge.knowledge`."""
        return {
            name if name.startswith(("prompts/get:", "resources/read:")) else f"tools/call:{name}": hint
            for name, hint in self.asks.items()
        }

    @property
    def strict(self) -> bool:
        """Whether an ask whose call only inference could tell is refused."""
        return self.attribution == "strict" or self.shared_session
