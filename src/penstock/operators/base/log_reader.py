"""Read rows of the log by position: at the positions of a bitmap, inside a window, with projection last."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from penstock.catalog.model import POSITION_COLUMN, TIME_COLUMN, VERSION_COLUMN, Table
from penstock.catalog.rows import StaticRows
from penstock.cycle.definitions import definitions_since
from penstock.cycle.log_batch import flat_columns, slice_schema, stream_fields
from penstock.errors import PenstockError
from penstock.expr.evaluate import evaluate
from penstock.expr.expression import Column, UserCall, columns_of, walk
from penstock.expr.windows import FOREVER
from penstock.operators.base.blocks import BLOCK_ROWS, Blocks
from penstock.operators.base.open_files import OpenFiles
from penstock.operators.base.row_budget import RowBudget, Task
from penstock.sql.plan import SelectPlan
from penstock.sql.plan.output import schema_of
from penstock.streams.log.segments import Segment, list_segments, lost_position, missing_file

Readers = TypeVar("Readers")
Found = TypeVar("Found")
_BARE = slice_schema([])  # times and static versions alone
TOGETHER_ROWS, TOGETHER_TIMES = 1 << 16, 8
TASK_ROWS = 1 << 20  # of the log, for one task of a worker


@dataclass(frozen=True, slots=True)
class TimedPositions:
    """Rows of a stream in log order: their positions, times and static versions."""

    positions: np.ndarray
    times: np.ndarray
    vids: np.ndarray

    @property
    def nbytes(self) -> int:
        return self.positions.nbytes + self.times.nbytes + self.vids.nbytes

    def take(self, chosen: np.ndarray) -> TimedPositions:
        return TimedPositions(self.positions[chosen], self.times[chosen], self.vids[chosen])

    @staticmethod
    def together(parts: Sequence[TimedPositions]) -> TimedPositions:
        if len(parts) == 1:
            return parts[0]
        return TimedPositions(*(np.concatenate([getattr(p, n) for p in parts]) for n in ("positions", "times", "vids")))


def no_rows() -> TimedPositions:
    return TimedPositions(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int32))


@dataclass(frozen=True, slots=True)
class LogSource:
    """One table's log as a worker opens it: with the definitions as of a journal position, or later ones."""

    folder: str
    table_id: int
    journal: int

    def open(self) -> LogReader:
        state = definitions_since(self.folder, self.journal).state
        return LogReader(Path(self.folder) / "log", state.tables_by_id[self.table_id], state.rows(self.table_id))

    def task(self, work: Callable[..., Any], *arguments: Any) -> Task:
        """A call for a worker: of a module's function, or a method of `LogReader`, with a reader as its first argument."""
        return partial(self._call, work, arguments)

    def _call(self, work: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        return work(self.open(), *arguments)


class LogReader:
    """Reads one table's log for one answer, from one listing: compacted files are found again by position.

    With a budget it counts what it reads, and has Spark's workers read what the budget does not afford.
    """

    def __init__(
        self,
        log: Path,
        table: Table,
        static: StaticRows,
        listing: Callable[[], list[Segment]] | None = None,
        files: OpenFiles | None = None,
        *,
        budget: RowBudget | None = None,
        journal: int = 0,
        own_rows: bool = True,
    ) -> None:
        self._log = log
        self._table = table
        self.static = static
        self._listing = listing or (lambda: list_segments(log, table.id))
        self._segments: list[Segment] | None = None
        self._files = files or OpenFiles()
        self._budget = budget
        self._journal = journal
        self._own_rows = own_rows

    @property
    def source(self) -> LogSource:
        return LogSource(str(self._log.parent), self._table.id, self._journal)

    def affords(self, rows: int, own: bool = False) -> bool:
        """Whether so many more rows may be read in this process. `own`: they are in the answer."""
        return self._budget is None or self._budget.affords(rows, own and self._own_rows)

    @property
    def most_own(self) -> int:
        """Rows that the answer itself may have."""
        assert self._budget is not None
        return self._budget.most_own

    def run(self, tasks: Sequence[Task]) -> list[Any]:
        """Have Spark's workers do what is too much for this process."""
        assert self._budget is not None
        return self._budget.run(tasks)

    def _take(self, rows: int, own: bool = False) -> None:
        if self._budget is not None:
            self._budget.take(rows, own and self._own_rows)

    def segments(self) -> list[Segment]:
        if self._segments is None:
            self._segments = self._listing()
        return self._segments

    def lost(self, first: int, end: int) -> int | None:
        """The first position in [first, end) that should be there and is in no file."""
        segments = self.segments()
        begins, ends = (segments[0].first, segments[-1].end) if segments else (end, end)
        if begins <= first and end <= ends:
            return None  # a listing has no gaps inside
        return lost_position(self._log, self._table.id, segments, first, end)

    def positions(self, head: int) -> tuple[int, int]:
        """What the log has below a position."""
        segments = self.segments()
        return (segments[0].first, min(head, segments[-1].end)) if segments else (head, head)

    def missing(self, position: int) -> PenstockError:
        return missing_file(self._table.id, position)

    def ranges(self, first: int, end: int, low: int, high: int) -> list[tuple[int, int]]:
        """What of [first, end) lies in files that may have a ts in [low, high], neighbours together."""
        found: list[tuple[int, int]] = []
        for segment in self.segments():
            if segment.max_ts < low or segment.min_ts > high or segment.first >= end or segment.end <= first:
                continue
            start, stop = max(first, segment.first), min(end, segment.end)
            if found and found[-1][1] == start:
                found[-1] = (found[-1][0], stop)
            else:
                found.append((start, stop))
        return found

    def timed(self, positions: np.ndarray, low: int, high: int) -> TimedPositions:
        """These positions (ascending) of rows of the answer, as far as their ts is in [low, high]."""
        if not self.affords(len(positions), own=True):
            pieces = np.array_split(positions, -(-len(positions) // TASK_ROWS))
            tasks = [self.source.task(LogReader.timed, piece, low, high) for piece in pieces]
            return TimedPositions.together(self.run(tasks))
        self._take(len(positions), own=True)
        found, rows = self._at(positions, _BARE)
        times = rows.column(TIME_COLUMN).cast(pa.int64()).to_numpy()
        keep = (times >= low) & (times <= high)
        return TimedPositions(found[keep], times[keep], rows.column(VERSION_COLUMN.name).to_numpy()[keep])

    def runs(self, first: int, end: int, wanted: set[str]) -> Iterator[tuple[int, np.ndarray, dict[str, pa.Array]]]:
        """The rows in [first, end) as (position of the first, static versions, columns by flat name)."""
        schema = slice_schema(stream_fields(self._table, sorted(wanted)))
        reached = [
            (s, max(first, s.first), min(end, s.end)) for s in self.segments() if s.first < end and first < s.end
        ]
        if not reached:
            return
        self._take(sum(high - low for _, low, high in reached))
        log = pa.concat_tables([self._files.read(s, low - s.first, high - s.first, schema) for s, low, high in reached])
        vids = log.column(VERSION_COLUMN.name).to_numpy()
        yield reached[0][1], vids, flat_columns(self._table, wanted, log, vids, self.static)

    def require(self, blocks: Blocks | None, first: int, end: int) -> None:
        """Raise corrupt_segment where a position in [first, end) that `blocks` names (None: any) is in no file."""
        segments = self.segments()
        begins, ends = (segments[0].first, segments[-1].end) if segments else (end, end)
        for low, high in ((first, min(begins, end)), (max(ends, first), end)):  # a listing has no gaps inside
            if low < high and (blocks is None or len(offsets_in(blocks, low, high, 0))):
                lost = lost_position(self._log, self._table.id, segments, low, high)
                if lost is not None and (blocks is None or len(offsets_in(blocks, lost, high, 0))):
                    raise missing_file(self._table.id, lost)

    def times(
        self, blocks: Blocks | None, end: int, low: int = -FOREVER, high: int = FOREVER, first: int = 0
    ) -> TimedPositions:
        """Positions in [first, end) that `blocks` names (None: all) with ts in [low, high]."""
        self.require(blocks, first, end)
        named = []
        for segment in self.segments():
            if segment.max_ts < low or segment.min_ts > high or segment.first >= end or segment.end <= first:
                continue
            offsets = offsets_in(blocks, max(segment.first, first), min(segment.end, end), segment.first)
            if len(offsets):
                named.append((segment, offsets))
        rows_named = sum(len(offsets) for _, offsets in named)
        if not self.affords(rows_named, own=blocks is not None):
            return self._times_by_tasks(blocks, (first, end), low, high)
        self._take(rows_named, own=blocks is not None)
        found = []
        for segment, offsets in named:
            rows = self._read(segment, offsets, _BARE)
            times = rows.column(TIME_COLUMN).cast(pa.int64()).to_numpy()
            keep = (times >= low) & (times <= high)
            vids = rows.column(VERSION_COLUMN.name).to_numpy()
            found.append(TimedPositions(offsets[keep] + segment.first, times[keep], vids[keep]))
        return TimedPositions.together(found) if found else no_rows()

    def _times_by_tasks(self, blocks: Blocks | None, positions: tuple[int, int], low: int, high: int) -> TimedPositions:
        tasks = []
        for first, end in self.ranges(*positions, low, high):
            for start in range(first // TASK_ROWS * TASK_ROWS, end, TASK_ROWS):
                piece = max(first, start), min(end, start + TASK_ROWS)
                named = blocks
                if blocks is not None:
                    named = {b: found for b, found in blocks.items() if piece[0] < b + BLOCK_ROWS and b < piece[1]}
                if named is None or named:
                    tasks.append(self.source.task(LogReader.times, named, piece[1], low, high, piece[0]))
        return TimedPositions.together([no_rows(), *self.run(tasks)])

    def rows(self, plan: SelectPlan, positions: np.ndarray, values: list[pa.Table]) -> pa.Table:
        """The plan's outputs for these positions (ascending), in log order."""
        if not self._own_rows and not self.affords(len(positions)):
            pieces = np.array_split(positions, -(-len(positions) // TASK_ROWS))
            return pa.concat_tables(self.run([self.source.task(LogReader.rows, plan, p, values) for p in pieces]))
        self._take(len(positions), own=True)
        found, columns = self._gather(set().union(*(columns_of(o.expr) for o in plan.outputs)), positions)
        computed = _computed(values)
        arrays = []
        for output in plan.outputs:
            if any(isinstance(n, UserCall) for n in walk(output.expr)):
                if len(found) == 0:
                    arrays.append(pa.nulls(0, output.type.to_arrow()))
                else:
                    arrays.append(_look_up(computed, output.name, found).cast(output.type.to_arrow()))
            elif isinstance(output.expr, Column):
                arrays.append(columns[output.expr.name])
            else:
                arrays.append(evaluate(output.expr, columns, len(found)))
        return pa.Table.from_arrays(arrays, schema=schema_of(plan.outputs))

    def columns(self, wanted: set[str], positions: np.ndarray, own: bool = False) -> dict[str, pa.Array]:
        """Columns of these positions (ascending), by flat name. `own`: they are in the answer, which has been found to be small enough."""
        if not (own and self._own_rows) and not self.affords(len(positions)):
            pieces = np.array_split(positions, -(-len(positions) // TASK_ROWS))
            found = self.run([self.source.task(LogReader.columns, wanted, piece) for piece in pieces])
            return {name: concat_columns([part[name] for part in found]) for name in found[0]}
        self._take(len(positions), own)
        return self._gather(wanted, positions)[1]

    def _gather(self, wanted: set[str], positions: np.ndarray) -> tuple[np.ndarray, dict[str, pa.Array]]:
        """Those of the positions that the log has, and their columns: from many files, but made flat once."""
        found, log = self._at(positions, slice_schema(stream_fields(self._table, wanted)))
        vids = log.column(VERSION_COLUMN.name).to_numpy()
        return found, flat_columns(self._table, wanted, log, vids, self.static)

    def _at(self, positions: np.ndarray, schema: pa.Schema) -> tuple[np.ndarray, pa.Table]:
        """Those of the positions (ascending) that the log has, and their rows.

        Choosing rows costs the same for few as for many: files are put together first, unless most would be thrown away.
        """
        segments = self.segments()
        lows = np.searchsorted(positions, [s.first for s in segments]).tolist()
        highs = np.searchsorted(positions, [s.end for s in segments]).tolist()
        reached = [(s, low, high) for s, low, high in zip(segments, lows, highs, strict=True) if low < high]
        if not reached:
            return positions[:0], schema.empty_table()
        whole = [(int(positions[low]), int(positions[high - 1]) + 1) for _, low, high in reached]
        rows = sum(end - first for first, end in whole)
        if rows > TOGETHER_ROWS + TOGETHER_TIMES * len(positions):
            parts = [self._read(s, positions[low:high] - s.first, schema) for s, low, high in reached]
            return np.concatenate([positions[low:high] for _, low, high in reached]), pa.concat_tables(parts)
        found, index, at = [], [], 0
        for (_, low, high), (first, end) in zip(reached, whole, strict=True):
            found.append(positions[low:high])
            index.append(positions[low:high] + (at - first))
            at += end - first
        slices = [
            self._files.read(s, first - s.first, end - s.first, schema)
            for (s, _, _), (first, end) in zip(reached, whole, strict=True)
        ]
        log = pa.concat_tables(slices)
        if rows > sum(map(len, index)):
            log = log.take(pa.array(np.concatenate(index)))
        return np.concatenate(found), log

    def _read(self, segment: Segment, offsets: np.ndarray, schema: pa.Schema) -> pa.Table:
        low, high = int(offsets[0]), int(offsets[-1]) + 1
        table = self._files.read(segment, low, high, schema)
        if len(offsets) == high - low:
            return table
        return table.take(pa.array(offsets - low))


def read_log(work: Callable[[Readers], Found], last: Callable[[], Readers], fresh: Callable[[], Readers]) -> Found:
    """Read the log by the last listing of its files; where that is too old, by a new one."""
    try:
        return work(last())
    except PenstockError as failure:
        if failure.condition != "corrupt_segment":
            raise
    return work(fresh())


def concat_columns(parts: Sequence[pa.Array | pa.ChunkedArray]) -> pa.Array:
    chunks = [c for part in parts for c in (part.chunks if isinstance(part, pa.ChunkedArray) else [part])]
    return pa.concat_arrays(chunks)


def offsets_in(blocks: Blocks | None, first: int, end: int, origin: int) -> np.ndarray:
    """Named positions in [first, end), relative to `origin`, ascending."""
    if first >= end:
        return np.empty(0, np.int64)
    if blocks is None:
        return np.arange(first - origin, end - origin, dtype=np.int64)
    parts = []
    for block in range(first // BLOCK_ROWS * BLOCK_ROWS, end, BLOCK_ROWS):
        named = blocks.get(block)
        if named is None:
            continue
        low, high = max(first, block) - block, min(end, block + BLOCK_ROWS) - block
        inside = named & BitMap(range(low, high))
        parts.append(np.asarray(inside.to_array(), np.int64) + (block - origin))
    return np.concatenate(parts) if parts else np.empty(0, np.int64)


def _computed(values: list[pa.Table]) -> Mapping[str, tuple[np.ndarray, pa.Array]]:
    """Output columns that workers computed, by name: positions ascending, and the values."""
    if not values:
        return {}
    whole = pa.concat_tables(values)
    positions = whole.column(POSITION_COLUMN.name).to_numpy()
    order = np.argsort(positions, kind="stable")
    # A filled position may have been computed live, too: the same value twice.
    unique = order[np.concatenate([[True], np.diff(positions[order]) > 0])]
    names = [n for n in whole.column_names if n != POSITION_COLUMN.name]
    return {n: (positions[unique], whole.column(n).take(pa.array(unique)).combine_chunks()) for n in names}


def _look_up(computed: Mapping[str, tuple[np.ndarray, pa.Array]], name: str, positions: np.ndarray) -> pa.Array:
    known, values = computed[name]
    return values.take(pa.array(np.searchsorted(known, positions)))
