"""`penstock serve` with something wrong inside: `python -m tests.support.launch serve ...`.

PENSTOCK_TEST_CRASH=commit:renamed:12 ends the server by SIGKILL when it reaches the step for the 12th time; the steps
are those of CommitStore, and cycle:told, after which Spark commits to its checkpoint.
PENSTOCK_TEST_FAIL=folder makes tasks hand over half of their rows and then fail, on their first attempt, for as long
as the folder holds a file `fail`; each one that did so leaves a file there.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from penstock.cli.main import app
from penstock.cycle.commits import CommitStore
from penstock.pipeline import engine
from penstock.pipeline.source import CycleReader, PenstockSource
from tests.support.crashing import crash_at


class FailingReader(CycleReader):
    """Fails half-way through a task's first attempt."""

    def __init__(self, options: dict[str, str], folder: str) -> None:
        super().__init__(options)
        self._failures = Path(folder)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        task = TaskContext.get()
        fails = task is not None and task.attemptNumber() == 0 and (self._failures / "fail").exists()
        for batch in super().read(partition):
            if fails:
                yield batch.slice(0, (batch.num_rows + 1) // 2)
                (self._failures / f"failed-{task.taskAttemptId()}").touch()
                raise RuntimeError("this attempt fails half-way, because a test says so")
            yield batch


class FailingSource(PenstockSource):
    """The source of the pipeline, with readers that fail."""

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return FailingReader(dict(self.options), FAILURES)


FAILURES = os.environ.get("PENSTOCK_TEST_FAIL", "")


def arm(step: str, count: int) -> None:
    crash_point = crash_at(step, count, lambda: os.kill(os.getpid(), signal.SIGKILL))
    CommitStore.crash_point = staticmethod(crash_point)
    commit_cycle = engine.Engine._commit_cycle

    def commit_and_tell(self: engine.Engine, query: int, frame: DataFrame, batch: int) -> None:
        commit_cycle(self, query, frame, batch)
        crash_point("cycle:told")

    engine.Engine._commit_cycle = commit_and_tell  # type: ignore[method-assign]


if __name__ == "__main__":
    if wanted := os.environ.get("PENSTOCK_TEST_CRASH"):
        name, _, times = wanted.rpartition(":")
        arm(name, int(times))
    if FAILURES:
        engine.PenstockSource = FailingSource  # type: ignore[misc]
    app()
