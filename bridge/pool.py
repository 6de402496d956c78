"""The sessions of one wrapped server: started when needed, kept by principal and profile, capped, retired when idle.

Owns every task that a session runs in: they live in the pool's task group and are over when it is.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import anyio
import anyio.abc

from bridge.backoff import Backoff
from bridge.deprecation import Deprecations, features_of
from bridge.group import Group, Moved
from bridge.knowledge import Knowledge
from bridge.reach import can_be_modern, legacy_target
from bridge.settings import Server
from bridge.telemetry import tracing
from bridge.translate.capabilities import EVERYTHING, Profile
from bridge.version import CLIENT_INFO
from bridge.workspaces import workspace_of
from legacy.connect import run_session
from legacy.errors import LegacyError, ModernServer, OneSessionOnly
from legacy.probe import HTTP_SSE, STREAMABLE_HTTP, Found
from legacy.session import Session
from legacy.targets import Limits
from modern.errors import INTERNAL_ERROR, ProtocolError

log = logging.getLogger("mrtr.pool")

SHORT_LIFE = 10.0
"""A session that ends sooner than this counts as a failed start."""
WORTH_WAITING = 2.0
"""Seconds until the next start that a call waits for rather than being refused."""


class Pool:
    """See the module.

    Invariants: the number of sessions open or opening never passes ``limits.max_sessions_total``, nor a principal's
    ``limits.max_sessions_per_principal``; while ``single``, there is at most one group.
    """

    def __init__(self, server: Server, tasks: anyio.abc.TaskGroup) -> None:
        self.server = server
        self.target = legacy_target(server.target, one_call=server.limits.one_call is not None)
        self.knowledge = Knowledge(server.hints)
        self.deprecations = Deprecations(server.target.name)
        self.found_modern: Callable[[ModernServer], None] = lambda error: log.error("%s", error)
        """Told when a server turns out to know no sessions."""
        self.groups: dict[tuple[str, Profile, str], Group] = {}
        self._tasks = tasks
        self._starts = Backoff()
        """Starts that failed, whoever wanted them."""
        self._ends: dict[str, Backoff] = {}
        """Sessions that ended too soon, by principal: what one does to its sessions is no other's misfortune."""
        self._timers: dict[Group, tuple[float, asyncio.TimerHandle]] = {}
        self._sessions = 0
        self.found = Found()
        self.single = server.single_session
        """The server can have one session only. Then there is one group at most."""
        self._opening: set[anyio.CancelScope] = set()
        """Around each session that is being opened."""
        self._closed = False
        self._refusing: set[Group] = set()
        """Groups that were refused a session and wait for what the others come to."""
        self._opened_at: WeakKeyDictionary[Session, float] = WeakKeyDictionary()

    def group(self, principal: str, profile: Profile, roots: dict[str, Any] | None = None) -> Group:
        """The group that serves this principal's calls with these capabilities, and these roots if they are given.

        Raises:
            ProtocolError: the server can have one session only, and somebody else has it.
        """
        owner = "" if self.server.shared_session else principal
        if self.single:
            return self._only_group(owner)
        key = owner, profile, "" if roots is None else workspace_of(roots)
        group = self.groups.get(key)
        if group is None:
            group = self.groups[key] = self._new_group(owner, profile, self.server.limits.max_sessions)
            if roots is not None:
                group.roots.fix(roots)
        return group

    def _new_group(self, owner: str, profile: Profile, max_sessions: int) -> Group:
        return Group(
            self.server,
            owner,
            profile,
            self.knowledge,
            self.deprecations,
            self._open_soon,
            self._arm,
            self._lost,
            self.spawn,
            max_sessions,
        )

    def spawn(self, function: Callable[..., Any], *args: Any) -> None:
        """Run something in the pool's task group; it must not raise."""
        self._tasks.start_soon(function, *args)

    # -- servers that can have one session only -----------------------------------------------------------------------

    def _only_group(self, owner: str) -> Group:
        group = next(iter(self.groups.values()), None)
        if group is None:
            group = self.groups[owner, EVERYTHING, ""] = self._new_group(owner, EVERYTHING, 1)
        if group.principal != owner:
            raise ProtocolError(
                INTERNAL_ERROR,
                f"The server {self.server.target.name!r} can have one session only, and another client has it. "
                "--shared-session lets all clients share it.",
            )
        return group

    async def _has_one_only(self, group: Group) -> bool:
        """A session was refused because there is one: from now on everybody uses that; False if it is not ours.

        It stays as it is, though it was negotiated for one kind of client: many such servers never take another after
        they have been told that the first is over.
        """
        self._refusing.add(group)
        try:
            for other in list(self.groups.values()):
                if other.opening and other not in self._refusing:
                    with suppress(ProtocolError):
                        await other.ready()
        finally:
            self._refusing.discard(group)
        holders = [other for other in self.groups.values() if other.channels]
        if len(holders) != 1 or len(holders[0].channels) != 1 or self.server.roots == "per-call":
            return False
        [holder] = holders
        if not self.single:
            self.single = True
            log.warning(
                "the server %s can have one session only: all clients of its principal share it from now on, as it was "
                "negotiated for the first. Start the bridge with --single-session to have everything negotiated.",
                self.server.target.name,
            )
        holder.attribution.only_one_session()
        self.groups = {(holder.principal, holder.profile, ""): holder}
        return True

    # -- starting -----------------------------------------------------------------------------------------------------

    def _open_soon(self, group: Group) -> None:
        group.opening += 1
        self._tasks.start_soon(self._open, group)

    async def _open(self, group: Group) -> None:
        with anyio.CancelScope() as scope:
            self._opening.add(scope)
            try:
                if self._closed:
                    scope.cancel()
                await self._open_for(group)
            finally:
                self._opening.discard(scope)
        if scope.cancelled_caught:
            group.start_failed(ProtocolError(INTERNAL_ERROR, "The bridge is shutting down."))

    async def _open_for(self, group: Group) -> None:
        try:
            await self._make_room(group)
            session = await self._start(group)
            await group.opened(session)
        except ProtocolError as error:
            group.start_failed(error)
        except ModernServer as error:
            self.found_modern(error)
            group.start_failed(ProtocolError(INTERNAL_ERROR, str(error)))
        except OneSessionOnly as error:
            if await self._has_one_only(group):
                group.start_failed(Moved(str(error)))
            else:
                self._refused(group, error)
        except LegacyError as error:
            self._refused(group, error)
        except Exception as error:
            log.error("a session could not be opened for a fault of the bridge", exc_info=error)
            group.start_failed(
                ProtocolError(INTERNAL_ERROR, "The bridge failed to open a session; its log says where.")
            )

    def _refused(self, group: Group, error: LegacyError) -> None:
        self._starts.failed(str(error), time.monotonic())
        log.error("%s", error, extra={"server": self.server.target.name})
        group.start_failed(ProtocolError(INTERNAL_ERROR, str(error)))

    async def _start(self, group: Group) -> Session:
        for backoff in (self._starts, self._ends.get(group.principal)):
            if backoff is not None and 0 < (pause := backoff.pause(time.monotonic())) <= WORTH_WAITING:
                await anyio.sleep(pause + 0.01)  # a timer may fire a little early
            if backoff is not None and (why := backoff.refusal(time.monotonic())) is not None:
                raise ProtocolError(INTERNAL_ERROR, why)
        if self.single:
            group.profile = EVERYTHING
        declared = group.profile.to_legacy()
        self._sessions += 1
        label = f"{self.server.target.name}#{self._sessions}"
        session: Session = await self._tasks.start(partial(self._run, group, label, declared))
        self._starts = Backoff()
        self.deprecations.negotiated(
            label, features_of(declared, session.capabilities, http_sse=session.transport == HTTP_SSE)
        )
        self._opened_at[session] = time.monotonic()
        log.info("session %s is open (protocol %s)", label, session.protocol_version)
        return session

    async def _run(
        self, group: Group, label: str, declared: dict[str, Any], *, task_status: anyio.abc.TaskStatus[Session]
    ) -> None:
        """A session's task: raises only what the one who waits for its start is to hear. It serves many requests, and
        belongs to the trace of none."""
        started = _Relay(task_status)
        try:
            with tracing(None):
                await run_session(
                    self.target,
                    client_info=CLIENT_INFO,
                    capabilities=declared,
                    listener=group.hearing,
                    name=label,
                    limits=Limits(start=self.server.limits.start),
                    found=self.found,
                    look=can_be_modern(self.target) and self.target.transport == "auto",
                    task_status=started,
                )
        except Exception as error:
            if started.session is None:
                raise
            log.error("session %s ended by a fault of the bridge", label, exc_info=error)

    def _lost(self, group: Group, session: Session) -> None:
        """A process, or a stream of HTTP+SSE, that ended by itself soon after its start is started again more and more
        slowly. (A session that a Streamable HTTP server has forgotten says nothing about how the next one will fare.)
        """
        now = time.monotonic()
        opened_at = self._opened_at.pop(session, now)  # it may end before anybody has noted that
        life = now - opened_at
        if session.transport == STREAMABLE_HTTP:
            return
        if life >= SHORT_LIFE:
            self._ends.pop(group.principal, None)
        else:
            ends = self._ends.setdefault(group.principal, Backoff())
            ends.failed(f"{session.ended_because} It had run for {life:.1f} s.", now, since=opened_at)

    async def _make_room(self, group: Group) -> None:
        limits = self.server.limits
        mine = [g for g in self.groups.values() if g.principal == group.principal]
        for groups, cap, whose in (
            (mine, limits.max_sessions_per_principal, "of this principal"),
            (list(self.groups.values()), limits.max_sessions_total, "in all"),
        ):
            while sum(len(g.channels) + g.opening for g in groups) > cap:
                idle = min((g for g in groups if g.idle and g.channels), key=lambda g: g.last_used, default=None)
                if idle is None:
                    raise ProtocolError(
                        INTERNAL_ERROR,
                        f"There are {cap} sessions {whose} and none is idle. Try again when calls have ended.",
                    )
                for session in list(idle.channels):
                    idle.retire(session)
                    await session.close()

    # -- time ---------------------------------------------------------------------------------------------------------

    def _arm(self, group: Group, deadline: float) -> None:
        armed = self._timers.get(group)
        if armed is not None:
            if armed[0] <= deadline:
                return
            armed[1].cancel()
        delay = max(deadline - time.monotonic(), 0) + 0.0005
        handle = asyncio.get_running_loop().call_later(delay, self._tick, group)
        self._timers[group] = deadline, handle

    def _tick(self, group: Group) -> None:
        del self._timers[group]
        with tracing(None):  # not that of the request for whose sake the timer was set
            group.tick()

    async def retire_idle(self) -> None:
        """Close further sessions that nobody uses any more; forget groups without sessions."""
        now = time.monotonic()
        for key, group in list(self.groups.items()):
            if not group.idle or now - group.last_used < self.server.limits.session_idle:
                continue
            for session in list(group.channels)[1:]:
                group.retire(session)
                await session.close()
            if not group.channels and not group.opening:
                del self.groups[key]

    async def close(self) -> None:
        """End every session, also those that are being opened, each in bounded time; no other is opened."""
        self._closed = True
        for _, handle in self._timers.values():
            handle.cancel()
        for scope in list(self._opening):
            scope.cancel()
        async with anyio.create_task_group() as closing:
            for group in self.groups.values():
                for session in list(group.channels):
                    closing.start_soon(session.close)


class _Relay:
    """Remembers whether a session was handed over: what fails afterwards concerns nobody who waits for its start."""

    def __init__(self, status: anyio.abc.TaskStatus[Session]) -> None:
        self._status = status
        self.session: Session | None = None

    def started(self, value: Session | None = None) -> None:
        assert value is not None
        self.session = value
        self._status.started(value)
