"""The Spark data source `penstock`: as a stream it yields cycles, as a batch it yields history.

Spark loads this file in half a dozen processes, one after the other, before a first cycle runs: what only some of them
need is imported where it is needed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import StructType

if TYPE_CHECKING:
    import pyarrow as pa

    from penstock.cycle.planner import Planner

CYCLE_SCHEMA = "query BIGINT, kind STRING, rows BIGINT, position BIGINT, payload BINARY"


class PenstockSource(DataSource):
    """The data source. Options: the folder; for a stream start, parallelism and limits; for a batch what to read.

    A batch reads what a `history.HistoryRequest` or a `history.InputFiles` describes.
    """

    @classmethod
    def name(cls) -> str:
        return "penstock"

    def schema(self) -> str:
        return self.options.get("schema", CYCLE_SCHEMA)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        return CycleReader(dict(self.options))

    def reader(self, schema: StructType) -> DataSourceReader:
        if "files" in self.options:
            from penstock.pipeline.history import InputFilesReader

            return InputFilesReader(dict(self.options))
        from penstock.pipeline.history import HistoryReader

        return HistoryReader(dict(self.options))


class HistorySource(PenstockSource):
    """The same for statements, registered for workers of their own (see `jobs.history_workers`)."""

    @classmethod
    def name(cls) -> str:
        return "penstock_history"


class CycleReader(DataSourceStreamReader):
    """Planning in Spark's planner process, reading in its workers; nothing here runs in the server."""

    def __init__(self, options: dict[str, str]) -> None:
        self._options = options

    def _planner(self) -> Planner:
        if not hasattr(self, "_planner_object"):
            from penstock.cycle.cut import Limits
            from penstock.cycle.folder import DataFolder
            from penstock.cycle.planner import Planner
            from penstock.cycle.wakeup import Wakeup
            from penstock.operators.join.algorithm_choice import COSTS_FILE, PlannedChoices

            limits = Limits(
                int(self._options["cycle_max_rows"]),
                int(self._options["fill_max_rows"]),
                int(self._options["cycle_interval_ms"]) / 1000,
                int(self._options["answer_read_max_rows"]),
                int(self._options["late_cycles"]),
            )
            folder = DataFolder(Path(self._options["folder"]))
            self._planner_object = Planner(folder, limits, shrink=int(self._options["shrink"]))
            self._wakeup = Wakeup(Path(self._options["wakeup"]))
            self._choices = PlannedChoices(folder.tmp / COSTS_FILE)
        return self._planner_object

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        # The server gives the end of the last commit record; the newest file is not reliable.
        start: dict[str, Any] = json.loads(self._options["start"])
        return start

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        from penstock.cycle.offset import offset_from_json

        return self._planner().await_latest(offset_from_json(start), self._wakeup).to_json()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        from penstock.cycle.offset import offset_from_json
        from penstock.pipeline.tasks import WorkerLimits, cycle_tasks, stamp_joins

        first, last = offset_from_json(start), offset_from_json(end)
        skipped, state = self._planner().skipped(last.journal), self._planner().state_at(last.journal)
        parallelism, memory = int(self._options["parallelism"]), int(self._options["join_memory_mb"]) << 20
        limits = WorkerLimits(int(self._options["worker_memory_mb"]), int(self._options["function_timeout_ms"]), memory)
        log = Path(self._options["folder"]) / "log"
        tasks = cycle_tasks(log, (first, last), state, parallelism, skipped, limits)
        stamp_joins(tasks, self._choices)
        return tasks

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        from penstock.cycle.commit_files import result_batch
        from penstock.cycle.result_rows import heading
        from penstock.pipeline.tasks import CycleTask

        assert isinstance(partition, CycleTask)
        if not partition.units and not partition.joins:
            # The first cycle shows that the pipeline works: it need not wait for compiled code to load.
            return iter([result_batch(heading(partition))])
        from penstock.cycle.worker import run_task

        return run_task(partition)

    def commit(self, end: dict[str, Any]) -> None:
        pass

    def stop(self) -> None:
        pass
