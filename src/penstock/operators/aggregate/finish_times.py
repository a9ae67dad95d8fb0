"""How long mining functions take: what was measured in this process, and before that a constant of each. A query is admitted by it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.errors import error
from penstock.expr.windows import FOREVER, RowsWindow
from penstock.operators.aggregate.cell_estimate import QueryRows, window_us
from penstock.operators.aggregate.series import Spent
from penstock.operators.mining.registry import FUNCTIONS
from penstock.sql.plan import AggregatePlan

_NEWEST = 0.2
"""How much the newest measure counts."""
_LEAST_ELEMENTS = 100
"""Of shorter series the calls around them are most of what is measured."""

_LEAST_US = 100_000
"""An answer changes once a cycle at most, however narrow its slots are; few cycles are shorter than this."""
_READING_US = 1_000_000
"""Without slots it changes with every reading. Followers are paced then, so one answer a second counts."""


@dataclass(frozen=True, slots=True)
class FinishCost:
    """What the functions of a query take in an answer, for one group, and as a share of a core for all of them.

    An answer changes when a slot closes; without slots, when a reading comes.
    """

    group_ms: float
    share: float


class FinishTimes:
    """Microseconds an element by function, and milliseconds an answer by query. They are lost when the process ends."""

    def __init__(self) -> None:
        self._functions: dict[str, float] = {}
        self._queries: dict[int, float] = {}

    def note(self, query_id: int, spent: Mapping[str, Spent]) -> None:
        """What the functions of an answer took."""
        for name, each in spent.items():
            if each.elements >= _LEAST_ELEMENTS * each.series:
                self._functions[name] = _moved(self._functions.get(name), 1e6 * each.seconds / each.elements)
        if spent:
            ms = 1000 * sum(each.seconds for each in spent.values())
            self._queries[query_id] = _moved(self._queries.get(query_id), ms)

    def drop(self, query_id: int) -> None:
        self._queries.pop(query_id, None)

    def answer_ms(self, query_id: int) -> float | None:
        """How long the functions of a query take in an answer that has changed."""
        return self._queries.get(query_id)

    def cost(self, plan: AggregatePlan, groups: int, rows: QueryRows) -> FinishCost | None:
        """What a query costs; None: it has no such functions, or its window has no fixed length."""
        calls = [(i, call) for i, call in enumerate(plan.aggregates) if call.options]
        length_us = FOREVER if isinstance(plan.window, RowsWindow) else window_us(plan)
        if length_us is None or not calls:
            return None
        all_us = share = 0.0
        for place, call in calls:
            own_us = plan.own_windows[place] if plan.own_windows else None
            if call.every_us:
                elements = groups * (own_us or length_us) / call.every_us
                apart_us = float(max(call.every_us, _LEAST_US))
            else:
                elements, apart_us = rows.within(own_us or length_us), max(rows.apart_us, _READING_US)
                if isinstance(plan.window, RowsWindow) and own_us is None:
                    elements = min(elements, plan.window.count * (groups if plan.window.per_sensor else 1))
                elements = min(elements, groups * dict(call.options).get("sample", elements))
            spent_us = elements * self._functions.get(call.function, FUNCTIONS[call.function].element_us)
            all_us += spent_us
            share += spent_us / apart_us
        return FinishCost(all_us / groups / 1000, share)


def _moved(known: float | None, newest: float) -> float:
    return newest if known is None else known + _NEWEST * (newest - known)


def check_mining_fits(cost: FinishCost, groups: int, others: float, budget: float) -> None:
    """Raise over_budget where a query and the others together would take more than their share of a core."""
    if cost.share + others > budget:
        detail = (
            f"{groups:,} groups of {cost.group_ms:.3g} ms each in an answer are {cost.share:.1%} of a core,"
            f" other mining queries have {others:.1%}; mining_budget is {budget:.0%}"
        )
        hint = 'make slots ("every") wider, the window shorter or groups fewer, or raise mining_budget'
        raise error("over_budget", detail=detail, hint=hint)
