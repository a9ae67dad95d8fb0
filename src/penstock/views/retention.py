"""Trim the answers: forget matches that no window reaches any more, at the last cycle or at an older kept one."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from penstock.catalog.model import Table
from penstock.expr.windows import FOREVER, TimeWindow
from penstock.operators.base.log_access import ReachIndex
from penstock.operators.base.view import classify
from penstock.operators.join.readers import reached_by_readers, trim_readers
from penstock.sql.plan import own_windows_of, stream_uses
from penstock.views.answer_store import AnswerStore
from penstock.views.feed import Mark
from penstock.views.query_state import NEVER, QueryState, window_low
from penstock.views.window_history import WindowHistory


def trim(store: AnswerStore, oldest: Mark, windows: WindowHistory, log: Path) -> None:
    keep_from: dict[int, int] = {}
    times: dict[int, int] = {}
    before: dict[int, int] = {}
    reaches: dict[int, ReachIndex] = {}
    windows.forget(oldest.cycle)
    for query_id, answer in store.answers.items():
        if answer.pending is not None or answer.filling is not None or answer.plan.latch is not None:
            continue
        now_us = now_at(store, oldest, query_id, answer)
        lows = [window_low(w, now_us, answer.start_us) for w in windows.since(query_id, oldest.cycle)]
        low = _earliest([*lows, *reached_by_readers(store, query_id, oldest)])
        if low is not None:
            low = min(low, _not_final_from(store, oldest, answer)) - answer.plan.lookback_us
        join = answer.plan.window_join
        if join is not None:
            if low is not None:
                times[query_id] = low
            known = oldest.joins.get(query_id)
            if known is not None:
                results = store.joins.queries[query_id]
                results.earlier = tuple(r for r in results.earlier if r.generation >= known.generation)
            if join.missing == "inner" and not answer.scalars:
                continue
        beside = [w for w in own_windows_of(answer.scalars) if isinstance(w, TimeWindow)]
        low = _earliest([low, *(window_low(w, now_us, answer.start_us) for w in beside)])
        # Subqueries of a join read one of its streams.
        table_id = answer.scalars[0].plan.table_id if answer.scalars else stream_uses(answer.plan)[0].table_id
        floor = store.state.retention(table_id)
        position = floor
        if low is not None:
            if table_id not in reaches:
                reaches[table_id] = ReachIndex(log, table_id, floor)
            position = reaches[table_id].first(low)
            before[query_id] = low
        if position > 0:
            keep_from[query_id] = position
    store.slices.merge_latches(
        oldest.end.data, {q for q, answer in store.answers.items() if answer.filling is not None}
    )
    for query_id, position in keep_from.items():
        store.answers[query_id].forget_below(position)
    for state in store.states.values():
        state.trim(keep_from)
    store.slices.trim_tiles(
        before, {table_id: store.state.retention(table_id) for table_id in store.state.tables_by_id}
    )
    _trim_joins(store, times, oldest.cycle)
    trim_readers(store, oldest)


def _not_final_from(store: AnswerStore, oldest: Mark, answer: QueryState) -> int:
    """From which time on rows of a query may have to be told when they become final: NOW may have passed them long before."""
    lag_us = answer.plan.final_lag_us
    if lag_us is None or classify(answer.plan, store.state).final.when != "later":
        return FOREVER
    marks = [oldest.watermarks.get(table_id, FOREVER) for table_id in answer.plan.tables_read]
    return min(marks, default=FOREVER) - lag_us


def _trim_joins(store: AnswerStore, keep_from: dict[int, int], oldest_cycle: int) -> None:
    """Forget results before a time per query, results of deleted readings, and what distinguishes older cycles."""
    for query_id, known in store.joins.queries.items():
        known.partners.forget(oldest_cycle)
        answer = store.answers.get(query_id)
        if answer is None:
            continue
        floors = [store.state.retention(use.table_id) for use in answer.plan.uses]
        low = keep_from.get(query_id, NEVER)
        known.results = known.results.without(low, floors)
        if answer.top is not None:
            store.slices.trim_results(query_id, known.generations, low)


def still_read(store: AnswerStore, table_id: int) -> int:
    """The first position of a table that a cycle or a fill may still read."""
    offset = store.offset
    if offset is None:
        return 0
    position = offset.data.get(table_id, 0)
    for query_id, (first, _) in offset.fill.items():
        answer = store.answers.get(query_id)
        if answer is not None and stream_uses(answer.plan)[0].table_id == table_id:
            position = min(position, first)
    if offset.late is not None:
        position = min(position, offset.late.read.get(table_id, position))
    for by_table in offset.join_fill.values():
        if table_id in by_table:
            position = min(position, by_table[table_id][0])
    return position


def kept_from(store: AnswerStore, table: Table) -> int:
    """From which time on retention has taken no reading of a table."""
    keep_us = table.options.retention_us
    if keep_us is None or not store.state.retention(table.id):
        return -FOREVER
    now_us = store.now_of(table, None)
    return now_us - keep_us if now_us is not None else -FOREVER


def now_at(store: AnswerStore, mark: Mark, query_id: int, answer: QueryState) -> int | None:
    """A query's NOW at a kept cycle."""
    if answer.plan.window_join is not None:
        return mark.joins[query_id].now_us if query_id in mark.joins else None
    if len(answer.plan.clocks) > 1:
        return mark.clocks.get(query_id)
    (use,) = answer.plan.uses
    table = store.state.tables_by_id.get(use.table_id)
    if table is None:
        return None
    if table.options.time == "transaction":
        return mark.end.now_us
    return mark.nows.get((table.id, use.static_predicate))


def _earliest(lows: Iterable[int | None]) -> int | None:
    """The smallest; None where any is unbounded, or there is none."""
    known = list(lows)
    return None if None in known else min((low for low in known if low is not None), default=None)
