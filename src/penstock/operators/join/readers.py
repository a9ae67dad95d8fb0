"""Queries that read a window join like a stream: how far back their windows reach, and how far back results are kept.

A join keeps its results for as long as its own window or one of its readers reaches them.
"""

from __future__ import annotations

from collections.abc import Iterator

from penstock.catalog.state import CatalogState
from penstock.errors import error
from penstock.operators.sparksql.moments import now_of_plan
from penstock.sql.plan import JoinPlan, Plan, plan_from_json
from penstock.views.answer_store import AnswerStore
from penstock.views.feed import Mark
from penstock.views.query_state import NEVER, window_low


def reached_by_readers(store: AnswerStore, query_id: int, oldest: Mark) -> Iterator[int | None]:
    """For each reader of a join since when it needs tuples; None where nothing bounds it yet.

    Spark SQL reads as of now; slices are asked about all kept cycles, the oldest of which is given.
    """
    read, answer = store.state.queries_by_id[query_id], store.answers[query_id]
    join = answer.plan.window_join
    if join is None:
        return
    for reader_id, plan in store.spark_plans.items():
        for relation in plan.relations:
            if relation.kind == "query" and relation.table == read.name and relation.window is not None:
                start_us = store.state.queries_by_id[reader_id].start_us
                now_us = read_now(query_id, oldest) if plan.over_read is not None else now_of_plan(plan, store)
                low = window_low(relation.window, now_us, start_us)
                yield None if low is None else low - _spread(join)


def read_now(query_id: int, oldest: Mark) -> int | None:
    """NOW of a join at a cycle, which is also NOW of queries that read only this join."""
    known = oldest.joins.get(query_id)
    return known.now_us if known is not None else None


def trim_readers(store: AnswerStore, oldest: Mark) -> None:
    """Forget slices of results that no reader reaches."""
    for reader_id, plan in store.spark_plans.items():
        if plan.over_read is None or store.read_by(plan) is None:
            continue
        (relation,) = plan.relations
        assert relation.window is not None
        read_id = store.state.queries[relation.table].id
        now_us = read_now(read_id, oldest)
        low = window_low(relation.window, now_us, store.state.queries_by_id[reader_id].start_us)
        generations = store.joins.queries[read_id].generations
        store.slices.trim_results(reader_id, generations, NEVER if low is None else low)


def check_readers(name: str, plan: Plan, state: CatalogState) -> None:
    """Refuse a new plan for a window join that other queries read, if it can no longer be read like a stream."""
    if plan.pure_join is not None:
        return
    for definition in state.queries.values():
        reader = plan_from_json(definition.plan) if name in definition.reads_queries else plan
        if any(r.kind == "query" and r.table == name for r in reader.relations):
            raise error(
                "not_supported",
                feature=f'such a window of "{name}", whose rows query "{definition.name}" reads,',
                hint=f'drop "{definition.name}" first',
            )


def _spread(plan: JoinPlan) -> int:
    """How far apart the tuples of one row may lie: a reader's window limits only the latest of them."""
    return max(upper for row in plan.bounds for upper in row if upper is not None)


def told_from(plan: Plan, start_us: int | None, state: CatalogState) -> int | None:
    """Since when a reader's joins have kept everything: since where their own windows began when the reader came."""
    if start_us is None:
        return None
    begins = []
    for relation in plan.relations:
        definition = state.queries.get(relation.table) if relation.kind == "query" else None
        read = plan_from_json(definition.plan).pure_join if definition is not None else None
        if definition is not None and read is not None:
            begins.append(window_low(read.windows, start_us, definition.start_us))
    return max((b for b in begins if b is not None), default=None)
