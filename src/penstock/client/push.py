"""Pushing readings: batches, keys that make a repeat harmless, and retries.

Rows with the same fields travel as Arrow; rows that Arrow cannot hold in one column type travel as JSON, so that
the server can refuse the odd one by its index instead of all.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib import parse

import orjson
import pyarrow as pa

from penstock.back_off import BackOff
from penstock.client.transport import ARROW, JSON, Transport, refuse_not_finite, to_json
from penstock.errors import PenstockError, error

if TYPE_CHECKING:
    import pandas as pd

Readings: TypeAlias = "Sequence[Mapping[str, Any]] | pd.DataFrame | pa.Table | pa.RecordBatch"

BATCH_ROWS = 50_000
# Well below the server's body_max_bytes.
BATCH_BYTES = 16 << 20
BACK_OFF = BackOff(least_s=0.1, most_s=5.0)
RETRY_CONDITIONS = frozenset({"connection_failed", "not_ready", "too_busy", "rate_limited"})


@dataclass(frozen=True, slots=True)
class Refusal:
    """One reading that was not stored, by its place in what was pushed, and why."""

    index: int
    condition: str
    message: str


@dataclass(frozen=True, slots=True)
class Receipt:
    """What became of a push: how many readings are on disk, which were refused, the log's head after."""

    accepted: int
    refused: tuple[Refusal, ...] = ()
    position: int = 0


@dataclass(frozen=True, slots=True)
class PushBatch:
    """One body to send; `first` is the index of its first reading."""

    first: int
    media_type: str
    body: bytes


def send(transport: Transport, table: str, batch: PushBatch, key: str, retry_for_s: float) -> dict[str, Any]:
    """Send a batch, for up to `retry_for_s`; what the server says became of it. The key lets the server store it once."""
    path = f"/v1/tables/{quote(table)}/readings"
    headers = {"Content-Type": batch.media_type, "Idempotency-Key": key, "Accept": JSON}
    deadline = time.monotonic() + retry_for_s
    failures = 0
    while True:
        try:
            response = transport.call("POST", path, content=batch.body, headers=headers)
            reply: dict[str, Any] = orjson.loads(response.content)
            return reply
        except PenstockError as problem:
            failures += 1
            pause_s = BACK_OFF.pause_s(failures)
            if problem.condition not in RETRY_CONDITIONS or time.monotonic() + pause_s > deadline:
                raise
        # Spread over time, so that many senders do not come back in one moment.
        time.sleep(pause_s * random.uniform(0.5, 1.5))


def quote(name: str) -> str:
    """A name as one segment of a path."""
    return parse.quote(name, safe="")


def batches(readings: Readings, batch_rows: int = BATCH_ROWS) -> Iterator[PushBatch]:
    """Bodies in order. The same readings always fall into the same batches, which repeats by key rely on."""
    if isinstance(readings, pa.RecordBatch):
        readings = pa.Table.from_batches([readings])
    if isinstance(readings, pa.Table):
        yield from _arrow_batches(readings, 0, batch_rows)
    elif isinstance(readings, Sequence):
        for start in range(0, len(readings), batch_rows):
            yield from _row_batches(readings[start : start + batch_rows], start, batch_rows)
    elif hasattr(readings, "columns"):
        yield from _arrow_batches(pa.Table.from_pandas(readings, preserve_index=False), 0, batch_rows)
    else:
        raise error(
            "invalid_parameter",
            detail=f"cannot push a {type(readings).__name__}",
            hint="push a list of dictionaries, a DataFrame or an Arrow table",
        )


def _arrow_batches(table: pa.Table, first: int, batch_rows: int) -> Iterator[PushBatch]:
    if table.num_rows:
        batch_rows = min(batch_rows, max(1, BATCH_BYTES * table.num_rows // max(table.nbytes, 1)))
    for start in range(0, table.num_rows, batch_rows):
        part = table.slice(start, batch_rows)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, part.schema) as writer:
            writer.write_table(part)
        yield PushBatch(first + start, ARROW, bytes(memoryview(sink.getvalue())))


def _row_batches(rows: Sequence[Mapping[str, Any]], first: int, batch_rows: int) -> Iterator[PushBatch]:
    names = list(rows[0])
    keys = rows[0].keys()
    if names and all(row.keys() == keys for row in rows):
        try:
            columns = [pa.array([row[name] for row in rows]) for name in names]
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError):
            pass
        else:
            yield from _arrow_batches(pa.Table.from_arrays(columns, names=names), first, batch_rows)
            return
    refuse_not_finite(value for row in rows for value in row.values())
    body = to_json([dict(row) for row in rows])
    if len(body) > BATCH_BYTES and len(rows) > 1:
        middle = len(rows) // 2
        yield from _row_batches(rows[:middle], first, batch_rows)
        yield from _row_batches(rows[middle:], first + middle, batch_rows)
        return
    yield PushBatch(first, JSON, body)
