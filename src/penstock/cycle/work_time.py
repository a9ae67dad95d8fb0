"""What parts of a cycle took that are not everybody's: users' functions, slices, a history that is read.

Told beside the results, so that the server shows a query its own cost. The rest of a cycle is shared evenly.
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
    """Adds up what some of the work took."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def timed(self, work: Iterable[ResultRow]) -> list[ResultRow]:
        """All of it, done at once."""
        began = time.perf_counter()
        done = list(work)
        self.seconds += time.perf_counter() - began
        return done


def spent_row(unit: Unit, seconds: float, slicing_s: float, calling_s: Mapping[str, float]) -> Iterator[ResultRow]:
    """Of `seconds`, what slicing and each function took; a history is wholly theirs whose windows reach it."""
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
