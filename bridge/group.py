"""The sessions that may serve the same calls: one old server, one principal, one profile.

A group carries out what `bridge.attribution` decides: it sends requests on the session chosen for them and gives asks
to the calls they belong to. It owns no task; starting a session is its pool's.

Invariant: every session here has shaken hands and has a channel in ``attribution``; every ask that a server has open
is in ``_asked_on`` until it is answered, refused or withdrawn.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any

import anyio

from bridge import runs as rules
from bridge.attribution import Attribution
from bridge.deprecation import Deprecations
from bridge.errands import NOBODY, Channel, Run, Runs
from bridge.hearing import Hearing
from bridge.knowledge import Knowledge
from bridge.listening import Listening
from bridge.roots import Roots
from bridge.server_log import LogLevel, Unclaimed
from bridge.settings import Server
from bridge.signing_in import SignIns
from bridge.startup import StartUp
from bridge.tasks import Support
from bridge.telemetry import tracing
from bridge.translate.capabilities import Profile
from legacy.errors import SessionClosed
from legacy.messages import Ask, Lost, Reply
from legacy.session import Session
from modern.errors import INTERNAL_ERROR, ProtocolError

log = logging.getLogger("mrtr.group")

REFUSED = -32603


class Moved(ProtocolError):
    """The group has no session and gets none: another serves its clients. Look again."""

    def __init__(self, why: str) -> None:
        super().__init__(INTERNAL_ERROR, why)


class Group:
    """See the module. What its sessions hear is `hearing`, what they ask outside calls `start_up`."""

    def __init__(
        self,
        server: Server,
        principal: str,
        profile: Profile,
        knowledge: Knowledge,
        deprecations: Deprecations,
        open_session: Callable[[Group], None],
        arm: Callable[[Group, float], None],
        lost: Callable[[Group, Session], None],
        spawn: Callable[..., None],
        max_sessions: int,
    ) -> None:
        self.server = server
        self.principal = principal
        self.profile = profile
        """What its sessions were, and will be, initialised with; a call's client may declare less."""
        self.deprecations = deprecations
        self.attribution = Attribution(
            knowledge,
            max_sessions=max_sessions,
            strict=server.strict,
            shared=server.shared_session,
            one_call=server.limits.one_call is not None,
        )
        self.roots = Roots(server.limits.roots_age)
        self.start_up = StartUp(self, self.roots)
        self.listening = Listening(self, spawn)
        self.sign_ins = SignIns()
        self.tools: dict[str, dict[str, Any]] | None = None
        """``inputSchema`` by tool name; None until fetched."""
        self.task_tools: dict[str, Support] = {}
        """Tools that have to be, or can be, called as tasks."""
        self.repeatable_tools: frozenset[str] = frozenset()
        """Tools that say that running them again does no harm."""
        self.tools_again_at = 0.0
        """Not to be fetched again before then, since that failed."""
        self.channels: dict[Session, Channel] = {}
        self.capabilities: dict[str, Any] = {}
        self.server_info: dict[str, Any] = {}
        """The old server's own name and version, for results."""
        self.last_used = time.monotonic()
        self.opening = 0
        self.log_level = LogLevel()
        self.unclaimed = Unclaimed(server.target.name)
        self.last_client: str | None = None
        """What the client calls itself whose run was placed last."""
        self._open_session = open_session
        self._arm = arm
        self._lost = lost
        self._spawn = spawn
        self._runs = Runs()
        self._asked_on: dict[Ask, Session] = {}
        self.hearing = Hearing(self, self._runs, self._asked_on)
        self._changed = anyio.Event()
        self._failure: ProtocolError | None = None
        self._given_up: ProtocolError | None = None

    # -- sessions -----------------------------------------------------------------------------------------------------

    @property
    def primary(self) -> Session | None:
        """Where calls go that need no other; the oldest session that is alive."""
        return next(iter(self.channels), None)

    def reachable(self) -> list[Session]:
        """The sessions that can be told something now: with ``one_call``, those that have no call open."""
        return [
            session
            for session, channel in self.channels.items()
            if not channel.open or self.server.limits.one_call is None
        ]

    @property
    def failure(self) -> ProtocolError | None:
        """Why the last start failed, if it did."""
        return self._failure

    @property
    def idle(self) -> bool:
        """Nobody would miss its sessions. (A server that still waits for roots would not miss them either.)"""
        return not self._runs and self.attribution.is_at_rest and not self.listening

    @property
    def most_resent(self) -> int:
        """How often a request may be sent again that a session refused unprocessed: a server that was started anew
        knows none of the sessions that are still kept here, and each says so only when it is used."""
        return self.server.limits.max_sessions + 1

    async def ready(self) -> Session:
        """The primary session, started if need be.

        Raises:
            ProtocolError: the server could not be started or reached.
        """
        while True:
            self.last_used = time.monotonic()
            if self._given_up is not None:
                raise self._given_up
            if (session := self.primary) is not None:
                return session
            if not self.opening:
                self._failure = None
                self._open_session(self)
            await self._changed.wait()
            if self._failure is not None and self.primary is None and self._given_up is None:
                raise self._failure

    async def opened(self, session: Session) -> None:
        """A session has shaken hands: let it ask for roots, then let calls use it."""
        await self.start_up.settle(session)
        await self.log_level.tell(session)
        if session.closed:
            raise SessionClosed("The server ended before its first call.")
        self.opening -= 1
        self.capabilities, self.server_info = session.capabilities, session.server_info
        channel = self.channels[session] = Channel(session)
        early = self.start_up.left_open(session)
        self.carry_out(self.attribution.open_channel(channel, time.monotonic()))
        for ask in early:
            if ask.open:
                self.hearing.judge(session, channel, ask)
        self.listening.session_opened(session)
        self._wake()

    def start_failed(self, error: ProtocolError) -> None:
        self.opening -= 1
        self._failure = error
        if isinstance(error, Moved) and self.primary is None:
            self.listening.end_all()
        for command in self.attribution.session_failed(time.monotonic()):
            self._carry_out(command)
        if self.primary is None:
            for run in self.attribution.waiting():
                assert isinstance(run, Run)
                self.carry_out(self.attribution.lost(run, time.monotonic()))
                run.errand.unserved(error)
        self._wake()

    def give_up(self, error: ProtocolError) -> None:
        """Nobody gets a session any more: the process is about to end."""
        self._given_up = error
        for session in self.channels:
            for run in self._runs.on(session):
                run.errand.unserved(error)
        self._wake()

    def _wake(self) -> None:
        changed, self._changed = self._changed, anyio.Event()
        changed.set()

    def lost(self, session: Session) -> None:
        """A session ended that was not closed here."""
        self._lost(self, session)
        self.retire(session)

    def retire(self, session: Session) -> None:
        """Nothing comes from or goes to the session any more: it has ended, or is about to be closed."""
        self.start_up.lost(session)
        for ask in [ask for ask, on in self._asked_on.items() if on is session]:
            ask.open = False
            self.hearing.withdrawn(session, ask)
        channel = self.channels.pop(session, None)
        if channel is not None:
            self.carry_out(self.attribution.close_channel(channel, time.monotonic()))
            self.listening.session_gone(session)
        for run in self._runs.on(session):
            self._runs.remove(run)
        if not self.channels:
            self.tools = None
            self._wake()

    # -- what errands want --------------------------------------------------------------------------------------------

    def place(self, run: Run) -> None:
        self.last_used = now = time.monotonic()
        self.last_client = run.errand.client_name
        self.carry_out(self.attribution.place(run, now))

    def finished(self, run: Run, reply: Reply) -> None:
        """The run is over; asks that turn out to be another call's are taken back before this returns."""
        self._runs.remove(run)
        over = self.attribution.lost if isinstance(reply, Lost) else self.attribution.answered
        self.carry_out(over(run, time.monotonic()))
        run.errand = NOBODY

    def became_task(self, run: Run, task_id: str, request_id: int) -> None:
        self._runs.became_task(run, task_id, request_id)

    def cancel(self, run: Run, reason: str, *, tell: bool = True) -> None:
        """Give a run up: the server hears of it, if it ever heard of the run and is not told by other means."""
        commands = self.attribution.cancelled(run, time.monotonic())
        if run.session is not None:
            run.session.cancel(run.request_id, reason, tell=tell)
        self.carry_out(commands)
        run.errand = NOBODY

    def answer(self, ask: Ask, result: dict[str, Any]) -> None:
        """Bring a client's answer to the server."""
        if ask.method == "roots/list":
            self.roots.answered(ask, result, time.monotonic())
        self.tell(ask, result)
        if ask.method == "roots/list":
            self.carry_out(self.attribution.roots_known())

    def tell(self, ask: Ask, result: dict[str, Any]) -> None:
        """Answer an ask, whoever knew the answer."""
        session = self._asked_on.pop(ask, None)
        if session is not None:
            session.answer(ask, result)
            self.carry_out(self.attribution.ask_closed(ask, time.monotonic()))

    def refuse(self, ask: Ask, code: int, message: str) -> None:
        self.roots.withdrawn(ask)
        session = self._asked_on.pop(ask, None)
        if session is not None:
            session.refuse(ask, code, message)
            self.carry_out(self.attribution.ask_closed(ask, time.monotonic()))

    def ask_progress(self, ask: Ask, beat: int) -> None:
        session = self._asked_on.get(ask)
        if session is not None and ask.open:
            session.notify("notifications/progress", {"progressToken": ask.progress_token, "progress": beat})

    def give_back(self, ask: Ask) -> None:
        """A start-up ask that a call could not carry waits for the next."""
        if ask.open and ask in self._asked_on:
            self.roots.hold(ask)

    @property
    def roots_come_first(self) -> bool:
        """Whether the server has asked for roots and may wait for them before it does anything else."""
        return self.profile.roots and self.roots.held is not None

    def roots_due(self, now: float) -> Ask | None:
        """What the next call asks its client for before it is sent."""
        lapsed = self.roots.lapsed(now)
        if lapsed is not None and self._asked_on.pop(lapsed, None) is not None:
            self.carry_out(self.attribution.ask_closed(lapsed, now))
        return self.roots.due(now)

    # -- what attribution decides -------------------------------------------------------------------------------------

    def carry_out(self, commands: list[rules.Command]) -> None:
        for command in commands:
            self._carry_out(command)
        deadline = self.attribution.deadline()
        if deadline is not None:
            self._arm(self, deadline)

    def tick(self) -> None:
        self.carry_out(self.attribution.tick(time.monotonic()))

    def _carry_out(self, command: rules.Command) -> None:
        match command:
            case rules.Send(run=Run() as run, channel=Channel() as channel):
                self._send(run, channel.session)
            case rules.Give(ask=ask, run=Run() as run, inferred=inferred):
                if ask.method == "roots/list" and not run.carries_roots:
                    self.roots.wanted = True  # refused now, but other clients of this session may have some
                if inferred:
                    with tracing(run.errand.trace_id):
                        log.info("an ask (%s) was attributed by inference to a %s", ask.method, kind_of(run))
                run.errand.given(ask)
            case rules.Resume(run=Run() as run):
                run.errand.resumed()
            case rules.OpenSession():
                self._open_session(self)
            case rules.Refuse(ask=ask, reason=reason):
                log.warning("an ask (%s) was refused: %s", ask.method, reason)
                self.refuse(ask, REFUSED, reason)
            case rules.Hold(ask=ask):
                self.roots.hold(ask)
            case rules.LastRoots(ask=ask):
                self.roots.withdrawn(ask)
                if (session := self._asked_on.get(ask)) is not None and self.roots.too_late(ask, time.monotonic()):
                    self.start_up.tell_again(session)
                if self.roots.last is not None:
                    self.tell(ask, self.roots.last)
            case rules.Withdraw(ask=ask, run=Run() as run):
                with tracing(run.errand.trace_id):
                    log.warning("an ask (%s) was attributed to a %s that ended without it", ask.method, kind_of(run))
                run.errand.taken_back(ask)
            case rules.EndSession(channel=Channel(session=session)):
                log.warning("session %s is ended: its server does not stop a call that was given up", session.name)
                self.retire(session)
                self._spawn(session.close)
            case rules.Forgotten(run=Run() as run):
                if run.session is not None:
                    run.session.forget(run.request_id)
                    self._runs.remove(run)
            case _:
                raise AssertionError(f"no way to carry out {command!r}")

    def _send(self, run: Run, session: Session) -> None:
        try:
            request_id = run.errand.send_on(session)
        except (SessionClosed, ProtocolError) as error:
            self.carry_out(self.attribution.lost(run, time.monotonic()))
            refusal = error if isinstance(error, ProtocolError) else ProtocolError(INTERNAL_ERROR, str(error))
            run.errand.unserved(refusal)
            return
        self._runs.add(run, session, request_id)


def kind_of(run: Run) -> str:
    """The method of a run, for the log: its name may be a URI, which is an argument."""
    return (run.tool or "").partition(":")[0]
