"""The bridge as a handler of modern requests: finds the group, runs or resumes the call, brings its outcome back.

Stateless on the surface [basic/index, Statelessness]: everything a request needs is in it. What is kept here is work
that an old server holds, reached by a sealed ``requestState`` and nothing else.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from functools import partial
from typing import Any

import anyio
import anyio.abc

from bridge import outcomes as o
from bridge import state as states
from bridge.call import StepUsed
from bridge.conduct import LiveCall
from bridge.cursors import LISTS, Cursors, Page
from bridge.deprecation import Feature
from bridge.discovery import Discovery
from bridge.group import Group, Moved
from bridge.keyring import KeyRing
from bridge.legs import OpenLeg, client_name
from bridge.plain import PlainRequest
from bridge.plan import Plan
from bridge.pool import Pool
from bridge.settings import Server
from bridge.tasks_serving import Tasks
from bridge.telemetry import tracing
from bridge.timing import Phase
from bridge.toolbook import learn_tools
from bridge.translate import errors, requests, results
from bridge.translate.capabilities import Profile
from bridge.translate.methods import SUSPENDABLE
from bridge.translate.trace import trace_id
from bridge.workspaces import Workspace
from legacy.messages import Failure, Lost, Reply, Result
from modern import tasks
from modern.envelope import Request
from modern.errors import INTERNAL_ERROR, ProtocolError
from modern.results import input_required
from modern.serving import Leg

log = logging.getLogger("mrtr.bridge")

SWEEP = 0.5
"""Seconds between two looks at deadlines that are far away."""
MOST_KEPT = 256
LONGEST_KEPT = 2000
"""Characters of capabilities whose profile is remembered."""


class Bridge:
    """A `modern.serving.Handler` in front of one legacy server.

    Invariant: a call that can be resumed is in ``_calls`` by its id, until its outcome has been kept long enough.
    """

    def __init__(self, server: Server, ring: KeyRing, task_group: anyio.abc.TaskGroup) -> None:
        self.server = server
        self.pool = Pool(server, task_group)
        self._sealer = states.Sealer(ring)
        self._instance = states.new_instance()
        self._cursors = Cursors(ring, self._instance)
        self._discovery = Discovery()
        self._calls: dict[bytes, LiveCall] = {}
        self._tasks = Tasks(ring, self._instance, server.target.name, self._calls, self._task_result)
        self._forget_at: dict[bytes, float] = {}
        self._live: set[LiveCall] = set()
        self._profiles: dict[str, Profile] = {}
        self._closing = False
        self._loop = asyncio.get_running_loop()  # asking for it with every request is slow before Python 3.12

    # -- modern.serving.Handler ---------------------------------------------------------------------------------------

    async def serve(self, request: Request, leg: Leg) -> dict[str, Any]:
        trace = trace_id(request.params.get("_meta"))
        if trace is not None:
            with tracing(trace):
                return await self._serve_moved(request, leg)
        return await self._serve_moved(request, leg)

    async def _serve_moved(self, request: Request, leg: Leg) -> dict[str, Any]:
        serve = self._serve_call if request.method in SUSPENDABLE else self._serve
        try:
            return await serve(request, leg)
        except Moved:  # before anything was sent
            return await serve(request, leg)

    async def _serve(self, request: Request, leg: Leg) -> dict[str, Any]:
        method = request.method
        if method in tasks.METHODS:
            return self._tasks.serve(request)
        group = self._group(request)
        if method == "server/discover":
            return await self._discover(request, group)
        if method == "subscriptions/listen":
            if self._closing:
                group.listening.end()
            with self._tasks.listening(request, leg) as (task_ids, begin):
                return self._complete(method, await group.listening.serve(request, leg, task_ids, begin), group)
        await self._want_logs(request, group)
        params = requests.to_legacy(method, request.params)
        page = None
        if method in LISTS:
            anywhere = self.server.limits.one_call is not None
            page = Page(self._cursors, request.principal, method, params.pop("cursor", None), anywhere=anywhere)
        plain = PlainRequest(method, params, OpenLeg(request, leg, self._loop), page)
        reply = await plain.ask(group, self.server.limits.silence)
        if page is not None and isinstance(reply, Result):
            reply = Result(page.turned(reply.value))
        return self._result(method, reply, group)

    def mirrored_parameters(self, request: Request) -> Mapping[str, Any] | None:
        tools = self._group(request).tools
        return None if tools is None else tools.get(request.params["name"], {})

    async def learn_tools(self, request: Request) -> None:
        try:
            await learn_tools(self._group(request))
        except Moved:
            await learn_tools(self._group(request))

    # -- calls --------------------------------------------------------------------------------------------------------

    async def _serve_call(self, request: Request, leg: Leg) -> dict[str, Any]:
        profile = self._profile(request)
        waiting = OpenLeg(request, leg, self._loop)
        params = request.params
        if params.get("requestState") is not None or ("requestState" in params and "inputResponses" in params):
            live = self._resume(request, waiting, profile)
        else:
            plan = Plan(self.pool, request, profile, self._tasks.has_room)
            group = plan.group
            workspace = None
            if profile.roots and self.server.roots == "per-call":
                workspace = Workspace(partial(self._find_workspace, request, profile), time.monotonic())
            elif group.primary is None:
                await group.ready()
            if request.log_level is not None:
                await self._want_logs(request, group)
            if workspace is None:
                if plan.unprepared:
                    await plan.prepare()
                if group.start_up.is_settling:
                    await group.start_up.settled()
                if (refusal := plan.refusal()) is not None:
                    raise refusal
            live = LiveCall(
                request,
                requests.to_legacy(request.method, request.params),
                profile,
                self._live,
                self.pool.spawn,
                self._loop,
                plan,
                workspace,
            )
            live.start(waiting)
        try:
            outcome = await waiting.future
        except BaseException:
            live.leg_gone(waiting)
            raise
        match outcome:
            case o.Complete(result=result):
                self._keep(live, self.server.limits.remember)
                again = "requestState" in params or "inputResponses" in params
                return self._complete(request.method, result, live.group, cacheable=not again)
            case o.InputRequired(requests=wanted, step=step, expires=expires):
                token = self._token(live, request, step, expires)
                return input_required(wanted, token, live.group.server_info)
            case o.BecameTask():
                return self._tasks.created(live, self._name(live))
            case o.Failed(error=error):
                self._keep(live, self.server.limits.remember)
                raise error
            case o.Cancelled():
                raise AssertionError("a task has no leg")

    def _task_result(self, live: LiveCall, result: dict[str, Any]) -> dict[str, Any]:
        return self._complete(live.call.method, result, live.group)

    async def _find_workspace(self, request: Request, profile: Profile, roots: dict[str, Any] | None) -> Group:
        group = self.pool.group(request.principal, profile, roots)
        await group.ready()
        await self._want_logs(request, group)
        return group

    def _resume(self, request: Request, leg: OpenLeg, profile: Profile) -> LiveCall:
        """Find the call that a retry belongs to, and give it the answers.

        Raises:
            ProtocolError: the one frozen error, whatever the reason; or the answers have the wrong shape.
        """
        params = request.params
        try:
            state = self._sealer.unseal(params["requestState"], self.server.target.name, time.time())
            live = self._calls.get(state.call) if state.instance == self._instance else None
            if live is None:
                raise states.StateError(states.Reason.CALL_GONE)
            if live.principal != request.principal:
                raise states.StateError(states.Reason.OTHER_PRINCIPAL)
            if not self._sealer.matches(state, request.principal, request.method, params):
                raise states.StateError(states.Reason.OTHER_REQUEST)
            self.pool.spawn(self._set_level, request, live.group)
            live.retry(leg, state.step, params.get("inputResponses", {}), profile)
        except StepUsed:
            refused = states.Reason.USED
        except states.StateError as error:
            refused = error.reason
        else:
            return live
        log.warning("a retry of %s was refused: %s", request.method, refused, extra={"reason": refused})
        raise states.reject(refused)

    def _token(self, live: LiveCall, request: Request, step: int, expires: float) -> str:
        call_id = self._name(live)
        expires_at = time.time() + expires - time.monotonic()
        digest = self._sealer.digest(request.principal, request.method, request.params)
        state = states.State(self._instance, call_id, step, int(expires_at) + 1, digest)
        return self._sealer.seal(state, self.server.target.name)

    def _name(self, live: LiveCall) -> bytes:
        """What a client's next request finds the call by."""
        if live.id is None:
            live.id = states.new_call()
            self._calls[live.id] = live
        return live.id

    def _keep(self, live: LiveCall, seconds: float) -> None:
        """Remember what a call came to, for the same retry sent again."""
        if live.id is not None:
            self._forget_at[live.id] = time.monotonic() + seconds

    # -- everything else ----------------------------------------------------------------------------------------------

    async def _discover(self, request: Request, group: Group) -> dict[str, Any]:
        return self._complete(request.method, await self._discovery.of(group), group)

    def _result(self, method: str, reply: Reply, group: Group) -> dict[str, Any]:
        match reply:
            case Result(value=value):
                return self._complete(method, value, group)
            case Failure():
                raise errors.to_modern(method, reply, declared=group.capabilities)
            case Lost(reason=reason):
                raise errors.lost(reason)

    def _complete(self, method: str, result: dict[str, Any], group: Group, *, cacheable: bool = True) -> dict[str, Any]:
        """``cacheable``: it depends on the request alone; what came of answers does not [server/utilities/caching]."""
        return results.to_modern(
            method,
            result,
            server_info=group.server_info,
            ttl_ms=self.server.ttl_ms if cacheable else 0,
            cache_scope=self.server.cache_scope,
        )

    async def _want_logs(self, request: Request, group: Group) -> None:
        """Have the server log at the level that the request wants, before it hears of the request."""
        if request.log_level is not None:
            await group.ready()
            await self._set_level(request, group)

    async def _set_level(self, request: Request, group: Group) -> None:
        if request.log_level is not None and "logging" in group.capabilities:
            self.pool.deprecations.used(Feature.LOGGING, client_name(request))
            await group.log_level.want(request.log_level, group.reachable())

    async def open_session(self, request: Request) -> None:
        """Have the session that ``request`` would be served on.

        Raises:
            ProtocolError: there can be none.
        """
        await self._group(request).ready()

    def _group(self, request: Request) -> Group:
        return self.pool.group(request.principal, self._profile(request))

    def _profile(self, request: Request) -> Profile:
        """The profile of the request's client; remembered, since a client says the same with every request."""
        said = str(request.capabilities)
        profile = self._profiles.get(said)
        if profile is None:
            profile = Profile.of(request.capabilities)
            if len(said) <= LONGEST_KEPT:
                if len(self._profiles) >= MOST_KEPT:
                    self._profiles.clear()
                self._profiles[said] = profile
        return profile

    # -- time and the end ---------------------------------------------------------------------------------------------

    async def sweep(self) -> None:
        """Look after deadlines that are far away, until cancelled."""
        while True:
            await anyio.sleep(SWEEP)
            try:
                self._look_at_deadlines(time.monotonic())
                await self.pool.retire_idle()
            except Exception as error:  # one call's fault must not stop the clock of all others
                log.error("a sweep failed for a fault of the bridge", exc_info=error)

    def _look_at_deadlines(self, now: float) -> None:
        for live in [live for live in self._live if live.call.deadline <= now]:
            live.tick()
        for call_id, live in self._calls.items():
            if live.call.phase is Phase.DONE and call_id not in self._forget_at:
                self._keep(live, max(live.call.expires_at - now, self.server.limits.remember))
        for call_id in [call_id for call_id, at in self._forget_at.items() if at <= now]:
            del self._forget_at[call_id]
            self._calls.pop(call_id, None)

    async def ready(self) -> str | None:
        """Wait until every session that is being started is ready or has failed; see `trouble`."""
        for group in list(self.pool.groups.values()):
            if group.opening:
                try:
                    await group.ready()
                except ProtocolError as error:
                    log.debug("not ready: %s", error.message)
        return self.trouble()

    def trouble(self) -> str | None:
        """Why the server could not be started last, as long as it has not been since."""
        failures = [group.failure for group in self.pool.groups.values() if group.failure is not None]
        return failures[-1].message if failures and not any(g.channels for g in self.pool.groups.values()) else None

    def stop_listening(self) -> None:
        """End the subscription streams gracefully [basic/patterns/subscriptions, Graceful Closure]."""
        self._closing = True
        for group in self.pool.groups.values():
            group.listening.end()

    def give_up(self) -> None:
        """Fail what still runs, so that every open leg gets an answer before the process ends."""
        for live in list(self._live):
            live.give_up("The bridge is shutting down; whether the call had an effect is unknown.")
        for group in self.pool.groups.values():
            group.give_up(ProtocolError(INTERNAL_ERROR, "The bridge is shutting down."))

    async def close(self) -> None:
        """End subscription streams, cancel what is suspended, end every session."""
        self.stop_listening()
        self.give_up()
        await self.pool.close()
