"""Whatever happens in whatever order: the invariants of attribution hold, and in the end all is forgotten."""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from bridge import attribution as rules
from bridge.attribution import Channel, Run, RunState
from bridge.knowledge import Knowledge
from legacy.messages import Ask

TOOLS = [None, "one", "two", "three"]
WAITS = [0.0, 0.01, 0.1, 1.0, 2.0, 5.0, 61.0]


class Anything(RuleBasedStateMachine):
    """Plays the server, the clients and the driver, and knows who asked what."""

    @initialize(
        max_sessions=st.integers(1, 3),
        unlabelled=st.booleans(),
        mode=st.sampled_from(["infer", "strict", "shared", "one_call"]),
    )
    def start(self, max_sessions: int, unlabelled: bool, mode: str) -> None:
        self.now = 0.0
        self.max_sessions = max_sessions
        self.one_call = mode == "one_call"
        self.unlabelled = unlabelled or self.one_call
        self.knowledge = Knowledge()
        self.rules = rules.Attribution(
            self.knowledge,
            max_sessions=max_sessions,
            strict=mode == "strict",
            shared=mode == "shared",
            one_call=self.one_call,
        )
        self.channels: list[Channel] = []
        self.runs: list[Run] = []
        self.opening = 0
        self.open: dict[Ask, str] = {}
        """What became of each ask that the server waits for: "pending", "given" or "held"."""
        self.asked_at: dict[Ask, float] = {}
        self.owner: dict[Ask, Run] = {}
        self.hurried: set[Run] = set()
        self.let_go: set[Run] = set()
        self.sent: set[Run] = set()

    # What the driver does.

    def carry_out(self, commands: list[rules.Command]) -> None:
        for command in commands:
            match command:
                case rules.OpenSession():
                    self.opening += 1
                    assert len(self.channels) + self.opening <= self.max_sessions
                case rules.Send(run, channel):
                    assert run not in self.sent
                    assert channel in self.channels
                    self.sent.add(run)
                case rules.Give(ask, run, _):
                    assert self.open[ask] != "given"
                    assert run.state not in (RunState.GHOST, RunState.DONE, RunState.WAITING)
                    assert run.tool is not None
                    self.open[ask] = "given"
                    self.owner[ask] = run
                case rules.Refuse(ask, reason, _):
                    assert reason
                    self.close(ask)
                case rules.LastRoots(ask):
                    assert ask.method == "roots/list"
                    self.close(ask)
                case rules.Hold(ask):
                    assert ask.method == "roots/list"
                    assert self.open[ask] == "pending"
                    self.open[ask] = "held"
                case rules.Withdraw(ask, run):
                    assert self.owner.pop(ask) is run
                    assert self.open[ask] == "given"
                    self.open[ask] = "pending"
                    self.asked_at[ask] = self.now
                case rules.Resume(run):
                    assert run.state is not RunState.GHOST
                    for ask in [ask for ask, owner in self.owner.items() if owner is run]:
                        self.answer(ask)
                case rules.Forgotten(run):
                    assert run.state is RunState.DONE
                case rules.EndSession(channel):
                    assert self.one_call
                    self.end(channel)

    def close(self, ask: Ask) -> None:
        """The server has its answer."""
        del self.open[ask]
        self.owner.pop(ask, None)

    def answer(self, ask: Ask) -> None:
        self.carry_out(self.rules.ask_closed(ask, self.now))
        self.close(ask)

    def sent_runs(self) -> list[Run]:
        return [run for run in self.runs if run.state not in (RunState.WAITING, RunState.DONE)]

    # What happens.

    @rule(tool=st.sampled_from(TOOLS), declared=st.booleans(), owner=st.sampled_from(["ada", "bob"]))
    def place(self, tool: str | None, declared: bool, owner: str) -> None:
        run = Run(tool, may_be_asked=declared, carries_roots=declared, owner=owner)
        self.runs.append(run)
        self.carry_out(self.rules.place(run, self.now))

    @precondition(lambda self: self.opening)
    @rule(works=st.booleans())
    def open_session(self, works: bool) -> None:
        self.opening -= 1
        if works:
            self.channels.append(Channel(unlabelled=self.unlabelled))
            self.carry_out(self.rules.open_channel(self.channels[-1], self.now))
            return
        self.carry_out(self.rules.session_failed(self.now))
        if not self.channels:
            for run in self.rules.waiting():
                self.carry_out(self.rules.cancelled(run, self.now))

    @precondition(lambda self: self.channels)
    @rule(data=st.data())
    def close_session(self, data: st.DataObject) -> None:
        self.end(data.draw(st.sampled_from(self.channels)))

    def end(self, channel: Channel) -> None:
        self.channels.remove(channel)
        for ask in [ask for ask in self.open if self.on(ask) is channel]:
            self.close(ask)
        self.carry_out(self.rules.close_channel(channel, self.now))
        assert all(run.state is RunState.DONE for run in self.runs if run.channel is channel)

    def on(self, ask: Ask) -> Channel:
        assert isinstance(ask.params["channel"], Channel)
        return ask.params["channel"]

    @precondition(lambda self: self.channels)
    @rule(data=st.data(), roots=st.booleans(), known=st.booleans(), labelled=st.booleans())
    def ask(self, data: st.DataObject, roots: bool, known: bool, labelled: bool) -> None:
        channel = data.draw(st.sampled_from(self.channels))
        asker = data.draw(st.sampled_from([None, *channel.open]))
        labelled = labelled and asker is not None
        method = "roots/list" if roots else "elicitation/create"
        ask = Ask(method, {"channel": channel}, len(self.open), 1 if labelled else None, self.now)
        self.open[ask] = "pending"
        self.asked_at[ask] = self.now
        label = asker if labelled else None
        before = label.state if label is not None else None
        self.carry_out(self.rules.asked(channel, ask, self.now, label=label, roots=roots, last_roots=known))
        if label is not None and label.tool is not None and before is not RunState.GHOST:
            assert self.owner.get(ask) is label or ask not in self.open

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def withdraw(self, data: st.DataObject) -> None:
        self.answer(data.draw(st.sampled_from(list(self.open))))

    @precondition(lambda self: self.sent_runs())
    @rule(data=st.data(), what=st.sampled_from(["answered", "cancelled", "suspended", "wants_to_resume", "lost"]))
    def happens(self, data: st.DataObject, what: str) -> None:
        run = data.draw(st.sampled_from(self.sent_runs()))
        self.carry_out(getattr(self.rules, what)(run, self.now))
        if what == "cancelled":
            for ask in [ask for ask, owner in self.owner.items() if owner is run]:
                self.answer(ask)

    @precondition(lambda self: self.rules.waiting())
    @rule()
    def give_up_waiting(self) -> None:
        self.carry_out(self.rules.cancelled(self.rules.waiting()[0], self.now))

    @rule(seconds=st.sampled_from(WAITS))
    def wait(self, seconds: float) -> None:
        end = self.now + seconds
        while (deadline := self.rules.deadline()) is not None and deadline <= end:
            self.now = max(self.now, deadline)
            resuming = {run for run in self.runs if run.state is RunState.RESUMING}
            self.carry_out(self.rules.tick(self.now))
            self.hurried |= {run for run in resuming if run.state is RunState.RUNNING}
        self.now = end

    # What always holds.

    @invariant()
    def an_ask_is_given_refused_or_held_in_bounded_time(self) -> None:
        for ask, verdict in self.open.items():
            assert verdict != "pending" or self.now <= self.asked_at[ask] + 2.0
            owner = self.rules.owner(ask)
            assert owner is self.owner.get(ask)

    @invariant()
    def only_impatience_lets_two_hold_a_turn(self) -> None:
        for channel in self.channels:
            # One that did not need its turn for a while, as far as was known, did not keep others from it.
            self.let_go |= {run for run in channel.holders if not self.knowledge.needs_turn(run.tool or "")}
            holders = set(channel.holders) - self.let_go
            assert len(holders) <= 1 or self.hurried & holders

    @invariant()
    def a_session_whose_server_reads_inline_has_one_run_at_a_time(self) -> None:
        assert not self.one_call or all(len(channel.open) <= 1 for channel in self.channels)

    @invariant()
    def every_run_of_a_channel_is_active_or_suspended(self) -> None:
        for channel in self.channels:
            suspended = [run for runs in channel.suspended.values() for run in runs]
            assert all(run.state is RunState.SUSPENDED and not run.turn for run in suspended)
            assert {*channel.active, *suspended} == set(channel.open)
            assert len(channel.active) + len(suspended) == len(channel.open)

    @invariant()
    def nobody_waits_while_a_session_is_free(self) -> None:
        free = [channel for channel in self.channels if not any(run.tool or self.one_call for run in channel.open)]
        for run in self.rules.waiting():
            assert self.channels or self.opening or not run.tool or self.rules.deadline() is not None
            assert not free, (run, free)
        resuming = [run for run in self.runs if run.state is RunState.RESUMING]
        for run in resuming:
            assert run.channel is not None
            assert any(other is not run for other in run.channel.open)
            assert self.now <= run.since + 5.0

    @invariant()
    def a_run_is_known_exactly_while_it_lives(self) -> None:
        known = {run for channel in self.channels for run in channel.open}
        assert known == set(self.sent_runs())
        assert {run for run in self.runs if run.state is RunState.WAITING} == set(self.rules.waiting())

    def teardown(self) -> None:
        if not hasattr(self, "rules"):
            return
        for _ in range(1000):
            if self.rules.is_idle:
                break
            if self.opening:
                self.opening -= 1
                self.channels.append(Channel(unlabelled=self.unlabelled))
                self.carry_out(self.rules.open_channel(self.channels[-1], self.now))
            for run in self.sent_runs():
                self.carry_out(self.rules.answered(run, self.now))
            self.wait(1.0)
            for ask in list(self.open):
                self.answer(ask)
        assert self.rules.is_idle
        assert all(run.state is RunState.DONE for run in self.runs)
        assert not any(channel.open or channel.doubts or channel.held for channel in self.channels)
        self.wait(100.0)
        assert self.rules.deadline() is None


TestAnything = Anything.TestCase
TestAnything.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
