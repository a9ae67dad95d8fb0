"""The step of a worker for all standing select-project queries of one table: one shared pass over the rows.

For few queries the results are a bitmap of positions each. For many they are one matrix: short answers become lists, dense
ones with sliding windows a file of bits.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap

from penstock.catalog.model import POSITION_COLUMN, QueryDefinition
from penstock.cycle.commit_files import ResultRow, to_payload
from penstock.cycle.folder import DataFolder
from penstock.cycle.log_batch import LogBatch
from penstock.cycle.result_rows import told
from penstock.errors import PenstockError
from penstock.expr.bits import bitmap_of_words
from penstock.expr.evaluate import Calls, Functions, evaluate
from penstock.expr.expression import Expr, calls_user, columns_of
from penstock.expr.lazy_factors import FactorFigures
from penstock.expr.predicate_index import Matrix, PredicateIndex
from penstock.expr.windows import RowsWindow
from penstock.operators.base.blocks import BLOCK_ROWS
from penstock.operators.base.step import RowStep
from penstock.operators.select.bit_matrix import BitMatrix, BitMatrixRef, write_matrix
from penstock.operators.select.durability import Durability, keeping_of, meets_rows
from penstock.operators.select.position_lists import PositionLists
from penstock.pipeline.tasks import Unit
from penstock.sql.plan import Output, Plan, SelectPlan

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


@dataclass(frozen=True, slots=True)
class Key:
    """What a bitmap stands for: a query's answer (`match`), or the rows its rows window counts (`base`)."""

    query_id: int
    kind: str

    @classmethod
    def of(cls, number: int) -> Key:
        """What a number of the index stands for."""
        return cls(abs(number), "match" if number > 0 else "base")


Found = tuple[Key, BitMap]


class SelectStep(RowStep):
    """Evaluates all standing select-project queries of one table over rows."""

    cost: ClassVar[str | None] = "pass"

    def __init__(self, table_id: int, functions: Functions) -> None:
        self.table_id = table_id
        self._functions = functions
        # Of a plan nothing else is kept: ten thousand of them were most of what a worker had.
        self._needs: dict[int, frozenset[str]] = {}
        self._computed: dict[int, tuple[Output, ...]] = {}
        self._sharing: dict[frozenset[str], tuple[frozenset[str], int]] = {}  # the one that stands for its equals
        self._columns: Counter[str] = Counter()
        self._index = PredicateIndex(functions=functions)
        self._keeping_of: dict[int, Durability] = {}
        self._keeping: tuple[npt.NDArray[np.int64], npt.NDArray[np.int8]] | None = None

    def __len__(self) -> int:
        return len(self._needs)

    def __contains__(self, query_id: int) -> bool:
        return query_id in self._needs

    def __iter__(self) -> Iterator[int]:
        return iter(self._needs)

    def follow(self, query_id: int, query: QueryDefinition | None, plan: Plan | None, fill: bool) -> None:
        selection = plan.kernel.selection if plan is not None and plan.kernel is not None else None
        # A fill reads for it whatever its strategy is by now: history that a cycle was planned to read is known from then on.
        if selection is not None and query is not None and (not query.paused if fill else meets_rows(query, selection)):
            self.add(query_id, selection)
        elif query_id in self:
            self.remove(query_id)

    def add(self, query_id: int, plan: SelectPlan) -> None:
        """Put a query in, in place of what it was before."""
        if query_id in self._needs:
            self.remove(query_id)
        computed = tuple(o for o in plan.outputs if calls_user(o.expr))
        if computed:
            self._computed[query_id] = computed
        needs = _columns_of(plan, computed)
        needs, sharing = self._sharing.get(needs, (needs, 0))
        self._needs[query_id], self._sharing[needs] = needs, (needs, sharing + 1)
        if not sharing:
            self._columns.update(needs)
        self._put(query_id, plan.static_predicate, plan.stream_predicate, keeping_of(plan))
        if isinstance(plan.window, RowsWindow) and plan.static_predicate is not None:
            self._put(-query_id, plan.static_predicate, None, Durability.RECORD)

    def _put(self, number: int, static: Expr | None, stream: Expr | None, keeping: Durability) -> None:
        self._keeping_of[number] = keeping
        self._index.add(number, static, stream)

    def remove(self, query_id: int) -> None:
        # What no query needs any more must not be read from the log.
        needs, sharing = self._sharing[self._needs.pop(query_id)]
        if sharing > 1:
            self._sharing[needs] = needs, sharing - 1
        else:
            del self._sharing[needs]
            self._columns -= Counter(needs)
        self._computed.pop(query_id, None)
        for number in (query_id, -query_id):
            if number in self._keeping_of:
                del self._keeping_of[number]
                self._index.remove(number)

    @property
    def columns(self) -> set[str]:
        """What the queries need of the rows here; the server computes the rest of their outputs."""
        return set(self._columns)

    def take_figures(self, most: int) -> Mapping[Expr, FactorFigures]:
        return self._index.take_figures(most)

    def run(self, batch: LogBatch, unit: Unit, folder: DataFolder) -> Iterator[ResultRow]:
        if unit.kind == "live" and len(self) >= MATRIX_MIN_QUERIES and batch.count:
            for found in encode_matches(self, batch, folder.sheets):
                if isinstance(found[0], Key):
                    yield from self._answer(batch, found[0], found[1])
                else:
                    yield found
            return
        spans = {q: BitMap(range(first - unit.first, end - unit.first)) for q, first, end in unit.spans}
        for key, answer in self.match(batch):
            own = spans.get(key.query_id)
            if isinstance(answer, PenstockError) and own is not None and len(own) < batch.count:
                answer = self._within(batch, key, own)
            if isinstance(answer, PenstockError):
                yield key.query_id, "error", 0, unit.first, told(answer)
                continue
            yield from self._answer(batch, key, answer & spans[key.query_id] if key.query_id in spans else answer)

    def _within(self, batch: LogBatch, key: Key, own: BitMap) -> BitMap | PenstockError:
        """A query's matches among its own rows of a batch, where a function raised at some of all rows."""
        if not own:
            return own
        found = dict(self.match(batch.part(own.min(), len(own)))).get(key, BitMap())
        return found if isinstance(found, PenstockError) else found.shift(own.min())

    def _answer(self, batch: LogBatch, key: Key, found: BitMap) -> Iterator[ResultRow]:
        """One query's matches as a bitmap, with the output of user functions, which the server does not run."""
        if not found:
            return
        values = self.values(key.query_id, batch, found) if key.kind == "match" else None
        if isinstance(values, PenstockError):
            yield key.query_id, "error", 0, batch.first, told(values)
            return
        if values is not None:
            yield key.query_id, "values", len(found), batch.first, values
        block = batch.first // BLOCK_ROWS * BLOCK_ROWS
        moved = found.shift(batch.first - block)
        moved.run_optimize()
        yield key.query_id, key.kind, len(moved), block, moved.serialize()

    def match(self, batch: LogBatch) -> Iterator[tuple[Key, BitMap | PenstockError]]:
        """Every query with rows in the batch, with their offsets. Bitmaps may be shared: read only.

        A user's function may fail: that harms no query that does not call it.
        """
        for number, found in self._index.match(batch.columns, batch.vids, batch.static.versions()):
            yield Key.of(number), found

    def matrix(self, batch: LogBatch) -> Matrix:
        """All answers at once, those of few sensors as lists."""
        return self._index.match_matrix(batch.columns, batch.vids, batch.static.versions(), rare=True)

    def keeping(self, numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.int8]:
        """How long the matches of each number of a matrix have to last."""
        if self._keeping is None or self._keeping[0] is not numbers:
            kinds = (self._keeping_of[n] for n in numbers.tolist())
            self._keeping = numbers, np.fromiter(kinds, np.int8, len(numbers))
        return self._keeping[1]

    def values(self, query_id: int, batch: LogBatch, found: BitMap) -> bytes | PenstockError | None:
        """Output columns that call user functions, computed here because such code never runs in the server."""
        outputs = self._computed.get(query_id)
        if outputs is None:
            return None
        chosen = pa.array(np.asarray(found, np.int64))
        columns = {name: column.take(chosen) for name, column in batch.columns.items()}
        try:
            calls = Calls()  # fields of one call need it once
            arrays = [evaluate(o.expr, columns, len(chosen), self._functions, calls) for o in outputs]
        except PenstockError as failure:
            return failure
        positions = pa.array(np.asarray(found, np.int64) + batch.first)
        result = pa.table([positions, *arrays], [POSITION_COLUMN.name, *(o.name for o in outputs)])
        return to_payload(result)


def _columns_of(plan: SelectPlan, computed: Iterable[Output]) -> frozenset[str]:
    needed = [o.expr for o in computed]
    if plan.stream_predicate is not None:
        needed.append(plan.stream_predicate)
    return frozenset(sys.intern(name) for expr in needed for name in columns_of(expr))


def encode_matches(step: SelectStep, batch: LogBatch, folder: Path) -> Iterator[ResultRow | Found]:
    """Matches of many queries for the commit record; answers that go there as bitmaps of offsets are left to the caller."""
    for start in range(0, batch.count, SHEET_MAX_ROWS):
        part = batch.part(start, min(SHEET_MAX_ROWS, batch.count - start))
        yield from _encode_part(step, part, start, folder)


def _encode_part(step: SelectStep, part: LogBatch, start: int, folder: Path) -> Iterator[ResultRow | Found]:
    matrix, table_id = step.matrix(part), step.table_id
    for number, failure in matrix.failed.items():
        yield Key.of(number).query_id, "error", 0, part.first, told(failure)
    counts = matrix.counts[matrix.row_of]
    keeping = step.keeping(matrix.numbers)
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
            known[row] = _bitmap(matrix, row).shift(start)
        yield Key.of(int(matrix.numbers[at])), known[row]


def _bitmap(matrix: Matrix, row: int) -> BitMap:
    bits = len(matrix.words)
    return bitmap_of_words(matrix.words[row]) if row < bits else BitMap(matrix.lists.at(row - bits))


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
    offsets = matrix.rows(matrix.row_of[chosen].astype(np.int64))
    return PositionLists(part.first, part.first + part.count, matrix.numbers[chosen], starts, offsets)


def _sheet(matrix: Matrix, chosen: npt.NDArray[np.bool_], part: LogBatch, table_id: int, folder: Path) -> BitMatrixRef:
    queries = matrix.numbers[chosen]
    used, row_of = np.unique(matrix.row_of[chosen], return_inverse=True)
    end = part.first + part.count
    times, vids = part.times, part.vids
    rows, wanted = row_of.astype(np.int32), used.astype(np.int64)
    words, rows_of_words = (
        (matrix.words, wanted) if int(wanted[-1]) < len(matrix.words) else (matrix.bits(wanted), None)
    )
    sheet = BitMatrix(table_id, part.first, end, queries, rows, times, vids, words, rows_of_words)
    low, high = int(part.times.min()), int(part.times.max())
    return BitMatrixRef(table_id, part.first, end, low, high, write_matrix(folder, sheet), BitMap(queries.tolist()))


STEP = SelectStep
