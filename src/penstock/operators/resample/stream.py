"""One of the two streams of a question with RESAMPLE, as of a committed cycle: its rows, read when they are needed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from penstock.catalog.model import POSITION_COLUMN
from penstock.errors import error
from penstock.expr.evaluate import evaluate_mask
from penstock.expr.expression import Expr, columns_of
from penstock.operators.base.log_reader import LogReader, LogSource, TimedPositions, no_rows

PIECE_ROWS = 1_000_000  # of a log at a time, and of the other stream's readings that are looked up at a time


@dataclass(frozen=True, slots=True)
class StreamWindow:
    """`span` is its window's range of time, `passing` which static versions pass its initial scan (None: all)."""

    reader: Callable[[], LogReader]
    fresh: Callable[[], LogReader]  # a reader with a new list of the log's files
    floor: int
    head: int
    span: tuple[int, int]
    passing: np.ndarray | None

    def for_workers(self, source: LogSource) -> StreamWindow:
        """The same with readers that can be pickled."""
        return replace(self, reader=source.open, fresh=source.open)

    def rows_at_most(self) -> int:
        """How many rows of the log lie in files that its window touches."""
        return sum(end - first for first, end in self.reader().ranges(self.floor, self.head, *self.span))

    def rows_at_least(self) -> int:
        """How many rows of the log lie in files that are inside its window as a whole."""
        low, high = self.span
        inside = [s for s in self.reader().segments() if s.min_ts >= low and s.max_ts <= high]
        return sum(max(0, min(s.end, self.head) - max(s.first, self.floor)) for s in inside)

    def times(self, log_reader: LogReader, low: int, high: int) -> TimedPositions:
        """Its rows inside the window and [low, high], in log order."""
        return TimedPositions.together([no_rows(), *self.times_in_pieces(log_reader, low, high)])

    def times_in_pieces(self, log_reader: LogReader, low: int, high: int) -> Iterator[TimedPositions]:
        """The same, for so many rows of the log at a time."""
        low, high = max(low, self.span[0]), min(high, self.span[1])
        if low > high:
            return
        log_reader.require(None, self.floor, self.head)
        for first, end in log_reader.ranges(self.floor, self.head, low, high):
            for start in range(first, end, PIECE_ROWS):
                found = log_reader.times(None, min(end, start + PIECE_ROWS), low, high, start)
                yield found if self.passing is None else found.take(np.flatnonzero(self.passing[found.vids]))


class Room:
    """The row limit of an answer. Each step takes its rows from it before it reads more; one row too many is an error."""

    def __init__(self, most: int | None) -> None:
        self.most = most
        self._taken = 0

    def take(self, rows: int) -> None:
        self._taken += rows
        if self.most is not None and self._taken > self.most:
            raise error(
                "over_budget",
                detail=f"the answer has more than {self.most} rows",
                hint="add LIMIT or a narrower window, or raise result_max_rows",
            )


@dataclass(frozen=True, slots=True)
class TimedRows:
    """Rows of a stream with columns by flat name."""

    found: TimedPositions
    columns: dict[str, pa.Array]

    @property
    def count(self) -> int:
        return len(self.found.positions)

    def take(self, chosen: np.ndarray) -> TimedRows:
        index = pa.array(chosen)
        return TimedRows(self.found.take(chosen), {name: column.take(index) for name, column in self.columns.items()})

    @staticmethod
    def together(parts: Sequence[TimedRows]) -> TimedRows:
        found = TimedPositions.together([part.found for part in parts])
        names = parts[0].columns
        return TimedRows(found, {name: pa.concat_arrays([part.columns[name] for part in parts]) for name in names})


def read_rows(
    stream: StreamWindow,
    log_reader: LogReader,
    times: tuple[int, int],
    predicate: Expr | None,
    asked: Sequence[Expr],
    room: Room,
) -> TimedRows:
    """Rows of a stream inside the window and between two times that satisfy the predicate, in log order."""
    wanted = asked if predicate is None else [*asked, predicate]
    found = list(_in_pieces(stream, log_reader, times, predicate, wanted, room))
    return TimedRows.together(found) if found else rows_at(log_reader, no_rows(), wanted)


def _in_pieces(
    stream: StreamWindow,
    log_reader: LogReader,
    times: tuple[int, int],
    predicate: Expr | None,
    asked: Sequence[Expr],
    room: Room,
) -> Iterator[TimedRows]:
    """Of what the predicate throws away there is one piece in memory at a time."""
    for found in stream.times_in_pieces(log_reader, *times):
        if predicate is None:
            room.take(len(found.positions))
            yield rows_at(log_reader, found, asked)
            continue
        rows = rows_at(log_reader, found, asked)
        kept = np.flatnonzero(evaluate_mask(predicate, rows.columns, rows.count))
        room.take(len(kept))
        yield rows.take(kept)


def rows_at(log_reader: LogReader, found: TimedPositions, asked: Sequence[Expr]) -> TimedRows:
    """Rows of the log with the columns that are asked for."""
    wanted = set().union(*(columns_of(e) for e in asked)) - {POSITION_COLUMN.name}
    columns = log_reader.columns(wanted, found.positions)
    columns[POSITION_COLUMN.name] = pa.array(found.positions)
    return TimedRows(found, columns)
