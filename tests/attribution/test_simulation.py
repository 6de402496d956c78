"""How often the rules go wrong or refuse, against the model in which they were tried before they were written.

The model's numbers are its own over seeds 1 to 20 of 2,000 calls each, with the same tools, rates and people
(patience of 5 s, `apart="all"`): asks, given to the wrong call, refused. It knew more than the real rules can (after
a refusal it learned who had really asked) and ghosts lasted there exactly as long as the server worked on them.
"""

from __future__ import annotations

from time import perf_counter

import pytest

from bridge.attribution import Attribution, Run
from bridge.knowledge import Kind, Knowledge
from tests.attribution.playbook import Give, Play, Resume, Send, nothing
from tests.attribution.simulation import Simulation

SEEDS = range(1, 21)
MODEL = {
    # (calls a second, sessions): (asks, wrong, refused)
    (0.03, 4): (14926, 0, 1),
    (0.1, 4): (14819, 5, 4),
    (0.3, 4): (15028, 10, 101),
    (0.03, 1): (15011, 3, 110),
    (0.1, 1): (14888, 10, 353),
}


@pytest.mark.parametrize(("rate", "max_sessions"), MODEL)
def test_no_more_asks_go_wrong_or_are_refused_than_in_the_model(rate: float, max_sessions: int) -> None:
    scores = [Simulation(rate=rate, calls=2000, seed=seed, max_sessions=max_sessions).run() for seed in SEEDS]
    asks = sum(score.asks for score in scores)
    wrong = sum(score.wrong for score in scores)
    refused = sum(score.refused for score in scores)
    model_asks, model_wrong, model_refused = MODEL[rate, max_sessions]
    assert wrong * model_asks <= model_wrong * asks, f"{wrong} of {asks} went wrong"
    assert refused * model_asks <= model_refused * asks, f"{refused} of {asks} were refused"


def test_calls_start_at_once_while_sessions_can_be_had() -> None:
    waits = sorted(Simulation(rate=0.1, calls=2000, seed=1, max_sessions=4).run().start_waits)
    assert waits[int(len(waits) * 0.99)] == 0


def fastest(rules: Attribution, tool: str | None) -> float:
    """Microseconds for placing a run and ending it, in the best of some hundred batches."""
    best = float("inf")
    for _ in range(100):
        runs = [Run(tool, may_be_asked=True, carries_roots=True) for _ in range(100)]
        start = perf_counter()
        for run in runs:
            rules.place(run, 1.0)
            rules.answered(run, 1.1)
        best = min(best, perf_counter() - start)
    return best / 100 * 1e6


@pytest.mark.parametrize("tool", ["read", None])
def test_a_run_that_needs_no_turn_costs_microseconds_however_many_are_open(tool: str | None) -> None:
    play = Play()
    play.quiet("read")
    for i in range(1000):
        play.place(f"open {i}", "read")
    assert fastest(play.rules, tool) < 5


class Counting(Knowledge):
    """Counts how often anybody looks."""

    looks = 0

    def kind(self, tool: str) -> Kind:
        self.looks += 1
        return super().kind(tool)

    def needs_turn(self, tool: str) -> bool:
        self.looks += 1
        return super().needs_turn(tool)


def test_an_ask_costs_the_same_however_many_people_are_thinking() -> None:
    looks: list[int] = []
    for suspended in (1, 1000):
        play = Play(sessions=0, max_sessions=1)
        play.knowledge = knowledge = Counting()
        play.rules = Attribution(knowledge, max_sessions=1)
        for _ in range(3):
            knowledge.learned_ask("deploy", 0)
        play.opens() << nothing
        for i in range(suspended):
            play.place(f"{i}", "deploy")
            play.asks(1, f"q{i}") << Give(f"q{i}", f"{i}")
            play.suspends(f"{i}") << nothing
        knowledge.looks = 0
        play.place("last", "deploy") << Send("last", 1)
        play.asks(1, "q") << Give("q", "last")
        play.suspends("last") << nothing
        play.resumes("0") << Resume("0")
        looks.append(knowledge.looks)
    assert looks[0] == looks[1]


def test_what_is_known_of_tools_is_bounded() -> None:
    knowledge = Knowledge({"hinted": "never"}, limit=3)
    for tool in ("hinted", "a", "b", "c", "d"):
        knowledge.learned_ask(tool, 0)
    assert knowledge.needs_turn("a")
    assert not knowledge.needs_turn("hinted")
    assert knowledge.sibling_wait("d") == 0.05
