"""Choose how a query's answer is kept, by cost; all three strategies give the same rows.

- complete: the rows inside the window are kept current at each cycle. Costs each cycle, an invocation nearly nothing.
- partial: matches are found as rows come, the window is cut when asked. Costs bits per row, little per invocation.
- none: nothing is kept, an invocation evaluates its window. Costs only at invocations. The run plan says which queries it has.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

from penstock.operators.select.durability import is_pure
from penstock.operators.select.strategy_costs import Strategy, StrategyFigures, cheapest, strategy_costs, with_expected
from penstock.views.query_state import QueryState

LOOK_CYCLES = 16
# A query without a request for so many cycles is forgotten.
FORGET_CYCLES = 1024
# The newest measurement counts for so much.
_NEWEST = 0.3
# What all answers that are kept current may cost a cycle; those left over are moved on when asked for.
MOST_READY = 64
READY_SECONDS = 0.05
READY_MAX_ROWS = 1 << 16
SLEEPS = "it sleeps: no client has used it for a while, and its window is evaluated when it is asked"

Measured: TypeAlias = Literal["cut_ms", "move_ms", "evaluate_ms"]


@dataclass(slots=True)
class _Asked:
    since: int
    times: int = 0
    left_out: bool = False  # whether cycles leave it out because that is cheaper
    figures: StrategyFigures = field(default_factory=StrategyFigures)
    evaluated_ms: float | None = None  # what requests took while it was left out

    def at(self, cycle: int) -> StrategyFigures:
        """The figures, with the requests of the last cycles if there were enough of these."""
        passed = cycle - self.since
        if passed < LOOK_CYCLES:
            return self.figures
        # Without a request since then, it is asked once in so many cycles at most.
        requests = self.times / passed if self.times else min(self.figures.requests, 1 / passed)
        return replace(self.figures, requests=requests)


class StorageChoice:
    """Counts how often each query is invoked, and chooses its strategy. Called under its owner's lock."""

    def __init__(self) -> None:
        self._asked: dict[int, _Asked] = {}
        self._ready: set[int] = set()

    def of(self, query_id: int, answer: QueryState, only: str | None) -> Strategy:
        """`only`: the reason why there is no choice."""
        if only is not None:
            return "partial"
        if (answer.strategy == "none" or answer.sleeping) and is_pure(answer.plan):
            return "none"
        if answer.strategy is not None:
            return "complete" if answer.strategy == "complete" else "partial"
        return "complete" if query_id in self._ready else "partial"

    def why(self, query_id: int, answer: QueryState) -> str:
        """The reason of a choice, for EXPLAIN."""
        asked = self._asked.get(query_id)
        if answer.sleeping and (asked is None or not asked.left_out):
            return SLEEPS
        if answer.strategy is not None:
            return "a user chose it"
        if asked is None:
            return "it was not asked for lately"
        return f"by its costs: {figures_text(asked.figures)}"

    def note(self, query_id: int, cycle: int) -> None:
        """Count one request for the current answer of a query."""
        asked = self._asked.get(query_id)
        if asked is None:
            asked = self._asked[query_id] = _Asked(cycle)
        asked.times += 1
        if cycle - asked.since >= LOOK_CYCLES:
            self._look(query_id, asked, cycle)

    def note_ms(self, query_id: int, ms: float, measured: Measured) -> None:
        """What it took to bring a kept answer to the next cycle, or to find the answer of a request.

        Called without the lock, for which a reader would wait: a lost measurement changes no answer.
        """
        asked = self._asked.get(query_id)
        if asked is None:
            return
        before = asked.evaluated_ms if measured == "evaluate_ms" else getattr(asked.figures, measured)
        now = ms if before is None else before + _NEWEST * (ms - before)
        if measured == "evaluate_ms":
            asked.evaluated_ms = now
        asked.figures = replace(asked.figures, **{measured: now})  # of an estimate, the measured time takes the place

    def _look(self, query_id: int, asked: _Asked, cycle: int) -> None:
        asked.figures = asked.at(cycle)
        asked.since, asked.times = cycle, 0
        now: Strategy = "complete" if query_id in self._ready else "partial"
        # Whether cycles leave it out is for the run plan to say.
        chosen = cheapest(strategy_costs(replace(asked.figures, evaluate_ms=None)), now)
        if chosen == "partial":
            self._ready.discard(query_id)
        elif len(self._ready) < MOST_READY:
            self._ready.add(query_id)

    def leaves_out(self, query_id: int, cycle: int, expected_ms: tuple[float, float], asleep: bool) -> bool:
        """Whether cycles should leave out a query that clients invoke.

        `expected_ms`: its part of the shared pass, and evaluating the rows of its window, unless requests were answered in this way already.
        """
        asked = self._asked.get(query_id)
        if asked is None:
            return False
        known = with_expected(asked.at(cycle), *expected_ms)
        if asked.evaluated_ms is not None:
            known = replace(known, evaluate_ms=asked.evaluated_ms)
        asked.figures = known
        now: Strategy = "none" if asleep else "complete" if query_id in self._ready else "partial"
        asked.left_out = known.requests > 0 and cheapest(strategy_costs(known), now) == "none"
        if not asked.left_out:
            asked.evaluated_ms = None
        return asked.left_out

    def is_left_out(self, query_id: int) -> bool:
        """Whether a query that does not meet rows was left out by cost, and not for want of use."""
        asked = self._asked.get(query_id)
        return asked is not None and asked.left_out

    def figures(self, query_id: int, cycle: int) -> StrategyFigures:
        """What was measured of a query, as far as it was asked for lately."""
        asked = self._asked.get(query_id)
        return asked.at(cycle) if asked is not None else StrategyFigures()

    def calm_down(self, cycle: int) -> list[int]:
        """Queries that are not asked about any more; they are kept current no longer."""
        # A query with requests is checked again after LOOK_CYCLES: these had none for longer than that.
        gone = [q for q in self._ready if self._rests(q, cycle, 2 * LOOK_CYCLES)]
        self._ready.difference_update(gone)
        if cycle % LOOK_CYCLES == 0:
            for query_id in [q for q in self._asked if self._rests(q, cycle, FORGET_CYCLES)]:
                self.forget(query_id)
        return gone

    def _rests(self, query_id: int, cycle: int, cycles: int) -> bool:
        asked = self._asked.get(query_id)
        return asked is None or cycle - asked.since > cycles

    def too_large(self, query_id: int) -> None:
        """An answer that was to be kept current has too many rows for that."""
        self._ready.discard(query_id)

    def ready(self) -> list[int]:
        """Queries that are kept current because they are asked about often."""
        return list(self._ready)

    def forget(self, query_id: int) -> None:
        self._asked.pop(query_id, None)
        self._ready.discard(query_id)


def figures_text(known: StrategyFigures) -> str:
    """What was measured of a query, in words."""
    parts = (
        ("keeping it current takes", known.move_ms, "a cycle"),
        ("cutting it out", known.cut_ms, "a request"),
        ("evaluating its window", known.evaluate_ms, "a request"),
        ("finding its matches", known.match_ms or None, "a cycle"),
    )
    told = [f"{what} {ms:.3g} ms {each}" for what, ms, each in parts if ms is not None]
    return ", ".join([*told, f"at {known.requests:.2g} requests a cycle"])
