"""The pipeline without Spark: the same planner, tasks and commits, one step at a time, when the test says so."""

from __future__ import annotations

import pickle
import random
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

import orjson
import pyarrow as pa

from penstock.clock import Clock, WallClock
from penstock.cycle.commits import RESULT_SCHEMA, CommitRecord, CommitStore, read_newest_end
from penstock.cycle.cut import Limits
from penstock.cycle.folder import DataFolder
from penstock.cycle.offset import Offset, offset_from_json
from penstock.cycle.planner import Planner
from penstock.cycle.worker import run_task
from penstock.operators.join.algorithm_choice import COSTS_FILE, PlannedChoices
from penstock.pipeline.tasks import Chooser, CycleTask, WorkerLimits, cycle_tasks, stamp_joins
from penstock.services import Service
from penstock.settings import Settings
from penstock.streams.log.atomic_file import CrashPoint, no_crash

FOLDED_S = 60.0


class LocalEngine:
    """Stands in for `pipeline.engine.Engine`. `cycle` runs one; `drain` runs until nothing is left to do."""

    def __init__(
        self,
        folder: DataFolder,
        settings: Settings,
        on_commit: Callable[[CommitRecord], None],
        clock: Clock | None = None,
        parallelism: int = 2,
        crash_point: CrashPoint = no_crash,
        choices: Chooser | None = None,
    ) -> None:
        """`choices`: which algorithms joins run by; what the server has learned where it is left out."""
        self.folder = folder
        self.settings = settings
        self.commits = CommitStore(folder)
        self.commits.crash_point = crash_point
        self.failure = None
        self.restarts = 0
        self.spark = None
        self.looking = False
        self.lag: Callable[[], int] = lambda: 0
        self.running = True
        self.parallelism = parallelism
        self._choices = choices or PlannedChoices(folder.tmp / COSTS_FILE)
        self.tasks_run = 0
        self._on_commit = on_commit
        self._running = threading.RLock()
        self.commits.queue.on_put = self._take_waiting
        self._planner = Planner(folder, Limits(settings.cycle_max_rows, settings.fill_max_rows), clock or WallClock())

    def prepare(self) -> None:
        pass

    def wake(self) -> None:
        pass

    def start(self) -> None:
        self.cycle()

    def run_tasks(self, tasks: Sequence[Callable[[], Any]]) -> list[Any]:
        """As Spark's workers would: each with a copy of its own, and with results that a pickle can hold."""
        self.tasks_run += len(tasks)
        return [pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(task))())) for task in tasks]

    def stop(self) -> None:
        self.running = False

    def services(self) -> list[Service]:
        return []

    def phases_ms(self) -> dict[str, float]:
        return {}

    def position(self) -> Offset:
        return read_newest_end(self.folder) or Offset(self.folder.read_id())

    def _take_waiting(self) -> None:
        """What was evaluated outside the cycle asks for one, as it does of the planner of Spark's engine."""
        if self.running:
            self.cycle()

    def still(self) -> AbstractContextManager[bool]:
        """No cycle begins inside, whatever thread asks for one."""
        return self._running

    def cycle(self, limits: Limits | None = None) -> CommitRecord | None:
        """One cycle, as Spark would run it; None where nothing is due."""
        with self._running:
            return self._cycle(limits)

    def _cycle(self, limits: Limits | None) -> CommitRecord | None:
        if limits is not None:
            self._planner.limits = limits
        start = self.commits.last.end if self.commits.last else self.position()
        end = self._planner.latest(start)
        if end == start:
            return None
        return self.run(start, end)

    def tasks(self, start: Offset, end: Offset) -> list[CycleTask]:
        skipped, state = self._planner.skipped(end.journal), self._planner.state_at(end.journal)
        limits = WorkerLimits(0, self.settings.function_timeout_ms, self.settings.join_memory_mb << 20)
        tasks = cycle_tasks(self.folder.log, (start, end), state, self.parallelism, skipped, limits)
        stamp_joins(tasks, self._choices)
        return tasks

    def run(self, start: Offset, end: Offset) -> CommitRecord | None:
        began_s = time.monotonic()
        tasks = self.tasks(start, end)
        batches = [batch for task in random.sample(tasks, len(tasks)) for batch in run_task(task)]
        results = pa.Table.from_batches(batches, RESULT_SCHEMA)
        header = results.filter(pa.compute.equal(results["kind"], "cycle"))["payload"][0].as_py()
        offsets = orjson.loads(header)
        assert offset_from_json(offsets["start"]) == start and offset_from_json(offsets["end"]) == end
        kept = results.filter(pa.compute.not_equal(results["kind"], "cycle"))
        info = {"ms": round((time.monotonic() - began_s) * 1000, 1), "tasks": offsets["tasks"]}
        record = self.commits.write(start, end, kept, info)
        if record is not None:
            self._on_commit(record)
            self._wait_folded()
        return record

    def _wait_folded(self) -> None:
        """Tests read the answers of a cycle as soon as it is through."""
        deadline, wait_s = time.monotonic() + FOLDED_S, 0.0003
        while self.lag():
            assert time.monotonic() < deadline, "the follower folds nothing any more"
            time.sleep(wait_s)
            wait_s = min(wait_s * 1.5, 0.01)  # to look often would take from the follower's own time

    def drain(self) -> None:
        while True:
            last = self.commits.last
            start = last.end if last else self.position()
            record = self.cycle()
            if record is None:
                return
            end = record.end
            if replace(end, now_us=0) == replace(start, now_us=0):
                return
