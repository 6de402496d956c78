"""What is learned of a tool."""

from __future__ import annotations

from math import inf

import pytest

from bridge.knowledge import Kind, Knowledge


def test_a_tool_is_quiet_after_five_answered_calls_without_an_ask() -> None:
    knowledge = Knowledge()
    assert [knowledge.learned_done("t", 1) for _ in range(6)] == [False, False, False, False, True, False]
    assert knowledge.kind("t") is Kind.QUIET
    knowledge.learned_ask("t", 0)
    assert knowledge.kind("t") is Kind.ONE


def test_calls_of_clients_that_cannot_be_asked_do_not_make_a_tool_quiet() -> None:
    knowledge = Knowledge()
    for _ in range(9):
        knowledge.learned_done("t", 3, askable=False)
    assert knowledge.kind("t") is Kind.UNKNOWN
    assert knowledge.longest_run("t") == 3


def test_unlearning_takes_back_exactly_what_was_learned() -> None:
    knowledge = Knowledge()
    knowledge.learned_ask("t", 0)
    knowledge.learned_ask("t", 1)
    assert knowledge.kind("t") is Kind.MANY
    knowledge.unlearned_ask("t", 1)
    assert knowledge.kind("t") is Kind.ONE
    knowledge.unlearned_ask("t", 0)
    assert knowledge.kind("t") is Kind.UNKNOWN


@pytest.mark.parametrize(("outstanding", "wait"), [(0, 0.0), (1, 0.005)])
def test_siblings_are_waited_for_until_we_know_how_a_tool_asks(outstanding: int, wait: float) -> None:
    knowledge = Knowledge()
    for _ in range(3):
        assert knowledge.sibling_wait("t") == 0.05
        knowledge.learned_ask("t", outstanding)
    assert knowledge.sibling_wait("t") == wait


def test_for_how_long_a_tool_may_ask_on_is_learned_from_the_longest_gap() -> None:
    knowledge = Knowledge({"hinted one": "one", "hinted many": "many"})
    assert knowledge.asks_again_within("new") == 1.0
    assert knowledge.asks_again_within("new", trusting=False) == inf
    for _ in range(3):
        knowledge.learned_ask("one", 0)
    assert knowledge.asks_again_within("one", trusting=False) == -1.0
    for gap in (0.1, 0.6, 0.2):
        assert knowledge.asks_again_within("many") == (1.0 if gap == 0.1 else inf)
        knowledge.learned_ask("many", 1, gap)
    assert knowledge.asks_again_within("many") == pytest.approx(1.8)
    assert knowledge.asks_again_within("hinted one", trusting=False) == -1.0
    assert knowledge.asks_again_within("hinted many") == inf


def test_a_hint_overrides_what_is_learned() -> None:
    knowledge = Knowledge({"a": "never", "b": "one", "c": "many"})
    for tool in "abc":
        for _ in range(4):
            knowledge.learned_ask(tool, 1)
    assert [knowledge.kind(tool) for tool in "abc"] == [Kind.QUIET, Kind.ONE, Kind.MANY]


def test_a_suspect_that_was_quiet_is_so_again_after_twice_as_many_calls() -> None:
    knowledge = Knowledge()
    for _ in range(5):
        knowledge.learned_done("t", 1)
    knowledge.suspected("t")
    for _ in range(9):
        knowledge.learned_done("t", 1)
    assert knowledge.needs_turn("t")
    knowledge.learned_done("t", 1)
    assert not knowledge.needs_turn("t")


def test_an_ask_without_a_label_counts_for_more_than_any_label() -> None:
    knowledge = Knowledge()
    knowledge.learned_label("t")
    assert not knowledge.needs_turn("t")
    knowledge.learned_unlabelled("t")
    knowledge.learned_label("t")
    assert knowledge.needs_turn("t")
