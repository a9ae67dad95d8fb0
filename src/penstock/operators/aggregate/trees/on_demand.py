"""Aggregates over any window of a query's answer, from trees that are kept over it: O(log n), and no Spark job.

What `SELECT COUNT(*), AVG(ppm) FROM q BEGIN .. END ..` gives is what Spark SQL would give at the same cycle. A tree is
built by the first question and extended by the next one with the rows that came in between. Where no tree can answer
(`NotAnswered`), Spark does.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Container
from dataclasses import dataclass

import pyarrow as pa

from penstock.catalog.model import QueryDefinition
from penstock.errors import expect
from penstock.expr.evaluate import evaluate
from penstock.expr.expression import Expr
from penstock.expr.windows import EVERYTHING, FOREVER, JoinWindows, TimeWindow
from penstock.operators.aggregate.partials.base import numbers_of
from penstock.operators.aggregate.trees.answer_columns import JoinRows, SelectRows, column_of, kind_of
from penstock.operators.aggregate.trees.tree import AggregateTree, Totals
from penstock.operators.base.once import NotAnswered
from penstock.operators.base.view import QueryAt
from penstock.operators.join.view import hold_join
from penstock.operators.select.view import hold_select
from penstock.operators.sparksql.evaluation_rows import Evaluation
from penstock.operators.sparksql.moments import moment_of
from penstock.pipeline.spark_sql import Moment
from penstock.settings import Settings
from penstock.sql.plan import Aggregate, OnDemand, SparkPlan, TreePlan
from penstock.sql.plan.output import schema_of
from penstock.sql.planning.aggregate.on_demand import EVERY_ROW
from penstock.types import BIGINT
from penstock.views.answer_store import AnswerStore
from penstock.views.query_state import NEVER, QueryState
from penstock.views.standing_queries import StandingQueries

COUNT_ROWS = Aggregate("count", EVERY_ROW, BIGINT)
SHARE = 4  # of the memory that answers may take, trees may take this part beside
UNUSED_S = 600.0
ROW_BYTES = 28  # of a tree: time, number, value, whether there is one, and its share of the nodes


class AggregatesOnDemand:
    """Answers aggregates over a query's answer from trees. Thread-safe."""

    def __init__(self, standing: StandingQueries, settings: Settings) -> None:
        self._standing = standing
        self._settings = settings
        self.trees = AnswerTrees((settings.answers_memory_mb << 20) // SHARE)

    def answer(self, plan: SparkPlan) -> Evaluation:
        """The answer at the last committed cycle. Raises NotAnswered where Spark has to give it."""
        asked = expect(TreePlan, plan).on_demand
        began = time.monotonic()
        # A later request is answered at a later cycle: a tree only grows to the right.
        with self.trees.lock_of(asked.query):
            totals, moment, cycle = self._totals(plan, asked)
        return Evaluation(_row(asked, totals), cycle, moment.now_us, time.monotonic() - began)

    def _totals(self, plan: SparkPlan, asked: OnDemand) -> tuple[dict[Expr, Totals], Moment, int]:
        """By argument of the aggregates, what is known of the rows inside the window."""
        with self._standing.locked() as store:
            moment, cycle = moment_of(plan, store, None), store.cycle
            definition = moment.state.queries.get(asked.query)
            answer = store.answers.get(definition.id) if definition is not None else None
            if definition is None or answer is None:
                raise NotAnswered(f'query "{asked.query}" has no answer of single rows')
            rows = self._rows(store, definition, answer, moment)
        found: dict[Expr, Totals] = {}
        # To count rows any tree will do.
        for argument in {a.argument for a in asked.aggregates if a != COUNT_ROWS} or {EVERY_ROW}:
            column = column_of(argument, rows.held.plan.outputs, isinstance(rows, SelectRows))
            if isinstance(rows, SelectRows):
                if len(moment.ranges) != 1:
                    raise NotAnswered("another query of that name came meanwhile")
                (span,) = moment.ranges.values()
                found[argument] = self._of_selection(definition.id, column, rows, span, moment.now_us)
            else:
                found[argument] = self._of_join(definition.id, column, rows, asked.window, moment.now_us)
        return found, moment, cycle

    def _rows(
        self, store: AnswerStore, definition: QueryDefinition, answer: QueryState, moment: Moment
    ) -> SelectRows | JoinRows:
        mark = self._standing.feed.last()
        assert mark is not None
        query = QueryAt(definition.id, definition.name, answer, mark)
        plan, join_plan, log = answer.plan.selection, answer.plan.window_join, self._standing.log_access().for_input()
        if plan is not None:
            held = hold_select(store, query, plan, EVERYTHING, log, ready=None)
            # A reader sees the rows of a cycle ago.
            head = (moment.previous or moment.offset).data.get(plan.table_id, 0)
            return SelectRows(held, store.state.retention(plan.table_id), head, self._settings.answer_read_max_rows)
        windows = self._standing.windows.at(query.id, mark.cycle)
        if join_plan is None:
            raise NotAnswered("an aggregation has no answer of single rows")
        if join_plan.missing != "inner":
            raise NotAnswered("a row without a partner may get one later")
        if not answer.settled or answer.pending is not None or windows != answer.window:
            raise NotAnswered("the join is paused or reads its history")
        assert isinstance(windows, JoinWindows)
        join = hold_join(store, query, join_plan, windows, log)
        if join is None or not windows.uniform:
            raise NotAnswered("the streams of the join have windows of their own")
        return JoinRows(join)

    def _of_selection(
        self, query_id: int, column: Expr, rows: SelectRows, span: tuple[int, int], now_us: int
    ) -> Totals:
        low, high = span
        if low > high:
            return Totals.none(kind_of(column))
        tree = self._tree(query_id, column, rows, low)
        if rows.floor > tree.floor:
            tree.tree.retain(lambda positions: positions >= rows.floor)
            tree.floor = rows.floor
        self._extend(tree, column, rows, tree.since)
        tree.forget_unasked(low, now_us)
        self.trees.keep(query_id, column, tree)
        return tree.tree.answer(low, high)

    def _of_join(self, query_id: int, column: Expr, rows: JoinRows, reader: TimeWindow | None, now_us: int) -> Totals:
        """Totals of results with all tuples inside the window of the join and the latest tuple inside the reader's window."""
        span = rows.held.span()
        if span is None:
            return Totals.none(kind_of(column))
        begin, _ = span
        low, high = span if reader is None else _both(span, reader.resolve(now_us, NEVER))
        tree = self._tree(query_id, column, rows, begin)
        self._extend(tree, column, rows, begin)
        tree.tree.expire(begin)
        self.trees.keep(query_id, column, tree)
        # Results are ordered by their latest tuple. Only those shortly after the beginning may have one before it.
        edge = begin + rows.spread if begin > tree.since else low
        found = tree.tree.answer(max(low, edge), high)
        if low < edge:
            straddling = tree.tree.scan(low, min(high, edge - 1), lambda numbers: rows.begin_after(numbers, begin))
            found = found.with_more(straddling)
        return found

    def _tree(self, query_id: int, column: Expr, rows: SelectRows | JoinRows, low: int) -> AnswerTree:
        """The tree that is kept, if it can be extended to answer from a time on, else a new one."""
        tree = self.trees.find(query_id, column)
        if tree is not None and tree.identity == rows.identity and tree.since <= low and tree.head <= rows.head:
            return tree
        return AnswerTree(AggregateTree(kind_of(column)), rows.identity, low)

    def _extend(self, tree: AnswerTree, column: Expr, rows: SelectRows | JoinRows, low: int) -> None:
        """Take in what came since the last question."""
        if tree.head == rows.head:
            return
        times, numbers = rows.since(tree.head, low)
        if (len(tree.tree) + len(numbers)) * ROW_BYTES > self.trees.most_bytes:
            raise NotAnswered("a tree over so many rows takes more memory than a quarter of answers_memory_mb")
        # All columns are read before the first row is added: a failed read leaves the tree as it was.
        for part, values in list(rows.columns(numbers, column)):
            # Of types that only COUNT knows, whether there is a value.
            tree.tree.append(times[part], numbers_of(values), values.is_valid().to_numpy(), numbers[part])
        tree.head = rows.head


def _both(one: tuple[int, int], other: tuple[int, int]) -> tuple[int, int]:
    return max(one[0], other[0]), min(one[1], other[1])


def _row(asked: OnDemand, totals: dict[Expr, Totals]) -> pa.Table:
    rows = next(iter(totals.values())).rows
    values = [rows if a == COUNT_ROWS else totals[a.argument].value(a.function, a.type) for a in asked.aggregates]
    columns = {
        f"#{place}": pa.array([value], a.type.to_arrow())
        for place, (value, a) in enumerate(zip(values, asked.aggregates, strict=True))
    }
    arrays = [evaluate(o.expr, columns, 1) for o in asked.outputs]
    return pa.Table.from_arrays(arrays, schema=schema_of(asked.outputs))


@dataclass(slots=True)
class AnswerTree:
    """One column's tree: all rows of an answer below `head` (a position or a number), from a time on.

    `identity` is what the rows depend on beside the log. `widest` is the longest time before NOW that was asked for.
    """

    tree: AggregateTree
    identity: object
    since: int
    head: int = 0
    floor: int = 0
    widest: int = 0
    asked_s: float = 0.0

    def forget_unasked(self, low: int, now_us: int) -> None:
        """Drop rows that are older than any requested window."""
        self.widest = max(self.widest, now_us - low)
        begin = max(min(low, now_us - self.widest), -FOREVER)
        if begin > self.since:
            self.tree.expire(begin)
            self.since = begin


class AnswerTrees:
    """The trees of all queries, by query and column. Thread-safe; a tree itself is used under its query's lock only.

    They are soft state. A tree is dropped some minutes after its last request, when its query is dropped or changed, and, the
    least recently used first, when all trees together exceed their memory limit.
    """

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        self._lock = threading.Lock()
        self._locks: dict[str, threading.Lock] = {}
        self._trees: dict[tuple[int, Expr], AnswerTree] = {}

    def lock_of(self, query: str) -> threading.Lock:
        with self._lock:
            return self._locks.setdefault(query, threading.Lock())

    def find(self, query_id: int, column: Expr) -> AnswerTree | None:
        with self._lock:
            return self._trees.get((query_id, column))

    def keep(self, query_id: int, column: Expr, tree: AnswerTree) -> None:
        """Keep a tree that was just used, and drop older ones over the memory limit."""
        tree.asked_s = time.monotonic()
        with self._lock:
            self._trees[query_id, column] = tree
            for key in sorted(self._trees, key=lambda k: self._trees[k].asked_s):
                if sum(t.tree.nbytes for t in self._trees.values()) <= self.most_bytes:
                    break
                del self._trees[key]

    def tidy(self, queries: Container[int]) -> None:
        """Forget the trees of queries that are gone, and those without a request for some minutes."""
        now_s = time.monotonic()
        with self._lock:
            for key in [k for k, t in self._trees.items() if k[0] not in queries or now_s - t.asked_s > UNUSED_S]:
                del self._trees[key]
            if not self._trees and len(self._locks) > 1000:
                self._locks = {name: lock for name, lock in self._locks.items() if lock.locked()}

    def memory_of(self, query_id: int) -> int:
        with self._lock:
            return sum(t.tree.nbytes for (q, _), t in self._trees.items() if q == query_id)
