"""Log rows as queries see them: flat columns, static values gathered by version."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.catalog.model import POSITION_COLUMN, TIME_COLUMN, VERSION_COLUMN, FlatColumn, Table
from penstock.catalog.rows import StaticRows
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
    columns = {f.name: _one(log.column(f.source)) for f in stream_fields(table, wanted)}
    columns[TIME_COLUMN] = _one(log.column(TIME_COLUMN))
    names = [n for n in set(wanted) if n in flat and flat[n].origin == "static"]
    if names:
        versions, index = static.versions(), pa.array(vids)
        for name in names:
            columns[name] = _one(versions.column(name).take(index))
    return columns


def _one(column: pa.ChunkedArray) -> pa.Array:
    combined = column.combine_chunks()
    return combined if isinstance(combined, pa.Array) else pa.concat_arrays(combined.chunks)
