"""Take an aggregation's answer at a kept cycle out of the store, so that it can be read without the lock."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from penstock.cycle.offset import Offset
from penstock.expr.windows import RowsWindow, TimeWindow, Window
from penstock.operators.aggregate.answer import AggregateAt
from penstock.operators.aggregate.latch_answer import LatchAt
from penstock.operators.aggregate.newest_rows import NewestRowsAt
from penstock.operators.aggregate.own_windows import OwnWindowsAt
from penstock.operators.aggregate.rollups.rollup_read import find_source
from penstock.operators.base.answer_owner import AnswerOwner
from penstock.operators.base.log_access import LogAccess
from penstock.operators.base.log_reader import LogReader
from penstock.operators.select.window_cut import WindowAt, WindowMatches
from penstock.sql.plan import AggregatePlan
from penstock.views.feed import Mark
from penstock.views.query_at import QueryAt
from penstock.views.retention import now_at


def hold_aggregate(
    owner: AnswerOwner, query: QueryAt, plan: AggregatePlan, window: Window, log: LogAccess
) -> AggregateAt:
    """Called under the lock."""
    now_us = now_at(owner.store, query.mark, query.id, query.state)
    held = _hold(owner, query, plan, now_us, window, log)
    held.scalars = hold_scalars(owner, query, now_us, window, log)
    if isinstance(window, TimeWindow) and not plan.scalars:
        span = held.instant.range()
        held.rollup = find_source(plan, owner.store.state, span[0], owner.rolled_files) if span is not None else None
    return held


def hold_scalars(
    owner: AnswerOwner, query: QueryAt, now_us: int | None, window: Window, log: LogAccess
) -> tuple[AggregateAt, ...]:
    """The subqueries of a question that is asked at this NOW through this window. Called under the lock."""
    return tuple(
        _hold(owner, query, s.plan, now_us, window if s.inherits else s.plan.window, log) for s in query.state.scalars
    )


def _hold(
    owner: AnswerOwner, query: QueryAt, plan: AggregatePlan, now_us: int | None, window: Window, log: LogAccess
) -> AggregateAt:
    store = owner.store
    table = store.state.tables_by_id[plan.table_id]
    static = store.state.rows(table.id)
    head = _read_until(owner, plan, query.mark).data.get(table.id, 0)

    def reader() -> LogReader:
        return log.reader(table, static, head)

    if isinstance(window, RowsWindow):
        predicate = plan.static_predicate
        passing = None if predicate is None else store.passing(table.id, predicate)
        counted = WindowMatches({}, None, passing, store.heard_sids(table.id, predicate))
        kind: Callable[..., AggregateAt] = partial(NewestRowsAt, counted=counted, static=static)
    elif plan.latch is not None:
        kind = LatchAt
    else:
        kind = OwnWindowsAt if plan.own_windows else AggregateAt
    return kind(
        cycle=query.mark.cycle,
        query_id=query.id,
        name=query.name,
        plan=plan,
        instant=WindowAt(store.state.retention(table.id), head, now_us, query.state.start_us, window),
        reach=query.state.reach,
        locked=owner.locked,
        reader=reader,
        fresh=lambda: log.fresh(table, static),
    )


def _read_until(owner: AnswerOwner, plan: AggregatePlan, mark: Mark) -> Offset:
    """How far the log counts: as far as the cycle read, or of another query's rows as far as the one before did."""
    store = owner.store
    if plan.reads is None:
        return mark.end
    if mark.cycle == store.cycle and store.start is not None:
        return store.start
    return owner.feed.mark(mark.cycle - 1).end if mark.cycle > owner.feed.oldest() else mark.end
