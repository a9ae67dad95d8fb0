"""When an answer next changes without new data: the planner plans a cycle for that time."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.catalog.model import Table
from penstock.clock import SECOND
from penstock.expr.windows import FOREVER, TimeWindow, Window
from penstock.operators.sparksql.moments import streams_behind
from penstock.views.answer_store import AnswerStore
from penstock.views.query_state import NEVER


def next_edge(store: AnswerStore, moved: bool) -> int:
    """The earliest time at which a cycle without data would change an answer; 0 for never.

    Only transaction time passes by itself, and at most one edge a second is asked for. `moved`: whether the
    cycle brought data.
    """
    if store.offset is None:
        return 0
    now_us = store.offset.now_us
    soonest = now_us + SECOND
    edges = []
    if moved and store.reads_queries:
        # Readers of queries see this cycle's rows in the next one, so there must be a next one.
        return soonest
    newest: dict[int, int] = {}
    for table, window, start_us in _windows(store):
        if table.options.time != "transaction" or not isinstance(window, TimeWindow):
            continue
        if table.id not in newest:
            times = store.newest.get(table.id)
            newest[table.id] = int(times.max(initial=NEVER)) if times is not None else NEVER
        low, high = window.resolve(now_us, start_us if start_us is not None else NEVER)
        leaving = window.slides and newest[table.id] >= low
        entering = window.end.anchor == "now" and newest[table.id] > high
        if leaving or entering:
            return soonest
        if window.ends and now_us <= high < FOREVER:
            edges.append(max(high + 1, soonest))
    return soonest if _waits_for_partners(store, now_us) else min(edges, default=0)


def _waits_for_partners(store: AnswerStore, now_us: int) -> bool:
    """Whether rows of an outer or anti join still wait for a partner: after its window, such a row may be an answer."""
    for query_id in store.window_index.joins:
        plan = store.answers[query_id].plan.window_join
        if plan is not None and plan.missing != "inner":
            table = store.state.tables_by_id[plan.inputs[0].table_id]
            times, upper = store.newest.get(table.id), plan.bounds[0][1]
            if table.options.time != "transaction" or times is None or upper is None:
                continue
            if int(times.max(initial=NEVER)) + upper >= now_us:
                return True
    return False


def _windows(store: AnswerStore) -> Iterator[tuple[Table, Window | None, int | None]]:
    """Every window over a stream that a running query uses, each once."""
    for table_id, look, start_us in store.window_index.looks:
        yield store.state.tables_by_id[table_id], look, start_us
    for query_id, plan in store.spark_plans.items():
        for relation in plan.relations:
            for table, _ in streams_behind(relation, store.state):
                yield table, relation.window, store.state.queries_by_id[query_id].start_us
