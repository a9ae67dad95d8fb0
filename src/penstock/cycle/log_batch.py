"""The rows of one unit of work, read from the log slices that hold them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.catalog.model import POSITION_COLUMN, TIME_COLUMN, VERSION_COLUMN, FlatColumn, Table
from penstock.catalog.rows import StaticRows
from penstock.errors import PenstockError, error
from penstock.pipeline.tasks import Unit
from penstock.streams.log.segment_rows import read_slice
from penstock.types import TIMESTAMP

# Where a row stands in the log: every reader of segments knows it, also without TABLESAMPLE.
POSITION = FlatColumn(POSITION_COLUMN.name, POSITION_COLUMN.type, "stream", POSITION_COLUMN.name)


def slice_schema(fields: Sequence[FlatColumn]) -> pa.Schema:
    """The log columns to read for some stream fields: older files lack newer ones and read NULL."""
    hidden = [pa.field(VERSION_COLUMN.name, pa.int32()), pa.field(TIME_COLUMN, TIMESTAMP.to_arrow())]
    return pa.schema([*hidden, *(pa.field(f.source, f.type.to_arrow()) for f in fields)])


def stream_fields(table: Table, wanted: Iterable[str]) -> list[FlatColumn]:
    """Which of the wanted flat columns are fields of the stream."""
    flat = {c.name: c for c in table.flat_columns()}
    flat[POSITION_COLUMN.name] = POSITION
    return [flat[n] for n in sorted(set(wanted)) if n in flat and flat[n].origin == "stream"]


def flat_columns(
    table: Table, wanted: Iterable[str], log: pa.Table, vids: np.ndarray[Any, np.dtype[np.int32]], static: StaticRows
) -> dict[str, pa.Array]:
    """The wanted columns (and ts) of log rows: fields from the log, static values by version."""
    flat: Mapping[str, FlatColumn] = {c.name: c for c in table.flat_columns()}
    columns = {f.name: one_array(log.column(f.source)) for f in stream_fields(table, wanted)}
    columns[TIME_COLUMN] = one_array(log.column(TIME_COLUMN))
    names = [n for n in set(wanted) if n in flat and flat[n].origin == "static"]
    if names:
        versions, index = static.versions(), pa.array(vids)
        for name in names:
            columns[name] = one_array(versions.column(name).take(index))
    return columns


def one_array(column: pa.ChunkedArray) -> pa.Array:
    combined = column.combine_chunks()
    return combined if isinstance(combined, pa.Array) else pa.concat_arrays(combined.chunks)


def missing_rows(table_id: int, first: int, end: int) -> PenstockError:
    return error("corrupt_segment", segment=f"{table_id}/{first:016d}-{end:016d}", detail="a file is missing")


@dataclass(frozen=True, slots=True)
class LogBatch:
    """A unit's rows in memory: the columns that some query asks for, by flat name."""

    first: int
    count: int
    vids: np.ndarray[Any, np.dtype[np.int32]]
    times: np.ndarray[Any, np.dtype[np.int64]]
    columns: dict[str, pa.Array]
    static: StaticRows

    @classmethod
    def read(cls, unit: Unit, table: Table, wanted: set[str], static: StaticRows) -> LogBatch:
        schema = slice_schema(stream_fields(table, wanted))
        log = pa.concat_tables([read_slice(s, schema=schema) for s in unit.slices] or [schema.empty_table()])
        if log.num_rows != unit.end - unit.first:
            raise missing_rows(table.id, unit.first, unit.end)
        vids = log.column(VERSION_COLUMN.name).to_numpy()
        columns = flat_columns(table, wanted, log, vids, static)
        times = columns[TIME_COLUMN].cast(pa.int64()).to_numpy()
        return cls(unit.first, log.num_rows, vids, times, columns, static)

    def part(self, start: int, count: int) -> LogBatch:
        """Some of the rows, without a copy."""
        columns = {name: column.slice(start, count) for name, column in self.columns.items()}
        end = start + count
        return LogBatch(self.first + start, count, self.vids[start:end], self.times[start:end], columns, self.static)
