"""The lines of EXPLAIN about an aggregation's slices."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.expr.windows import RowsWindow
from penstock.operators.aggregate.cell_estimate import NO_ROWS, QueryRows, estimate_by_cells
from penstock.operators.aggregate.family import FamilyStore, MeasureStore
from penstock.operators.aggregate.over_joins.slices import SLICE_US
from penstock.operators.aggregate.shape import measures_of, plan_width
from penstock.operators.aggregate.state import SliceStore
from penstock.operators.aggregate.within import WithinStats
from penstock.sql.explain.notation import amount
from penstock.sql.plan import AggregatePlan, ScalarSubquery
from penstock.streams.log.segments import Segment
from penstock.types import format_duration


def slice_lines(store: SliceStore, query_id: int, plan: AggregatePlan, rows: QueryRows, most_mb: int) -> list[str]:
    """`rows`: what its table's log tells of them. `most_mb`: the memory for all cells."""
    lines = _own_slice_lines(store, query_id, plan, rows, most_mb)
    return [*lines, *scalar_slice_lines(store, query_id, plan.scalars)]


def scalar_slice_lines(store: SliceStore, query_id: int, scalars: tuple[ScalarSubquery, ...]) -> list[str]:
    """The same of subqueries that are values."""
    lines = []
    for place, scalar in enumerate(scalars):
        first, *rest = _own_slice_lines(store, query_id, scalar.plan)
        lines += [first.replace("slices:", f"slices of subquery {place + 1}:"), *rest]
    return lines


def _own_slice_lines(
    store: SliceStore, query_id: int, plan: AggregatePlan, rows: QueryRows = NO_ROWS, most_mb: int = 0
) -> list[str]:
    if isinstance(plan.window, RowsWindow):
        return ["  slices: none, the newest rows are read on request"]
    family = store.of(plan)
    known = [family.measures[measure] for measure in measures_of(plan)]
    users = set().union(*(each.users for each in family.measures.values()))
    most = max(len(each.cells) for each in known)
    partials = f"{amount(len(known), 'partial', 'partials')} of {amount(most, 'cell', 'cells')}"
    cut = f"{format_duration(plan_width(plan))} wide" if plan.latch is None else "pieces of the log, not of time"
    return [
        f"  slices: {cut}, {partials}, {amount(len(family.groups), 'group', 'groups')}",
        *_level_lines(known, plan, family, rows.segments, most_mb),
        *_code_lines(plan),
        f"    rows and groups shared by {amount(len(users), 'query', 'queries')}, partials by"
        f" {', '.join(str(len(each.users)) for each in known)}",
        f"    memory: {sum(each.cells.nbytes for each in known)} bytes, its share {store.memory_of(query_id)}",
        *_state_lines(store, query_id, plan, len(family.groups)),
        *_kept_lines(store.said.kept.get(query_id)),
        *_finish_lines(store, plan, len(family.groups), rows),
    ]


def _code_lines(plan: AggregatePlan) -> list[str]:
    """Where users' code runs."""
    if not plan.functions:
        return []
    return [
        f"    {', '.join(plan.functions)}: workers add readings, code workers merge states and finish them when asked"
    ]


def _state_lines(store: SliceStore, query_id: int, plan: AggregatePlan, groups: int) -> list[str]:
    """What a group takes where there are series."""
    if not plan.has_series or not groups:
        return []
    return [f"    state a group: {store.memory_of(query_id) / groups / 1024:.3g} KB"]


def _finish_lines(store: SliceStore, plan: AggregatePlan, groups: int, rows: QueryRows) -> list[str]:
    """What the mining functions take."""
    cost = store.finish.cost(plan, max(1, groups), rows)
    if cost is None:
        return []
    each = "closed slot" if all(call.every_us for call in plan.aggregates if call.options) else "answer"
    return [f"  finish: {cost.group_ms:.2g} ms a group and {each}, {100 * cost.share:.2g} % of a core"]


def _level_lines(
    known: list[MeasureStore], plan: AggregatePlan, family: FamilyStore, segments: Sequence[Segment], most_mb: int
) -> list[str]:
    """The widths of the cells, their bytes, and what a full window would take."""
    largest = max(known, key=lambda each: len(each.cells)).tiles
    if largest is None or not len(largest):
        return []
    levels = ", ".join(f"{count:,} of {format_duration(width)}" for width, count in largest.levels.items())
    each = sum(store.cells.nbytes for store in known) / sum(len(store.cells) for store in known)
    lines = [f"    cells per partial: {levels}; {each:.0f} bytes each"]
    full = estimate_by_cells(plan, segments, family)
    if full is not None:
        lines.append(
            f"    a full window: about {full.cells:,} cells per partial, {full.nbytes / 1e6:,.1f} MB of"
            f" {most_mb:,} MB (slices_memory_mb), at {full.rate:,.3g} rows/s"
        )
    return lines


def result_slice_lines(store: SliceStore, query_id: int) -> list[str]:
    """The same lines for aggregates over a join; queries do not share its cells."""
    family = store.results_of(query_id)
    if family is None:
        return ["  slices: none yet, results are taken in on request"]
    return [
        f"  slices: {format_duration(SLICE_US)} wide, {amount(len(family.cells), 'cell', 'cells')},"
        f" {amount(len(family.groups), 'group', 'groups')}",
        f"    memory: {family.nbytes} bytes; {amount(family.waiting, 'result waits', 'results wait')} for NOW",
    ]


def _kept_lines(kept: WithinStats | None) -> list[str]:
    """How WITHIN n PERCENT was kept."""
    if kept is None:
        return []
    answers = amount(kept.answers, "answer", "answers")
    return [
        f"    bounds: the newest answer is within {100 * kept.doubt:.2g} % of the truth; for {kept.read} of {answers}"
        " the rows were read from the log"
    ]
