"""The moment of a query that Spark SQL evaluates: NOW over its streams, and each relation's time range."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.catalog.model import QueryDefinition, Table
from penstock.catalog.state import CatalogState
from penstock.errors import PenstockError, error
from penstock.expr.expression import Expr
from penstock.expr.windows import FOREVER, TimeWindow
from penstock.pipeline.spark_sql import Moment
from penstock.sql.plan import Plan, Relation, SparkPlan, looks_of, plan_from_json, stream_uses
from penstock.views.answer_store import AnswerStore
from penstock.views.query_state import NEVER


def moment_of(
    plan: SparkPlan, store: AnswerStore, start_us: int | None, coming: Sequence[QueryDefinition] = ()
) -> Moment:
    """The moment of a plan at the store's committed offset. `coming`: queries that it may read before any cycle has them."""
    assert store.offset is not None
    state = store.state.expecting(coming) if coming else store.state.frozen()
    check_taken_in(plan, state)
    now_us = now_of_plan(plan, store, state)
    fallback = now_us if now_us is not None else store.offset.now_us
    ranges = ranges_of(plan, now_us, start_us)
    return Moment(store.offset, state, fallback, ranges, store.start)


def check_taken_in(plan: Plan, state: CatalogState) -> None:
    """Raise not_ready where the last cycle does not have a table or query that a plan reads."""
    for relation in plan.relations:
        queries, named = state.queries, {relation.table}
        by_kind = {"query": queries, "state": queries, "system": named, "core": named}
        known = by_kind.get(relation.kind, state.tables)
        if relation.table not in known:
            raise _not_taken_in(f'"{relation.table}"')
    if any(u.table_id not in state.tables_by_id for u in stream_uses(plan)):
        raise _not_taken_in("a stream that it reads")


def ranges_of(plan: SparkPlan, now_us: int | None, start_us: int | None) -> dict[str, tuple[int, int]]:
    """Each relation's range of time, by its name."""
    ranges: dict[str, tuple[int, int]] = {}
    for relation in plan.relations:
        if isinstance(relation.window, TimeWindow):
            if now_us is None and relation.window.slides:
                ranges[relation.name] = (FOREVER, -FOREVER)
            else:
                start = start_us if start_us is not None else NEVER
                end = now_us if now_us is not None else FOREVER
                ranges[relation.name] = relation.window.resolve(end, start)
    return ranges


def _not_taken_in(what: str) -> PenstockError:
    return error("not_ready", detail=f"no cycle has taken in {what} as it is now", hint="ask again in a moment")


def now_of_plan(plan: Plan, store: AnswerStore, state: CatalogState | None = None) -> int | None:
    """NOW of a query: the smallest over its streams; the cycle's where it reads no stream.

    `state`: a catalog that knows what it reads, where the store's does not yet.
    """
    assert store.offset is not None
    streams = [(table.id, predicate) for table, predicate in all_streams(plan, state or store.state)]
    return store.now_of_streams(streams) if streams else store.offset.now_us


def streams_of(plan: Plan, state: CatalogState) -> list[tuple[int, Expr | None]]:
    """Each stream a plan reads itself, by its table, with the static predicate that chooses its sensors."""
    found = list(dict.fromkeys((u.table_id, u.static_predicate) for u in looks_of(plan)))
    for relation in plan.relations:
        if relation.kind == "stream" and relation.table in state.tables:
            found.append((state.tables[relation.table].id, relation.static_predicate))
    return found


def all_streams(plan: Plan, state: CatalogState) -> list[tuple[Table, Expr | None]]:
    """The tables and static predicates behind a plan, also where it reads them through another query."""
    found = [(state.tables_by_id[u.table_id], u.static_predicate) for u in stream_uses(plan)]
    for relation in plan.relations:
        found += streams_behind(relation, state)
    return found


def streams_behind(relation: Relation, state: CatalogState) -> list[tuple[Table, Expr | None]]:
    """The same behind one relation; a core's streams are the plan's own."""
    if relation.kind == "stream":
        return [(state.tables[relation.table], relation.static_predicate)]
    definition = state.queries.get(relation.table) if relation.kind == "query" else None
    uses = stream_uses(plan_from_json(definition.plan)) if definition is not None else ()
    return [(state.tables_by_id[u.table_id], u.static_predicate) for u in uses]
