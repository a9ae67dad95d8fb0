"""The work time of a cycle that belongs to some queries only: their functions, slices and the history that they read.

Tasks report it beside the results, so that the server shows each query its own cost. The rest is divided evenly.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import orjson

from penstock.cycle.result_rows import ResultRow
from penstock.pipeline.tasks import Unit

# Less is not worth a row of the record.
LEAST_MS = 0.05


class Stopwatch:
    """Adds up the time of some of the work."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def timed(self, work: Iterable[ResultRow]) -> list[ResultRow]:
        """All of it, done at once."""
        began = time.perf_counter()
        done = list(work)
        self.seconds += time.perf_counter() - began
        return done


def spent_row(unit: Unit, seconds: float, slicing_s: float, calling_s: Mapping[str, float]) -> Iterator[ResultRow]:
    """The time of slicing and of each function; the time of a fill belongs wholly to the queries that it reads for."""
    told: dict[str, Any]
    if unit.kind == "fill":
        told = {"queries": sorted({q for q, _, _ in unit.spans}), "ms": _ms(seconds)}
    else:
        functions = {name: _ms(spent) for name, spent in calling_s.items() if _ms(spent) >= LEAST_MS}
        told = {"functions": functions, "slices": _ms(slicing_s)}
        if not functions and told["slices"] < LEAST_MS:
            return
    yield unit.table_id, "spent", 0, unit.first, orjson.dumps(told)


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 3)
