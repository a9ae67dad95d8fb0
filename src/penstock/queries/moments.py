"""Where a Spark-run query's windows lie: NOW over its streams, and each relation's time range."""

from __future__ import annotations

from penstock.catalog.model import Table
from penstock.catalog.state import CatalogState
from penstock.errors import error
from penstock.operators.expr import Expr
from penstock.operators.windows import FOREVER, TimeWindow
from penstock.pipeline.spark_sql import Moment
from penstock.queries.answer import NEVER
from penstock.queries.answers import AnswerStore
from penstock.sql.plan import Plan, Relation, SelectPlan, SparkPlan, plan_from_json, stream_uses


def moment_of(plan: SparkPlan, store: AnswerStore, start_us: int | None) -> Moment:
    """What a plan stands for at the store's committed offset."""
    assert store.offset is not None
    for relation in plan.relations:
        known = {"query": store.state.queries, "system": {relation.table}}.get(relation.kind, store.state.tables)
        if relation.table not in known:
            raise error(
                "not_ready",
                detail=f'no cycle has taken in "{relation.table}" as it is now',
                hint="ask again in a moment",
            )
    now_us = now_of_plan(plan, store)
    ranges: dict[str, tuple[int, int]] = {}
    for relation in plan.relations:
        if isinstance(relation.window, TimeWindow):
            if now_us is None and relation.window.slides:
                ranges[relation.name] = (FOREVER, -FOREVER)
            else:
                start = start_us if start_us is not None else NEVER
                end = now_us if now_us is not None else FOREVER
                ranges[relation.name] = relation.window.resolve(end, start)
    fallback = now_us if now_us is not None else store.offset.now_us
    return Moment(store.offset, store.state.frozen(), fallback, ranges, store.start)


def now_of_plan(plan: Plan, store: AnswerStore) -> int | None:
    """NOW of a query: the smallest over its streams; the cycle's where it reads no stream."""
    assert store.offset is not None
    if not isinstance(plan, SparkPlan):
        return store.now_of_streams([(u.table_id, u.static_predicate) for u in stream_uses(plan)])
    streams = [s for r in plan.relations if (s := stream_of(r, store)) is not None]
    if not streams:
        return store.offset.now_us
    return store.now_of_streams([(table.id, predicate) for table, predicate in streams])


def stream_of(relation: Relation, store: AnswerStore) -> tuple[Table, Expr | None] | None:
    """The table and static predicate behind a relation that has readings."""
    if relation.kind not in ("stream", "query"):
        return None
    state: CatalogState = store.state
    predicate: Expr | None = relation.static_predicate
    if relation.kind == "query":
        definition = state.queries.get(relation.table)
        inner = plan_from_json(definition.plan) if definition is not None else None
        if not isinstance(inner, SelectPlan):
            return None
        return state.tables_by_id[inner.table_id], inner.static_predicate
    return state.tables[relation.table], predicate
