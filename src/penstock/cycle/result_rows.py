"""The results that a task gives to the commit: rows of RESULT_SCHEMA."""

from __future__ import annotations

import orjson
import pyarrow as pa

from penstock.cycle.commit_files import RESULT_SCHEMA, ResultRow
from penstock.errors import PenstockError
from penstock.pipeline.tasks import CycleTask

__all__ = ["ResultRow", "as_batch", "heading", "quarantined", "told"]


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


def as_batch(rows: list[ResultRow]) -> pa.RecordBatch:
    columns = zip(*rows, strict=True) if rows else ([] for _ in RESULT_SCHEMA)
    arrays = [pa.array(list(c), f.type) for c, f in zip(columns, RESULT_SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=RESULT_SCHEMA)
