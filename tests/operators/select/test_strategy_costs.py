"""The cost of each strategy from measured figures, and the choice between them."""

from __future__ import annotations

import pytest

from penstock.operators.select.strategy_costs import Strategy, StrategyFigures, cheapest, strategy_costs, with_expected

SELDOM = StrategyFigures(requests=0.01, match_ms=0.5, cut_ms=0.2, move_ms=1.0, evaluate_ms=10.0)


def test_each_strategy_costs_what_it_does_in_a_cycle_and_at_requests() -> None:
    costs = strategy_costs(SELDOM)
    assert costs == pytest.approx({"complete": 1.5, "partial": 0.502, "none": 0.1})


def test_until_both_ways_were_measured_moving_counts_as_one_and_a_half_cuts() -> None:
    known = StrategyFigures(requests=2.0, cut_ms=0.4)
    assert strategy_costs(known) == pytest.approx({"complete": 0.6, "partial": 0.8})
    assert strategy_costs(StrategyFigures(requests=2.0, move_ms=9.0))["complete"] < 0.2


def test_what_is_evaluated_is_cut_as_well() -> None:
    """Otherwise a small window would seem cheaper to evaluate than to cut, at any number of requests."""
    known = with_expected(StrategyFigures(requests=1.0, cut_ms=0.3), match_ms=0.0, rows_ms=0.001)
    assert known.evaluate_ms == pytest.approx(0.301)
    assert cheapest(strategy_costs(known), "partial") == "partial"


@pytest.mark.parametrize("evaluate_ms", [None, 200.1])
def test_a_window_that_cannot_be_evaluated_in_200_ms_leaves_no_choice_of_none(evaluate_ms: float | None) -> None:
    costs = strategy_costs(StrategyFigures(requests=0.0, match_ms=100.0, evaluate_ms=evaluate_ms))
    assert "none" not in costs
    assert cheapest(costs, "none") == "partial"


@pytest.mark.parametrize(
    ("costs", "now", "then"),
    [
        ((1.0, 0.9, 0.85), "complete", "complete"),  # all too near to change for
        ((1.0, 0.9, 0.85), "partial", "partial"),
        ((1.0, 0.9, 0.85), "none", "none"),
        ((1.0, 0.9, 0.7), "partial", "none"),
        ((1.0, 0.7, 0.9), "none", "partial"),
        ((0.1, 0.7, 0.9), "none", "complete"),
        ((0.0, 0.0, 0.0), "complete", "complete"),
    ],
)
def test_the_present_strategy_stays_unless_another_is_cheaper_by_a_fifth(
    costs: tuple[float, float, float], now: Strategy, then: Strategy
) -> None:
    assert cheapest(dict(zip(("complete", "partial", "none"), costs, strict=True)), now) == then  # type: ignore[arg-type]
