"""The columns of a logged row, and the time that the log itself gives it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from penstock.catalog.model import ARRIVAL_COLUMN, TIME_COLUMN, VERSION_COLUMN, Table
from penstock.types import TIMESTAMP

Versions = np.ndarray[Any, np.dtype[np.int32]]
Times = np.ndarray[Any, np.dtype[np.int64]]


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


def rows_to_log(table: Table, vids: Versions, times: Times, fields: list[pa.Array]) -> pa.RecordBatch:
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
