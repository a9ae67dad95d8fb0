"""Encode the matches of many queries in one range of new rows: as a bit matrix, as lists, or as bitmaps in the record."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap

from penstock.cycle.log_batch import LogBatch
from penstock.cycle.result_rows import ResultRow, told
from penstock.expr.bits import bitmap_of_words, list_rows
from penstock.expr.predicate_index import Matrix
from penstock.operators.select.bit_matrix import BitMatrix, BitMatrixRef, write_matrix
from penstock.operators.select.durability import Durability
from penstock.operators.select.position_lists import PositionLists
from penstock.operators.select.step import Key, SelectStep

# With fewer queries a bitmap each is as good, and durable.
MATRIX_MIN_QUERIES = 64
# Fewer answers, or over fewer rows, are not worth a file.
SHEET_MIN_QUERIES = 64
SHEET_MIN_ROWS = 512
# A larger matrix takes its worker's memory for nothing.
SHEET_MAX_ROWS = 1 << 16
# Up to this many rows, or this share of all, an answer is cheap enough for the record, where it is durable.
RARE_ROWS = 16
RARE_SHARE = 1024

Found = tuple[Key, BitMap]


def wants_matrix(shared: SelectStep, batch: LogBatch) -> bool:
    return len(shared) >= MATRIX_MIN_QUERIES and batch.count > 0


def encode_matches(shared: SelectStep, batch: LogBatch, table_id: int, folder: Path) -> Iterator[ResultRow | Found]:
    """Rows for the commit record; answers that go there as bitmaps of offsets in the batch are left to the caller."""
    for start in range(0, batch.count, SHEET_MAX_ROWS):
        part = batch.part(start, min(SHEET_MAX_ROWS, batch.count - start))
        yield from _mark_part(shared, part, start, table_id, folder)


def _mark_part(
    shared: SelectStep, part: LogBatch, start: int, table_id: int, folder: Path
) -> Iterator[ResultRow | Found]:
    matrix = shared.matrix(part)
    for number, failure in matrix.failed.items():
        yield Key.of(number).query_id, "error", 0, part.first, told(failure)
    counts = matrix.counts[matrix.row_of]
    keeping = shared.keeping(matrix.numbers)
    few = max(RARE_ROWS, part.count // RARE_SHARE) if part.count >= SHEET_MIN_ROWS else part.count
    listed = (counts > 0) & (keeping >= Durability.LISTED) & (counts <= few)
    soft = (keeping == Durability.SOFT) & (counts > few)
    if int(soft.sum()) < SHEET_MIN_QUERIES:
        soft[:] = False
    yield from _counts(matrix, counts, listed | soft, table_id, part.first)
    if listed.any():
        yield table_id, "lists", part.count, part.first, _lists(matrix, counts, listed, part).to_bytes()
    if soft.any():
        yield table_id, "sheet", part.count, part.first, _sheet(matrix, soft, part, table_id, folder).to_bytes()
    known: dict[int, BitMap] = {}
    for at in np.flatnonzero((counts > 0) & ~listed & ~soft).tolist():
        row = int(matrix.row_of[at])
        if row not in known:
            known[row] = bitmap_of_words(matrix.words[row]).shift(start)
        yield Key.of(int(matrix.numbers[at])), known[row]


def _counts(
    matrix: Matrix,
    counts: npt.NDArray[np.int64],
    chosen: npt.NDArray[np.bool_],
    table_id: int,
    first: int,
) -> Iterator[ResultRow]:
    """How many rows each of these queries matched, so that the server need not read lists and bit matrices for it."""
    if chosen.any():
        found = counts[chosen]
        yield table_id, "counts", int(found.sum()), first, matrix.numbers[chosen].tobytes() + found.tobytes()


def _lists(
    matrix: Matrix, counts: npt.NDArray[np.int64], chosen: npt.NDArray[np.bool_], part: LogBatch
) -> PositionLists:
    found = counts[chosen]
    starts = np.append(0, np.cumsum(found))
    offsets = list_rows(matrix.words, matrix.row_of[chosen].astype(np.int64), found)
    return PositionLists(part.first, part.first + part.count, matrix.numbers[chosen], starts, offsets)


def _sheet(matrix: Matrix, chosen: npt.NDArray[np.bool_], part: LogBatch, table_id: int, folder: Path) -> BitMatrixRef:
    queries = matrix.numbers[chosen]
    used, row_of = np.unique(matrix.row_of[chosen], return_inverse=True)
    end = part.first + part.count
    times, vids = part.times, part.vids
    rows, wanted = row_of.astype(np.int32), used.astype(np.int64)
    sheet = BitMatrix(table_id, part.first, end, queries, rows, times, vids, matrix.words, wanted)
    low, high = int(part.times.min()), int(part.times.max())
    return BitMatrixRef(table_id, part.first, end, low, high, write_matrix(folder, sheet), BitMap(queries.tolist()))
