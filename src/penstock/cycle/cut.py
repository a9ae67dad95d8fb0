"""Plan a cycle: the next consistent cut through log and journal, under admission control.

`plan_cycle` is a pure function of what it is given; the planner process reads heads, journal and clock and
calls it. The commit record keeps what it returned; until then a cycle may be planned anew, with another end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from penstock.catalog.model import Entry
from penstock.catalog.state import CatalogState
from penstock.cycle.offset import Offset
from penstock.expr.windows import RowsWindow, Window
from penstock.operators.join.steps.units import advance_fills, remaining_fills
from penstock.operators.select.durability import meets_rows
from penstock.sql.plan import (
    KernelPlan,
    has_latch,
    plan_from_json,
    reach_of,
    selected_table,
)
from penstock.streams.log.segments import Segment, first_reached

SegmentsOf = Callable[[int], Sequence[Segment]]
FloorOf = Callable[[int], int]


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of the rows and fills of one cycle."""

    cycle_max_rows: int
    fill_max_rows: int
    interval_s: float = 0.0
    history_rows: int = 0  # histories up to this length are evaluated on request
    late_cycles: int = 500  # queries of class low that are so far behind take part in full

    def shrunk(self, times: int) -> Limits:
        """Limits for cycles of fewer rows: a cycle that took too long may succeed in parts."""
        if times == 1:
            return self
        fewer = [max(1, rows // times) for rows in (self.cycle_max_rows, self.fill_max_rows)]
        return replace(self, cycle_max_rows=fewer[0], fill_max_rows=fewer[1])


def consistent_cut(
    start: Offset, heads: Mapping[int, int], entries: Sequence[Entry], limits: Limits
) -> tuple[dict[int, int], int]:
    """The furthest (data, journal) that respects the limits and the total order.

    An entry is inside only if every row logged before it is; no row logged after an entry outside is inside.
    """
    waiting = {t: h - start.data.get(t, 0) for t, h in heads.items() if h > start.data.get(t, 0)}
    total = sum(waiting.values())
    cut = dict(start.data)
    for table, rows in waiting.items():
        # Over the limit every table gives its share, so that none starves.
        share = rows if total <= limits.cycle_max_rows else max(1, rows * limits.cycle_max_rows // total)
        cut[table] = start.data.get(table, 0) + share
    journal = start.journal
    for entry in entries:
        if any(cut.get(table, 0) < head for table, head in entry.heads.items()):
            for table, head in entry.heads.items():
                cut[table] = min(cut.get(table, 0), max(head, start.data.get(table, 0)))
            for table in cut:
                if table not in entry.heads:
                    cut[table] = start.data.get(table, 0)
            break
        journal = entry.pos
    return cut, journal


def plan_cycle(
    start: Offset,
    cut: tuple[dict[int, int], int],
    state: CatalogState,
    now_us: int,
    first_needed: FirstNeeded,
    limits: Limits,
) -> Offset:
    """The end of the next cycle. `state` stands at the cut's journal position.

    A query that is new or changed in this cycle is evaluated over the cycle's new rows at once. Its history is read from
    the next cycle on, so that the rows that a cycle reads follow from its two offsets alone. Cycles do not read a short
    history at all: the server evaluates it on request.
    """
    data, journal = cut
    data = {table: position for table, position in data.items() if table in state.tables_by_id}
    fill = _advance_fills(_left_to_fill(start, state), state, limits.fill_max_rows)
    join_fill = advance_fills(remaining_fills(start, state), limits.fill_max_rows)
    queries = state.queries_by_id
    changed = (
        [q for q, (_, at) in state.query_positions.items() if at > start.journal] if journal > start.journal else []
    )
    for query_id in changed:
        definition = queries[query_id]
        if definition.paused and (definition.quarantined is not None or not has_latch(definition.stored_plan)):
            continue
        plan = plan_from_json(definition.plan).kernel
        if plan is None or not plan.tables_read <= state.tables_by_id.keys():
            continue
        history = _history_of(plan, start, definition.start_us, first_needed)
        if all(first >= target for first, target in history.values()):
            continue
        if plan.window_join is not None:
            join_fill[query_id] = history
            continue
        ((first, target),) = history.values()
        is_new = state.query_positions[query_id][0] > start.journal
        is_long = target - first > limits.history_rows and meets_rows(definition, plan)
        if {"always": True, "once": is_new, "long": is_long, "never": False}[plan.fill]:
            fill[query_id] = (first, target)
    return Offset(start.folder, data, journal, max(now_us, start.now_us), fill, join_fill, state.run_plan)


def _history_of(
    plan: KernelPlan, start: Offset, start_us: int | None, first_needed: FirstNeeded
) -> dict[int, tuple[int, int]]:
    """Which part of each table's log the windows reach."""
    history: dict[int, tuple[int, int]] = {}
    for use in plan.uses:
        target = start.data.get(use.table_id, 0)
        first = min(first_needed(use.table_id, reach_of(plan, use.window), start_us), target)
        known = history.get(use.table_id, (first, target))
        history[use.table_id] = (min(first, known[0]), target)
    return history


def _filling(start: Offset, state: CatalogState) -> set[int]:
    """Queries that continue to read history in this cycle: still defined, running, and not changed in it."""
    return {q for q in start.fill if q in state.queries_by_id and _goes_on(q, start, state)}


def _goes_on(query_id: int, start: Offset, state: CatalogState) -> bool:
    definition = state.queries_by_id[query_id]
    if has_latch(definition.stored_plan) and definition.quarantined is None:
        return True
    return not definition.paused and state.query_positions[query_id][1] <= start.journal


def _left_to_fill(start: Offset, state: CatalogState) -> dict[int, tuple[int, int]]:
    """What is left of these queries' histories: retention may have taken rows that they had not read yet."""
    left = {}
    for table_id, queries in _by_table(_filling(start, state), state).items():
        floor = state.retention(table_id)
        left.update({q: (min(max(first, floor), end), end) for q in queries for first, end in [start.fill[q]]})
    return left


def _advance_fills(fill: Mapping[int, tuple[int, int]], state: CatalogState, budget: int) -> dict[int, tuple[int, int]]:
    """Move each table's fills on by one piece; queries that are behind it share its reading."""
    after = dict(fill)
    by_table = _by_table(fill, state)
    for queries in by_table.values():
        end = min(fill[q][0] for q in queries) + max(1, budget // len(by_table))
        for q in queries:
            if fill[q][1] <= end:
                del after[q]
            elif fill[q][0] < end:
                after[q] = (end, fill[q][1])
    return after


def _by_table(fill: Iterable[int], state: CatalogState) -> dict[int, list[int]]:
    grouped: dict[int, list[int]] = {}
    for query_id in sorted(fill):
        # Ten thousand may fill at once, several times a cycle: no plan is read for that.
        grouped.setdefault(selected_table(state.queries_by_id[query_id].stored_plan), []).append(query_id)
    return grouped


@dataclass(frozen=True, slots=True)
class FillPiece:
    """Old rows of one table that a cycle reads once, and which part of them each query still needs."""

    table_id: int
    first: int
    end: int
    spans: tuple[tuple[int, int, int], ...]  # (query id, first, end)


def fill_pieces(start: Offset, end: Offset, state: CatalogState) -> list[FillPiece]:
    """What the cycle (start, end) reads of history. A pure function of its arguments."""
    pieces = []
    left = _left_to_fill(start, state)
    for table_id, queries in _by_table(left, state).items():
        spans = []
        for q in queries:
            first, target = left[q]
            last = end.fill[q][0] if q in end.fill else target
            if first < last:
                spans.append((q, first, last))
        if spans:
            pieces.append(FillPiece(table_id, min(s[1] for s in spans), max(s[2] for s in spans), tuple(spans)))
    return pieces


class FirstNeeded:
    """Finds the first log position that a new or changed query's window can reach, from segment times."""

    def __init__(self, segments_of: SegmentsOf, floor_of: FloorOf) -> None:
        self._segments_of = segments_of
        self._floor_of = floor_of

    def __call__(self, table_id: int, window: Window, start_us: int | None) -> int:
        floor = self._floor_of(table_id)
        if isinstance(window, RowsWindow) or start_us is None:
            return floor
        # NOW never steps back and stood at START when the query came, so nothing older can ever be inside.
        begin, _ = window.resolve(start_us, start_us)
        return first_reached(self._segments_of(table_id), begin, floor)
