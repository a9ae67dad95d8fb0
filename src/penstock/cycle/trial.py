"""Run a cycle without Spark, in processes that may die, to find the queries that stop it.

`python -m penstock.cycle.trial` reads a `Job` from standard input and writes a `Finding` to standard output. It plans the
cycle with the real planner, and tries it with some of the queries in a fork of itself, with the limits of a worker. What
tasks write goes to a scratch folder beside links to log and journal, so that a try leaves nothing behind.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import select
import shutil
import signal
import sys
import time
import uuid
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import orjson

from penstock.catalog.model import QueryDefinition
from penstock.clock_guard import FolderClock
from penstock.cycle.cut import Limits
from penstock.cycle.definitions import definitions_at
from penstock.cycle.folder import DataFolder
from penstock.cycle.offset import offset_from_json
from penstock.cycle.planner import Planner
from penstock.cycle.worker import find_culprits, run_task
from penstock.pipeline.kernel_warmup import OF_WORKERS
from penstock.pipeline.tasks import CycleTask, Exclusions, WorkerLimits, cycle_tasks

# So many culprits that call one function, or read one table, are taken for all that do.
ALIKE_BY_FUNCTION = 2
ALIKE_BY_TABLE = 3
_DONE = b"done"
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True, slots=True)
class Job:
    """The cycle to try, from `start` on, and the limits of a try."""

    folder: str
    start: dict[str, Any]
    cycle_max_rows: int
    fill_max_rows: int
    answer_read_max_rows: int
    join_memory_mb: int
    worker_memory_mb: int
    function_timeout_ms: int
    try_s: float  # for a try with several queries
    alone_s: float  # for one query: only what takes longer than this is blamed
    budget_s: float  # for all tries


@dataclass(frozen=True, slots=True)
class Finding:
    """The queries that stop the cycle, with reasons; what stops it where no query does; how many tries that took.

    `table`: a table with readings that cannot be read, for any query.
    """

    queries: dict[int, str] = field(default_factory=dict)
    table: int | None = None
    unexplained: str | None = None
    tries: int = 0


class CycleTrial:
    """One planned cycle that can be tried with some of its queries."""

    def __init__(self, job: Job, scratch: DataFolder) -> None:
        self._try_s, self._alone_s = job.try_s, job.alone_s
        self._until = time.monotonic() + job.budget_s
        self.tries = 0
        self.last_s = 0.0  # how long the last try took
        self.timed_out = False  # whether it was ended for that
        limits = Limits(job.cycle_max_rows, job.fill_max_rows, history_rows=job.answer_read_max_rows)
        planner, start = Planner(scratch, limits, FolderClock(Path(job.folder))), offset_from_json(job.start)
        end = planner.latest(start)
        self._skipped = planner.skipped(end.journal)
        state = planner.state_at(end.journal)
        worker = WorkerLimits(job.worker_memory_mb, job.function_timeout_ms, job.join_memory_mb << 20)
        self._tasks = cycle_tasks(scratch.log, (start, end), state, 1, self._skipped, worker)
        # Before the first fork: then each try finds them in its memory.
        self._state = definitions_at(str(scratch.root), end.journal).state
        self.tables = sorted({unit.table_id for task in self._tasks for unit in task.units})
        self._files = {u.table_id: [s.path.name for s in u.slices] for t in self._tasks for u in t.units}
        self.suspects = [d.id for d in sorted(self._running(), key=lambda d: (d.reads_functions, d.reads_tables, d.id))]

    def _running(self) -> Iterable[QueryDefinition]:
        """The queries that take part in the cycle."""
        touched = {self._state.tables_by_id[t].name for t in self.tables}
        joined = {q for task in self._tasks for unit in task.joins for q in unit.queries}
        for definition in self._state.queries_by_id.values():
            takes_part = definition.id in joined or not touched.isdisjoint(definition.reads_tables)
            if takes_part and definition.quarantined is None and definition.id not in self._skipped.queries:
                yield definition

    @property
    def out_of_time(self) -> bool:
        return time.monotonic() > self._until

    def fails(self, group: Collection[int], tables: Collection[int] | None = None) -> str | None:
        """Why the cycle fails with these queries, over all its tables or some; None where it passes."""
        self.tries += 1
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(read)
            self._try(group, self.tables if tables is None else tables, write)
        os.close(write)
        began, limit_s = time.monotonic(), self._alone_s if len(group) < 2 else self._try_s
        try:
            why = _outcome(child, read, limit_s)
        finally:
            os.close(read)
        self.last_s = time.monotonic() - began
        self.timed_out = why is not None and self.last_s >= limit_s
        return why

    def allow_for(self, reading_s: float) -> None:
        """Where reading alone takes long, because the machine is busy, so may everything else."""
        self._try_s, self._alone_s = max(self._try_s, 4 * reading_s), max(self._alone_s, 8 * reading_s)

    def _try(self, group: Collection[int], tables: Collection[int], write: int) -> None:
        """In a process of its own, which ends here."""
        said = _DONE
        try:
            _end_with_parent()
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            chosen = set(group)
            left_out = {q: "" for q in self.suspects if q not in chosen} | dict(self._skipped.queries)
            for task in self._tasks:
                for _ in run_task(_restricted(task, left_out, tables)):
                    pass
        except OSError:
            pass  # no query causes an error of the disk
        except MemoryError:
            said = b"it took too much memory (worker_memory_mb)"
        except BaseException as failure:
            said = f"{type(failure).__name__}: {failure}".encode()[:1000]
        os.write(write, said or b"it failed")
        os._exit(0)

    def callers(self, queries: Iterable[int], function: str | None = None) -> list[int]:
        known = self._state.queries_by_id
        return [
            q
            for q in queries
            if known[q].reads_functions and (function is None or function in known[q].reads_functions)
        ]

    def alike(self, found: Collection[int]) -> dict[int, str]:
        """Queries that need not be tried one by one: several like them were found already."""
        known, alike = self._state.queries_by_id, dict[int, str]()
        for function in {f for q in found for f in known[q].reads_functions}:
            if len(self.callers(found, function)) >= ALIKE_BY_FUNCTION:
                why = f'function "{function}" stops the cycle'
                alike |= dict.fromkeys(self.callers(self.suspects, function), why)
        for table in {t for q in found for t in known[q].reads_tables if not known[q].reads_functions}:
            if sum(table in known[q].reads_tables for q in found) >= ALIKE_BY_TABLE:
                why = f'several queries of table "{table}" stop the cycle'
                alike |= {q: why for q in self.suspects if table in known[q].reads_tables}
        return alike

    def of_table(self, table_id: int, why: str) -> dict[int, str]:
        """The queries that read a table, with the error that its readings cannot be read."""
        name = self._state.tables_by_id[table_id].name
        files = ", ".join(self._files[table_id][:3])
        told = f'the readings of table "{name}" ({files}) cannot be read: {why}'
        known = self._state.queries_by_id
        return {q: told for q in self.suspects if name in known[q].reads_tables}


def find_poison(cycle: CycleTrial) -> Finding:
    """Which queries stop a cycle; nothing where it passes."""
    if (why := cycle.fails(())) is not None:
        return Finding(unexplained=why, tries=cycle.tries) if cycle.timed_out else _unreadable_table(cycle, why)
    cycle.allow_for(cycle.last_s)
    found: dict[int, str] = {}
    rest = cycle.suspects
    while rest and (why := cycle.fails(rest)) is not None:
        if cycle.out_of_time:
            return Finding(found, unexplained=None if found else why, tries=cycle.tries)
        # User functions first: little else can stop a worker.
        callers = cycle.callers(rest)
        if callers and len(callers) < len(rest):
            rest_of_them = [q for q in rest if q not in set(callers)]
            group = callers if cycle.fails(callers) is not None else rest_of_them
        else:
            group = rest
        culprits = find_culprits(group, cycle.fails, thorough=False)
        if not culprits:
            return Finding(found, unexplained=None if found else why, tries=cycle.tries)
        found |= culprits
        found = cycle.alike(found) | found
        rest = [q for q in rest if q not in found]
    return Finding(found, tries=cycle.tries)


def _unreadable_table(cycle: CycleTrial, why: str) -> Finding:
    """Without any query the cycle fails: it is the reading of a table's rows."""
    culprits = find_culprits(cycle.tables, lambda some: cycle.fails((), some), thorough=False)
    if not culprits:
        return Finding(unexplained=why, tries=cycle.tries)
    table_id, reason = next(iter(culprits.items()))
    queries = cycle.of_table(table_id, reason)
    return Finding(queries, table_id, None if queries else reason, cycle.tries)


def _restricted(task: CycleTask, left_out: dict[int, str], tables: Collection[int]) -> CycleTask:
    units = tuple(unit for unit in task.units if unit.table_id in tables)
    return replace(task, units=units, skipped=Exclusions(left_out, task.skipped.tables))


def _outcome(child: int, read: int, limit_s: float) -> str | None:
    """Why a try failed; one that takes too long is ended."""
    ready, _, _ = select.select([read], [], [], limit_s)
    said = os.read(read, 4096) if ready else None
    if said is None:
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if said is None:
        return f"it did not end within {limit_s:.0f} s"
    if said:
        return None if said == _DONE else said.decode(errors="replace")
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        return f"its process was ended by signal {signal.Signals(-code).name}"
    return f"its process ended with code {code}"


def _end_with_parent() -> None:
    """Have the kernel end this process when its parent ends: nothing would read its report."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def scratch_folder(folder: DataFolder) -> DataFolder:
    """A data folder that has the log and the journal of another one, and nothing else."""
    scratch = DataFolder(folder.tmp / f"trial-{uuid.uuid4().hex}")
    for part in (scratch.tmp, scratch.results, scratch.sheets, scratch.buffers):
        part.mkdir(parents=True)
    for name in ("log", "journal", "folder_id"):
        (scratch.root / name).symlink_to(folder.root / name)
    return scratch


def main() -> None:
    job = Job(**orjson.loads(sys.stdin.buffer.read()))
    _end_with_parent()
    with contextlib.suppress(OSError):
        os.nice(5)
    for rehearse in OF_WORKERS:  # before the first fork: then no try has to load machine code
        rehearse()
    scratch = scratch_folder(DataFolder(Path(job.folder)))
    try:
        finding = find_poison(CycleTrial(job, scratch))
    finally:
        shutil.rmtree(scratch.root, ignore_errors=True)
    sys.stdout.buffer.write(orjson.dumps(finding, option=orjson.OPT_NON_STR_KEYS))


if __name__ == "__main__":
    main()
