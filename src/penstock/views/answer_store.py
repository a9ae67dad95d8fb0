"""Answers of standing queries: commit records folded into the states of the operators.

A fold is a pure function of the journal and the records, so a restart, `as_of` and a test get the same answers. It goes
through what a cycle changed, never through all queries: matches of many queries stay in the tables' match stores as they came.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa

from penstock.catalog.definition_json import changed_by_run_plan
from penstock.catalog.journal import JournalReader
from penstock.catalog.model import PRIORITIES, Entry, QueryDefinition, Table
from penstock.catalog.priorities import rank_of
from penstock.catalog.state import CatalogState
from penstock.catalog.watermark import watermark_of
from penstock.cycle.commit_files import CommitRecord, ResultRow, result_batch
from penstock.cycle.cut import FirstNeeded, SegmentsOf
from penstock.cycle.folder import DataFolder
from penstock.cycle.offset import Offset
from penstock.errors import PenstockError, expect, is_too_new, too_new
from penstock.expr.evaluate import evaluate_static
from penstock.expr.expression import Expr
from penstock.expr.windows import FOREVER, TimeWindow
from penstock.operators.aggregate.partials.cell_sums import CellRange
from penstock.operators.aggregate.shape import window_looks
from penstock.operators.aggregate.state import SliceStore
from penstock.operators.base.ranges import joined
from penstock.operators.base.state import OperatorState, new_states
from penstock.operators.join.state import JoinState
from penstock.operators.select.durability import meets_rows
from penstock.operators.select.state import SelectState
from penstock.operators.sparksql.state import EvaluationStore
from penstock.settings import Settings
from penstock.sql.plan import (
    AggregatePlan,
    KernelPlan,
    Plan,
    SparkPlan,
    plan_from_json,
    reach_of,
    stream_uses,
)
from penstock.streams.log.segments import list_readable
from penstock.views.query_state import NEVER, QueryState, window_low
from penstock.views.stream_clock_index import Times
from penstock.views.window_index import WindowIndex

MASKS_KEPT = 256
# Results that no operator folds: times of readings, and what a cycle says of itself. Errors of queries are looked at before.
_OTHER_KINDS = frozenset({"newest", "heard", "cycle", "spent", "conditions"})


class AnswerStore:
    """All answers as of one committed cycle, with the definitions and NOW of the streams that go with it."""

    def __init__(
        self,
        reader: JournalReader,
        folder: DataFolder,
        listing: SegmentsOf | None = None,
        catalog: Callable[[], CatalogState] | None = None,
    ) -> None:
        self._reader = reader
        self.state = CatalogState(catalog)
        self.answers: dict[int, QueryState] = {}
        self.offset: Offset | None = None
        self.log = folder.log
        self.newest: dict[int, Times] = {}  # of each table, by static version
        self.heard: dict[int, Times] = {}  # NOW of the cycle that brought the newest
        self.rows: dict[int, int] = {}
        self._masks: dict[tuple[int, Expr], npt.NDArray[np.bool_]] = {}
        self.states = new_states(folder)
        self._state_of: dict[str, OperatorState] = {k: s for s in self.states.values() for k in s.kinds}
        self.matches = expect(SelectState, self.states["select"])
        self.joins = expect(JoinState, self.states["join"])
        self.slices = expect(SliceStore, self.states["aggregate"])
        self.evaluations = expect(EvaluationStore, self.states["sparksql"])
        self.window_index = WindowIndex()
        self.operators: dict[int, str] = {}  # by query, what keeps and gives its answer
        self.spark_plans: dict[int, SparkPlan] = {}  # of the queries that have a text of Spark SQL
        self.cycle = 0
        self.start: Offset | None = None
        self.moved = 0  # the last cycle that did more than bring evaluations
        self._came = 0  # the last cycle with readings, definitions or history
        self._listing = listing or (lambda table_id: list_readable(folder.log, table_id))
        self.complete: set[int] = set()  # queries with an answer that is kept current on a user's request
        self.sleeping: set[int] = set()  # queries that the run plan leaves out
        self.bounded: dict[int, int] = {}  # by query, how many bytes its state may have
        self._paused: set[int] = set()  # queries that Spark SQL evaluates, and does not for now
        self.reads_queries = False  # whether any query reads another one's answer
        self.reader_failures: dict[int, str] = {}  # of readers of joins, which have no answer of their own here
        self.defined = 0  # the last entry that was more than a run plan
        self.touched: set[int] = set()  # queries that the last cycle changed in more than their matches
        self._failed: set[int] = set()  # queries that the last cycle could not do
        self.poisoned: dict[int, str] = {}  # of those, the ones that are to be taken out of the cycles, and why

    def take_definitions(self, known: CatalogState, position: int) -> None:
        """Begin with definitions that are in memory already, where they are those of a position; the journal says the same.

        No entry may be applied to them meanwhile.
        """
        if known.position == position:
            self._reader.entries(upto=position)  # it goes on after these
            self.state.take_over(known)

    def apply(self, record: CommitRecord) -> None:
        """Take in one more cycle (or a snapshot, as the first)."""
        before = self.state.position if self.offset is not None else 0
        self.touched, self._failed, self.poisoned = set(), set(), {}
        self.evaluations.took = False
        noted = _Noted()
        self.state.apply_many(noted.entries(self._reader.entries(upto=record.end.journal)))
        self._follow_definitions(before, noted, record)
        self._take_results(record)
        if record.info.get("snapshot"):
            self._restore(record)
        else:
            self._take_fills(record)
        self.touched |= record.start.filling | record.end.filling
        for query_id in self.touched:
            answer = self.answers.get(query_id)
            if answer is not None:
                self._settle(query_id, answer, _filling(record.end, query_id))
                self._note_latch(answer)
            self.window_index.take(query_id, answer, self.state.tables_by_id)
        self.cycle, self.start, self.offset = record.cycle, record.start, record.end
        self._note_moved(record)

    def _settle(self, query_id: int, answer: QueryState, filling: tuple[int, int] | None) -> None:
        answer.filling = filling
        if filling is None and not answer.paused:
            answer.finish_fill()
            for state in self.states.values():
                state.finish_fill(query_id)

    def _note_moved(self, record: CommitRecord) -> None:
        """Whether Spark SQL may find something new: a cycle that only brought its own last answers changed nothing."""
        start, end = record.start, record.end
        came = start.data != end.data or start.journal != end.journal or bool(start.filling)
        read_now = self.reads_queries and self._came == record.cycle - 1  # readers see rows one cycle later
        self._came = record.cycle if came else self._came
        if came or read_now or not self.evaluations.took:
            self.moved = record.cycle

    # -- results

    def _take_results(self, record: CommitRecord) -> None:
        columns = (c.to_pylist() for c in record.results.columns)
        for row in zip(*columns, strict=True):
            number, kind, rows, _, payload = row
            state = self._state_of.get(kind)
            if state is not None and state.kinds[kind] == "query":
                if number in self.operators:
                    self._take_of_query(row, state, record.cycle)
            elif kind == "error":
                self._take_error(number, payload)
            elif state is None and kind not in _OTHER_KINDS:
                raise too_new(f'cycle {record.cycle} has a result of the kind "{kind}"')
            elif number not in self.state.tables_by_id:
                continue
            elif state is not None:
                self._take_of_table(row, state, record.cycle)
            elif kind == "newest":
                self.window_index.nows.heard(number, self._take_newest(number, rows, payload, record.end.now_us))
            elif kind == "heard":
                vids, times = np.split(np.frombuffer(payload, np.int64), 2)
                self.heard[number][vids] = times

    def _take_of_query(self, row: ResultRow, state: OperatorState, cycle: int) -> None:
        answer = self.answers.get(row[0])
        before = answer.error if answer is not None else None
        try:
            state.fold(row, answer, cycle)
        except Exception as failure:  # other queries are not affected
            if answer is None:
                raise  # an evaluation: the whole cycle is folded again
            self.poison(row[0], f"its results cannot be taken in: {type(failure).__name__}: {failure}")
        if answer is not None and answer.error is not before:
            self.touched.add(row[0])

    def _take_of_table(self, row: ResultRow, state: OperatorState, cycle: int) -> None:
        """Fold a row about many of a table's queries at once."""
        try:
            state.fold(row, None, cycle)
        except Exception as failure:
            users = state.users_of(row[4])
            if not users:
                raise
            for query_id in users:
                self.poison(query_id, f"its {row[1]} cannot be taken in: {type(failure).__name__}: {failure}")

    def _take_error(self, query_id: int, payload: bytes) -> None:
        answer = self.answers.get(query_id)
        if answer is None:
            return
        try:
            told = orjson.loads(payload)
            answer.fail(told["message"], told["condition"])
        except (ValueError, KeyError, TypeError) as failure:
            self.poison(query_id, f"its error cannot be read: {type(failure).__name__}: {failure}")
            return
        if answer.error_condition == "query_quarantined":
            self.poisoned[query_id] = told["message"]
        self._failed.add(query_id)
        self.touched.add(query_id)

    def poison(self, query_id: int, why: str) -> None:
        """A query fails, and is to be taken out of the cycles."""
        self.poisoned[query_id] = why
        self._failed.add(query_id)
        self.touched.add(query_id)
        if query_id in self.answers:
            self.answers[query_id].fail(why, "query_quarantined")

    def matched(self, query_id: int) -> int:
        """How many rows have matched a query's predicate since its registration."""
        answer = self.answers.get(query_id)
        own = answer.matched if answer is not None else 0
        return own + sum(state.matched(query_id) for state in self.states.values())

    # -- definitions

    def _follow_definitions(self, before: int, noted: _Noted, record: CommitRecord) -> None:
        if not noted.others and self.offset is not None:
            self._follow_run_plans(noted.planned & self.answers.keys(), record)
            return
        queries = self.state.queries_by_id
        self.defined = self.state.position
        for query_id in self.operators.keys() - queries.keys():
            self._drop(query_id)
        for table_id in [t for t in self.newest if t not in self.state.tables_by_id]:
            del self.newest[table_id], self.heard[table_id], self.rows[table_id]
            for state in self.states.values():
                state.drop_table(table_id)
        if any(t not in self.state.tables_by_id for t, _ in self._masks):
            self._masks.clear()
        self.reads_queries = any(d.reads_queries for d in queries.values())
        for query_id, (_, changed) in self.state.query_positions.items():
            if changed > before:
                try:
                    self._follow_definition(query_id, queries[query_id], record)
                except Exception as failure:  # other queries are not affected
                    if is_too_new(failure):
                        raise
                    self.poison(query_id, f"its definition cannot be taken in: {type(failure).__name__}: {failure}")
        self._follow_run_plans(self.answers, record)

    def _follow_run_plans(self, queries: Collection[int], record: CommitRecord) -> None:
        """Strategies and sleep: no change of what a query answers, so of no position."""
        for query_id in queries:
            answer, definition = self.answers[query_id], self.state.queries_by_id[query_id]
            if answer.strategy != definition.strategy or answer.sleeping != definition.sleeping:
                self._follow_strategy(query_id, answer, definition, record)

    def _drop(self, query_id: int) -> None:
        del self.operators[query_id]
        for state in self.states.values():
            state.drop(query_id)
        self.spark_plans.pop(query_id, None)
        self.reader_failures.pop(query_id, None)
        self._paused.discard(query_id)
        self.complete.discard(query_id)
        self.sleeping.discard(query_id)
        self.bounded.pop(query_id, None)
        if self.answers.pop(query_id, None) is not None:
            self.touched.add(query_id)

    def _follow_definition(self, query_id: int, definition: QueryDefinition, record: CommitRecord) -> None:
        whole = plan_from_json(definition.plan)
        self.spark_plans.pop(query_id, None)
        self.reader_failures.pop(query_id, None)
        self.operators[query_id] = whole.operator
        if definition.bounded:
            self.bounded[query_id] = definition.bounded
        if whole.spark is not None:
            self.spark_plans[query_id] = whole.spark
        plan, is_new = whole.kernel, query_id not in self.answers
        if plan is not None and is_new:
            # Before the states: a query that one of them cannot take in fails by its answer.
            self.answers[query_id] = QueryState(plan, definition.start_us, plan.windows)
        for state in self.states.values():
            state.define(query_id, whole, self.state.query_positions[query_id][1])
        if query_id in self._paused and not definition.paused and query_id in self.evaluations.by_query:
            self.evaluations.renew(query_id, record.cycle)
        (self._paused.add if definition.paused else self._paused.discard)(query_id)
        if plan is None:
            if self.answers.pop(query_id, None) is not None:
                self.touched.add(query_id)
            return
        known, reach = self.answers[query_id], self._reach(whole, plan, definition.start_us)
        known.reach = reach if is_new else min(known.reach, reach)
        known.pending = plan.windows if plan.windows != known.window else None
        if (known.paused and not definition.paused) or known.error is not None:
            known.filled_before = False  # what came in between, or failed, is read now, as history
        known.paused = definition.paused
        known.plan, known.error = plan, definition.quarantined
        if known.error is not None:
            known.error_condition = "query_quarantined"
        known.whole, known.top = whole, whole.over_results
        if not plan.tables_read <= self.state.tables_by_id.keys():
            # An older version could register a query over a table that was dropped at that moment.
            known.fail("a table that the query reads was dropped", "table_not_found")
        self._follow_strategy(query_id, known, definition, record)
        known.fill_first = (_filling(record.end, query_id) or (0, 0))[0]
        self.touched.add(query_id)

    def _follow_strategy(
        self, query_id: int, answer: QueryState, definition: QueryDefinition, record: CommitRecord
    ) -> None:
        answer.strategy, answer.sleeping = definition.strategy, definition.sleeping
        (self.complete.add if answer.strategy == "complete" else self.complete.discard)(query_id)
        (self.sleeping.add if answer.sleeping else self.sleeping.discard)(query_id)
        if answer.plan.window_join is None:
            position = record.start.data.get(answer.plan.uses[0].table_id, 0)
            (answer.go_live if meets_rows(definition, answer.plan) else answer.rest)(position)

    def _note_latch(self, answer: QueryState) -> None:
        """Since when a state without end has all rows: what retention had taken when the query came is not in it."""
        plan = answer.plan.aggregation
        if plan is None or plan.latch is None:
            return
        state, table = self.slices.latch_of(plan), self.state.tables_by_id.get(plan.table_id)
        if state.kept_from_us is None and table is not None:
            now_us, keep_us = self.now_of(table, None), table.options.retention_us
            lost = self.state.retention(table.id) > 0 and now_us is not None and keep_us is not None
            state.kept_from_us = (now_us or 0) - (keep_us or 0) if lost else -FOREVER

    def _reach(self, whole: Plan, plan: KernelPlan, start_us: int | None) -> int:
        """The first row that a query's windows can reach; of a join that of its subqueries, which read one stream."""
        first = FirstNeeded(self._listing, self.state.retention)
        looks = [] if plan.window_join is not None else [(u.table_id, reach_of(plan, u.window)) for u in plan.uses]
        inner = [scalar.plan for scalar in whole.scalars]
        looks += [(each.table_id, each.window) for each in inner if isinstance(each.window, TimeWindow)]
        return min((first(table_id, window, start_us) for table_id, window in looks), default=0)

    def _take_fills(self, record: CommitRecord) -> None:
        """What the cycle read of history is known from now on."""
        for query_id, (first, target) in record.start.fill.items():
            answer = self.answers.get(query_id)
            if answer is None or answer.paused or self.state.query_positions[query_id][1] > record.start.journal:
                continue
            last = record.end.fill[query_id][0] if query_id in record.end.fill else target
            answer.covered = joined([*answer.covered, (first, last)])
        for query_id in self._failed & self.answers.keys():
            answer = self.answers[query_id]
            for state in self.states.values():
                state.doubt(query_id)
            if answer.plan.selection is not None:
                answer.doubt(record.end.data.get(answer.plan.selection.table_id, 0))

    def knows(self, query_id: int) -> bool:
        """Whether a kernel or Spark SQL answers a query."""
        return query_id in self.operators

    def joins_read(self, query_id: int) -> list[str]:
        """The window joins that such a query reads, by their names."""
        read = (self.state.queries.get(r.table) for r in self.spark_plans[query_id].relations if r.kind == "query")
        return [query.name for query in read if query is not None and query.id in self.joins.queries]

    def read_by(self, plan: SparkPlan) -> QueryState | None:
        """The join that such a query reads."""
        read = self.state.queries.get(plan.relations[0].table)
        return self.answers.get(read.id) if read is not None else None

    def limit_slices(self, settings: Settings) -> None:
        """Fail queries until the slices of the others fit into the memory for them, the least important first."""
        most_mb, most_values = settings.slices_memory_mb, settings.exact_values_max
        why = f"one of its aggregates keeps more than {most_values} values one by one (exact_values_max)"
        for query_id in self.slices.give_up_kept(most_values):
            self._fail(query_id, why)
        for query_id in self.slices.give_up(
            most_mb << 20, self._rank_of, lambda q, plan: self._looks_of(self.answers[q], plan)[0]
        ):
            why = f"the slices of its groups have grown, and take more than {most_mb} MB with those of others"
            self._fail(query_id, why)

    def fail_unbounded(self, query_id: int, why: str) -> None:
        """Fail a query that takes more than it may, and give up what it alone has."""
        self._fail(query_id, why)
        for state in self.states.values():
            state.empty(query_id)
        answer = self.answers.get(query_id)
        if answer is not None and answer.plan.selection is not None and self.offset is not None:
            answer.doubt(self.offset.data.get(answer.plan.selection.table_id, 0))

    def _rank_of(self, query_id: int) -> int:
        query = self.state.queries_by_id.get(query_id)
        return rank_of(query) if query is not None else len(PRIORITIES)

    def note_fill(self, query_id: int, most_rows: int, cut: bool = True) -> None:
        """Note whether more rows of an aggregate's history have no cells than these: then it is FILLING.

        `cut`: rows in wide slots that its windows cut count, too, because the first answer would read them.
        """
        answer, rows = self.answers.get(query_id), 0
        if answer is not None and answer.answers and answer.top is None and self.offset is not None:
            looks_of = partial(self._looks_of, answer)
            rows = self.slices.missing_rows(query_id, answer.reach, looks_of, self._listing)
            rows += self.slices.cut_rows(query_id, looks_of, self._listing) if cut else 0
        self.slices.note_fill(query_id, rows if rows > most_rows else 0)

    def _looks_of(self, answer: QueryState, plan: AggregatePlan) -> list[CellRange]:
        """What the windows of a query's aggregation, or of a subquery, reach at the last cycle: the question's own first."""
        assert self.offset is not None
        inherits = any(scalar.plan is plan and scalar.inherits for scalar in answer.scalars)
        now_us, window = self.query_now(answer), answer.window if inherits else plan.window
        head, floor = self.offset.data.get(plan.table_id, 0), self.state.retention(plan.table_id)
        low, high = window_low(window, now_us, answer.start_us), FOREVER
        if now_us is not None and isinstance(window, TimeWindow):
            high = window.end.resolve(now_us, answer.start_us if answer.start_us is not None else NEVER)
        return window_looks(plan, CellRange(low if low is not None else FOREVER, high, floor, head), now_us or 0)

    def _fail(self, query_id: int, why: str) -> None:
        answer = self.answers.get(query_id)
        if answer is None:
            self.reader_failures[query_id] = why
        else:
            answer.error, answer.error_condition = why, "over_budget"

    def check_room(self, query_id: int) -> None:
        """Raise where a query has been given up: it is not to fill its slices again and again."""
        answer = self.answers.get(query_id)
        why = self.reader_failures.get(query_id) if answer is None else answer.error
        if why is not None:
            condition = "over_budget" if answer is None else answer.error_condition
            raise PenstockError(
                condition, why, hint="SHOW QUERIES says more; once it is mended, pause and resume the query"
            )

    # -- NOW of streams and queries

    def _take_newest(self, table_id: int, rows: int, payload: bytes, now_us: int) -> Times:
        """The versions that have a newer reading now."""
        vids, times = np.split(np.frombuffer(payload, np.int64), 2)
        size = int(vids.max()) + 1 if len(vids) else 0
        newest = _grown(self.newest.get(table_id), size)
        newest[vids] = np.maximum(newest[vids], times)
        heard = _grown(self.heard.get(table_id), size)
        heard[vids] = np.maximum(heard[vids], now_us)
        self.newest[table_id], self.heard[table_id] = newest, heard
        self.rows[table_id] = self.rows.get(table_id, 0) + rows
        return vids

    def now_of(self, table: Table, static_predicate: Expr | None) -> int | None:
        """NOW of a stream: the cycle's for transaction time, the newest passing reading's for valid time."""
        if self.offset is None:
            return None
        if table.options.time == "transaction":
            return self.offset.now_us
        newest = self.newest.get(table.id)
        if newest is None:
            return None
        if static_predicate is not None:
            mask = self.passing(table.id, static_predicate)
            newest = newest[: len(mask)][mask[: len(newest)]]
        latest = int(newest.max(initial=NEVER))
        return latest if latest > NEVER else None

    def watermarks(self) -> dict[int, int]:
        """By table, before which time no reading can come any more. Tables without a watermark are not there."""
        found = {}
        for table_id, times in self.newest.items():
            newest_us = int(times.max(initial=NEVER))
            watermark_us = watermark_of(
                self.state.tables_by_id[table_id].options, newest_us if newest_us > NEVER else None
            )
            if watermark_us is not None:
                found[table_id] = watermark_us
        return found

    def passing(self, table_id: int, predicate: Expr) -> npt.NDArray[np.bool_]:
        """Which static versions a predicate lets through, by vid."""
        known = self._masks.get((table_id, predicate))
        versions = self.state.rows(table_id)
        if known is None or len(known) < versions.count:
            known = evaluate_static(predicate, versions.versions())
            if len(self._masks) >= max(MASKS_KEPT, 2 * len(self.answers)):
                self._masks.clear()  # every one-shot question leaves one; those of standing queries are made again
            self._masks[(table_id, predicate)] = known
        return known

    def heard_sids(self, table_id: int, predicate: Expr | None) -> npt.NDArray[np.int32]:
        """Sensors with at least one reading of a static version that passes."""
        vids = np.flatnonzero(self.newest.get(table_id, np.empty(0, np.int64)) > NEVER)
        if predicate is not None:
            vids = vids[self.passing(table_id, predicate)[vids]]
        return np.unique(self.state.rows(table_id).sids[vids])

    def is_idle(self, table: Table, static_predicate: Expr | None) -> bool:
        """Whether every sensor of a stream has ended, or has sent nothing for the idle time before the cycle's NOW."""
        heard = self.heard.get(table.id)
        if heard is None or self.offset is None:
            return False
        ended = self.state.ended(table.id)
        if ended:
            sids = self.state.rows(table.id).sids[: len(heard)]
            heard = np.where(np.isin(sids, list(ended)), NEVER, heard[: len(sids)])
        if static_predicate is not None:
            mask = self.passing(table.id, static_predicate)
            heard = heard[: len(mask)][mask[: len(heard)]]
        return self.offset.now_us - int(heard.max(initial=NEVER)) > table.options.idle_us

    def query_now(self, answer: QueryState) -> int | None:
        return self.now_of_streams(answer.plan.clocks)

    def now_of_streams(self, streams: Sequence[tuple[int, Expr | None]]) -> int | None:
        """NOW of a query: the smallest over its streams; those that are idle do not hold it back."""
        uses = [(self.state.tables_by_id[table_id], predicate) for table_id, predicate in streams]
        nows = [self.now_of(*u) for u in uses]
        known = [n for n in nows if n is not None]
        if len(known) < len(nows):
            return None
        if len(known) == 1:
            return known[0]
        awake = [n for n, u in zip(known, uses, strict=True) if not self.is_idle(*u)]
        return min(awake) if awake else max(known)

    # -- snapshots

    def to_snapshot(self) -> CommitRecord:
        """Everything in one record that `apply` takes as the first."""
        assert self.offset is not None
        rows: list[ResultRow] = []
        for table_id, newest in self.newest.items():
            vids = np.flatnonzero(newest > NEVER)
            numbers = vids.astype(np.int64).tobytes()
            rows.append((table_id, "newest", self.rows.get(table_id, 0), 0, numbers + newest[vids].tobytes()))
            rows.append((table_id, "heard", 0, 0, numbers + self.heard[table_id][vids].tobytes()))
        for state in self.states.values():
            rows.extend(state.snapshot())
        details: dict[str, Any] = {}
        for query_id, answer in self.answers.items():
            details[str(query_id)] = {**answer.to_json(), "matched": self.matched(query_id)}
            for state in self.states.values():
                details[str(query_id)] |= state.details(query_id)
        results = pa.Table.from_batches([result_batch(rows)])
        return CommitRecord(self.cycle, self.start or self.offset, self.offset, results, {"snapshot": details})

    def _restore(self, record: CommitRecord) -> None:
        """Restore the state of each query, beside its rows, from a snapshot."""
        for query_id, answer in self.answers.items():
            kept = record.info["snapshot"].get(str(query_id))
            if kept is None:
                continue
            answer.restore(kept, record.end.data.get(stream_uses(answer.plan)[0].table_id, 0))
            try:
                for state in self.states.values():
                    state.restore(query_id, kept)
            except PenstockError as damage:
                answer.fail(damage.message, damage.condition)
        self.touched |= self.answers.keys()


class _Noted:
    """The queries that run plans among some entries name, and whether there are other entries."""

    def __init__(self) -> None:
        self.planned: set[int] = set()
        self.others = False

    def entries(self, entries: Iterable[Entry]) -> Iterator[Entry]:
        for entry in entries:
            if entry.kind == "run_plan":
                self.planned.update(changed_by_run_plan(entry))
            else:
                self.others = True
            yield entry


def _filling(end: Offset, query_id: int) -> tuple[int, int] | None:
    """How far a query has read its history, and how far it has to; in rows, over all its tables."""
    by_table = end.join_fill.get(query_id)
    if by_table is None:
        return end.fill.get(query_id)
    return sum(first for first, _ in by_table.values()), sum(target for _, target in by_table.values())


def _grown(known: Times | None, size: int) -> Times:
    """A copy for `size` versions: readers keep the array they have."""
    if known is None:
        return np.full(size + 64, NEVER)
    return np.concatenate([known, np.full(max(0, size - len(known)), NEVER)])
