"""The log of one table: what waits to be written, the (hot) segments that it becomes, and where it ends at a start.

A hot segment is an Arrow file with the idempotency keys of its pushes in its schema.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.catalog.model import ARRIVAL_COLUMN, TIME_COLUMN, VERSION_COLUMN, Table
from penstock.catalog.rows import Int32s, Int64s
from penstock.damage import DamageReport
from penstock.errors import PenstockError, error
from penstock.settings import Settings
from penstock.streams.log.atomic_file import CrashPoint, make_folder, store
from penstock.streams.log.checksums import open_sealed, sealed_file
from penstock.streams.log.segment_rows import open_rows
from penstock.streams.log.segments import Segment, list_files, segment_name
from penstock.types import TIMESTAMP

COMMIT_AT_BYTES = 8 << 20  # this much is worth a segment at once; waiting for more would only use memory
INTERVAL_MAX_S = 2.0
ARRIVALS_KEPT = 4096
"""Of so many segments it is known when they came: some minutes of backlog."""
LONG_AGO = -(2**62)


class LogMoved(Exception):
    """What the caller had looked at before its append is no longer so: look again, then append again."""


@dataclass(frozen=True, slots=True)
class CommitFailures:
    """What a caller relied on: the number of journal pauses so far, and of failed commits of the table."""

    stills: int
    failures: int


@dataclass(slots=True)
class Append:
    """One queued batch. `receipt` goes to disk with `key`, in the same file as the rows."""

    batch: pa.RecordBatch
    future: Future[int]
    key: str | None
    receipt: dict[str, Any] | None
    at_us: int


@dataclass(slots=True)
class TableLog:
    """One table as the writer knows it: how far it is written, and what waits."""

    head: int = 0
    last_ts: int = LONG_AGO
    files: int = 0
    failures: int = 0
    committed_at_s: float = 0.0
    pending: list[Append] = field(default_factory=list)
    pending_bytes: int = 0
    broken: PenstockError | None = None
    arrivals: deque[tuple[int, int]] = field(default_factory=lambda: deque(maxlen=ARRIVALS_KEPT))
    """Of the segments that were written lately: the first position, and when the first of their readings came."""

    @property
    def is_large(self) -> bool:
        return self.pending_bytes >= COMMIT_AT_BYTES

    def add(self, append: Append) -> None:
        self.pending.append(append)
        self.pending_bytes += append.batch.nbytes

    def take(self) -> list[Append]:
        taken, self.pending, self.pending_bytes = self.pending, [], 0
        return taken

    def due_at_s(self, settings: Settings) -> float:
        """When the next segment is written: longer after the last one as files pile up faster than they merge."""
        base = settings.group_commit_ms / 1000
        most = settings.files_max_per_table
        excess = (self.files - most / 2) / (most / 2)
        pause = base if excess <= 0 else min(INTERVAL_MAX_S, base * 2 ** (10 * min(excess, 1.0)))
        return self.committed_at_s + pause


def open_table(folder: Path, report: DamageReport) -> TableLog:
    """Head and newest time of a table from its file names. Its newest files go to `corrupt/` if they cannot be opened.

    Nothing comes after those, so the log goes on before them, unless a commit or
    a journal entry has named their positions already (`StreamLog.reserve`). Times go on after theirs.
    """
    last_ts = LONG_AGO
    while True:
        # Not a cover: a file missing in the middle must stop its readers, not the server.
        files = list_files(folder)
        if not files:
            return TableLog(last_ts=last_ts)
        newest = max(files, key=lambda segment: (segment.end, segment.rows))
        try:
            rows = open_rows(newest.path, newest.format)
            if rows != newest.rows:
                raise error("corrupt_segment", segment=newest.path.name, detail=f"it holds {rows} rows")
        except PenstockError as problem:
            last_ts = max(last_ts, newest.max_ts)
            report.set_aside(newest.path, "log", problem.message)
            continue
        return TableLog(newest.end, max(last_ts, *(segment.max_ts for segment in files)), len(files))


def log_schema(table: Table) -> pa.Schema:
    """The columns of a sensor table's log: `_vid`, `ts`, `_at` (valid time only), the stream's fields."""
    fields = [
        pa.field(VERSION_COLUMN.name, VERSION_COLUMN.type.to_arrow()),
        pa.field(TIME_COLUMN, TIMESTAMP.to_arrow()),
    ]
    if table.options.time == "valid":
        fields.append(pa.field(ARRIVAL_COLUMN.name, ARRIVAL_COLUMN.type.to_arrow()))
    stream_fields = table.stream.fields if table.stream is not None else ()
    return pa.schema([*fields, *(pa.field(f.name, f.type.to_arrow()) for f in stream_fields)])


def rows_to_log(table: Table, vids: Int32s, times: Int64s, fields: list[pa.Array]) -> pa.RecordBatch:
    """A batch for `StreamLog.append`, which gives its rows the time that is the log's own."""
    assert table.stream is not None
    ts = pa.Array.from_buffers(TIMESTAMP.to_arrow(), len(vids), [None, pa.py_buffer(times)])
    names = [VERSION_COLUMN.name, TIME_COLUMN, *(f.name for f in table.stream.fields)]
    return pa.RecordBatch.from_arrays([pa.array(vids, pa.int32()), ts, *fields], names=names)


def stamp(table: Table, batch: pa.RecordBatch, stamp_us: int) -> pa.RecordBatch:
    """The batch as it is logged: `stamp_us` is the rows' `ts` under transaction time, their `_at` under valid time."""
    schema = log_schema(table)
    given = TIME_COLUMN if table.options.time == "transaction" else ARRIVAL_COLUMN.name
    arrays = []
    for column in schema:
        if column.name == given:
            values = np.full(batch.num_rows, stamp_us, dtype=np.int64)
            arrays.append(pa.Array.from_buffers(column.type, batch.num_rows, [None, pa.py_buffer(values)]))
        else:
            arrays.append(batch.column(column.name))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


KEYS = b"penstock.keys"
_SMALL_BATCH_ROWS = 8192


def write_hot(folder: Path, temporary: Path, first: int, queued: Sequence[Append], crash_point: CrashPoint) -> Segment:
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


def _keys(queued: Sequence[Append], first: int) -> dict[bytes, bytes] | None:
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
