"""Evaluate standing queries that no kernel covers as Spark SQL, outside the cycle and under a time budget.

Each answer has the cycle that it stands for and enters the next commit record. One thread evaluates the queries with new input
in turn; after a run of t seconds it rests, so that all of them together use no more than their share of time.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from penstock.cancellation import Cancellation, cancelled_by
from penstock.catalog.model import QueryDefinition
from penstock.cycle.folder import DataFolder
from penstock.errors import PenstockError, error
from penstock.operators.sparksql.evaluation_rows import Evaluation, Failure, put_evaluation, put_failure
from penstock.operators.sparksql.join_rows import (
    FetchedRows,
    are_same,
    fetch_rows,
    joins_below,
    no_rows,
    pick_rows,
    read_joins,
    rests_on_joins,
)
from penstock.operators.sparksql.moments import moment_of
from penstock.operators.sparksql.replan import with_text
from penstock.operators.sparksql.state import same_rows
from penstock.pipeline.engine import Engine
from penstock.pipeline.history import InputFiles
from penstock.pipeline.spark_sql import Moment, SparkRunner
from penstock.services import Service
from penstock.settings import Settings
from penstock.sql.plan import SparkPlan, evaluated_by_spark
from penstock.views.answer_store import AnswerStore
from penstock.views.feed import Mark
from penstock.views.standing_queries import StandingQueries


@dataclass(frozen=True, slots=True)
class QueryInputs:
    """The inputs of one query as of one cycle. Two of them are equal if an evaluation would give the same rows.

    `rows` stands for rows and definitions, `times` for the ends of its windows. `moved` is the last cycle that did more
    than bring evaluations.
    """

    rows: tuple[object, ...]
    times: tuple[object, ...]
    moved: int = field(compare=False)

    def is_due_after(self, last: QueryInputs | None) -> bool:
        """Whether the query has to be evaluated again. Time alone counts only with a cycle that brought something."""
        if last is None or self.rows != last.rows:
            return True
        return self.times != last.times and self.moved != last.moved


def inputs_of(
    plan: SparkPlan,
    definition: QueryDefinition,
    store: AnswerStore,
    ranges: Mapping[str, tuple[int, int]],
    joins: Collection[str],
    recent: Sequence[Mark],
) -> QueryInputs:
    """The inputs of a query at the store's last cycle.

    `ranges` are the times of its relations' windows, `joins` the queries of the joins that it reads, `recent` the last cycle and
    the one before.
    """
    assert store.offset is not None
    kinds = {relation.kind for relation in plan.relations}
    tables = {name: store.offset.data.get(store.state.tables[name].id, 0) for name in definition.reads_tables}
    rows: list[object] = [sorted(tables.items()), store.state.query_positions[definition.id]]
    times: list[object] = [sorted(ranges.items())]
    if kinds & {"ordinary", "static", "system"}:
        rows.append(store.offset.journal)
    if kinds & {"system", "state"}:
        rows.append(store.moved)
    if "query" in kinds and store.start is not None:
        # It reads another query's rows of a cycle ago, so it is due once more after its inputs rest.
        rows.append(sorted(store.start.data.items()))
    # The rows of another query's join are read as of the cycle before.
    marks = [mark.joins.get(store.state.queries[name].id) for mark in recent for name in joins]
    rows.append([mark and (mark.generation, mark.count) for mark in marks])
    times.append([mark and mark.now_us for mark in marks])
    return QueryInputs(tuple(rows), tuple(times), store.moved)


_log = logging.getLogger("penstock.queries")
STALENESS_MAX_S = 60.0
ROUND_S = 0.05
TIMEOUTS_MAX = 3


class LiveRunner:
    """Gives the runner of the present Spark session at each call: an engine that restarted has a new session."""

    def __init__(self, engine: Engine, folder: DataFolder, result_max_rows: int) -> None:
        self._engine = engine
        self._folder = folder
        self._result_max_rows = result_max_rows
        self._known: tuple[object, SparkRunner] | None = None

    def __call__(self) -> SparkRunner:
        spark = self._engine.spark
        if spark is None or not self._engine.running:
            raise error("not_ready", detail="Spark is starting", hint="ask again in a moment")
        known = self._known
        if known is None or known[0] is not spark:
            known = self._known = (spark, SparkRunner(spark, self._folder, self._result_max_rows))
        return known[1]


class Evaluator:
    """Runs the standing queries that Spark SQL answers, and statements that are asked once."""

    def __init__(
        self,
        runner: Callable[[], SparkRunner],
        standing: StandingQueries,
        settings: Settings,
        system: Callable[[SparkPlan], dict[str, pa.Table]],
        spent: Callable[[int, float, pa.Table], None],
    ) -> None:
        self._runner = runner
        self._standing = standing
        self._settings = settings
        self._system = system
        self._spent = spent
        self._commits = standing.commits
        self._place = standing.folder.tmp / "handed"
        self._inputs: dict[int, QueryInputs] = {}  # of the last evaluation
        self._found: dict[int, int] = {}  # the cycle that the last evaluation stands for
        self._put: dict[int, int] = {}  # the same, of the last one that was put into the queue of the commit records
        self._rows: dict[int, dict[str, FetchedRows]] = {}  # of joins, for the last evaluation
        self._journals: dict[int, int] = {}  # up to where definitions and tables were read for it
        self._timeouts: dict[int, tuple[int, tuple[int, int]]] = {}  # in a row, and of which definition
        self._service = Service("spark queries", self._round, first_s=ROUND_S)

    def start(self) -> None:
        self._service.start()

    def stop(self) -> None:
        self._service.stop()
        self._service.join(10)

    def services(self) -> list[Service]:
        return [self._service]

    def run(self, plan: SparkPlan, start_us: int | None) -> Evaluation:
        """Evaluate once, now, at the last committed cycle."""
        with self._standing.locked() as store:
            moment, cycle = moment_of(plan, store, start_us), store.cycle
            reads = read_joins(plan, moment, self._standing, "")
        picked = pick_rows(reads, self._settings.handed_max_rows)
        rows = fetch_rows(reads, picked, {}, plan, moment.state, self._place)
        return self.run_at(plan, moment, cycle, {relation: r.given() for relation, r in rows.items()})

    def run_at(
        self, plan: SparkPlan, moment: Moment, cycle: int, joins: Mapping[str, pa.Table | InputFiles]
    ) -> Evaluation:
        """Evaluate once at a given moment; `cycle` is the cycle of the definitions and the log that it uses."""
        began = time.monotonic()
        others = replace(plan, relations=tuple(r for r in plan.relations if r.name not in joins))
        table = self._runner().run(plan, moment, {**self._system(others), **joins})
        return Evaluation(table, cycle, moment.now_us, time.monotonic() - began)

    def admit(self, plan: SparkPlan, coming: Sequence[QueryDefinition] = ()) -> None:
        """Try a new query once: Spark must accept it, and all such queries must stay fresh enough.

        `coming`: queries of the same call, which it may read.
        """
        with self._standing.locked() as store:
            moment, cycle = moment_of(plan, store, None, coming), store.cycle
            known = [e.last for e in store.evaluations.by_query.values()]
        tried = self.run_at(plan, moment, cycle, no_rows(plan, moment.state))
        total = tried.seconds + sum(evaluation.seconds for evaluation in known if evaluation is not None)
        staleness = total / self._settings.spark_query_budget
        if staleness > STALENESS_MAX_S:
            raise error(
                "over_budget",
                detail=f"with this query, answers by Spark SQL would be {staleness:.0f} s old",
                hint="drop others of its kind, or raise spark_query_budget",
            )

    def seconds(self, query_id: int) -> float | None:
        known = self._standing.store.evaluations.by_query.get(query_id)
        return known.last.seconds if known is not None and known.last is not None else None

    def _round(self) -> float | None:
        """Evaluate what is due; the rest that the budget asks for."""
        began = time.monotonic()
        for query_id in self._due():
            if self._service.stopping:
                return None
            self._evaluate(query_id)
        spent = time.monotonic() - began
        return ROUND_S + (spent * (1 / self._settings.spark_query_budget - 1) if spent > 0.01 else 0.0)

    def _due(self) -> list[int]:
        """Queries with new input since their last evaluation."""
        due = []
        with self._standing.locked() as store:
            if store.offset is None:
                return []
            last = self._standing.feed.last()
            recent = [last, *self._standing.feed.before(last)] if last is not None else []
            for query_id, plan in store.spark_plans.items():
                definition = store.state.queries_by_id[query_id]
                if definition.paused or not evaluated_by_spark(plan):
                    continue
                if self._gave_up(query_id, store.state.query_positions[query_id]):
                    continue
                joins = joins_below(plan, store.state, definition.name).values()
                if not self._joins_answer(joins, store):
                    continue
                ranges = moment_of(plan, store, definition.start_us).ranges
                inputs = inputs_of(plan, definition, store, ranges, joins, recent)
                known = self._inputs.get(query_id)
                if inputs == known:
                    self._confirm(query_id, store)
                elif inputs.is_due_after(known):
                    self._inputs[query_id] = inputs
                    due.append(query_id)
            for kept in (self._inputs, self._found, self._put, self._rows, self._journals, self._timeouts):
                for gone in [q for q in kept if q not in store.spark_plans]:
                    kept.pop(gone, None)
        return due

    def _confirm(self, query_id: int, store: AnswerStore) -> None:
        """Note that the answer also stands for the last cycle, if its input has not changed since the evaluation."""
        found = store.evaluations.stands_for(query_id)
        if found is not None and self._found.get(query_id, store.cycle) <= found[0] < store.cycle:
            store.evaluations.confirm(query_id, store.cycle, found[1])

    def _gave_up(self, query_id: int, position: tuple[int, int]) -> bool:
        """Whether a query took too long too often; a change of the query resets the count."""
        count, of = self._timeouts.get(query_id, (0, position))
        if count and of != position:
            del self._timeouts[query_id]
            return False
        return count >= TIMEOUTS_MAX

    def _joins_answer(self, names: Iterable[str], store: AnswerStore) -> bool:
        """Whether the joins below a query have read their history, and none of them failed."""
        answers = [store.answers.get(store.state.queries[name].id) for name in names]
        return all(answer is not None and answer.ready and answer.error is None for answer in answers)

    def _evaluate(self, query_id: int) -> None:
        with self._standing.locked() as store:
            definition, plan = store.state.queries_by_id.get(query_id), store.spark_plans.get(query_id)
            if definition is None or plan is None:
                return
            # Definition and moment of one cycle: the answer's stamp stands for both.
            moment, cycle = moment_of(plan, store, definition.start_us), store.cycle
            position = store.state.query_positions[query_id]
            try:
                reads = read_joins(plan, moment, self._standing, definition.name)
            except PenstockError:  # a join below began to read its history again: the query is due once it has
                self._inputs.pop(query_id, None)
                return
            answer = store.answers.get(query_id)
            if answer is not None:
                moment = replace(moment, now_us=store.query_now(answer) or moment.now_us)
            known = store.evaluations.by_query.get(query_id)
        last = known.last if known is not None else None
        try:
            picked, before = pick_rows(reads, self._settings.handed_max_rows), self._rows.get(query_id, {})
            no_table_changed = (
                len(reads) == len(plan.relations) or self._journals.get(query_id) == moment.offset.journal
            )
            told = last is not None and last.cycle >= self._put.get(query_id, 0)  # no newer one waits for its record
            if last and told and no_table_changed and rests_on_joins(plan, reads) and are_same(picked, before):
                self._tell(query_id, replace(last, cycle=cycle, now_us=moment.now_us))
                return
            plan = with_text(plan, definition, moment.state)
            rows = fetch_rows(reads, picked, before, plan, moment.state, self._place)
            limit = Cancellation(standing=True)
            limit.limit(max(1, self._settings.statement_timeout_s))
            with cancelled_by(limit):
                found = self.run_at(plan, moment, cycle, {relation: r.given() for relation, r in rows.items()})
            self._timeouts.pop(query_id, None)
            self._rows[query_id] = rows
            self._journals[query_id] = moment.offset.journal
            self._spent(query_id, found.seconds, found.table)
            self._tell(query_id, found)
        except PenstockError as failure:
            if failure.condition == "statement_timeout":
                self._note_timeout(query_id, definition.name, position)
            elif failure.condition == "not_ready":  # Spark is starting, or what it reads is not taken in yet
                self._inputs.pop(query_id, None)
            else:
                self._note_failure(query_id, definition.name, failure)
        except Exception as failure:  # Spark may be restarting under us
            self._inputs.pop(query_id, None)
            _log.debug("while evaluating: %s", failure)

    def _tell(self, query_id: int, found: Evaluation) -> None:
        """Put an evaluation into the next commit record. If its rows equal those of the last one, only note its cycle."""
        self._found[query_id] = found.cycle
        with self._standing.locked() as store:
            known = store.evaluations.by_query.get(query_id)
        if known is None:
            return  # dropped meanwhile
        last = known.last
        waits = last is not None and last.cycle < self._put.get(
            query_id, 0
        )  # another one, which this one has to replace
        if last is None or waits or known.failure is not None or not same_rows(last.table, found.table):
            self._put[query_id] = found.cycle
            put_evaluation(self._commits.queue, self._standing.folder, query_id, replace(found, file=None))
            return
        with self._standing.locked() as store:
            if query_id in store.evaluations.by_query:
                store.evaluations.confirm(query_id, found.cycle, found.now_us)
        self._standing.feed.wake()

    def _fail(self, query_id: int, failure: PenstockError) -> bool:
        """Put a failure into the next commit record, unless it is the last one again; return whether it is new."""
        told = Failure(failure.condition, failure.message, failure.hint)
        with self._standing.locked() as store:
            if store.evaluations.failure(query_id) == told:
                return False
        put_failure(self._commits.queue, query_id, told)
        return True

    def _note_failure(self, query_id: int, name: str, failure: PenstockError) -> None:
        if failure.condition != "over_budget":  # which only other inputs can repair
            self._inputs.pop(query_id, None)
        level = logging.WARNING if self._fail(query_id, failure) else logging.DEBUG
        _log.log(level, 'query "%s" could not be evaluated: %s', name, failure.message)

    def _note_timeout(self, query_id: int, name: str, position: tuple[int, int]) -> None:
        """One more evaluation that took too long. After three in a row the query fails, until it is changed or resumed."""
        count = self._timeouts.get(query_id, (0, position))[0] + 1
        self._timeouts[query_id] = count, position
        self._inputs.pop(query_id, None)
        most = self._settings.statement_timeout_s
        _log.warning('query "%s" took longer than statement_timeout_s (%d), %d times in a row', name, most, count)
        if count >= TIMEOUTS_MAX:
            detail = f"its evaluation took longer than {most} s, {count} times in a row"
            hint = "give it a shorter window, then pause and resume it, or raise statement_timeout_s"
            self._fail(query_id, error("statement_timeout", detail=detail, hint=hint))
