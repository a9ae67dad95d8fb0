"""The results that a task gives to the commit: rows of RESULT_SCHEMA.

Beside the results, tasks report the work time of each unit of work: the read of a table, its shared pass, each function, each
family of slices; and the history that some queries read. The server shows each query its own cost and the load by unit.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

import orjson

from penstock.cycle.commit_files import ResultRow
from penstock.cycle.log_batch import LogBatch
from penstock.errors import PenstockError
from penstock.pipeline.tasks import CycleTask, Unit


def heading(task: CycleTask) -> list[ResultRow]:
    """The row with the cycle's number and offsets, which the first task of a cycle gives."""
    if task.cycle is None:
        return []
    start, end = task.cycle
    return [(0, "cycle", 0, 0, orjson.dumps({"start": start, "end": end, "tasks": task.tasks}))]


def told(failure: PenstockError) -> bytes:
    """What a query failed with, as a row's payload."""
    return orjson.dumps({"condition": failure.condition, "message": failure.message})


def quarantined(why: str) -> PenstockError:
    """The error of a query that is to be taken out of the cycles."""
    return PenstockError("query_quarantined", why)


# Less is not worth a place in the record.
LEAST_MS = 0.05


@dataclass(slots=True)
class UnitCost:
    """What one unit of work took in one task: the rows that it met, those that it gave, and nanoseconds."""

    kind: str
    name: str = ""
    rows: int = 0
    out: int = 0
    ns: int = 0

    def add(self, rows: int, out: int, ns: int) -> None:
        self.rows, self.out, self.ns = self.rows + rows, self.out + out, self.ns + ns


class StepTimes:
    """The units of a table's work: reading its rows, and each step that does not report its own."""

    def __init__(self) -> None:
        self.units: list[UnitCost] = []

    def timed_read(self, read: Callable[[], LogBatch]) -> LogBatch:
        began = time.perf_counter_ns()
        batch = read()
        self.units.append(UnitCost("read", "", batch.count, batch.count, time.perf_counter_ns() - began))
        return batch

    def timed(self, kind: str | None, batch: LogBatch, work: Iterable[ResultRow]) -> list[ResultRow]:
        """All of it, done at once."""
        began = time.perf_counter_ns()
        done = list(work)
        if kind is not None:
            out = sum(row[2] for row in done if row[1] in _FOUND)
            self.units.append(UnitCost(kind, "", batch.count, out, time.perf_counter_ns() - began))
        return done


# The kinds of rows that say how many rows queries found.
_FOUND = ("match", "counts")


def spent_row(unit: Unit, seconds: float, spent: StepTimes, calls: Mapping[str, UnitCost]) -> Iterator[ResultRow]:
    """The units of new rows; the time of a fill belongs wholly to the queries that it reads for."""
    if unit.kind == "fill":
        told = {"queries": sorted({q for q, _, _ in unit.spans}), "ms": round(seconds * 1000, 3)}
        yield unit.table_id, "spent", 0, unit.first, orjson.dumps(told)
        return
    calling = sum(call.ns for call in calls.values())
    for each in spent.units:
        if each.kind == "pass":  # predicates call functions, which are units of their own
            each.ns = max(0, each.ns - calling)
    yield from units_row(unit.table_id, unit.first, [*spent.units, *calls.values()])


def units_row(table_id: int, first: int, units: Iterable[UnitCost]) -> Iterator[ResultRow]:
    """The row that reports units; those that took next to nothing are reported as one unit without a name of each kind."""
    told: list[UnitCost] = []
    small: dict[str, UnitCost] = {}
    for unit in units:
        if unit.ns >= LEAST_MS * 1e6:
            told.append(unit)
        elif unit.kind not in small:
            small[unit.kind] = UnitCost(unit.kind, "", unit.rows, unit.out, unit.ns)
        else:
            small[unit.kind].add(0, unit.out, unit.ns)
    told += [unit for unit in small.values() if unit.ns >= LEAST_MS * 1e6]
    if told:
        facts = [[u.kind, u.name, u.rows, u.out, u.ns] for u in told]
        yield table_id, "spent", 0, first, orjson.dumps({"units": facts})
