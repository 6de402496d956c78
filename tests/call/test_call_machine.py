"""Any order of asks, answers, retries, withdrawals, disconnects and time: what must hold whatever happens."""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from bridge import outcomes as o
from bridge.call import Call, StepUsed
from bridge.settings import Limits
from bridge.timing import Phase
from bridge.translate.capabilities import Profile
from legacy.messages import Ask, Failure, Lost, Result
from modern.errors import ProtocolError
from tests.call.playbook import ACCEPT, ELICIT, EVERYTHING, ROOTED, ROOTS, SAMPLE, SAMPLED

ANSWERS = {
    "elicitation/create": ACCEPT,
    "sampling/createMessage": SAMPLED,
    "roots/list": ROOTED,
    "page": {"action": "accept"},
}
RARELY = st.sampled_from([True, False, False, False, False, False])
PAGES = {"elicitations": [{"mode": "url", "elicitationId": "e1", "url": "https://sign.in/", "message": "Sign in."}]}
WRONG = {"action": "accept", "content": {"name": 5}}


class CallMachine(RuleBasedStateMachine):
    """A server, a client and a clock that do as they like, and a model of what each may see.

    The model: every leg gets exactly one outcome or has gone; an ask is told its end at most once; an answer is never
    delivered unless a client gave it for that very ask, or for the same one of an earlier attempt; a token works for
    one set of answers only; the server has one request at a time, and a second one only where that is harmless or the
    first was refused until its person has signed in; a task has no legs, and its keys are good for one answer.
    """

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.numbers = 0
        self.legs: set[str] = set()
        self.asks: dict[str, Ask] = {}
        self.ended: set[str] = set()
        self.given: dict[str, list[Any]] = {}
        self.given_before: dict[str, list[Any]] = {}
        self.shown: dict[int, dict[str, str]] = {}
        self.used: dict[int, Any] = {}
        self.outcomes: list[o.InputRequired] = []
        self.begun = self.sent = self.suspended = self.over = False
        self.attempts = 0
        self.task = False
        self.answered: set[str] = set()
        """Keys of a task that were answered."""
        self.refused = False
        self.resuming = 0

    @initialize(
        replayable=st.booleans(), tasks=st.booleans(), after=st.sampled_from([None, 0.1, 20.0]), at_once=st.booleans()
    )
    def begins(self, replayable: bool, tasks: bool, after: float | None, at_once: bool) -> None:
        self.replayable, self.takes_tasks = replayable, tasks
        self.call = Call(
            "tools/call",
            Profile.of(EVERYTHING),
            Limits(
                call_ttl=5000,
                elicitation_ttl=100,
                sampling_ttl=50,
                roots_ttl=50,
                silence=300,
                task_after=after,
                task_ttl=1000,
            ),
            lambda: 0.05,
            lambda: {"tools": {}},
            self.now,
            replayable=lambda: replayable,
            takes_tasks=tasks,
        )
        self.legs.add("first")
        self.do(self.call.start("first", self.now))
        if tasks and at_once:  # half of the time it is a task before anything else happens
            self.is_sent()
            self.makes_a_task()
            self.passes(0.2)

    # -- carrying out -------------------------------------------------------------------------------------------------

    def do(self, commands: list[o.Command]) -> None:
        cancelled = False
        for command in commands:
            match command:
                case o.Begin():
                    assert not self.begun, "the server has two requests of one call"
                    assert not self.attempts or self.replayable or self.refused, "a call was run again"
                    assert not any(ask.open for ask in self.asks.values()), "an ask of an earlier attempt is open"
                    self.begun, self.sent, self.refused = True, False, False
                    self.attempts += 1
                case o.Settle(leg=leg, outcome=outcome):
                    assert leg in self.legs, "a leg was answered twice, or after it had gone"
                    self.legs.remove(str(leg))
                    if isinstance(outcome, o.InputRequired):
                        assert not self.task or any(outcome is known for known in self.outcomes)
                        self.show(outcome)
                    elif isinstance(outcome, o.BecameTask):
                        assert self.takes_tasks, "a task for a client that takes none"
                        self.task = True
                    else:
                        self.over = True
                case o.Answer(ask=ask, result=result):
                    self.end(ask)
                    gone = cancelled or self.over or not self.begun or self.call.phase is Phase.DONE
                    before = self.given_before.get(ask.method, []) if self.replayable else []
                    assert gone or result in self.given[ask_name(ask)] or result in before
                case o.Refuse(ask=ask) | o.GiveBack(ask=ask):
                    self.end(ask)
                case o.Cancel():
                    assert not cancelled
                    assert self.begun, "the server heard of a request that it does not have"
                    cancelled, self.begun, self.sent = True, False, False
                case o.Resume():
                    self.resuming += 1

    def end(self, ask: Ask) -> None:
        name = ask_name(ask)
        assert ask.open, "an ask was told its end twice"
        assert name not in self.ended
        self.ended.add(name)
        ask.open = False

    def show(self, outcome: o.InputRequired) -> None:
        if any(outcome is known for known in self.outcomes):
            return  # the same token with the same answers: the same outcome, whatever has happened since
        self.outcomes.append(outcome)
        keys = {}
        for key, request in outcome.requests.items():
            if request.get("params", {}).get("mode") == "url":
                assert self.refused, "a page was asked for that no server wanted opened"
                keys[key] = "page"
                continue
            match = [n for n, a in self.asks.items() if a.open and a.method == request["method"]]
            assert match, "something was asked that no server asked"
            keys[key] = request["method"]
        earlier = {key for step, shown in self.shown.items() if step < outcome.step for key in shown}
        answered = {key for responses in self.used.values() for key in responses}
        assert not (set(keys) & answered & earlier & set(self.rejected())), "a key was used again after its answer"
        self.shown[outcome.step] = keys

    def rejected(self) -> list[str]:
        return []

    # -- what can happen ----------------------------------------------------------------------------------------------

    @precondition(lambda self: self.begun and not self.sent)
    @rule()
    def is_sent(self) -> None:
        self.sent = True
        self.do(self.call.feed(o.Sent("2025-11-25"), self.now))

    @precondition(lambda self: self.sent and self.call.attempting and len(self.asks) < 8)
    @rule(what=st.sampled_from([ELICIT, SAMPLE, ROOTS]))
    def asks_something(self, what: tuple[str, dict[str, Any]]) -> None:
        self.numbers += 1
        name = f"ask{self.numbers}"
        self.asks[name] = ask = Ask(what[0], what[1], server_id=name, request_id=None, at=self.now)
        self.given[name] = []
        self.do(self.call.feed(o.Asked(ask), self.now))

    @precondition(lambda self: any(ask.open for ask in self.asks.values()))
    @rule(data=st.data())
    def withdraws(self, data: st.DataObject) -> None:
        ask = data.draw(st.sampled_from([ask for ask in self.asks.values() if ask.open]))
        ask.open = False
        self.ended.add(ask_name(ask))
        self.do(self.call.feed(o.Withdrawn(ask), self.now))

    @precondition(lambda self: self.sent)
    @rule(
        really=RARELY,
        reply=st.sampled_from(
            [Result({}), Result({"isError": True}), Failure(-1, "no"), Failure(-32042, "", PAGES), Lost("gone", True)]
        ),
    )
    def replies(self, reply: Result | Failure | Lost, really: bool) -> None:
        if not really and self.call.phase is Phase.RUNNING and not self.attempts > 1:
            return
        self.begun = self.sent = False
        self.refused = isinstance(reply, Failure) and reply.code == -32042
        self.do(self.call.feed(o.Replied(reply), self.now))

    @precondition(lambda self: self.shown)
    @rule(data=st.data(), kind=st.sampled_from(["all", "some", "none", "wrong", "bad shape", "extra"]))
    def comes_back(self, data: st.DataObject, kind: str) -> None:
        step = data.draw(st.sampled_from(sorted(self.shown)))
        shown = self.shown[step]
        responses: Any = {key: ANSWERS[method] for key, method in shown.items()}
        match kind:
            case "some":
                responses = dict(list(responses.items())[:1])
            case "none":
                responses = {}
            case "wrong":
                responses = {key: WRONG if shown[key] == "elicitation/create" else a for key, a in responses.items()}
            case "bad shape":
                responses = [] if data.draw(st.booleans()) else dict.fromkeys(shown, 3)
            case "extra":
                responses["bogus-9"] = {"action": "nonsense"}
        for name, ask in self.asks.items():
            self.given[name] += [ANSWERS[ask.method], WRONG]
            self.given_before.setdefault(ask.method, []).extend([ANSWERS[ask.method], WRONG])
        self.numbers += 1
        leg = f"leg{self.numbers}"
        before = self.call.step
        self.legs.add(leg)
        try:
            commands = self.call.retry(leg, step, responses, Profile.of(EVERYTHING), self.now)
        except (StepUsed, ProtocolError):
            self.legs.remove(leg)
            assert self.call.step == before, "a refused retry consumed something"
            return
        if step in self.used:
            assert self.used[step] == responses or self.call.step == before
        if self.call.step != before:
            assert step not in self.used, "a step was consumed twice"
            self.used[step] = responses
        self.do(commands)

    @precondition(lambda self: self.sent)
    @rule()
    def makes_a_task(self) -> None:
        self.do(self.call.feed(o.MadeTask(), self.now))

    @precondition(lambda self: self.task)
    @rule(data=st.data(), kind=st.sampled_from(["all", "one", "old", "wrong", "bad shape"]))
    def updates(self, data: st.DataObject, kind: str) -> None:
        asked = self.call.input_requests
        responses: Any = {key: ANSWERS[request["method"]] for key, request in asked.items()}
        match kind:
            case "one" if asked:
                key = data.draw(st.sampled_from(sorted(asked)))
                responses = {key: responses[key]}
            case "old":
                responses = {key: {"action": "nonsense"} for key in self.answered}
            case "wrong":
                responses = {
                    k: WRONG if asked[k]["method"] == "elicitation/create" else a for k, a in responses.items()
                }
            case "bad shape":
                responses = [] if data.draw(st.booleans()) else dict.fromkeys(asked, 3)
        for name, ask in self.asks.items():
            self.given[name] += [ANSWERS[ask.method], WRONG]
            self.given_before.setdefault(ask.method, []).extend([ANSWERS[ask.method], WRONG])
        try:
            commands = self.call.update(responses, self.now)
        except ProtocolError:
            assert self.call.input_requests == asked, "a refused update took something"
            return
        if self.call.phase is not Phase.DONE:
            self.answered |= set(responses) & set(asked)
        self.do(commands)

    @precondition(lambda self: self.task)
    @rule(really=RARELY)
    def cancels_the_task(self, really: bool) -> None:
        if really:
            self.do(self.call.feed(o.TaskCancelled(), self.now))
            assert self.call.phase is Phase.DONE

    @rule()
    def signs_in(self) -> None:
        self.do(self.call.feed(o.SignedIn("e1"), self.now))

    @precondition(lambda self: self.legs)
    @rule(data=st.data(), really=RARELY)
    def goes_away(self, data: st.DataObject, really: bool) -> None:
        if not really:
            return
        leg = data.draw(st.sampled_from(sorted(self.legs)))
        self.legs.remove(leg)
        self.do(self.call.feed(o.LegGone(leg), self.now))

    @precondition(lambda self: self.resuming)
    @rule()
    def has_its_turn(self) -> None:
        self.resuming -= 1
        self.do(self.call.feed(o.Resumed(), self.now))

    @rule(seconds=st.sampled_from([0.01, 0.06]))
    def passes(self, seconds: float) -> None:
        self.now += seconds
        self.do(self.call.feed(o.Tick(), self.now))

    @rule(seconds=st.sampled_from([1.0, 49.0, 60.0, 301.0]), really=RARELY)
    def passes_long(self, seconds: float, really: bool) -> None:
        if not really:
            return
        self.now += seconds
        self.do(self.call.feed(o.Tick(), self.now))

    # -- what must hold -----------------------------------------------------------------------------------------------

    @invariant()
    def nothing_is_left_at_the_end(self) -> None:
        if self.call.phase is Phase.DONE:
            assert not self.legs, "a leg waits for a call that is over"
            assert not len(self.call.outstanding)
            assert all(name in self.ended for name in self.asks), "an ask was left open at the server"

    @invariant()
    def a_suspended_call_has_something_outstanding_and_no_open_leg(self) -> None:
        if self.call.phase is Phase.SUSPENDED:
            assert len(self.call.outstanding)
            assert not self.legs

    @invariant()
    def a_task_has_no_leg_asks_nothing_under_an_answered_key_and_comes_to_something(self) -> None:
        assert self.call.is_task == self.task
        if self.task:
            assert not self.legs
            assert not self.answered & set(self.call.input_requests), "an answered key is asked again"
            assert (self.call.phase is Phase.DONE) == (self.call.outcome is not None)
            if self.call.phase is Phase.SUSPENDED:
                assert len(self.call.input_requests) >= len(self.call.outstanding) > 0, "something cannot be seen"

    @invariant()
    def nothing_waits_for_ever(self) -> None:
        assert self.call.phase is Phase.DONE or self.call.deadline < float("inf")

    def teardown(self) -> None:
        for _ in range(50):
            if self.call.phase is Phase.DONE:
                break
            self.now = max(self.now + 0.01, self.call.deadline)
            self.do(self.call.feed(o.Tick(), self.now))
        assert self.call.phase is Phase.DONE, "time alone did not end the call"
        self.nothing_is_left_at_the_end()


def ask_name(ask: Ask) -> str:
    return str(ask.server_id)


CallMachine.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
TestCallMachine = CallMachine.TestCase
