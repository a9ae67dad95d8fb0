"""Which panes of an aggregation are final, and what its state grows with.

The row of a pane is final once the watermarks have reached its end: then no reading of it can come any more. A pane that BEGIN cuts
changes as BEGIN moves on, so that only whole panes count. Rows that retention may have taken are no part of a final row.
A session is final once the watermark has passed its end: a reading at its end would still be part of it. The window of a landmark is
final once the watermark has passed the next landmark: no other can come between them, or at its end.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from penstock.catalog.state import CatalogState
from penstock.expr.expression import Call, Column, Expr, Literal, is_static
from penstock.expr.windows import FOREVER, TimeWindow, Window
from penstock.operators.aggregate.partials.cell_sums import Panes
from penstock.operators.aggregate.shape import measure_of
from penstock.operators.base.finality import (
    Clause,
    FinalRows,
    StateBound,
    final_by_watermark,
    together,
    while_kept,
    window_bound,
)
from penstock.sql.plan import WINDOW_END, WINDOW_START, AggregatePlan
from penstock.types import BIGINT, BOOLEAN, TIMESTAMP


@dataclass(frozen=True, slots=True)
class PaneRange:
    """The panes that begin at or after `first` and end at or before `last`."""

    first: int
    last: int


def panes_ending(panes: Panes, after: int | None, until: int, starts_from: int) -> PaneRange | None:
    """The panes with an end in (after, until] that begin at `starts_from` or later; None where there are none."""
    last = (until - panes.width) // panes.step * panes.step + panes.width
    first = -(-starts_from // panes.step) * panes.step if starts_from > -FOREVER else -FOREVER
    if after is not None:
        first = max(first, ((after - panes.width) // panes.step + 1) * panes.step)
    return PaneRange(first, last) if first + panes.width <= last else None


def with_panes(plan: AggregatePlan, panes: PaneRange) -> AggregatePlan:
    """The plan of the rows of some panes alone."""
    asked: tuple[Expr, ...] = (
        Call("ge", (Column(WINDOW_START, TIMESTAMP), Literal(panes.first, TIMESTAMP)), BOOLEAN),
        Call("le", (Column(WINDOW_END, TIMESTAMP), Literal(panes.last, TIMESTAMP)), BOOLEAN),
    )
    having = asked if plan.having is None else (plan.having, *asked)
    return replace(plan, having=Call("and", having, BOOLEAN))


def range_of_panes(window: TimeWindow, span: tuple[int, int], panes: PaneRange) -> tuple[int, int]:
    """Which times count for some panes: as far as ends of the window that do not move leave them."""
    low = panes.first if window.slides else max(panes.first, span[0])
    return low, min(panes.last, span[1]) if window.ends else panes.last


@dataclass(frozen=True, slots=True)
class FinalSessions:
    """The sessions, or windows of landmarks, that begin at or after `first`, and the plan that finds them among the readings from `low` to `high`."""

    plan: AggregatePlan
    low: int
    high: int


def sessions_ending(
    plan: AggregatePlan, window: TimeWindow, after: int | None, until: int, starts_from: int
) -> FinalSessions:
    """The sessions with an end in [after, until) that begin at `starts_from` or later, none of them longer than a window that slides.

    Readings before the first one tell whether it begins there.
    """
    gap_us, first = plan.session_us, starts_from
    asked = [Call("lt", (Column(WINDOW_END, TIMESTAMP), Literal(until, TIMESTAMP)), BOOLEAN)]
    if after is not None:
        asked.append(Call("ge", (Column(WINDOW_END, TIMESTAMP), Literal(after, TIMESTAMP)), BOOLEAN))
    if window.slides:
        longest = window.end.offset_us - window.begin.offset_us + gap_us
        length = Call("diff_us", (Column(WINDOW_END, TIMESTAMP), Column(WINDOW_START, TIMESTAMP)), BIGINT)
        asked.append(Call("le", (length, Literal(longest, BIGINT)), BOOLEAN))
        first = max(first, after - longest) if after is not None else first
    if first > -FOREVER:
        asked.append(Call("ge", (Column(WINDOW_START, TIMESTAMP), Literal(first, TIMESTAMP)), BOOLEAN))
    having = tuple(asked) if plan.having is None else (plan.having, *asked)
    low = first - gap_us if first > -FOREVER else first
    return FinalSessions(replace(plan, having=Call("and", having, BOOLEAN)), low, until - 1)


def landmarks_ending(
    plan: AggregatePlan, window: TimeWindow, after: int | None, until: int, starts_from: int
) -> FinalSessions:
    """The windows between two landmarks with an end in [after, until) that begin at `starts_from` or later.

    None of them is longer than a window that slides, so that it was inside of it as a whole.
    """
    asked = [Call("lt", (Column(WINDOW_END, TIMESTAMP), Literal(until, TIMESTAMP)), BOOLEAN)]
    first = starts_from
    if window.slides:
        longest = window.end.offset_us - window.begin.offset_us
        length = Call("diff_us", (Column(WINDOW_END, TIMESTAMP), Column(WINDOW_START, TIMESTAMP)), BIGINT)
        asked.append(Call("le", (length, Literal(longest, BIGINT)), BOOLEAN))
        first = max(first, after - longest) if after is not None else first
    having = tuple(asked) if plan.having is None else (plan.having, *asked)
    return FinalSessions(replace(plan, having=Call("and", having, BOOLEAN)), first, until - 1)


def final_panes(
    plan: AggregatePlan, window: Window, tables: Iterable[int], reach_us: int, state: CatalogState
) -> FinalRows:
    """When the rows of an aggregation are final. `reach_us`: how much older than a pane a reading may be that counts in it."""
    never = _why_never(plan, window)
    if never is not None:
        return FinalRows("never", never)
    assert isinstance(window, TimeWindow)
    if plan.landmarks:
        final = final_by_watermark(
            "once the watermark has passed window_end, where the next window begins", tables, state
        )
        return while_kept(final, (window,), 0, state)
    assert plan.panes is not None
    if plan.session_us:
        final = final_by_watermark("once the watermark has passed window_end", tables, state)
        return while_kept(final, (window,), plan.session_us, state)
    final = final_by_watermark("once the watermark reaches window_end", tables, state)
    return while_kept(final, (window,), plan.panes.width + reach_us, state)


def _why_never(plan: AggregatePlan, window: Window) -> str | None:
    facts = (
        (plan.latch is not None, "LATCH is a value that goes on"),
        (not isinstance(window, TimeWindow), "LAST n ROWS goes on with each reading"),
        (
            plan.panes is None and not plan.landmarks,
            "without TUMBLE, SLIDE, SESSION or LANDMARK it is the current value of its window",
        ),
        (bool(plan.scalars) and not plan.landmarks, "it compares with a subquery, whose value goes on"),
        (
            plan.picking is not None and not plan.picking.per_window,
            "it compares with an inner aggregate, whose value goes on",
        ),
        (any(own is not None for own in plan.own_windows), "its aggregates have windows of their own"),
        (plan.is_approximate, "its values are estimates, which may move within their error"),
        (_compares_panes(plan), "its window functions compare groups of which others may still come"),
        (plan.has_series, "its functions see a series that goes on"),
        (plan.sorted is not None and _cuts(plan), "LIMIT, OFFSET and DISTINCT depend on rows that are not final"),
    )
    return next((why for holds, why in facts if holds), None)


def _compares_panes(plan: AggregatePlan) -> bool:
    """Whether a window function sees rows that become final at different times."""
    pane = {Column(WINDOW_START, TIMESTAMP), Column(WINDOW_END, TIMESTAMP)}
    return any(plan.session_us or plan.landmarks or not pane.intersection(call.partition) for call in plan.over)


def _cuts(plan: AggregatePlan) -> bool:
    order = plan.sorted
    return order is not None and (order.limit is not None or order.offset > 0 or order.distinct)


def cells_bound(plan: AggregatePlan, window: Window, state: CatalogState) -> StateBound:
    """What the cells of an aggregation grow with."""
    groups = _groups_bound(plan)
    if plan.latch is not None:
        kept = next((p for p, call in enumerate(plan.aggregates) if measure_of(call).make().keeps_values), None)
        if kept is not None:
            reason = "LATCH keeps each value that its aggregate has seen, one by one"
            return StateBound("unbounded", reason, Clause("aggregate", kept))
        if groups is not None:
            return StateBound("unbounded", "LATCH keeps a value per group for ever", Clause("key", groups))
        return StateBound("bounded", "one value per group of sensors" if plan.keys else "one value")
    table = state.tables_by_id.get(plan.table_id)
    bounds = [window_bound(each, table) for each in (window, *(s.plan.window for s in plan.scalars if not s.inherits))]
    if any(bound.growth != "bounded" for bound in bounds):
        return together(bounds)
    per = "per group" if plan.keys else "in all"
    if groups is not None:
        per = "per group, and as many groups as the readings inside the window have"
    unit = "panes" if plan.panes is not None else "slices"
    return StateBound("bounded", f"{unit} of the window, {per}: {together(bounds).reason}")


def _groups_bound(plan: AggregatePlan) -> int | None:
    """The place of a key that readings bring new values of; None where sensors alone make the groups."""
    return next((place for place, key in enumerate((*plan.keys, *plan.by)) if not is_static(key)), None)
