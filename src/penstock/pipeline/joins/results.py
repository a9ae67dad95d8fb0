"""Results of a join step: log positions per input, the earliest and the latest time, and what functions computed.

Small ones travel in the commit record; large ones are files that count only when a record names them.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from penstock.operators.evaluate import Functions, evaluate
from penstock.operators.joins.combinations import Combinations
from penstock.pipeline.folder import DataFolder
from penstock.pipeline.joins.prepared import PreparedJoin
from penstock.streams.sealing import check_seal, sealed
from penstock.streams.storing import store

INLINE_ROWS = 2_000
EARLIEST, LATEST = "#ts_min", "#ts"


def position_column(stream: int) -> str:
    return f"#p{stream}"


def result_table(join: PreparedJoin, found: Combinations, functions: Functions) -> pa.Table:
    """Combinations as results."""
    streams = range(len(join.streams))
    times = [found.ts[s] for s in streams]
    names = [position_column(s) for s in streams] + [EARLIEST, LATEST]
    arrays = [pa.array(found.pos[s]) for s in streams]
    arrays += [pa.array(np.minimum.reduce(times)), pa.array(np.maximum.reduce(times))]
    if join.computed:
        columns = found.evaluable(join.join.aliases)
        arrays += [evaluate(o.expr, columns, len(found), functions) for o in join.computed]
        names += [o.name for o in join.computed]
    return pa.table(arrays, names)


def packed(folder: DataFolder, query_id: int, results: Sequence[pa.Table]) -> Iterator[tuple[str, int, bytes]]:
    """(kind, rows, payload) as the commit record holds them."""
    if not results:
        return
    whole = pa.concat_tables(results).combine_chunks()
    if whole.num_rows <= INLINE_ROWS:
        yield "join", whole.num_rows, to_bytes(whole)
    else:
        yield "join_file", whole.num_rows, write_results(folder, query_id, whole).encode()


def to_bytes(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def from_bytes(payload: bytes) -> pa.Table:
    return pa.ipc.open_stream(payload).read_all()


def write_results(folder: DataFolder, query_id: int, table: pa.Table) -> str:
    """A file of results, on disk; returns its name."""
    name = f"{query_id}-{uuid.uuid4().hex}.arrow"
    batches = table.combine_chunks().to_batches()
    schema = sealed(table.schema, batches)

    def write(path: Path) -> None:
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
            for batch in batches:
                writer.write_batch(batch)

    store(folder.tmp, folder.results / name, write, at="results")
    return name


def read_results(folder: DataFolder, name: str) -> pa.Table:
    path = folder.results / name
    source = pa.memory_map(str(path))
    reader = pa.ipc.open_file(source)
    check_seal(path, source, reader.schema)
    return reader.read_all().replace_schema_metadata()
