"""What each way to keep a selection's answer costs, and which one is chosen: pure functions of measured figures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

Strategy = Literal["complete", "partial", "none"]

CHEAPER = 1.2
"""Another way is taken where it is so much cheaper."""
ASKED_PER_CYCLE = 1.5
"""Until it was measured, moving an answer on counts as so many times what cutting it out costs."""
GUESSED_CUT_MS = 0.1
MOST_ON_DEMAND_MS = 200.0
"""A window that takes longer to evaluate is never left to the moment when it is asked."""


@dataclass(frozen=True, slots=True)
class RowCost:
    """What a row of a table takes, in nanoseconds, and how many come."""

    evaluate_ns: float  # to read it and to evaluate one query over it
    match_ns: float  # one query's part of the shared pass
    rows: float  # that the shared pass meets in a cycle


@dataclass(frozen=True, slots=True)
class StrategyFigures:
    """What was measured of a query, in milliseconds of a processor; None: not yet, or not possible."""

    requests: float = 0.0  # a cycle
    match_ms: float = 0.0  # a cycle: its part of the shared pass
    cut_ms: float | None = None  # a request: to cut its answer out of the matches
    move_ms: float | None = None  # a cycle: to bring the answer that is kept to the next one
    evaluate_ms: float | None = None  # a request: to evaluate its window


def with_expected(known: StrategyFigures, match_ms: float, rows_ms: float) -> StrategyFigures:
    """The figures with what matching, and evaluating the rows of the window, are expected to take. What was evaluated is cut, too."""
    cut_ms = GUESSED_CUT_MS if known.cut_ms is None else known.cut_ms
    return replace(known, match_ms=match_ms, evaluate_ms=rows_ms + cut_ms)


def strategy_costs(known: StrategyFigures) -> dict[Strategy, float]:
    """Milliseconds a cycle of each strategy that is possible. `none` meets no rows in cycles, the others do."""
    cut_ms = GUESSED_CUT_MS if known.cut_ms is None else known.cut_ms
    # Only both together tell which is cheaper: of one alone it is not known for what size of answer.
    measured = known.cut_ms is not None and known.move_ms is not None
    move_ms = known.move_ms if measured and known.move_ms is not None else ASKED_PER_CYCLE * cut_ms
    costs: dict[Strategy, float] = {
        "complete": known.match_ms + move_ms,
        "partial": known.match_ms + cut_ms * known.requests,
    }
    if known.evaluate_ms is not None and known.evaluate_ms <= MOST_ON_DEMAND_MS:
        costs["none"] = known.evaluate_ms * known.requests
    return costs


def cheapest(costs: Mapping[Strategy, float], now: Strategy) -> Strategy:
    """The strategy to take: the present one, unless it is not possible any more or another is cheaper by a fifth."""
    best = min(costs, key=costs.__getitem__)
    return best if now not in costs or costs[best] * CHEAPER < costs[now] else now
