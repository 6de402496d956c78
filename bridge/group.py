"""The sessions that may serve the same calls: one old server, one principal, one profile.

A group carries out what `bridge.attribution` decides: it sends requests on the session chosen for them, gives asks to
the calls they belong to, and hears everything its sessions' server says. It owns no task; starting a session is its
pool's.

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
from bridge.deprecation import Deprecations, Feature, features_used
from bridge.errands import NOBODY, Channel, Run, Runs
from bridge.knowledge import Knowledge
from bridge.listening import Listening
from bridge.roots import Roots
from bridge.settings import Server
from bridge.tasks import task_of
from bridge.translate import asks, notifications
from bridge.translate.capabilities import Profile
from bridge.translate.notifications import Route
from legacy.errors import SessionClosed
from legacy.messages import Ask, Lost, Reply
from legacy.session import Session
from modern.errors import INTERNAL_ERROR, ProtocolError

log = logging.getLogger("mrtr.group")

REFUSED = -32603
BARRIER = 2.0
"""Seconds that a new session gets to ask for roots before its first call."""
TAKEN_IN = 0.05


class Group:
    """See the module. A `legacy.session.Listener`."""

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
    ) -> None:
        self.server = server
        self.principal = principal
        self.profile = profile
        self.deprecations = deprecations
        self.attribution = Attribution(knowledge, max_sessions=server.limits.max_sessions, strict=server.strict)
        self.roots = Roots(server.limits.roots_age)
        self.listening = Listening(self, spawn)
        self.tools: dict[str, dict[str, Any]] | None = None
        """``inputSchema`` by tool name; None until fetched."""
        self.task_tools: frozenset[str] = frozenset()
        """Tools that have to be called as tasks."""
        self.channels: dict[Session, Channel] = {}
        self.capabilities: dict[str, Any] = {}
        self.server_info: dict[str, Any] = {}
        """The old server's own name and version, for results."""
        self.last_used = time.monotonic()
        self.opening = 0
        self.level: str | None = None
        """The lowest level that the sessions' servers were told to log at."""
        self._open_session = open_session
        self._arm = arm
        self._lost = lost
        self._runs = Runs()
        self._asked_on: dict[Ask, Session] = {}
        self._last_client: str | None = None
        self._early: dict[Session, list[Ask]] = {}
        self._changed = anyio.Event()
        self._failure: ProtocolError | None = None
        self._given_up: ProtocolError | None = None

    # -- sessions -----------------------------------------------------------------------------------------------------

    @property
    def primary(self) -> Session | None:
        """Where calls go that need no other; the oldest session that is alive."""
        return next(iter(self.channels), None)

    @property
    def failure(self) -> ProtocolError | None:
        """Why the last start failed, if it did."""
        return self._failure

    @property
    def idle(self) -> bool:
        return not self._runs and not self._asked_on and self.attribution.is_idle and not self.listening

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
        if self.profile.roots and session not in self._early:
            await session.ping(BARRIER)
        if session.closed:
            raise SessionClosed("The server ended right after the handshake.")
        if self._answer_early(session):
            await self._taken_in(session)
            if session.closed:
                raise SessionClosed("The server ended when it was told of the roots.")
        self.opening -= 1
        self.capabilities, self.server_info = session.capabilities, session.server_info
        channel = self.channels[session] = Channel(session)
        early = self._early.pop(session, [])
        self.carry_out(self.attribution.open_channel(channel, time.monotonic()))
        for ask in early:
            if ask.open:
                self._judge(session, channel, ask)
        if self.level is not None and "logging" in session.capabilities:
            session.send("logging/setLevel", {"level": self.level}, _ignore)
        self.listening.session_opened(session)
        self._wake()

    def _answer_early(self, session: Session) -> bool:
        """Answer what a new session's server asked before any call; whether it was told of roots."""
        told = False
        for ask in self._early.get(session, []):
            if ask.open and ask.method != "roots/list":
                self.refuse(ask, REFUSED, "No call is open that can have asked it.")
            elif ask.open and self.roots.last is not None:  # a further session, or one in a lost one's place
                self._tell(ask, self.roots.last)
                told = True
        return told

    def start_failed(self, error: ProtocolError) -> None:
        self.opening -= 1
        self._failure = error
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

    def retire(self, session: Session) -> None:
        """Take a session out that is about to be closed."""
        channel = self.channels.pop(session, None)
        if channel is not None:
            self.carry_out(self.attribution.close_channel(channel, time.monotonic()))
            self.listening.session_gone(session)

    # -- what errands want --------------------------------------------------------------------------------------------

    def place(self, run: Run) -> None:
        self.last_used = now = time.monotonic()
        self._last_client = run.errand.client_name
        self.carry_out(self.attribution.place(run, now))

    def finished(self, run: Run, reply: Reply) -> None:
        """The run is over; asks that turn out to be another call's are taken back before this returns."""
        self._runs.remove(run)
        over = self.attribution.lost if isinstance(reply, Lost) else self.attribution.answered
        self.carry_out(over(run, time.monotonic()))
        run.errand = NOBODY

    def became_task(self, run: Run, task_id: str, request_id: int) -> None:
        self._runs.became_task(run, task_id, request_id)

    def cancel(self, run: Run, reason: str) -> None:
        """Give a run up: the server hears of it, if it ever heard of the run."""
        commands = self.attribution.cancelled(run, time.monotonic())
        if run.session is not None:
            run.session.cancel(run.request_id, reason)
        self.carry_out(commands)
        run.errand = NOBODY

    def answer(self, ask: Ask, result: dict[str, Any]) -> None:
        """Bring a client's answer to the server."""
        if ask.method == "roots/list":
            self.roots.answered(ask, result, time.monotonic())
        self._tell(ask, result)

    def _tell(self, ask: Ask, result: dict[str, Any]) -> None:
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

    def log_at(self, level: str) -> None:
        """Have the sessions' servers log at this level, if they do not log more already."""
        if self.level is not None and notifications.admits(self.level, level):
            return
        self.level = level
        for session in self.channels:
            if "logging" in session.capabilities:
                session.send("logging/setLevel", {"level": level}, _ignore)

    async def settle_roots(self) -> None:
        """Until the server has taken in the roots that were answered last, in bounded time."""
        for session in list(self.channels):
            with anyio.move_on_after(BARRIER):
                if self.roots.tell:
                    asked_again = self.roots.expect_ask()
                    session.notify("notifications/roots/list_changed")
                    await asked_again.wait()
                await self._taken_in(session)
        self.roots.tell = False

    async def _taken_in(self, session: Session) -> None:
        """Until the server has most likely made something of an answer about roots, which it does after reading it."""
        await session.ping(BARRIER)
        await anyio.sleep(TAKEN_IN)

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
                if inferred:
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
                if self.roots.last is not None:
                    self._tell(ask, self.roots.last)
            case rules.Withdraw(ask=ask, run=Run() as run):
                log.warning("an ask (%s) was attributed to a %s that ended without it", ask.method, kind_of(run))
                run.errand.taken_back(ask)
            case rules.Forgotten(run=Run() as run):
                if run.session is not None:
                    run.session.forget(run.request_id)
                    self._runs.remove(run)
            case _:
                raise AssertionError(f"no way to carry out {command!r}")

    def _send(self, run: Run, session: Session) -> None:
        try:
            request_id = run.errand.send_on(session)
        except SessionClosed as closed:
            self.carry_out(self.attribution.lost(run, time.monotonic()))
            run.errand.unserved(ProtocolError(INTERNAL_ERROR, str(closed)))
            return
        self._runs.add(run, session, request_id)

    # -- what the server says -----------------------------------------------------------------------------------------

    def asked(self, session: Session, ask: Ask) -> None:
        self._asked_on[ask] = session
        channel = self.channels.get(session)
        if channel is None:
            self._early.setdefault(session, []).append(ask)
        else:
            self._judge(session, channel, ask)

    def _judge(self, session: Session, channel: Channel, ask: Ask) -> None:
        label = self._runs.find(session, ask.request_id, task_of(ask.params))
        roots = ask.method == "roots/list"
        self._note_use(ask, label)
        if roots and not self.profile.roots:
            self._refuse_roots(ask, label, channel)
            return
        if roots and self.roots.expected():
            self.carry_out([rules.LastRoots(ask)])
            return
        self.carry_out(
            self.attribution.asked(
                channel, ask, time.monotonic(), label=label, roots=roots, last_roots=self.roots.last is not None
            )
        )

    def _refuse_roots(self, ask: Ask, label: Run | None, channel: Channel) -> None:
        """This group's clients have none: refused as an old client would, by the call that it came from if one can
        tell, so that the call's failure can say what was missing."""
        refusal = asks.present(ask.method, ask.params, self.profile)
        assert isinstance(refusal, asks.Undeclared)
        self.refuse(ask, refusal.code, refusal.message)
        tools = [run for run in channel.open if isinstance(run, Run) and run.tool is not None]
        takers = [run for run in tools if run.turn] or tools
        asker = label or (takers[0] if len(takers) == 1 else None)
        if asker is not None:
            asker.errand.lacks(refusal.required)

    def roots_due(self, now: float) -> Ask | None:
        """What the next call asks its client for before it is sent."""
        lapsed = self.roots.lapsed(now)
        if lapsed is not None and self._asked_on.pop(lapsed, None) is not None:
            self.carry_out(self.attribution.ask_closed(lapsed, now))
        return self.roots.due(now)

    def _note_use(self, ask: Ask, label: Run | None) -> None:
        client = label.errand.client_name if label is not None else self._only_client()
        for feature in features_used(ask.method, ask.params):
            self.deprecations.used(feature, client)

    def _only_client(self) -> str | None:
        """Whose doing it most likely is, where the wire names no call: for warnings only."""
        names = self._runs.client_names() or {self._last_client}
        return names.pop() if len(names) == 1 else None

    def withdrawn(self, session: Session, ask: Ask) -> None:
        self._asked_on.pop(ask, None)
        self.roots.withdrawn(ask)
        owner = self.attribution.owner(ask)
        commands = self.attribution.ask_closed(ask, time.monotonic())
        if isinstance(owner, Run):
            owner.errand.taken_back(ask)
        self.carry_out(commands)

    def notified(self, session: Session, method: str, params: dict[str, Any], request_id: int | None) -> None:
        run = self._runs.find(session, request_id)
        match notifications.route(method):
            case Route.PROGRESS if run is not None:
                run.errand.notified(method, params)
            case Route.LOG:
                self._logged(session, params, run)
            case Route.LISTEN:
                if method == "notifications/tools/list_changed":
                    self.tools = None
                self.listening.publish(method, notifications.to_modern(method, params) or {})
            case _:
                log.debug("%s: %s is for nobody", self.server.target.name, method)

    def _logged(self, session: Session, params: dict[str, Any], run: Run | None) -> None:
        if run is None:
            run = self._runs.only_on(session)
        self.deprecations.used(Feature.LOGGING, run.errand.client_name if run is not None else self._only_client())
        if run is not None:
            run.errand.notified("notifications/message", params)
        else:
            log.debug("%s logged a message that belongs to no one call", self.server.target.name)

    def ghost_ended(self, session: Session, request_id: int) -> None:
        run = self._runs.find(session, request_id)
        if run is not None:
            self._runs.remove(run)
            self.carry_out(self.attribution.ghost_ended(run, time.monotonic()))

    def lost(self, session: Session, reason: str) -> None:
        self._lost(self, session)
        self._early.pop(session, None)
        for ask in [ask for ask, on in self._asked_on.items() if on is session]:
            ask.open = False
            self.withdrawn(session, ask)
        self.retire(session)
        for run in self._runs.on(session):
            self._runs.remove(run)
        if not self.channels:
            self.tools = None
            self._wake()


def kind_of(run: Run) -> str:
    """The method of a run, for the log: its name may be a URI, which is an argument."""
    return (run.tool or "").partition(":")[0]


def _ignore(reply: Reply) -> None:
    if isinstance(reply, Lost):
        return
