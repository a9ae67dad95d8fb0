"""Spark's jobs by what they are for: cycles come first, the jobs of a statement end when the statement does.

Spark never takes a running task's slot away, and a task of a cross join runs for minutes. So Spark on this machine
gets more slots than there are processors: `statements_max` statements together leave those of a cycle free. Their
tasks run in Python workers of their own, because those of cycles keep what they read of the definitions.

A statement can have more tasks than Spark has slots. Where tasks of a cycle or of a standing query wait at two looks in a
row, some tasks of the statement with the most of them are ended. Spark runs those again later, and gives the free slots to the
pool that comes first.
"""

from __future__ import annotations

import contextlib
import importlib
import logging
import os
import re
import threading
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark import SparkContext
from pyspark.sql import SparkSession
from pyspark.sql.functions import ArrowUDFType, arrow_udf  # type: ignore[attr-defined]

from penstock.cancellation import Cancellation, current_cancellation
from penstock.errors import PenstockError, error
from penstock.settings import Settings
from penstock.types import Type

LOOK_S = 0.5
TASKS_MAX = 1_000
_looking = threading.Lock()


class Preemption:
    """Checks for waiting cycles, in one statement's thread at a time."""

    def __init__(self, context: SparkContext) -> None:
        self._context = context
        self._waited = False

    def look(self) -> int:
        """Free slots if that is due; how many."""
        if not _looking.acquire(blocking=False):
            return 0
        try:
            # Whatever goes wrong here, the next look is soon, and statements have an end.
            with contextlib.suppress(Py4JError, ConnectionError, EOFError):
                return self._free_slots()
        finally:
            _looking.release()
        return 0

    def _free_slots(self) -> int:
        store: Any = self._context._jsc.sc().statusStore()
        stages = _listed(store.activeStages())
        others = (s for s in stages if s.schedulingPool() != ADHOC_POOL)
        waits = any(s.numTasks() > s.numActiveTasks() + s.numCompleteTasks() for s in others)
        waited, self._waited = self._waited, waits
        if not (waits and waited):
            return 0
        adhoc = (s for s in stages if s.schedulingPool() == ADHOC_POOL)
        largest = max(adhoc, key=lambda s: s.numActiveTasks(), default=None)
        if largest is None:
            return 0
        tasks = _listed(store.taskList(largest.stageId(), largest.attemptId(), TASKS_MAX))
        # The newest have the least to lose; a cycle has a task per processor.
        running = sorted((t.taskId() for t in tasks if t.status() == "RUNNING"), reverse=True)
        ended = running[: self._context.defaultParallelism]
        for task in ended:
            self._context._jsc.sc().killTaskAttempt(task, True, "a cycle waits for its slot")
        self._waited = False
        return len(ended)


def _listed(found: Any) -> list[Any]:
    """A sequence of Scala's."""
    return [found.apply(place) for place in range(found.size())]


CYCLE_POOL, STANDING_POOL, ADHOC_POOL = "cycle", "standing", "adhoc"
POOL_PROPERTY = "spark.scheduler.pool"
# Of a statement: Spark sorts and joins by key in so many parts (spark.sql.shuffle.partitions).
SHUFFLE_PARTITIONS = 4
_WORKERS = "PENSTOCK_WORKERS"
_environment_lock = threading.Lock()
# What a call raises when Spark's JVM is not there any more.
LOST = (Py4JNetworkError, ConnectionError, EOFError)
_ALLOCATIONS = """<?xml version="1.0"?>
<allocations>
  <pool name="cycle"><schedulingMode>FIFO</schedulingMode><weight>10</weight><minShare>{cores}</minShare></pool>
  <pool name="standing"><schedulingMode>FAIR</schedulingMode><weight>5</weight><minShare>1</minShare></pool>
  <pool name="adhoc"><schedulingMode>FAIR</schedulingMode><weight>1</weight><minShare>0</minShare></pool>
</allocations>
"""


def local_cores(master: str) -> int | None:
    """Processors that `local[...]` stands for; None for any other master."""
    plain = re.fullmatch(r"local(?:\[([^,\]]+)(?:,[^\]]*)?\])?", master)
    if plain is None:
        return None
    return (os.cpu_count() or 1) if plain.group(1) == "*" else int(plain.group(1) or 1)


def adhoc_parallelism(cores: int) -> int:
    """Tasks in which a statement reads a table: half of the processors, so that one statement leaves some to cycles."""
    return max(1, cores // 2)


def read_parallelism(cores: int) -> int:
    """Tasks in which the current work reads a table."""
    cancellation = current_cancellation()
    return cores if cancellation is None or cancellation.standing else adhoc_parallelism(cores)


def slots(cores: int, statements_max: int) -> int:
    """Tasks that Spark runs at a time: a cycle's, those of a standing query, and those of all statements."""
    return 2 * cores + statements_max * max(adhoc_parallelism(cores), SHUFFLE_PARTITIONS)


def pool_settings(settings: Settings, scratch: Path) -> dict[str, str]:
    """Spark's settings for the pools; their file is written to `scratch`."""
    cores = local_cores(settings.spark_master)
    file = scratch / "pools.xml"
    file.write_text(_ALLOCATIONS.format(cores=cores or 1))
    conf = {
        "spark.scheduler.mode": "FAIR",
        "spark.scheduler.allocation.file": file.as_uri(),
        "spark.driver.maxResultSize": "512m",
        "spark.sql.shuffle.partitions": str(SHUFFLE_PARTITIONS),
    }
    return conf if cores is None else {**conf, "spark.default.parallelism": str(cores)}


@contextlib.contextmanager
def cycle_workers() -> Iterator[None]:
    """Jobs inside this block run in the workers of cycles, whatever `history_workers` does in other threads."""
    with _environment_lock:
        yield


@contextlib.contextmanager
def history_workers(spark: SparkSession) -> Iterator[None]:
    """What is handed to Spark inside runs in the workers of statements: Spark keeps workers apart by their environment.

    That is one for all threads of the session. It is read when a source or function is handed over, not when it runs.
    """
    environment = spark.sparkContext.environment
    with _environment_lock:
        environment[_WORKERS] = "history"
        try:
            yield
        finally:
            del environment[_WORKERS]


def register_function(spark: SparkSession, name: str, call: Callable[..., pa.Array], type_: Type) -> None:
    """Add a function over Arrow columns to the session, for workers of statements."""
    # Under the lock: the filters of warnings belong to the whole process, and are to be put back as they were.
    with history_workers(spark), warnings.catch_warnings():
        # Spark would rather read the kind of function from type hints; a function of any number of columns has none.
        warnings.simplefilter("ignore")
        spark.udf.register(name, arrow_udf(call, type_.to_spark(), ArrowUDFType.SCALAR))


@contextlib.contextmanager
def in_pool(spark: SparkSession, pool: str) -> Iterator[None]:
    """Jobs of this thread, and of queries that it starts, belong to a pool."""
    spark.sparkContext.setLocalProperty(POOL_PROPERTY, pool)
    try:
        yield
    finally:
        _clear(spark.sparkContext, POOL_PROPERTY)


@contextlib.contextmanager
def statement_jobs(spark: SparkSession) -> Iterator[None]:
    """Jobs of this thread end, also in the middle of a task, once the statement shall end."""
    cancellation = current_cancellation()
    if cancellation is None:
        yield
        return
    cancellation.check()
    context = spark.sparkContext
    try:
        context.setJobGroup(cancellation.id, "statement", interruptOnCancel=True)
    except LOST as lost:
        raise restarting() from lost
    wake, ended = threading.Event(), threading.Event()
    forget = cancellation.on_stop(wake.set)
    name = f"penstock-{cancellation.id}"
    threading.Thread(target=_watch, args=(context, cancellation, wake, ended), name=name, daemon=True).start()
    cancellation.place = "Spark"
    try:
        with in_pool(spark, STANDING_POOL if cancellation.standing else ADHOC_POOL):
            yield
    except Exception:
        if cancellation.stopped:  # Spark's error then says only that it was asked to stop
            raise cancellation.failure() from None
        raise
    finally:
        cancellation.place = "server"
        forget()
        ended.set()
        wake.set()
        _clear(context, "spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel")


def restarting() -> PenstockError:
    """What a statement ends with when its JVM is lost."""
    return error("not_ready", detail="Spark is being restarted", hint="ask again in a moment")


def _watch(context: SparkContext, cancellation: Cancellation, wake: threading.Event, ended: threading.Event) -> None:
    """End a statement at its deadline, and its jobs when it is stopped; until then see to it that cycles find slots.

    The thread that stops a statement may be the event loop, which must not wait for the JVM. So this one does.
    `wake` says that the statement was stopped or has ended, `ended` that its thread has left Spark.
    """
    preemption = Preemption(context)
    while True:
        left_s = cancellation.left_s()
        if wake.wait(LOOK_S if left_s is None else min(left_s, LOOK_S)):
            break
        if cancellation.left_s() == 0:
            cancellation.expire()
            break
        if not cancellation.standing:
            preemption.look()
    # Also jobs to come: a statement may be cancelled while Spark plans it. Spark (4.3) does not refuse the stages that its
    # adaptive planner submits later (DAGScheduler.handleMapStageSubmitted), so they are ended until the statement has left.
    with contextlib.suppress(*LOST, Py4JError):  # without its JVM there is nothing to end
        while cancellation.stopped:
            context._jsc.sc().cancelJobGroupAndFutureJobs(cancellation.id)
            if ended.wait(LOOK_S):
                break


def _clear(context: SparkContext, *properties: str) -> None:
    """This thread works for others next."""
    with contextlib.suppress(*LOST):
        for name in properties:
            context.setLocalProperty(name, None)  # type: ignore[arg-type]  # which Spark takes for "none"


_log = logging.getLogger("penstock.pipeline")


def warm_workers(spark: SparkSession) -> None:
    """Run one small task per core, and some for statements. Errors are ignored: the first cycle loads what is missing."""
    cores = spark.sparkContext.defaultParallelism
    tasks = adhoc_parallelism(cores)
    try:
        with cycle_workers():
            frame = spark.range(0, cores, 1, cores).mapInArrow(partial(_load, True), "id BIGINT")
        frame.toArrow()
        with history_workers(spark):
            frame = spark.range(0, tasks, 1, tasks).mapInArrow(partial(_load, False), "id BIGINT")
        frame.toArrow()
    except Exception as failure:
        _log.debug("workers could not be warmed: %s", failure)


def _load(for_cycles: bool, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    importlib.import_module("penstock.pipeline.history")
    if for_cycles:
        importlib.import_module("penstock.cycle.worker")
        # Here, because the server need not load it. Even to read a kernel from its file takes as long as a small cycle.
        from penstock.pipeline.kernel_warmup import OF_WORKERS

        for rehearse in OF_WORKERS:
            rehearse()
    yield from batches
