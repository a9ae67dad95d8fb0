"""Take a question with RESAMPLE out of the store, to be read without the lock: at a kept cycle, at a past time, or once."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from penstock.cycle.offset import Offset
from penstock.expr.windows import TimeWindow
from penstock.operators.base.listings import Listings
from penstock.operators.base.log_reader import LogReader
from penstock.operators.resample.answer import ResampleAt
from penstock.operators.resample.sample_cache import SampleCache
from penstock.operators.resample.stream import StreamWindow
from penstock.operators.sparksql.moments import now_of_plan, ranges_of
from penstock.sql.plan import Relation, SelectPlan, SparkPlan, plan_from_json
from penstock.views.answer_store import AnswerStore
from penstock.views.feed import Mark, ResampleMark


def resample_marks(store: AnswerStore) -> dict[int, ResampleMark]:
    """What the queries with RESAMPLE that run are at the cycle that the store has taken in."""
    found = {}
    for query_id, plan in store.spark_plans.items():
        definition = store.state.queries_by_id[query_id]
        state = store.state
        there = all(relation.table in state.tables or relation.table in state.queries for relation in plan.relations)
        if plan.resampled is not None and there and not definition.paused:
            found[query_id] = ResampleMark(plan, definition.start_us, now_of_plan(plan, store), store.start)
    return found


def hold_resampled(
    store: AnswerStore,
    query_id: int,
    mark: Mark,
    at: ResampleMark,
    log: Path,
    listings: Listings,
    kept: SampleCache,
    most: int,
) -> ResampleAt:
    """Called under the lock. `most`: rows that an answer may have."""
    spans = ranges_of(at.plan, at.now_us, at.start_us)
    return hold_with(
        store, query_id, mark.cycle, (at.previous, mark.end), at.plan, at.now_us, spans, log, listings, most, kept
    )


def hold_with(
    store: AnswerStore,
    query_id: int,
    cycle: int,
    ends: tuple[Offset | None, Offset],
    plan: SparkPlan,
    now_us: int | None,
    spans: Mapping[str, tuple[int, int]],
    log: Path,
    listings: Listings,
    most: int | None,
    kept: SampleCache | None = None,
) -> ResampleAt:
    """The same with given time ranges by relation. `ends`: offsets of the last cycle but one (for readers) and of the last."""
    asked = plan.resampled
    assert asked is not None
    times, values = (
        _stream(store, plan.relations[place], ends, spans, log, listings) for place in (asked.times, asked.values)
    )
    return ResampleAt(cycle, query_id, now_us, plan, times, values, kept, most)


def _stream(
    store: AnswerStore,
    relation: Relation,
    ends: tuple[Offset | None, Offset],
    spans: Mapping[str, tuple[int, int]],
    log: Path,
    listings: Listings,
) -> StreamWindow:
    assert isinstance(relation.window, TimeWindow)
    previous, end = ends
    if relation.kind == "query":
        read = plan_from_json(store.state.queries[relation.table].plan)
        assert isinstance(read, SelectPlan)
        table, predicate = store.state.tables_by_id[read.table_id], read.static_predicate
        end = previous or end
    else:
        table, predicate = store.state.tables[relation.table], relation.static_predicate
    static, head = store.state.rows(table.id), end.data.get(table.id, 0)
    return StreamWindow(
        reader=lambda: LogReader(log, table, static, lambda: listings.segments(table.id, head), listings.files),
        fresh=lambda: LogReader(log, table, static, lambda: listings.fresh(table.id)),
        floor=store.state.retention(table.id),
        head=head,
        span=spans[relation.name],
        passing=None if predicate is None else store.passing(table.id, predicate),
    )
