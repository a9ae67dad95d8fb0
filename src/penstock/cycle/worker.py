"""One task of a cycle, in a Spark worker: new rows against all queries, old rows against those that fill.

The rows of a table are read once, for the steps of all operators. Results are small rows of RESULT_SCHEMA: what each step
found, and the newest times per static version (`newest_times`).
"""

from __future__ import annotations

import contextlib
import gc
import logging
import resource
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow as pa

from penstock.cycle.commit_files import ResultRow, result_batch
from penstock.cycle.condition_rows import CONDITIONS_MOST, condition_rows
from penstock.cycle.definitions import Definitions, definitions_at
from penstock.cycle.folder import DataFolder
from penstock.cycle.log_batch import LogBatch
from penstock.cycle.result_rows import StepTimes, heading, quarantined, spent_row, told
from penstock.cycle.step_cache import steps_of
from penstock.errors import PenstockError, error
from penstock.expr.conditions import take_figures
from penstock.expr.newest_times import newest_by_version
from penstock.expr.user_functions import limit_functions
from penstock.operators.join.steps.task import JoinTask
from penstock.pipeline.tasks import CycleTask, Unit, WorkerLimits
from penstock.streams.log.release_memory import give_back_large_at_once

_log = logging.getLogger("penstock.pipeline")


def run_task(task: CycleTask) -> Iterator[pa.RecordBatch]:
    """Run one task; its results as record batches of RESULT_SCHEMA."""
    if not _tasks_run:
        give_back_large_at_once()
    limit_worker(task.limits)
    rows = heading(task)
    if task.units or task.joins:
        definitions, folder = definitions_at(task.folder, task.journal), DataFolder(Path(task.folder))
        definitions.skip(frozenset(task.skipped.queries))
        if task.cycle is not None:
            rows.extend((q, "error", 0, 0, told(quarantined(why))) for q, why in task.skipped.queries.items())
        for unit in task.units:
            rows.extend(_run_unit(unit, definitions, folder))
        if task.joins:
            rows.extend(_run_joins(task, definitions))
    _freeze_imports()
    yield result_batch(rows)


def _run_joins(task: CycleTask, definitions: Definitions) -> Iterator[ResultRow]:
    joins = JoinTask(DataFolder(Path(task.folder)), definitions, task.limits.join_memory_bytes)
    for unit in task.joins:
        yield from joins.run(unit)
    yield from condition_rows(take_figures(CONDITIONS_MOST))
    joins.finish(owns_cleaning=task.cycle is not None)


_tasks_run = 0


def _freeze_imports() -> None:
    """Take what the first tasks loaded out of the collector's sight.

    Spark's workers run a full collection after every task; over all that our imports made it took 40 ms a task,
    most of a small cycle. What is loaded once stays for the life of the worker anyway.
    """
    global _tasks_run
    _tasks_run += 1
    if _tasks_run <= 2:
        gc.collect()
        gc.freeze()


def _run_unit(unit: Unit, definitions: Definitions, folder: DataFolder) -> Iterator[ResultRow]:
    definitions.take_calls()  # what others called meanwhile is not this unit's
    began, spent = time.perf_counter(), StepTimes()
    try:
        said = list(_meet_rows(unit, definitions, folder, spent))
    except OSError:
        raise  # an error of the disk concerns all queries: the cycle is tried again
    except Exception as failure:
        said = _meet_without_culprits(unit, definitions, folder, failure)
    yield from said
    yield from spent_row(unit, time.perf_counter() - began, spent, definitions.take_calls())


def _meet_without_culprits(
    unit: Unit, definitions: Definitions, folder: DataFolder, failure: Exception
) -> list[ResultRow]:
    """The results of a unit without the queries that make it fail, and the errors of these.

    Where no query fails alone, the error is raised: with fewer rows the cycle may succeed.
    """
    skipped, table = definitions.skipped, definitions.state.tables_by_id[unit.table_id]
    named = [q for q, _, _ in unit.spans] or [
        q.id for q in definitions.state.queries_by_id.values() if table.name in q.reads_tables
    ]
    suspects = [q for q in named if q not in skipped]

    def meet(left_out: Iterable[int]) -> list[ResultRow]:
        definitions.skip(skipped.union(left_out))
        return list(_meet_rows(unit, definitions, folder, StepTimes()))

    def fails(group: Sequence[int]) -> str | None:
        try:
            meet(set(suspects).difference(group))
        except OSError:
            raise
        except Exception as problem:
            return f"{type(problem).__name__}: {problem}"
        return None

    try:
        if (why := fails(())) is not None:
            unreadable = error("internal_error", detail=f'rows of table "{table.name}" cannot be read: {why}')
            return [(q, "error", 0, unit.first, told(unreadable)) for q in suspects]
        found = find_culprits(suspects, fails, thorough=True)
        if not found:
            raise failure
        _log.warning("queries %s fail in the cycle: %s", sorted(found), next(iter(found.values())))
        return [(q, "error", 0, unit.first, told(quarantined(why))) for q, why in found.items()] + meet(found)
    finally:
        definitions.skip(skipped)


def _meet_rows(unit: Unit, definitions: Definitions, folder: DataFolder, spent: StepTimes) -> Iterator[ResultRow]:
    table = definitions.state.tables_by_id[unit.table_id]
    filling = frozenset(q for q, _, _ in unit.spans) if unit.kind == "fill" else None
    steps = steps_of(definitions, table, filling, unit.low, unit.kind != "late")
    try:
        wanted = set[str]().union(*(step.columns for step in steps))
        static = definitions.state.rows(table.id)
        batch = spent.timed_read(lambda: LogBatch.read(unit, table, wanted, static))
    except PenstockError as damage:
        # These rows cannot be recovered: the table's queries fail, other tables go on.
        for query_id in chain(*steps):
            yield query_id, "error", 0, unit.first, told(damage)
        return
    if unit.kind == "live":
        yield from _newest(batch, table.id)
    for step in steps:
        yield from spent.timed(step.cost, batch, step.run(batch, unit, folder))
        yield from condition_rows([(table.id, step.take_figures(CONDITIONS_MOST))], unit.first)


def _newest(batch: LogBatch, table_id: int) -> Iterator[ResultRow]:
    if batch.count:
        vids, times = newest_by_version(batch.vids, batch.times)
        payload = np.asarray(vids, np.int64).tobytes() + np.asarray(times, np.int64).tobytes()
        yield table_id, "newest", batch.count, batch.first, payload


Fails = Callable[[Sequence[int]], str | None]
"""Why a group fails when it is tried; None where it does not."""


def find_culprits(group: Sequence[int], fails: Fails, thorough: bool) -> dict[int, str]:
    """The members of a failing group that fail alone, each with the reason; none where only several together fail.

    `thorough` looks for all of them at once, which pays where a try is cheap. Otherwise one is found, by at most one
    try per halving and one more; the half that is not tried is taken to fail where the other half does not.
    """
    if len(group) == 1:
        why = fails(group)
        return {group[0]: why} if why is not None else {}
    left, right = group[: len(group) // 2], group[len(group) // 2 :]
    if not thorough:
        return find_culprits(left if fails(left) is not None else right, fails, thorough)
    found: dict[int, str] = {}
    for half in (left, right):
        if len(half) == 1 or fails(half) is not None:
            found |= find_culprits(half, fails, thorough)
    return found


_memory_mb = 0


def limit_worker(limits: WorkerLimits) -> None:
    """Hold this process to the limits of a task. Too much memory is a MemoryError then, which is traced to its query.

    What the process has at its first task does not count: Arrow reserves a gigabyte of addresses and uses little of it.
    Nor do mapped files, and memory that is shared with other processes.
    """
    global _memory_mb
    limit_functions(limits.function_timeout_ms / 1000)
    if limits.memory_mb and limits.memory_mb != _memory_mb:
        _memory_mb = limits.memory_mb
        with contextlib.suppress(ValueError, KeyError, OSError):  # not Linux, or a harder limit was set from outside
            pa.allocate_buffer(1)
            _, most = resource.getrlimit(resource.RLIMIT_DATA)
            resource.setrlimit(resource.RLIMIT_DATA, (_data_bytes() + (_memory_mb << 20), most))


def _data_bytes() -> int:
    """The memory of this process that RLIMIT_DATA counts."""
    with open("/proc/self/status") as facts:
        sizes = dict(line.split(":", 1) for line in facts)
    return int(sizes["VmData"].split()[0]) << 10
