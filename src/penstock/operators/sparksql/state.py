"""Answers of queries that Spark SQL evaluates, folded from commit records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import pyarrow as pa

from penstock.cycle.commit_files import ResultRow
from penstock.cycle.folder import DataFolder
from penstock.errors import PenstockError
from penstock.operators.base.row_difference import row_difference
from penstock.operators.base.state import OperatorState
from penstock.operators.sparksql.evaluation_rows import (
    EVALUATION,
    EVALUATION_ERROR,
    Evaluation,
    Failure,
    evaluation_from_row,
    evaluation_row,
    failure_from_payload,
    failure_row,
)
from penstock.sql.plan import Plan, evaluated_by_spark
from penstock.views.query_state import QueryState

KEPT_EVALUATIONS = 64
KEPT_ROWS = 50_000


@dataclass(frozen=True, slots=True)
class QueryEvaluations:
    """The last evaluations of one query, each with the cycle of the record that brought it, the newest last."""

    kept: tuple[tuple[int, Evaluation], ...] = ()
    failure: Failure | None = None
    needed_from: int = 0  # an evaluation counts as an answer if it stands for this cycle or a later one

    @property
    def last(self) -> Evaluation | None:
        return self.kept[-1][1] if self.kept else None

    def at(self, cycle: int) -> Evaluation | None:
        """The answer at a cycle; None where none is kept, or none had come."""
        return next((e for record, e in reversed(self.kept) if record <= cycle), None)


class EvaluationStore(OperatorState):
    """The evaluations of all such queries. Changed by the follower under the store's lock."""

    kinds: ClassVar[Mapping[str, Literal["query", "table"]]] = {EVALUATION: "query", EVALUATION_ERROR: "query"}

    def __init__(self, folder: DataFolder) -> None:
        self.folder = folder
        self.by_query: dict[int, QueryEvaluations] = {}
        # The last cycle at which Spark found the rows of the last evaluation again, and its NOW. Not in the records.
        self.confirmed: dict[int, tuple[int, int]] = {}
        self.took = False  # whether the last record brought any

    def define(self, query_id: int, plan: Plan, position: int) -> None:
        if evaluated_by_spark(plan):
            self.renew(query_id, 0)
        else:
            self.drop(query_id)

    def renew(self, query_id: int, needed_from: int) -> None:
        """Count only an evaluation that stands for a cycle or a later one as an answer."""
        known = self.by_query.get(query_id, QueryEvaluations())
        self.by_query[query_id] = QueryEvaluations(known.kept, None, max(known.needed_from, needed_from))

    def drop(self, query_id: int) -> None:
        self.by_query.pop(query_id, None)
        self.confirmed.pop(query_id, None)

    def fold(self, row: ResultRow, answer: QueryState | None, cycle: int) -> None:
        query_id, kind, _, stands_for, payload = row
        known = self.by_query.get(query_id)
        if known is None or payload is None:
            return
        self.took = True
        if kind == EVALUATION_ERROR:
            failed = QueryEvaluations(known.kept, failure_from_payload(payload), known.needed_from)
            self.by_query[query_id] = failed
            return
        try:
            found, record = evaluation_from_row(self.folder, stands_for, payload)
        except PenstockError as damage:  # the next evaluation mends it
            failure = Failure(damage.condition, damage.message, damage.hint)
            self.by_query[query_id] = QueryEvaluations((), failure, known.needed_from)
            return
        kept = _bounded((*known.kept, (record or cycle, found)))
        self.by_query[query_id] = QueryEvaluations(kept, None, known.needed_from)
        self.confirmed.pop(query_id, None)

    def confirm(self, query_id: int, cycle: int, now_us: int) -> None:
        """Spark found the rows of the last evaluation again."""
        self.confirmed[query_id] = (cycle, now_us)

    def stands_for(self, query_id: int) -> tuple[int, int] | None:
        """The cycle and the NOW that the last evaluation stands for; None where there is none yet."""
        last = self.by_query[query_id].last if query_id in self.by_query else None
        if last is None:
            return None
        return max((last.cycle, last.now_us), self.confirmed.get(query_id, (0, 0)))

    def is_answered(self, query_id: int) -> bool:
        known, found = self.by_query.get(query_id), self.stands_for(query_id)
        return known is not None and found is not None and found[0] >= known.needed_from

    def failure(self, query_id: int) -> Failure | None:
        known = self.by_query.get(query_id)
        return known.failure if known is not None else None

    def memory_of(self, query_id: int) -> int:
        """Bytes of the evaluations that are kept."""
        known = self.by_query.get(query_id)
        return sum(int(e.table.nbytes) for _, e in known.kept) if known is not None else 0

    def files(self) -> set[str]:
        """Files of results that evaluations are in."""
        return {e.file for known in self.by_query.values() for _, e in known.kept if e.file is not None}

    def snapshot(self) -> Iterator[ResultRow]:
        """The newest answer of each query: older cycles are not read from a snapshot."""
        for query_id, known in self.by_query.items():
            if self.is_answered(query_id):
                record, evaluation = known.kept[-1]
                yield evaluation_row(query_id, evaluation, record)
            if known.failure is not None:
                yield failure_row(query_id, known.failure)


def same_rows(one: pa.Table, other: pa.Table) -> bool:
    """Whether two answers have the same rows, in any order: without ORDER BY, Spark SQL gives rows in any order."""
    if one.num_rows != other.num_rows or one.schema != other.schema:
        return False
    return bool(one.equals(other)) or not len(row_difference(one, other)[0])


def _bounded(kept: tuple[tuple[int, Evaluation], ...]) -> tuple[tuple[int, Evaluation], ...]:
    """The newest of them that fit, at least one."""
    rows = 0
    for count, (_, evaluation) in enumerate(reversed(kept)):
        rows += evaluation.table.num_rows
        if count and (count == KEPT_EVALUATIONS or rows > KEPT_ROWS):
            return kept[-count:]
    return kept


STATE = EvaluationStore
