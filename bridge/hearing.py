"""What a group's sessions hear from their server: asks, their withdrawal, notifications, the end.

Each thing is brought to where it is dealt with: an ask to attribution, a notification to the run that it belongs to or
to the listen streams. What an ask comes to is `bridge.group`'s to carry out.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any

from bridge import runs as rules
from bridge.deprecation import Feature, features_used
from bridge.errands import Channel, Run, Runs
from bridge.tasks import cancel_task_of, task_of
from bridge.translate import asks, notifications
from bridge.translate.notifications import Route
from legacy.messages import Ask, Reply
from legacy.session import Session

if TYPE_CHECKING:
    from bridge.group import Group

REFUSED = -32603

log = logging.getLogger("mrtr.group")


class Hearing:
    """See the module. The `legacy.session.Listener` of one group's sessions."""

    def __init__(self, group: Group, runs: Runs, asked_on: dict[Ask, Session]) -> None:
        self._group = group
        self._runs = runs
        self._asked_on = asked_on

    # -- asks ---------------------------------------------------------------------------------------------------------

    def asked(self, session: Session, ask: Ask) -> None:
        self._asked_on[ask] = session
        channel = self._group.channels.get(session)
        if channel is None:
            self._group.start_up.asked(session, ask)
        else:
            self.judge(session, channel, ask)

    def judge(self, session: Session, channel: Channel, ask: Ask) -> None:
        """Find out whose an ask is that came on a session that takes calls."""
        group = self._group
        task_id = task_of(ask.params)
        label = self._runs.find(session, ask.request_id, task_id)
        if task_id is not None and (label is None or not (label.becomes_task or label.task_id == task_id)):
            # On whatever stream it came, it is nobody else's: servers may use any that is open.
            group.refuse(ask, REFUSED, "The task that this belongs to is over.")
            return
        roots = ask.method == "roots/list"
        self._note_use(ask, label)
        if roots and not group.profile.roots:
            self._refuse_roots(ask, label, channel)
            return
        if roots and group.roots.expected(session):
            group.carry_out([rules.LastRoots(ask)])
            return
        last_roots = group.roots.last is not None
        group.carry_out(
            group.attribution.asked(channel, ask, time.monotonic(), label=label, roots=roots, last_roots=last_roots)
        )

    def _refuse_roots(self, ask: Ask, label: Run | None, channel: Channel) -> None:
        """This group's clients have none: refused as an old client would, by the call that it came from if one can
        tell, so that the call's failure can say what was missing."""
        refusal = asks.present(ask.method, ask.params, self._group.profile)
        assert isinstance(refusal, asks.Undeclared)
        self._group.refuse(ask, refusal.code, refusal.message)
        tools = [run for run in channel.open if isinstance(run, Run) and run.tool is not None]
        takers = [run for run in tools if run.turn] or tools
        asker = label or (takers[0] if len(takers) == 1 else None)
        if asker is not None:
            asker.errand.lacks(refusal.required)

    def withdrawn(self, session: Session, ask: Ask) -> None:
        group = self._group
        self._asked_on.pop(ask, None)
        group.roots.withdrawn(ask)
        owner = group.attribution.owner(ask)
        commands = group.attribution.ask_closed(ask, time.monotonic())
        if isinstance(owner, Run):
            owner.errand.taken_back(ask)
        group.carry_out(commands)

    # -- notifications ------------------------------------------------------------------------------------------------

    def notified(self, session: Session, method: str, params: dict[str, Any], request_id: int | None) -> None:
        run = self._runs.find(session, request_id)
        match notifications.route(method):
            case Route.PROGRESS if run is not None:
                run.errand.notified(method, params)
            case Route.TASK:
                task_id = params.get("taskId")
                run = self._runs.find(session, None, task_id if isinstance(task_id, str) else None)
                if run is not None:
                    run.errand.notified(method, params)
            case Route.LOG:
                self._logged(session, params, run, request_id)
            case Route.LISTEN:
                if method == "notifications/tools/list_changed":
                    self._group.tools = None
                self._group.listening.publish(method, notifications.to_modern(method, params) or {})
            case Route.SIGNED_IN:
                self._group.sign_ins.completed(params)
            case _:
                log.debug("%s: %s is for nobody", self._group.server.target.name, method)

    def _logged(self, session: Session, params: dict[str, Any], run: Run | None, request_id: int | None) -> None:
        """Where the wire names no request, the message is that one's which alone is open; requests of the bridge's own
        count as well, since a server may log for them too. Not where principals share the session: a server may go on
        logging about a call that is over, and the next is somebody else's."""
        if request_id is None and not self._group.server.shared_session:
            run = self._runs.find(session, session.only_open)
        client = run.errand.client_name if run is not None else self._group.last_client
        self._group.deprecations.used(Feature.LOGGING, client)
        if run is None or not run.errand.notified("notifications/message", params):
            self._group.unclaimed.take(params)

    def interrupted(self, session: Session) -> None:
        self._group.tools = None
        self._group.listening.interrupted(session)

    # -- ends ---------------------------------------------------------------------------------------------------------

    def ghost_ended(self, session: Session, request_id: int, reply: Reply) -> None:
        cancel_task_of(session, reply)
        run = self._runs.find(session, request_id)
        if run is not None:
            self._runs.remove(run)
            self._group.carry_out(self._group.attribution.ghost_ended(run, time.monotonic()))

    def lost(self, session: Session, reason: str) -> None:
        self._group.lost(session)

    # -- who uses what is deprecated ----------------------------------------------------------------------------------

    def _note_use(self, ask: Ask, label: Run | None) -> None:
        client = label.errand.client_name if label is not None else self._only_client()
        for feature in features_used(ask.method, ask.params):
            self._group.deprecations.used(feature, client)

    def _only_client(self) -> str | None:
        """Whose doing it most likely is, where the wire names no call: for warnings only."""
        names = self._runs.client_names() or {self._group.last_client}
        return names.pop() if len(names) == 1 else None
