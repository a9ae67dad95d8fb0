"""Keeps the pipeline running: starts Spark, commits cycles, restarts what died.

`on_commit` is called in the order of cycles, after the record is on disk; it only hands the record on. The engine never
evaluates an operator: tasks do, in Spark's workers.
"""

from __future__ import annotations

import logging
import shutil
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import orjson
import pyarrow.compute as pc
from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from penstock.cycle.commits import RESULT_SCHEMA, CommitRecord, CommitStore
from penstock.cycle.culprits import cycle_limits, late_cycles
from penstock.cycle.folder import DataFolder
from penstock.cycle.offset import Offset, offset_from_json
from penstock.cycle.wakeup import signal
from penstock.errors import error
from penstock.pipeline.jobs import CYCLE_POOL, cycle_workers, history_workers, in_pool, warm_workers
from penstock.pipeline.session import STOP_S, SparkSessions, forget_session, remove_sockets
from penstock.pipeline.source import HistorySource, PenstockSource
from penstock.pipeline.spark_sql import run_tasks
from penstock.services import Service
from penstock.settings import Settings
from penstock.views.follower import LAG_MAX

_log = logging.getLogger("penstock.pipeline")
STOP_QUERY_S = 15.0
SUPERVISOR_S = 60.0
OnCommit = Callable[[CommitRecord], None]
_RETRY_SECONDS = (0.2, 1.0, 2.0, 5.0, 10.0)


class Engine:
    """The running pipeline of one data folder. With `train` its JVM writes a class archive there when it ends.

    `stopping` is set when the engine stops.
    """

    def __init__(
        self,
        folder: DataFolder,
        settings: Settings,
        on_commit: OnCommit,
        train: Path | None = None,
        sessions: SparkSessions = SparkSessions(),
        stopping: threading.Event | None = None,
    ) -> None:
        self.folder = folder
        self.settings = settings
        self.commits = CommitStore(folder)
        self._on_commit = on_commit
        self.query: StreamingQuery | None = None
        self._sessions = sessions
        self._stopping = stopping or threading.Event()
        self._supervisor = Service("pipeline", self._supervise, critical=True)
        self.failure: str | None = None
        self.restarts = 0
        # Set by the database: whether rows or definitions wait for a cycle, and what finds and takes out its culprits.
        self.is_waiting: Callable[[], bool] = lambda: False
        self.lag: Callable[[], int] = lambda: 0  # how many committed cycles are not folded into answers yet
        self.trace: Callable[[Offset, threading.Event], bool] = lambda start, stopping: False
        self.looking = False  # whether the cause of a failed cycle is being searched
        self._shrink = 1
        self._failed: tuple[int, int] = (0, 0)  # the last committed cycle, and how often the one after it failed
        self._starts = 0  # of streaming queries: the number of the newest
        self._wakeup = folder.tmp / "wakeup"  # where the planner of the newest one waits
        self.commits.queue.on_put = self.wake
        self._committing = threading.Lock()
        self._ran_s: float | None = None  # when the tasks of the last cycle had ended
        self.spark: SparkSession | None = None
        self._equipped: SparkSession | None = None  # the session that has our functions
        self._scratch = folder.tmp / "spark"
        self._train = train
        self._warmed = False
        self._preparing: threading.Thread | None = None

    def prepare(self) -> None:
        """Begin to start Spark, while others open the log and the catalog."""
        self._preparing = _in_background(self._prepare)

    def _prepare(self) -> None:
        try:
            self._start_spark()
        except Exception as failure:  # `start` tries again, and reports the error
            _log.debug("Spark did not start early: %s", failure)
            self.spark = None

    def start(self) -> None:
        if self._preparing is not None:
            self._preparing.join()
        if self.spark is None:
            self._start_spark()
        self._start_query()
        # Not before: the processes of the first cycle come up meanwhile. No statement runs until the start is through.
        self._add_functions()
        self._supervisor.start()

    def services(self) -> list[Service]:
        return [self._supervisor]

    def wake(self) -> None:
        """Have the planner look for a cycle at once: rows or definitions are on disk."""
        signal(self._wakeup)

    def run_tasks(self, tasks: Sequence[Callable[[], Any]]) -> list[Any]:
        """Run tasks that read history in Spark's workers; their results in the same order."""
        if self.spark is None or not self.running:
            raise error("not_ready", detail="Spark is starting", hint="ask again in a moment")
        return run_tasks(self.spark, tasks, self.settings.statement_timeout_s)

    def _start_spark(self) -> None:
        self.spark = self._sessions.start(self.settings, self._scratch, self._train)
        with cycle_workers():
            self.spark.dataSource.register(PenstockSource)
        with history_workers(self.spark):
            self.spark.dataSource.register(HistorySource)

    def _add_functions(self) -> None:
        """Give a new session the functions that statements call."""
        if self.spark is not None and self.spark is not self._equipped:
            self._sessions.add_functions(self.spark)
            self._equipped = self.spark

    def _start_query(self) -> None:
        """Start a streaming query at the end of the last committed cycle, whatever the one before it had planned."""
        assert self.spark is not None
        with self._committing:  # a commit that began for the query before counts; a later one is refused
            self._starts += 1
            start = self._start()
        self._wakeup.unlink(missing_ok=True)
        # A name of its own: the planner of a query that was abandoned must not take the signals of this one.
        self._wakeup = self.folder.tmp / f"wakeup-{self._starts}"
        stream = (
            self.spark.readStream.format("penstock")
            .option("folder", str(self.folder.root))
            .option("start", orjson.dumps(start.to_json()).decode())
            .option("parallelism", str(self.spark.sparkContext.defaultParallelism))
            .option("cycle_interval_ms", str(self.settings.cycle_interval_ms))
            .option("late_cycles", str(late_cycles(self.settings)))
            .option("shrink", str(self._shrink))
            .option("wakeup", str(self._wakeup))
            .options(**{name: str(limit) for name, limit in cycle_limits(self.settings).items()})
            .load()
        )
        with in_pool(self.spark, CYCLE_POOL):
            self.query = (
                stream.writeStream.foreachBatch(partial(self._commit_cycle, self._starts))
                .option("checkpointLocation", str(new_checkpoint(self.folder)))
                .queryName(f"penstock-{self._starts}")
                .start()
            )

    def _start(self) -> Offset:
        """Where the next cycle begins."""
        last = self.commits.last
        return last.end if last is not None else Offset(self.folder.read_id())

    def _commit_cycle(self, query: int, frame: DataFrame, _batch: int) -> None:
        """Called by Spark once per cycle; `toArrow` is the cycle's only action."""
        began = time.monotonic()
        results = frame.toArrow()
        kinds = results.column("kind")
        header = results.filter(pc.equal(kinds, "cycle")).column("payload")[0].as_py()
        offsets = orjson.loads(header)
        start, end = offset_from_json(offsets["start"]), offset_from_json(offsets["end"])
        results = results.filter(pc.not_equal(kinds, "cycle")).cast(RESULT_SCHEMA)
        info = {"ms": round((time.monotonic() - began) * 1000, 1), "tasks": offsets.get("tasks", 1)}
        if self._ran_s is not None:  # between two cycles' tasks: commit, planning, and waiting for rows
            info["between_ms"] = round((began - self._ran_s) * 1000, 1)
        self._ran_s = time.monotonic()
        with self._committing:
            if query != self._starts:
                # Its tasks went on after it was abandoned. The streaming query after it plans the same rows again.
                raise error("stale_cycle", detail="the streaming query of this cycle was replaced meanwhile")
            record = self.commits.write(start, end, results, info)
            if record is not None:
                self._on_commit(record)
        while self.lag() >= LAG_MAX and not self._stopping.wait(0.05):
            pass  # memory and the age of answers have bounds
        if not self._warmed and self.spark is not None:
            # Not before: until the first cycle is through, every processor has something better to do.
            self._warmed = True
            _in_background(partial(warm_workers, self.spark))

    def _supervise(self) -> None:
        tries, restarted_at = 0, 0
        progress = Progress(self.settings.cycle_stall_s, self.is_waiting)
        progress.begin(self._cycle())
        while not self._stopping.wait(0.1):
            try:
                alive = self.query is not None and self.query.isActive
            except Exception as lost:  # py4j raises whatever it likes once the JVM is gone
                _log.debug("Spark does not answer: %s", lost)
                alive = False
            stalled = alive and progress.is_stalled(self._cycle())
            if alive and not stalled:
                if self.failure is not None and self._cycle() > restarted_at:
                    # It planned, ran and committed: only that shows that the pipeline works again.
                    self.failure, tries, self._shrink = None, 0, 1
                continue
            if self._stopping.is_set():
                return
            if stalled:
                self.failure = f"no cycle for {progress.limit_s:.0f} s while readings wait"
                self._end_query(with_spark=progress.fruitless > 0)
            else:
                self.failure = self._failure_text()
            _log.warning("the pipeline stopped and is started again: %s", self.failure)
            if self._find_cause(stalled):
                tries = 0
            elif stalled:
                progress.fruitless += 1
                self._shrink *= 2
            if self._stopping.wait(_RETRY_SECONDS[min(tries, len(_RETRY_SECONDS) - 1)]):
                return
            tries += 1
            restarted_at = self._cycle()
            try:
                self._restart()
                self.restarts += 1
            except Exception as again:
                self.failure = str(again)
                _log.warning("the pipeline could not be started: %s", again)
            progress.begin(restarted_at)

    def _find_cause(self, stalled: bool) -> bool:
        """Whether queries that stop the cycle were found, and taken out of it.

        A cycle that hangs is examined at once. One that fails is tried again first: a process may have been killed.
        """
        cycle, times = self._cycle(), self._failed[1] + 1 if self._failed[0] == self._cycle() else 1
        self._failed = cycle, times
        if not stalled and (times < 2 or times & (times - 1)):
            return False
        self.looking = True
        try:
            return self.trace(self._start(), self._stopping)
        except Exception as failure:
            _log.warning("the cycle could not be looked into: %s", failure)
            return False
        finally:
            self.looking = False

    def _end_query(self, with_spark: bool) -> None:
        """End the streaming query and what its tasks do; with the JVM where it does not end, or was not at fault."""
        query = self.query
        if query is None:
            return
        ending = _in_background(partial(_stop_quietly, query))
        ending.join(timeout=STOP_QUERY_S)
        if with_spark or ending.is_alive():
            process = getattr(SparkContext._gateway, "proc", None)
            if process is not None:
                process.kill()
                process.wait(timeout=STOP_S)

    def _cycle(self) -> int:
        return self.commits.last.cycle if self.commits.last else 0

    def _failure_text(self) -> str:
        try:
            failure = self.query.exception() if self.query is not None else None
            return str(failure).split("\n", 1)[0] if failure else "the streaming query ended"
        except Exception:
            return "Spark's Java process died"

    def _restart(self) -> None:
        """Resume from the last commit record; with a new JVM where the old one has ended."""
        if self.spark is None or not _answers(self.spark):
            forget_session()
            self._start_spark()
        if not self._stopping.is_set():
            self._add_functions()  # first: statements run again as soon as a cycle is through
            self._start_query()

    @property
    def running(self) -> bool:
        return self.query is not None and self.failure is None and not self._stopping.is_set()

    def phases_ms(self) -> dict[str, float]:
        """The durations of the last cycle's stages as Spark reports them; empty without a report."""
        try:
            progress = self.query.lastProgress if self.query is not None else None
        except Exception as gone:  # py4j raises whatever it likes once the JVM is gone
            _log.debug("Spark does not say how its last cycle went: %s", gone)
            return {}
        return {name: float(ms) for name, ms in progress["durationMs"].items()} if progress else {}

    def stop(self) -> None:
        """Stop after the cycle in progress; the next start resumes from here."""
        self._stopping.set()
        if self._preparing is not None:
            self._preparing.join(timeout=SUPERVISOR_S)
        # It may be starting Spark just now; a JVM that comes after the end would stay.
        self._supervisor.stop()
        self._supervisor.join(SUPERVISOR_S)
        try:
            if self.query is not None:
                deadline = time.monotonic() + 5
                # A trigger without data is the planner, which waits for some.
                while _runs_cycle(self.query) and time.monotonic() < deadline:
                    time.sleep(0.02)
                self._end_query(with_spark=False)
        except Exception as gone:
            _log.debug("while stopping the query: %s", gone)
        self._sessions.stop(self.spark)
        remove_sockets(self._scratch)
        self._wakeup.unlink(missing_ok=True)
        shutil.rmtree(self._scratch, ignore_errors=True)


def _in_background(work: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=work, name="penstock-starting", daemon=True)
    thread.start()
    return thread


def _runs_cycle(query: StreamingQuery) -> bool:
    status = query.status
    return bool(status.get("isTriggerActive") and status.get("isDataAvailable"))


def _stop_quietly(query: StreamingQuery) -> None:
    try:
        query.stop()
    except Exception as gone:
        _log.debug("while stopping the query: %s", gone)


def _answers(spark: SparkSession) -> bool:
    try:
        return not bool(spark.sparkContext._jsc.sc().isStopped())
    except Exception:
        return False


def new_checkpoint(folder: DataFolder) -> Path:
    """An empty checkpoint for a streaming query that is about to start; those of former queries are removed.

    Spark writes it without syncing, so a power cut leaves any part of it. Nothing of an uncommitted cycle is visible, so
    nothing is lost with it: the next streaming query plans the same rows anew, perhaps up to another end.
    """
    shutil.rmtree(folder.checkpoints, ignore_errors=True)
    fresh = folder.checkpoints / uuid.uuid4().hex
    fresh.mkdir(parents=True)
    return fresh


# A streaming query that has just begun starts processes first.
FIRST_CYCLE_FACTOR = 3


class Progress:
    """Detects that data or definitions wait, and no cycle is committed. It checks for waiting data at most once a second."""

    def __init__(
        self, stall_s: float, is_waiting: Callable[[], bool], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._stall_s = stall_s
        self._is_waiting = is_waiting
        self._clock = clock
        self.fruitless = 0  # stalls in a row whose cause was not found: each gets the next try twice the time
        self.begin(0)

    def begin(self, cycle: int) -> None:
        """A streaming query starts after a committed cycle."""
        self._began, self._cycle, self._since = cycle, cycle, self._clock()
        self._looked = self._since

    @property
    def limit_s(self) -> float:
        factor = FIRST_CYCLE_FACTOR if self._cycle == self._began else 1
        return float(self._stall_s * factor * 2**self.fruitless)

    def is_stalled(self, cycle: int) -> bool:
        """Whether something has waited for a cycle after this one for too long."""
        now = self._clock()
        if cycle != self._cycle:
            self._cycle, self._since, self.fruitless = cycle, now, 0
        elif now - self._looked >= 1.0:
            self._looked = now
            if not self._is_waiting():
                self._since = now
        return now - self._since > self.limit_s
