"""Selections of class normal and low that no client uses sleep: cycles leave them out, and their window is evaluated when they are asked.

A run plan in the journal says which queries sleep. It changes what cycles cost, never an answer. A query sleeps if it was
not used for `sleep_after_s`, and its window has so few rows that evaluating them takes less than 200 ms.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice

from penstock.catalog.catalog import Catalog
from penstock.catalog.model import QueryDefinition
from penstock.clock import SECOND
from penstock.expr.windows import FOREVER, TimeWindow
from penstock.operators.base.log_access import ReachIndex
from penstock.operators.select.durability import is_pure
from penstock.services import Service
from penstock.views.answer_store import AnswerStore
from penstock.views.feed import Mark
from penstock.views.query_state import QueryState, window_low
from penstock.views.retention import now_at
from penstock.views.standing_queries import StandingQueries

PLAN_EVERY_S = 2.0
LOOKS_A_ROUND = 5_000
LOOKS_A_HOLD, REST_S = 200, 0.001
"""So many queries in one hold of the store's lock; in between, readers and cycles have their turn."""
# Evaluating a row of the log takes well under a microsecond.
ON_DEMAND_MAX_ROWS = 200_000


class IdleQueries:
    """Looks at some queries every two seconds, and writes a run plan where something changes."""

    def __init__(self, standing: StandingQueries, catalog: Catalog, sleep_after_s: float) -> None:
        self._standing = standing
        self._catalog = catalog
        self._after_us = round(sleep_after_s * SECOND)
        self._most_rows = min(ON_DEMAND_MAX_ROWS, standing.settings.answer_read_max_rows)
        self._began_us: int | None = None
        self._next = 0  # the query that the next round begins with
        self._service = Service("idle queries", self._step, first_s=PLAN_EVERY_S)

    def start(self) -> None:
        if self._after_us:
            self._service.start()

    def close(self) -> None:
        self._service.stop()

    def services(self) -> list[Service]:
        return [self._service]

    def _step(self) -> float:
        self.look()
        return PLAN_EVERY_S

    def look(self, most: int = LOOKS_A_ROUND) -> None:
        """One round: find what is to sleep or to wake among so many queries, and among those that were used."""
        sinks = {sink.query for sink in self._catalog.state.sinks.values()}
        with self._standing.locked() as store:
            mark = self._standing.feed.last()
            if mark is None or store.offset is None:
                return
            now_us = store.offset.now_us
            if self._began_us is None:
                self._began_us = now_us  # what was used before the start is not known
            used = self._standing.used_since(now_us - self._after_us)
            names = self._standing.followed() | sinks | _read_by_others(store)
            busy = used | {query.id for name in names if (query := store.state.queries.get(name)) is not None}
            chosen = self._chosen(store, most)
            tables = {use.table_id for query_id in chosen for use in store.answers[query_id].plan.uses}
            if store.sleeping:
                tables.update(id_ for id_, table in store.state.tables_by_id.items() if table.stream is not None)
            log, retained = store.log, {table_id: store.state.retention(table_id) for table_id in tables}
        cost = _OnDemand(mark, {id_: ReachIndex(log, id_, floor) for id_, floor in retained.items()})
        may_sleep = now_us - self._began_us >= self._after_us
        with self._standing.locked() as store:
            sleeping: set[int] = set()
            awake = (busy & store.sleeping) | cost.above(store, self._most_rows)
        for first in range(0, len(chosen), LOOKS_A_HOLD):
            self._service.wait(REST_S)
            with self._standing.locked() as store:
                for query_id in chosen[first : first + LOOKS_A_HOLD]:
                    answer = store.answers.get(query_id)
                    definition = store.state.queries_by_id[query_id]
                    if answer is None or definition.branch_of is not None:
                        continue  # a branch is asked through its query, which is awake
                    rows = cost.rows(store, query_id, answer) if _may_sleep(definition, answer) else FOREVER
                    if answer.sleeping and rows > self._most_rows:
                        awake.add(query_id)
                    # Far fewer rows than would wake it, so that it does not fall asleep and wake again and again.
                    elif may_sleep and query_id not in busy and 0 < rows <= self._most_rows // 4:
                        sleeping.add(query_id)
        self._catalog.plan_run(sleeping, awake)

    def _chosen(self, store: AnswerStore, most: int) -> list[int]:
        """The next queries in turn."""
        if self._next >= len(store.answers):
            self._next = 0
        first, self._next = self._next, self._next + most
        return list(islice(store.answers, first, first + most))


def _read_by_others(store: AnswerStore) -> set[str]:
    if not store.reads_queries:
        return set()
    return {name for query in store.state.queries.values() for name in query.reads_queries}


def _may_sleep(definition: QueryDefinition, answer: QueryState) -> bool:
    """Whether the server can evaluate the window by itself, and no user chose how the answer is kept. Class high never sleeps."""
    plan = answer.plan.selection
    if definition.priority == "high":
        return False
    if plan is None or plan.lasting is not None or not is_pure(plan) or answer.strategy is not None:
        return False
    slides = isinstance(answer.window, TimeWindow) and answer.window.slides
    return slides and answer.settled and answer.pending is None and answer.error is None


class _OnDemand:
    """How many rows of the log answers on demand read. Called under the lock of the store."""

    def __init__(self, mark: Mark, reaches: Mapping[int, ReachIndex]) -> None:
        """`reaches`: by table. What was logged after they were made counts in full."""
        self._mark, self._reaches = mark, reaches
        self._firsts: dict[tuple[int, int], int] = {}  # most queries have the windows of others

    def rows(self, store: AnswerStore, query_id: int, answer: QueryState) -> int:
        """Of one query; 0 while nothing is known of its NOW."""
        (use,) = answer.plan.uses
        low = window_low(answer.window, now_at(store, self._mark, query_id, answer), answer.start_us)
        return self._since(use.table_id, low, answer.reach) if low is not None else 0

    def above(self, store: AnswerStore, most: int) -> set[int]:
        """The sleeping queries with windows that have more rows than this: the stream has become faster."""
        found: set[int] = set()
        for table_id, table in store.state.tables_by_id.items() if store.sleeping else ():
            now_us = store.now_of(table, None) if table_id in self._reaches else None
            if now_us is None:
                continue
            for span, whose in store.window_index.spans(table_id):
                if self._since(table_id, now_us - span, 0) <= most:
                    break  # the widest come first
                found.update(query_id for query_id in whose if query_id in store.sleeping)
        return found

    def _since(self, table_id: int, low_us: int, floor: int) -> int:
        first = self._firsts.get((table_id, low_us))
        if first is None:
            first = self._firsts[table_id, low_us] = self._reaches[table_id].first(low_us)
        return self._mark.end.data.get(table_id, 0) - max(first, floor)
