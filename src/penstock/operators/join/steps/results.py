"""Results of a join step: log positions per input, versions of ordinary tables' rows, the earliest and the latest time,
and what functions computed.

Small ones travel in the commit record; large ones are files that count only when a record names them.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from penstock.cycle.commit_files import ResultRow, to_payload
from penstock.cycle.folder import DataFolder
from penstock.cycle.result_rows import quarantined
from penstock.errors import PenstockError, error
from penstock.expr.evaluate import FunctionCalls, Functions, evaluate
from penstock.operators.base.blocks import Blocks, add_positions
from penstock.operators.join.kernels.combinations import Combinations
from penstock.operators.join.kernels.keys import Ints
from penstock.operators.join.steps.prepared_join import PreparedJoin
from penstock.streams.log.atomic_file import store
from penstock.streams.log.checksums import read_sealed, sealed_file

INLINE_ROWS = 2_000
FILE_ROWS = 1_000_000
EARLIEST, LATEST = "#ts_min", "#ts"


def position_column(stream: int) -> str:
    return f"#p{stream}"


def version_column(table: int) -> str:
    """Which version of an ordinary table's row a result has; tables are counted as the plan lists them."""
    return f"#v{table}"


def result_table(join: PreparedJoin, found: Combinations, functions: Functions) -> pa.Table:
    """Combinations as results."""
    streams = range(len(join.streams))
    times = [found.ts[s] for s in streams]
    names = [position_column(s) for s in streams] + [EARLIEST, LATEST]
    arrays = [pa.array(found.pos[s]) for s in streams]
    arrays += [pa.array(np.minimum.reduce(times)), pa.array(np.maximum.reduce(times))]
    for place, table in enumerate(join.tables):
        if table.is_shown:
            names.append(version_column(place))
            arrays.append(pa.array(found.pos[len(join.streams) + place]))
    if join.computed:
        columns = found.evaluable(join.join.aliases)
        calls = FunctionCalls()  # fields of one call need it once
        arrays += [evaluate(o.expr, columns, len(found), functions, calls) for o in join.computed]
        names += [o.name for o in join.computed]
    return pa.table(arrays, names)


class Results:
    """Collects the results of one part; large results go to disk before they fill the memory."""

    def __init__(self, folder: DataFolder, query_id: int) -> None:
        self._folder = folder
        self._query_id = query_id
        self._waiting: list[pa.Table] = []
        self.waiting_rows = 0
        self._files: list[tuple[str, int, bytes]] = []

    def add(self, table: pa.Table) -> None:
        self._waiting.append(table)
        self.waiting_rows += table.num_rows
        if self.waiting_rows >= FILE_ROWS:
            self.flush()

    @property
    def writes_files(self) -> bool:
        """Whether packing will go to disk."""
        return self.waiting_rows > INLINE_ROWS or bool(self._files and self.waiting_rows)

    def packed(self) -> Iterator[tuple[str, int, bytes]]:
        """(kind, rows, payload) as the commit record holds them."""
        if self.writes_files:
            self.flush()
        yield from self._files
        if self.waiting_rows:
            yield "join", self.waiting_rows, to_payload(pa.concat_tables(self._waiting).combine_chunks())

    def flush(self) -> None:
        """What is waiting goes to disk."""
        whole = pa.concat_tables(self._waiting)
        self._files.append(
            ("join_file", self.waiting_rows, write_results(self._folder, self._query_id, whole).encode())
        )
        self._waiting, self.waiting_rows = [], 0


def as_error(failure: Exception) -> PenstockError:
    """The error of a query with a failed join."""
    if isinstance(failure, PenstockError):
        return failure
    return quarantined(f"the join could not be computed: {type(failure).__name__}: {failure}")


def write_results(folder: DataFolder, query_id: int, table: pa.Table) -> str:
    """A file of results, on disk; returns its name."""
    name = f"{query_id}-{uuid.uuid4().hex}.arrow"
    write = sealed_file(table.schema, table.combine_chunks().to_batches())
    store(folder.tmp, folder.results / name, write, at="results")
    return name


def read_results(folder: DataFolder, name: str) -> pa.Table:
    """The results in a file. Raises corrupt_segment where it cannot be read."""
    path = folder.results / name
    try:
        return read_sealed(path, pa.memory_map(str(path))).replace_schema_metadata()
    except (OSError, pa.ArrowException, ValueError, OverflowError) as problem:
        detail = "the file is missing" if isinstance(problem, FileNotFoundError) else str(problem)
        hint = "pause and resume the query: it reads its history again"
        raise error("corrupt_segment", segment=f"results/{name}", detail=detail, hint=hint) from problem


def bitmaps(query_id: int, kind: str, positions: Sequence[Ints]) -> Iterator[ResultRow]:
    """Positions as the commit record holds them, one bitmap per block."""
    blocks: Blocks = {}
    for some in positions:
        add_positions(blocks, some)
    for block, found in blocks.items():
        found.run_optimize()
        yield query_id, kind, len(found), block, found.serialize()
