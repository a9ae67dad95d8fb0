"""Selections of class normal and low that cycles leave out: their window is evaluated when they are asked.

A run plan in the journal says which these are. It changes what cycles cost, never an answer. A query is left out if it was
not used for `sleep_after_s`, or if evaluating its window for each request is the cheapest strategy. In both cases the window has
so few rows that evaluating them takes less than 200 ms.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import islice

from penstock.catalog.catalog import Catalog
from penstock.catalog.model import QueryDefinition
from penstock.clock import SECOND
from penstock.expr.windows import TimeWindow
from penstock.operators.base.log_access import ReachIndex
from penstock.operators.select.durability import is_pure
from penstock.operators.select.strategy_costs import MOST_ON_DEMAND_MS, RowCost, StrategyFigures, with_expected
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
ON_DEMAND_MAX_ROWS = 200_000
"""At most, however little a row takes."""


class IdleQueries:
    """Looks at some queries every two seconds, and writes a run plan where something changes.

    `row_cost` gives what a row of a table takes.
    """

    def __init__(
        self, standing: StandingQueries, catalog: Catalog, sleep_after_s: float, row_cost: Callable[[int], RowCost]
    ) -> None:
        self._standing = standing
        self._catalog = catalog
        self._row_cost = row_cost
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
        with self._standing.locked() as store:
            mark = self._standing.feed.last()
            if mark is None or store.offset is None:
                return
            now_us = store.offset.now_us
            if self._began_us is None:
                self._began_us = now_us  # what was used before the start is not known
            used = self._standing.used_since(now_us - self._after_us)
            held = self._held(store)
            chosen = self._chosen(store, most)
            tables = {use.table_id for query_id in chosen for use in store.answers[query_id].plan.uses}
            if store.sleeping:
                tables.update(id_ for id_, table in store.state.tables_by_id.items() if table.stream is not None)
            reaches = _Reaches(store, tables)
        cost = self._on_demand(mark, reaches)
        may_sleep, choice = now_us - self._began_us >= self._after_us, self._standing.storage_choice
        with self._standing.locked() as store:
            sleeping: set[int] = set()
            awake = {q for q in (held | used) & store.sleeping if q in held or not choice.is_left_out(q)}
            awake |= cost.above(store)
        for first in range(0, len(chosen), LOOKS_A_HOLD):
            self._service.wait(REST_S)
            with self._standing.locked() as store:
                for query_id in chosen[first : first + LOOKS_A_HOLD]:
                    definition, answer = store.state.queries_by_id.get(query_id), store.answers.get(query_id)
                    if answer is None or definition is None or definition.branch_of is not None:
                        continue  # a branch is asked through its query, which is awake
                    may_rest = answer.strategy is None and _stays(definition, answer) is None
                    window = cost.window(store, query_id, answer) if may_rest else None
                    if window is None or window.rows > window.most_rows:
                        if answer.sleeping:
                            awake.add(query_id)
                    elif answer.sleeping:
                        if query_id in used and not self._leaves_out(query_id, mark.cycle, window, asleep=True):
                            awake.add(query_id)
                    elif query_id in held or not window.rows or not window.is_small:
                        continue
                    elif query_id in used:
                        if self._leaves_out(query_id, mark.cycle, window, asleep=False):
                            sleeping.add(query_id)
                    elif may_sleep:
                        choice.forget(query_id)  # it is not left out by its costs: its first use wakes it
                        sleeping.add(query_id)
        self._catalog.plan_run(sleeping, awake)

    def _leaves_out(self, query_id: int, cycle: int, window: _Window, asleep: bool) -> bool:
        choice = self._standing.storage_choice
        return choice.leaves_out(query_id, cycle, (window.match_ms, window.evaluate_ms), asleep)

    def figures(self, definition: QueryDefinition) -> tuple[StrategyFigures, str | None] | None:
        """What was measured or is expected of a selection, and why it cannot have strategy `none`; None for others."""
        with self._standing.locked() as store:
            mark, answer = self._standing.feed.last(), store.answers.get(definition.id)
            if mark is None or answer is None or answer.plan.selection is None:
                return None
            reaches = _Reaches(store, {use.table_id for use in answer.plan.uses})
            why = _stays(definition, answer) if answer.strategy != "none" else None
            if why is None and answer.strategy is None and definition.id in self._held(store):
                why = "it has a subscriber, a sink or a reader"
        cost = self._on_demand(mark, reaches)
        with self._standing.locked() as store:
            known = self._standing.storage_choice.figures(definition.id, mark.cycle)
            window = cost.window(store, definition.id, answer)
        expected = with_expected(known, window.match_ms, window.evaluate_ms)
        known = expected if known.evaluate_ms is None else replace(expected, evaluate_ms=known.evaluate_ms)
        if why is None and window.rows > window.most_rows:
            why = f"its window has {window.rows:,} readings, and at most {window.most_rows:,} are evaluated when asked"
        return (known if why is None else replace(known, evaluate_ms=None)), why

    def _held(self, store: AnswerStore) -> set[int]:
        """The queries with a subscriber, a sink or a reader. Called under the lock."""
        sinks = {sink.query for sink in self._catalog.state.sinks.values()}
        names = self._standing.followed() | sinks | _read_by_others(store)
        return {query.id for name in names if (query := store.state.queries.get(name)) is not None}

    def _on_demand(self, mark: Mark, reaches: _Reaches) -> _OnDemand:
        """Called without the lock: files of the log are listed."""
        return _OnDemand(mark, reaches.read(), {id_: self._row_cost(id_) for id_ in reaches.floors}, self._most_rows)

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


def _stays(definition: QueryDefinition, answer: QueryState) -> str | None:
    """Why a query always takes part in cycles; None where these may leave it out."""
    plan = answer.plan.selection
    if plan is None or plan.lasting is not None or not is_pure(plan):
        return "the server does not evaluate it by itself"
    if definition.priority == "high":
        return "it is of class high"
    if not isinstance(answer.window, TimeWindow) or not answer.window.slides:
        return "its window does not slide"
    settled = answer.settled and answer.pending is None and answer.error is None
    return None if settled else "it rests, or reads its history"


class _Reaches:
    """Where the windows of some tables begin in the log."""

    def __init__(self, store: AnswerStore, tables: Iterable[int]) -> None:
        self.floors = {table_id: store.state.retention(table_id) for table_id in tables}
        self._log = store.log

    def read(self) -> dict[int, ReachIndex]:
        return {id_: ReachIndex(self._log, id_, floor) for id_, floor in self.floors.items()}


@dataclass(frozen=True, slots=True)
class _Window:
    """The window of one query: its rows, how many may be evaluated on demand, and what these and its matches take."""

    rows: int
    most_rows: int
    evaluate_ms: float
    match_ms: float

    @property
    def is_small(self) -> bool:
        """Far fewer rows than would wake the query, so that it does not fall asleep and wake again and again."""
        return self.rows <= self.most_rows // 4


class _OnDemand:
    """What answers on demand read and take. Called under the lock of the store."""

    def __init__(
        self, mark: Mark, reaches: Mapping[int, ReachIndex], costs: Mapping[int, RowCost], most_rows: int
    ) -> None:
        """`reaches` and `costs`: by table. What was logged after they were made counts in full."""
        self._mark, self._reaches, self._costs, self._most = mark, reaches, costs, most_rows
        self._firsts: dict[tuple[int, int], int] = {}  # most queries have the windows of others

    def window(self, store: AnswerStore, query_id: int, answer: QueryState) -> _Window:
        """Of one query; no rows while nothing is known of its NOW."""
        (use,) = answer.plan.uses
        low = window_low(answer.window, now_at(store, self._mark, query_id, answer), answer.start_us)
        rows = self._since(use.table_id, low, answer.reach) if low is not None else 0
        cost = self._costs[use.table_id]
        ms = rows * cost.evaluate_ns / 1e6
        return _Window(rows, self._most_rows(use.table_id), ms, cost.rows * cost.match_ns / 1e6)

    def _most_rows(self, table_id: int) -> int:
        return min(self._most, int(MOST_ON_DEMAND_MS * 1e6 / self._costs[table_id].evaluate_ns))

    def above(self, store: AnswerStore) -> set[int]:
        """The sleeping queries with windows that have more rows than may be evaluated: the stream has become faster."""
        found: set[int] = set()
        for table_id, table in store.state.tables_by_id.items() if store.sleeping else ():
            now_us = store.now_of(table, None) if table_id in self._reaches else None
            if now_us is None:
                continue
            for span, whose in store.window_index.spans(table_id):
                if self._since(table_id, now_us - span, 0) <= self._most_rows(table_id):
                    break  # the widest come first
                found.update(query_id for query_id in whose if query_id in store.sleeping)
        return found

    def _since(self, table_id: int, low_us: int, floor: int) -> int:
        first = self._firsts.get((table_id, low_us))
        if first is None:
            first = self._firsts[table_id, low_us] = self._reaches[table_id].first(low_us)
        return self._mark.end.data.get(table_id, 0) - max(first, floor)
