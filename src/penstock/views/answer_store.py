"""Answers of the kernels: commit records folded into log positions per query, for joins into lists of results.

A fold is a pure function of the journal and the records, so a restart, `as_of` and a test get the same answers. It goes
through what a cycle changed, never through all queries: matches of many queries stay in the tables' match stores as they came.
"""

from __future__ import annotations

from collections.abc import Callable

from penstock.catalog.journal import JournalReader
from penstock.catalog.model import QueryDefinition
from penstock.catalog.state import CatalogState
from penstock.cycle.commits import CommitRecord
from penstock.cycle.cut import FirstNeeded, SegmentsOf
from penstock.cycle.folder import DataFolder
from penstock.cycle.offset import Offset
from penstock.errors import PenstockError
from penstock.expr.windows import FOREVER, TimeWindow
from penstock.operators.base.ranges import joined
from penstock.operators.join.result_list import JoinResults
from penstock.operators.select.durability import meets_rows
from penstock.operators.select.hold_cache import HoldCache
from penstock.sql.plan import (
    KernelPlan,
    Plan,
    QueryAggregatePlan,
    SparkPlan,
    plan_from_json,
    reach_of,
)
from penstock.streams.log.segments import list_readable
from penstock.views.query_state import QueryState
from penstock.views.record_fold import RecordFold
from penstock.views.snapshot import restore, snapshot_of


class AnswerStore(RecordFold):
    """All answers as of one committed cycle, with the definitions and the newest times that go with it."""

    def __init__(
        self,
        reader: JournalReader,
        folder: DataFolder,
        listing: SegmentsOf | None = None,
        catalog: Callable[[], CatalogState] | None = None,
    ) -> None:
        super().__init__(folder, catalog)
        self._reader = reader
        self.operators: dict[int, str] = {}  # by query, what keeps and gives its answer
        self.spark_plans: dict[int, SparkPlan] = {}  # of the queries that have a text of Spark SQL
        self.cycle = 0
        self.start: Offset | None = None
        self.moved = 0  # the last cycle that did more than bring evaluations
        self._came = 0  # the last cycle with readings, definitions or history
        self._listing = listing or (lambda table_id: list_readable(folder.log, table_id))
        self.complete: set[int] = set()  # queries with an answer that is kept current on a user's request
        self.orphans: dict[str, int] = {}  # bit matrices that no record names, and the cycle since when
        self._paused: set[int] = set()  # queries that Spark SQL evaluates, and does not for now
        self.reads_queries = False  # whether any query reads another one's answer
        self.reader_failures: dict[int, str] = {}  # of readers of joins, which have no answer of their own here

    def apply(self, record: CommitRecord) -> None:
        """Take in one more cycle (or a snapshot, as the first)."""
        before = self.state.position
        self.touched, self._failed, self.poisoned = set(), set(), {}
        self.evaluations.took = False
        self.state.apply_many(self._reader.entries(upto=record.end.journal))
        self._follow_definitions(before, record)
        self._take_results(record)
        if record.info.get("snapshot"):
            restore(self.answers, record, self._folder)
            self.touched |= self.answers.keys()
        else:
            self._take_fills(record)
        self.touched |= record.start.filling | record.end.filling
        for query_id in self.touched:
            answer = self.answers.get(query_id)
            if answer is not None:
                _settle(answer, _filling(record.end, query_id))
                self._note_latch(answer)
            self.window_index.take(query_id, answer, self.state.tables_by_id)
        self.cycle, self.start, self.offset = record.cycle, record.start, record.end
        self._note_moved(record)

    def _note_moved(self, record: CommitRecord) -> None:
        """Whether Spark SQL may find something new: a cycle that only brought its own last answers changed nothing."""
        start, end = record.start, record.end
        came = start.data != end.data or start.journal != end.journal or bool(start.filling)
        read_now = self.reads_queries and self._came == record.cycle - 1  # readers see rows one cycle later
        self._came = record.cycle if came else self._came
        if came or read_now or not self.evaluations.took:
            self.moved = record.cycle

    def _follow_definitions(self, before: int, record: CommitRecord) -> None:
        if self.state.position == before and self.offset is not None:
            return
        queries = self.state.queries_by_id
        for query_id in self.operators.keys() - queries.keys():
            del self.operators[query_id]
        for query_id in self.answers.keys() - queries.keys():
            del self.answers[query_id]
            self.slices.forget(query_id)
            self.counted.forget(query_id)
            self.complete.discard(query_id)
            self.touched.add(query_id)
        for table_id in [t for t in self.newest if t not in self.state.tables_by_id]:
            del self.newest[table_id], self.heard[table_id], self.rows[table_id]
        for table_id in [t for t in self.match_stores if t not in self.state.tables_by_id]:
            self.match_stores.pop(table_id).close()
        if any(t not in self.state.tables_by_id for t, _ in self._masks):
            self._masks.clear()
        for query_id in self.spark_plans.keys() - queries.keys():
            del self.spark_plans[query_id]
            self.evaluations.drop(query_id)
            self.slices.forget(query_id)
            self.reader_failures.pop(query_id, None)
        self.reads_queries = any(d.reads_queries for d in queries.values())
        for query_id, (_, changed) in self.state.query_positions.items():
            if changed > before:
                try:
                    self._follow_definition(query_id, queries[query_id], record)
                except Exception as failure:  # other queries are not affected
                    self.poison(query_id, f"its definition cannot be taken in: {type(failure).__name__}: {failure}")
        for query_id, answer in self.answers.items():
            if answer.strategy != queries[query_id].strategy:  # no change of what it answers, so of no position
                self._follow_strategy(query_id, answer, queries[query_id], record)

    def _follow_definition(self, query_id: int, definition: QueryDefinition, record: CommitRecord) -> None:
        whole = plan_from_json(definition.plan)
        self.spark_plans.pop(query_id, None)
        self.reader_failures.pop(query_id, None)
        self.operators[query_id] = whole.operator
        if whole.spark is not None:
            self.spark_plans[query_id] = whole.spark
        if not self.is_sparks(query_id):
            self.evaluations.drop(query_id)
        else:
            resumed = query_id in self._paused and not definition.paused
            self.evaluations.define(query_id, record.cycle if resumed else 0)
        (self._paused.add if definition.paused else self._paused.discard)(query_id)
        plan = whole.kernel
        if plan is None:
            if self.is_sparks(query_id):
                self.slices.forget(query_id)
            if self.answers.pop(query_id, None) is not None:
                self.touched.add(query_id)
            return
        known = self.answers.get(query_id)
        if known is None:
            known = QueryState(plan, definition.start_us, plan.windows)
            known.reach = self._reach(whole, plan, definition.start_us)
            if plan.lasting is not None:
                known.lasting = HoldCache()
            self.answers[query_id] = known
        else:
            known.pending = plan.windows if plan.windows != known.window else None
            known.reach = min(known.reach, self._reach(whole, plan, definition.start_us))
        if plan.aggregation is not None or whole.over_results is not None:
            self.slices.take(query_id, plan.aggregation, tuple(scalar.plan for scalar in whole.scalars))
        else:
            self.slices.forget(query_id)
        if plan.window_join is not None:
            known.coming = JoinResults(self.state.query_positions[query_id][1])
            known.results = known.results or JoinResults(0)
        if (known.paused and not definition.paused) or known.error is not None:
            known.filled_before = False  # what came in between, or failed, is read now, as history
        known.paused = definition.paused
        known.plan, known.error = plan, definition.quarantined
        if known.error is not None:
            known.error_condition = "query_quarantined"
        known.whole, known.top = whole, whole.over_results
        if not plan.tables_read <= self.state.tables_by_id.keys():
            # An older version could register a query over a table that was dropped at that moment.
            known.error, known.error_condition = "a table that the query reads was dropped", "table_not_found"
        self._follow_strategy(query_id, known, definition, record)
        known.fill_first = (_filling(record.end, query_id) or (0, 0))[0]
        self.touched.add(query_id)

    def _follow_strategy(
        self, query_id: int, answer: QueryState, definition: QueryDefinition, record: CommitRecord
    ) -> None:
        answer.strategy = definition.strategy
        (self.complete.add if answer.strategy == "complete" else self.complete.discard)(query_id)
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
            self.slices.doubt(query_id)
            if answer.plan.selection is not None:
                answer.doubt(record.end.data.get(answer.plan.selection.table_id, 0))

    def knows(self, query_id: int) -> bool:
        """Whether a kernel or Spark SQL answers a query."""
        return query_id in self.operators

    def is_sparks(self, query_id: int) -> bool:
        """Whether Spark SQL gives a query's answer."""
        return self.operators.get(query_id) == SparkPlan.operator

    def joins_read(self, query_id: int) -> list[str]:
        """The window joins that such a query reads, by their names."""
        read = (self.state.queries.get(r.table) for r in self.spark_plans[query_id].relations if r.kind == "query")
        answers = [(d.name, self.answers.get(d.id)) for d in read if d is not None]
        return [name for name, answer in answers if answer is not None and answer.results is not None]

    def is_reader(self, query_id: int) -> bool:
        """Whether a query aggregates the results of a join that it reads."""
        return self.operators.get(query_id) == QueryAggregatePlan.operator

    def read_by(self, plan: SparkPlan) -> QueryState | None:
        """The join that such a query reads."""
        read = self.state.queries.get(plan.relations[0].table)
        return self.answers.get(read.id) if read is not None else None

    def limit_slices(self, most_mb: int, most_values: int) -> None:
        """Fail the queries with slices over the memory limit, the largest first: their answers could not be kept current."""
        why = f"one of its aggregates keeps more than {most_values} values one by one (exact_values_max)"
        for query_id in self.slices.give_up_kept(most_values):
            self._fail(query_id, why)
        for query_id in self.slices.give_up(most_mb << 20):
            self._fail(query_id, f"the slices of its groups take more than {most_mb} MB with those of others")

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

    def to_snapshot(self) -> CommitRecord:
        """Everything in one record that `apply` takes as the first."""
        return snapshot_of(self, self.cycle, self.start)


def _settle(answer: QueryState, filling: tuple[int, int] | None) -> None:
    """A query that has nothing left to read answers through the window that it was given last."""
    answer.filling = filling
    if filling is None and not answer.paused:
        answer.filled_before = True
        if answer.coming is not None:
            if answer.results is not None:
                answer.earlier = (*answer.earlier, answer.results)
            answer.results, answer.coming = answer.coming, None
        if answer.pending is not None:
            answer.window, answer.pending = answer.pending, None


def _filling(end: Offset, query_id: int) -> tuple[int, int] | None:
    """How far a query has read its history, and how far it has to; in rows, over all its tables."""
    by_table = end.join_fill.get(query_id)
    if by_table is None:
        return end.fill.get(query_id)
    return sum(first for first, _ in by_table.values()), sum(target for _, target in by_table.values())
