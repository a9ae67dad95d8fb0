"""The rows of one unit of work, read from the log slices that hold them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.catalog.model import TIME_COLUMN, VERSION_COLUMN, Table
from penstock.catalog.rows import StaticRows
from penstock.cycle.readings import flat_columns, slice_schema, stream_fields
from penstock.errors import error
from penstock.pipeline.tasks import Unit
from penstock.streams.log.segment_rows import read_slice


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
            raise error(
                "corrupt_segment", segment=f"{table.id}/{unit.first:016d}-{unit.end:016d}", detail="a file is missing"
            )
        vids = log.column(VERSION_COLUMN.name).to_numpy()
        columns = flat_columns(table, wanted, log, vids, static)
        times = columns[TIME_COLUMN].cast(pa.int64()).to_numpy()
        return cls(unit.first, log.num_rows, vids, times, columns, static)

    def part(self, start: int, count: int) -> LogBatch:
        """Some of the rows, without a copy."""
        columns = {name: column.slice(start, count) for name, column in self.columns.items()}
        end = start + count
        return LogBatch(self.first + start, count, self.vids[start:end], self.times[start:end], columns, self.static)
