"""The rows of the log's files: slices in, Arrow tables out. Damage is told as corrupt_segment.

A file that compaction replaced in the meantime is found again by its log positions, which are for ever.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate, groupby
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from penstock.catalog.model import POSITION_COLUMN, TIME_COLUMN
from penstock.errors import error
from penstock.streams.log.checksums import check_footer, check_schema, open_sealed, open_stream
from penstock.streams.log.segments import Format, Slice, list_segments, slices

# What reading a damaged file can end in: its names and lengths are read before any checksum.
_UNREADABLE = (pa.ArrowException, OSError, ValueError, OverflowError)


def read_slice(
    slice: Slice,
    columns: Sequence[str] | None = None,
    *,
    schema: pa.Schema | None = None,
    min_ts: int | None = None,
    max_ts: int | None = None,
) -> pa.Table:
    """The rows of a slice in log order; Arrow files are memory-mapped without a copy.

    `schema` gives exactly these columns, NULL where the file is older than a column (ADD COLUMN). Without it,
    `columns` picks by name, and a column the file lacks is NULL without a type. `_pos` may be asked for: the
    log position. With `min_ts` or `max_ts`, row groups wholly outside are left out and `_pos` says which
    rows came; rows inside a row group are not filtered. Raises corrupt_segment where the file cannot be read.
    """
    names = list(schema.names) if schema is not None else (None if columns is None else list(columns))
    try:
        with _telling_damage(slice.path):
            if slice.format == "arrow":
                parts = [(slice.first, _read_arrow(slice, names))]
            else:
                parts = list(_read_parquet(slice, names, min_ts, max_ts))
    except FileNotFoundError:
        return _read_elsewhere(slice, columns, schema, min_ts, max_ts)
    tables = [_shape(table, first, names, schema) for first, table in parts]
    return tables[0] if len(tables) == 1 else pa.concat_tables(tables)


def open_rows(path: Path, format: Format) -> int:
    """How many rows a file holds, from its footer. Raises corrupt_segment where it has none."""
    with _telling_damage(path):
        if format == "parquet":
            check_footer(path)
            return int(pq.read_metadata(path).num_rows)
        with pa.memory_map(str(path)) as source:
            reader = pa.ipc.open_file(source)
            return sum(reader.get_batch(i).num_rows for i in range(reader.num_record_batches))


def file_schema(path: Path, format: Format) -> pa.Schema:
    """The columns of a file, without its metadata."""
    with _telling_damage(path):
        if format == "parquet":
            check_footer(path)
            return pq.read_schema(path).remove_metadata()
        with pa.memory_map(str(path)) as source:
            return pa.ipc.open_file(source).schema.remove_metadata()


@contextmanager
def _telling_damage(path: Path) -> Iterator[None]:
    """Raise corrupt_segment for what reading a damaged file ends in. One that is not there was replaced, or is missing."""
    try:
        yield
    except FileNotFoundError:
        raise
    except _UNREADABLE as problem:
        raise _corrupt(path, problem) from problem


def _read_arrow(slice: Slice, names: list[str] | None) -> pa.Table:
    source = pa.memory_map(str(slice.path))
    schema = open_sealed(slice.path, source).remove_metadata()
    picked = None
    if names is not None:
        picked = [i for i, name in enumerate(schema.names) if name in names]
        schema = pa.schema([schema.field(i) for i in picked])
        if not picked:
            return _no_columns(slice.rows)
    batches: list[pa.RecordBatch] = []
    skip, wanted = slice.skip, slice.rows
    for batch in open_stream(source, picked):
        if wanted == 0:
            break
        if skip >= batch.num_rows:
            skip -= batch.num_rows
            continue
        piece = batch.slice(skip, wanted)
        skip, wanted = 0, wanted - piece.num_rows
        batches.append(piece)
    if wanted:
        raise _corrupt(slice.path, f"{wanted} rows are missing")
    return pa.Table.from_batches(batches, schema=batches[0].schema if batches else schema).replace_schema_metadata()


def _read_parquet(
    slice: Slice, names: list[str] | None, min_ts: int | None, max_ts: int | None
) -> Iterator[tuple[int, pa.Table]]:
    """Pairs of a log position and the consecutive rows from it. At least one, possibly empty."""
    check_footer(slice.path)
    with pq.ParquetFile(slice.path, memory_map=True, page_checksum_verification=True) as file:
        check_schema(file.schema_arrow)
        present = file.schema_arrow.names
        picked = None if names is None else [name for name in present if name in names]
        metadata, end = file.metadata, slice.skip + slice.rows
        if end > metadata.num_rows:
            raise _corrupt(slice.path, f"{end - metadata.num_rows} rows are missing")
        time_index = present.index(TIME_COLUMN) if TIME_COLUMN in present else None
        groups = [metadata.row_group(g) for g in range(metadata.num_row_groups)]
        starts = list(accumulate((group.num_rows for group in groups), initial=0))
        wanted = [
            g
            for g, group in enumerate(groups)
            if starts[g] < end and starts[g + 1] > slice.skip and not _outside(group, time_index, min_ts, max_ts)
        ]
        if not wanted:
            empty = file.schema_arrow.remove_metadata().empty_table()
            yield slice.first, empty if picked is None else empty.select(picked)
        # Neighbours are read together: along them, row groups and their places in the list differ by the same number.
        for _, neighbours in groupby(enumerate(wanted), key=lambda pair: pair[1] - pair[0]):
            run = [g for _, g in neighbours]
            begin, stop = starts[run[0]], starts[run[-1] + 1]
            if picked is not None and not picked:
                table = _no_columns(stop - begin)
            else:
                table = file.read_row_groups(run, columns=picked, use_threads=False).replace_schema_metadata()
            low, high = max(slice.skip, begin), min(end, stop)
            yield slice.first + low - slice.skip, table.slice(low - begin, high - low)


def _outside(group: pq.RowGroupMetaData, index: int | None, min_ts: int | None, max_ts: int | None) -> bool:
    if index is None or (min_ts is None and max_ts is None):
        return False
    # Column order in the footer equals the schema's only while no nested column precedes; ts is always second.
    statistics = group.column(index).statistics
    if statistics is None or not statistics.has_min_max:
        return False
    low, high = (
        int(np.datetime64(time.replace(tzinfo=None), "us").astype(np.int64))
        for time in (statistics.min, statistics.max)
    )
    return (min_ts is not None and high < min_ts) or (max_ts is not None and low > max_ts)


def _shape(table: pa.Table, first: int, names: list[str] | None, schema: pa.Schema | None) -> pa.Table:
    if names is None:
        return table
    arrays: list[pa.ChunkedArray | pa.Array] = []
    fields: list[pa.Field] = []
    for i, name in enumerate(names):
        kind = schema.field(i).type if schema is not None else None
        if name == POSITION_COLUMN.name:
            array: pa.ChunkedArray | pa.Array = pa.array(np.arange(first, first + table.num_rows, dtype=np.int64))
        elif name in table.column_names:
            array = table.column(name)
        else:
            array = pa.nulls(table.num_rows, kind)
        if kind is not None and array.type != kind:
            array = array.cast(kind)
        arrays.append(array)
        fields.append(schema.field(i) if schema is not None else pa.field(name, array.type))
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


def _read_elsewhere(
    slice: Slice, columns: Sequence[str] | None, schema: pa.Schema | None, min_ts: int | None, max_ts: int | None
) -> pa.Table:
    """The same rows from the files that replaced the one that is gone."""
    folder = slice.path.parent
    found = slices(list_segments(folder.parent, int(folder.name)), slice.first, slice.end)
    if sum(piece.rows for piece in found) != slice.rows or any(piece.path == slice.path for piece in found):
        raise _corrupt(slice.path, "the file is missing")
    pieces = [read_slice(piece, columns, schema=schema, min_ts=min_ts, max_ts=max_ts) for piece in found]
    return pa.concat_tables(pieces, promote_options="default")


def _no_columns(rows: int) -> pa.Table:
    return pa.table({"_": pa.nulls(rows)})


def _corrupt(path: Path, problem: object) -> Exception:
    return error(
        "corrupt_segment",
        segment=f"{path.parent.name}/{path.name}",
        detail=str(problem),
        hint="the disk may be failing; put the file back from a backup",
    )
