"""Hot segments: one Arrow IPC file per table and commit, with the idempotency keys of its pushes in its schema."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from penstock.catalog.model import TIME_COLUMN
from penstock.streams.log.atomic_file import CrashPoint, make_folder, store
from penstock.streams.log.checksums import open_sealed, sealed_file
from penstock.streams.log.layout import Segment, segment_name

KEYS = b"penstock.keys"
_SMALL_BATCH_ROWS = 8192


class QueuedAppend(Protocol):
    """One batch of a commit, with the key and receipt that must be durable with it."""

    batch: pa.RecordBatch
    key: str | None
    receipt: dict[str, Any] | None
    at_us: int


def write_hot(
    folder: Path, temporary: Path, first: int, queued: Sequence[QueuedAppend], crash_point: CrashPoint
) -> Segment:
    """Write batches of one schema as the segment that starts at `first`; synced when this returns."""
    batches = [append.batch for append in queued]
    rows = sum(batch.num_rows for batch in batches)
    if len(batches) > 1 and rows < _SMALL_BATCH_ROWS * len(batches):
        # Many small batches in a file cost every reader more than one copy costs here.
        batches = pa.Table.from_batches(batches).combine_chunks().to_batches()
    low, high = _times(batches)
    write = sealed_file(batches[0].schema.with_metadata(_keys(queued, first)), batches)
    target = folder / segment_name(first, first + rows, low, high, "arrow")
    make_folder(folder)
    store(temporary, target, write, crash_point, "log")
    return Segment(target, first, first + rows, low, high, "arrow")


def _times(batches: Sequence[pa.RecordBatch]) -> tuple[int, int]:
    bounds = [pc.min_max(batch.column(TIME_COLUMN).view(pa.int64())) for batch in batches]
    return min(b["min"].as_py() for b in bounds), max(b["max"].as_py() for b in bounds)


def _keys(queued: Sequence[QueuedAppend], first: int) -> dict[bytes, bytes] | None:
    found = []
    for append in queued:
        first += append.batch.num_rows
        if append.key is not None:
            found.append([append.key, append.at_us, first, append.receipt or {"accepted": append.batch.num_rows}])
    return {KEYS: json.dumps(found, separators=(",", ":")).encode()} if found else None


def read_keys(path: Path) -> list[tuple[str, int, int, dict[str, Any]]]:
    """The (key, arrival, position after, receipt) of the pushes that wrote a hot segment."""
    with pa.memory_map(str(path)) as source:
        metadata = open_sealed(path, source).metadata or {}
    return [(key, at_us, position, receipt) for key, at_us, position, receipt in json.loads(metadata.get(KEYS, b"[]"))]
