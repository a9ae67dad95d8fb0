"""Encode answers that Spark SQL evaluates outside the cycle as rows of the next commit record.

In: evaluations, from the thread that runs them. Out: rows of the record, kinds `evaluation` and `evaluation_error`. So the
answer of such a query is a function of the records, as any other.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import orjson
import pyarrow as pa

from penstock.cycle.commit_files import ResultRow, from_payload, to_payload
from penstock.cycle.folder import DataFolder
from penstock.cycle.record_queue import RecordQueue
from penstock.errors import PenstockError
from penstock.operators.join.steps.results import read_results, write_results

EVALUATION, EVALUATION_ERROR = "evaluation", "evaluation_error"
INLINE_BYTES = 64 << 10


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The rows of one evaluation, the cycle and NOW that they stand for, and how long it took."""

    table: pa.Table
    cycle: int
    now_us: int
    seconds: float
    file: str | None = None  # in the folder `results`, where the rows are too large for a commit record
    notices: tuple[str, ...] = ()  # for the client of a statement that is asked once


@dataclass(frozen=True, slots=True)
class Failure:
    """The error of a failed evaluation."""

    condition: str
    message: str
    hint: str | None

    def to_error(self) -> PenstockError:
        """A new error each time: raising one, or pointing it at a statement, changes it."""
        return PenstockError(self.condition, self.message, hint=self.hint)


def put_evaluation(queue: RecordQueue, folder: DataFolder, query_id: int, evaluation: Evaluation) -> None:
    if evaluation.table.nbytes > INLINE_BYTES:
        evaluation = replace(evaluation, file=write_results(folder, query_id, evaluation.table))
    queue.put(evaluation_row(query_id, evaluation, None))


def put_failure(queue: RecordQueue, query_id: int, failure: Failure) -> None:
    queue.put(failure_row(query_id, failure))


def failure_row(query_id: int, failure: Failure) -> ResultRow:
    told = orjson.dumps([failure.condition, failure.message, failure.hint])
    return query_id, EVALUATION_ERROR, 0, 0, told


def evaluation_row(query_id: int, evaluation: Evaluation, record: int | None) -> ResultRow:
    """An evaluation as a row of a record. `record`: in a snapshot, the cycle of the record that brought it first."""
    facts = {"now_us": evaluation.now_us, "seconds": evaluation.seconds, "file": evaluation.file, "record": record}
    rows = to_payload(evaluation.table) if evaluation.file is None else b""
    payload = orjson.dumps(facts) + b"\n" + rows
    return query_id, EVALUATION, evaluation.table.num_rows, evaluation.cycle, payload


def evaluation_from_row(folder: DataFolder, stands_for: int, payload: bytes) -> tuple[Evaluation, int | None]:
    """The evaluation of a row and, for a row of a snapshot, the cycle of the record that brought it first."""
    head, _, rows = payload.partition(b"\n")
    facts: dict[str, Any] = orjson.loads(head)
    table = from_payload(rows) if facts["file"] is None else read_results(folder, facts["file"])
    found = Evaluation(table, stands_for, facts["now_us"], facts["seconds"], facts["file"])
    return found, facts["record"]


def failure_from_payload(payload: bytes) -> Failure:
    return Failure(*orjson.loads(payload))


def file_of(payload: bytes) -> str | None:
    """The file of results that a row of kind `evaluation` names."""
    found: str | None = orjson.loads(payload.partition(b"\n")[0])["file"]
    return found
