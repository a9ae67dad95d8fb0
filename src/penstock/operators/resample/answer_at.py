"""Take a question with RESAMPLE out of the store, to be read without the lock: at a kept cycle, at a past time, or once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from penstock.cycle.offset import Offset
from penstock.errors import expect
from penstock.expr.windows import FOREVER, TimeWindow
from penstock.operators.base.log_access import LogAccess
from penstock.operators.resample.answer import ResampleAt
from penstock.operators.resample.sample_cache import SampleCache
from penstock.operators.resample.stream import StreamWindow
from penstock.operators.sparksql.moments import now_of_plan, ranges_of
from penstock.sql.plan import Relation, ResamplePlan, SelectPlan, plan_from_json
from penstock.views.answer_store import AnswerStore
from penstock.views.feed import Mark, ResampleMark
from penstock.views.retention import kept_from


def resample_marks(store: AnswerStore) -> dict[int, ResampleMark]:
    """What the queries with RESAMPLE that run are at the cycle that the store has taken in."""
    found = {}
    for query_id, plan in store.spark_plans.items():
        definition = store.state.queries_by_id[query_id]
        state = store.state
        there = all(relation.table in state.tables or relation.table in state.queries for relation in plan.relations)
        if plan.operator == ResamplePlan.operator and there and not definition.paused:
            found[query_id] = ResampleMark(
                expect(ResamplePlan, plan), definition.start_us, now_of_plan(plan, store), store.start
            )
    return found


@dataclass(frozen=True, slots=True)
class ResampleRequest:
    """A question with RESAMPLE at a cycle: NOW, and the range of time of each relation by its name.

    `ends`: offsets of the last cycle but one (for readers of queries) and of the last.
    """

    query_id: int
    plan: ResamplePlan
    cycle: int
    ends: tuple[Offset | None, Offset]
    now_us: int | None
    spans: Mapping[str, tuple[int, int]]
    watermarks: Mapping[int, int] = field(default_factory=dict)


def request_at(query_id: int, mark: Mark, at: ResampleMark) -> ResampleRequest:
    """What a standing query asks at a kept cycle."""
    spans = ranges_of(at.plan, at.now_us, at.start_us)
    return ResampleRequest(query_id, at.plan, mark.cycle, (at.previous, mark.end), at.now_us, spans, mark.watermarks)


def hold_resampled(
    store: AnswerStore, request: ResampleRequest, log: LogAccess, most: int | None, kept: SampleCache | None = None
) -> ResampleAt:
    """Called under the lock. `most`: rows that an answer may have."""
    plan, asked = request.plan, request.plan.resample
    times, values = (_stream(store, plan.relations[place], request, log) for place in (asked.times, asked.values))
    held = ResampleAt(request.cycle, request.query_id, request.now_us, plan, times, values, kept, most)
    tables = [store.state.tables.get(relation.table) for relation in plan.relations]
    held.kept_from_us = max((kept_from(store, table) for table in tables if table is not None), default=-FOREVER)
    known = tables[asked.values]
    held.watermark_us = request.watermarks.get(known.id) if known is not None else None
    return held


def _stream(store: AnswerStore, relation: Relation, request: ResampleRequest, log: LogAccess) -> StreamWindow:
    assert isinstance(relation.window, TimeWindow)
    previous, end = request.ends
    if relation.kind == "query":
        read = expect(SelectPlan, plan_from_json(store.state.queries[relation.table].plan))
        table, predicate = store.state.tables_by_id[read.table_id], read.static_predicate
        end = previous or end
    else:
        table, predicate = store.state.tables[relation.table], relation.static_predicate
    static, head = store.state.rows(table.id), end.data.get(table.id, 0)
    return StreamWindow(
        reader=lambda: log.reader(table, static, head),
        fresh=lambda: log.fresh(table, static),
        floor=store.state.retention(table.id),
        head=head,
        span=request.spans[relation.name],
        passing=None if predicate is None else store.passing(table.id, predicate),
    )
