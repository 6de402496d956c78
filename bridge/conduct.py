"""Carries out what a call wants: the only place where `bridge.call`'s commands meet sessions, legs and the clock.

A `LiveCall` (tools/call, prompts/get, resources/read) is the errand that may suspend; `bridge.plain` has the other
kind.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from math import inf
from typing import TYPE_CHECKING, Any, Protocol

from bridge import outcomes as o
from bridge.call import Call
from bridge.errands import Run
from bridge.group import Group, Moved
from bridge.legs import OpenLeg, client_name, deliver
from bridge.plan import Plan
from bridge.tasks import TaskRun
from bridge.telemetry import current_trace
from bridge.timing import Phase
from bridge.translate import notifications
from bridge.workspaces import Workspace
from legacy.messages import Ask, Lost, Reply
from legacy.session import Session
from modern.envelope import Request
from modern.errors import ProtocolError

if TYPE_CHECKING:
    from bridge.translate.capabilities import Profile

log = logging.getLogger("mrtr.call")


class ClientsTask(Protocol):
    """What a client sees of a call that has become a task."""

    def look(self) -> None:
        """Something may have changed."""


class LiveCall:
    """A `Call` with its session, its legs and its timer.

    Invariant: it is in its conductor's ``live`` set until the call is done, so its deadline is looked at.
    """

    __slots__ = (
        "_begun",
        "_legs",
        "_live",
        "_loop",
        "_not_ours",
        "_params",
        "_plan",
        "_progress",
        "_resent",
        "_said",
        "_takes_tasks",
        "_task",
        "_timer",
        "_workspace",
        "call",
        "client_name",
        "id",
        "principal",
        "run",
        "spawn",
        "task",
        "trace_id",
    )

    def __init__(
        self,
        request: Request,
        params: dict[str, Any],
        profile: Profile,
        live: set[LiveCall],
        spawn: Callable[..., None],
        loop: asyncio.AbstractEventLoop,
        plan: Plan,
        workspace: Workspace | None = None,
    ) -> None:
        self.client_name = client_name(request)
        self.trace_id = current_trace()
        self.id: bytes | None = None
        """Set when the call suspends for the first time."""
        self.principal = request.principal
        self.spawn = spawn
        self._params = params
        self._live = live
        self._legs: list[OpenLeg] = []
        self._progress: notifications.ProgressGate | None = None
        self._resent = 0
        self._not_ours: list[Ask] = []
        self._timer: asyncio.TimerHandle | None = None
        self._loop = loop
        self._plan = plan
        self._begun = False
        self._workspace = workspace
        """Set: where the call runs is known when its client has said what its roots are."""
        self._takes_tasks = plan.takes_tasks
        self._task: TaskRun | None = None
        self._said: str | None = None
        """What the server last said of its progress."""
        self.task: ClientsTask | None = None
        """What the client sees, once the call has become a task."""
        self.run = Run(
            self,
            plan.key,
            may_be_asked=plan.group.profile.asks_anything,
            carries_roots=profile.roots,
            owner=request.principal,
        )
        # Nothing of the plan's leads back here: what is over is freed at once, not by the collector.
        self.call = Call(
            request.method,
            profile,
            plan.group.server.limits,
            plan.sibling_wait,
            plan.capabilities,
            time.monotonic(),
            replayable=plan.replayable,
            takes_tasks=plan.takes_tasks,
        )

    @property
    def group(self) -> Group:
        """The group on whose sessions the call runs."""
        return self._plan.group

    # -- legs ---------------------------------------------------------------------------------------------------------

    def start(self, leg: OpenLeg) -> None:
        self._live.add(self)
        self._legs.append(leg)
        now = time.monotonic()
        roots_first = None
        if self._workspace is not None:
            roots_first = self._workspace.ask
        elif self.call.profile.roots:
            roots_first = self.group.roots_due(now)
        self._carry_out(self.call.start(leg, now, roots_first))

    def retry(self, leg: OpenLeg, step: int, responses: object, profile: Profile) -> None:
        """See `Call.retry`, whose errors pass through."""
        self._legs.append(leg)
        try:
            commands = self.call.retry(leg, step, responses, profile, time.monotonic())
        except BaseException:
            self._legs.remove(leg)
            raise
        self._carry_out(commands)

    def leg_gone(self, leg: OpenLeg) -> None:
        if leg in self._legs:
            self._legs.remove(leg)
        self.feed(o.LegGone(leg))
        if self.call.is_task and self.task is None:
            self.cancel_task()  # its client left just before it heard of the task: nobody knows it

    def update(self, responses: object) -> None:
        """See `Call.update`, whose errors pass through."""
        self._carry_out(self.call.update(responses, time.monotonic()))

    def cancel_task(self) -> None:
        self.feed(o.TaskCancelled())

    def tick(self) -> None:
        self.feed(o.Tick())

    def give_up(self, reason: str) -> None:
        self.feed(o.GivenUp(reason))

    def feed(self, event: o.Event) -> None:
        commands = self.call.feed(event, time.monotonic())
        if commands:
            self._carry_out(commands)
        else:
            self._settle_down()

    def _carry_out(self, commands: list[o.Command]) -> None:
        for command in commands:
            match command:
                case o.Settle(leg=OpenLeg() as leg, outcome=outcome):
                    if leg in self._legs:
                        self._legs.remove(leg)
                    if not leg.future.done():
                        leg.future.set_result(outcome)
                case o.Begin():
                    self._begin()
                case o.Suspend():
                    self.group.carry_out(self.group.attribution.suspended(self.run, time.monotonic()))
                case o.Resume():
                    self.group.carry_out(self.group.attribution.wants_to_resume(self.run, time.monotonic()))
                case o.Answer(ask=ask, result=result) if self._workspace is not None and ask is self._workspace.ask:
                    self._workspace.answered(result)
                case o.Answer(ask=ask, result=result):
                    if ask not in self._not_ours:
                        self.group.answer(ask, result)
                case o.Refuse(ask=ask, code=code, message=message):
                    if ask not in self._not_ours:
                        self.group.refuse(ask, code, message)
                case o.GiveBack(ask=ask):
                    self.group.give_back(ask)
                case o.AwaitSignIn(ids=ids):
                    self.group.sign_ins.wait(ids, self._signed_in)
                case o.SettleRoots():
                    self.group.start_up.settling()
                    self.spawn(self._settle_roots)
                case o.Cancel(reason=reason):
                    told = self._task is not None and self._task.cancel()
                    self.group.cancel(self.run, reason, tell=not told)
                case o.AskProgress(ask=ask, beat=beat):
                    self.group.ask_progress(ask, beat)
        self._settle_down()

    def _settle_down(self) -> None:
        """After every event: a timer where half a second matters (`Bridge.sweep` looks after the rest), and the end."""
        phase = self.call.phase
        if self._timer is not None:
            self._disarm()
        if phase is Phase.GATHERING:
            self._arm(self.call.deadline)
        elif phase is Phase.DONE:
            self._live.discard(self)
            self.group.sign_ins.forget(self._signed_in)
            if self._task is not None:
                self._task.stop()
        elif self._takes_tasks and (at := self.call.becomes_task_at) < inf:
            self._arm(at)
        if self.task is not None:
            self.task.look()

    def _arm(self, at: float) -> None:
        self._timer = self._loop.call_later(max(at - time.monotonic(), 0) + 0.0005, self.tick)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _begin(self) -> None:
        if not self._begun:
            self._begun = True
            self.group.place(self.run)
            return
        log.info("a %s is run again, with what its client answered so far", self.call.method)
        self.group.sign_ins.forget(self._signed_in)
        self.run = self._new_run()
        if self._task is not None:
            self._task.stop()
            self._task = None
        self.spawn(self._run_again)

    def _new_run(self) -> Run:
        asked = self.group.profile.asks_anything
        roots = self.call.profile.roots
        return Run(self, self._plan.key, may_be_asked=asked, carries_roots=roots, owner=self.principal)

    async def _run_again(self) -> None:
        """The next attempt, wherever this client's calls run by now."""
        run = self.run
        try:
            try:
                await self._find_group()
            except Moved:
                await self._find_group()
        except ProtocolError as error:
            self.unserved(error)
            return
        if self.call.phase is not Phase.DONE and self.run is run:
            self.run = self._new_run()
            self.group.place(self.run)

    async def _find_group(self) -> None:
        if self._workspace is not None:
            self._plan.group = await self._workspace.group()
        else:
            self._plan.move(self.call.profile)
            await self.group.ready()
        await self._plan.prepare()

    def _signed_in(self, id: str) -> None:
        self.feed(o.SignedIn(id))

    async def _settle_roots(self) -> None:
        if self._workspace is not None:
            try:
                self._plan.group = await self._workspace.group()
            except ProtocolError as error:
                self.unserved(error)
                return
        await self.group.start_up.settle_roots()
        try:
            await self._plan.prepare()
        except ProtocolError as error:  # there is no session any more, and the call finds that out by itself
            log.debug("the tools are not known: %s", error.message)
        if (refusal := self._plan.refusal()) is not None:
            self.unserved(refusal)
            return
        self.feed(o.RootsSettled())

    # -- what the group tells its errand ------------------------------------------------------------------------------

    def send_on(self, session: Session) -> int:
        if self._plan.as_task():
            limits = self.group.server.limits
            self._task = TaskRun(
                session,
                self._loop,
                created=self._task_created,
                ended=self._task_ended,
                heard=self._heard,
                looks=limits.one_call is None,
            )
            self.run.becomes_task = True
            ttl = limits.task_ttl if self._takes_tasks else limits.call_ttl
            request_id = self._task.send(self.call.method, self._params, ttl)
        else:
            request_id = session.send(self.call.method, self._params, self._replied)
        self.feed(o.Sent(session.protocol_version))
        return request_id

    def _task_created(self, task_id: str, request_id: int) -> None:
        if self.call.phase is not Phase.DONE:
            self.group.became_task(self.run, task_id, request_id)
            self.feed(o.MadeTask())

    def _task_ended(self, reply: Reply, cancelled: bool) -> None:
        self._replied(reply, cancelled=cancelled)

    def _heard(self) -> None:
        self.feed(o.Heard())

    @property
    def status_message(self) -> str | None:
        """What the server says about how the call is getting on, for people."""
        return (self._task.message if self._task is not None else None) or self._said

    @property
    def task_meta(self) -> dict[str, Any]:
        """What the server said beside the task that it created, if it did."""
        return self._task.meta if self._task is not None else {}

    @property
    def poll(self) -> float | None:
        """How often the server wants to be asked about the call, in seconds, if it said so."""
        return self._task.poll if self._task is not None else None

    def unserved(self, error: ProtocolError) -> None:
        self.feed(o.Unserved(error))

    def given(self, ask: Ask) -> None:
        self.feed(o.Asked(ask))

    def taken_back(self, ask: Ask) -> None:
        if not self.call.attempting:
            self._not_ours.append(ask)  # while its end is carried out: another call has it now
        self.feed(o.Withdrawn(ask))

    def lacks(self, required: dict[str, Any]) -> None:
        self.call.lacks(required)

    def resumed(self) -> None:
        self.feed(o.Resumed())

    def notified(self, method: str, params: dict[str, Any]) -> bool:
        if method == "notifications/tasks/status":
            if self._task is not None:
                self._task.told(params)
            return True
        if self._takes_tasks and method == "notifications/progress":
            self._said = notifications.progress_in_words(params) or self._said
        self.feed(o.Heard())
        if self._progress is None:
            self._progress = notifications.ProgressGate()
        return bool(self._legs) and deliver(self._legs[-1], method, params, self._progress)

    def _replied(self, reply: Reply, *, cancelled: bool = False) -> None:
        if isinstance(reply, Lost) and not reply.processed and self._resent < self.group.most_resent:
            self._resent += 1
            refused, self.run = self.run, self.run.again()
            self.group.finished(refused, reply)
            self.spawn(self._send_again)
            return
        self.group.finished(self.run, reply)
        self.feed(o.Replied(reply, cancelled))

    async def _send_again(self) -> None:
        """Once more, on a new session if need be."""
        try:
            await self.group.ready()
        except ProtocolError as error:
            self.unserved(error)
            return
        if self.call.phase is not Phase.DONE:
            self.group.place(self.run)
