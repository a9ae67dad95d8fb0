"""The results that a task gives to the commit: rows of RESULT_SCHEMA.

Beside the results, tasks report the work time that belongs to some queries only: their functions, slices and the history that
they read. So the server shows each query its own cost. The rest is divided evenly.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import orjson

from penstock.cycle.commit_files import ResultRow
from penstock.errors import PenstockError
from penstock.pipeline.tasks import CycleTask, Unit


def heading(task: CycleTask) -> list[ResultRow]:
    """The row with the cycle's number and offsets, which the first task of a cycle gives."""
    if task.cycle is None:
        return []
    start, end = task.cycle
    return [(0, "cycle", 0, 0, orjson.dumps({"start": start, "end": end}))]


def told(failure: PenstockError) -> bytes:
    """What a query failed with, as a row's payload."""
    return orjson.dumps({"condition": failure.condition, "message": failure.message})


def quarantined(why: str) -> PenstockError:
    """The error of a query that is to be taken out of the cycles."""
    return PenstockError("query_quarantined", why)


# Less is not worth a row of the record.
LEAST_MS = 0.05


class StepTimes:
    """Adds up the time of the steps that only some queries pay for, by the names of their costs."""

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)

    def timed(self, cost: str | None, work: Iterable[ResultRow]) -> list[ResultRow]:
        """All of it, done at once."""
        began = time.perf_counter()
        done = list(work)
        if cost is not None:
            self.seconds[cost] += time.perf_counter() - began
        return done


def spent_row(unit: Unit, seconds: float, spent: StepTimes, calling_s: Mapping[str, float]) -> Iterator[ResultRow]:
    """The time of steps and of each function; the time of a fill belongs wholly to the queries that it reads for."""
    told: dict[str, Any]
    if unit.kind == "fill":
        told = {"queries": sorted({q for q, _, _ in unit.spans}), "ms": _ms(seconds)}
    else:
        functions = {name: _ms(spent) for name, spent in calling_s.items() if _ms(spent) >= LEAST_MS}
        told = {"functions": functions, **{cost: _ms(s) for cost, s in spent.seconds.items()}}
        if not functions and all(_ms(s) < LEAST_MS for s in spent.seconds.values()):
            return
    yield unit.table_id, "spent", 0, unit.first, orjson.dumps(told)


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 3)
