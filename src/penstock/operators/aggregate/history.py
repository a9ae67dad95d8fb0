"""Slice rows of the log where no commit record has their cells: few in the server, more in Spark's workers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from penstock.catalog.model import TIME_COLUMN
from penstock.expr.bits import set_bits
from penstock.expr.predicate_index import PredicateIndex
from penstock.operators.aggregate.partials.base import Ints
from penstock.operators.aggregate.shape import Family, Measure, columns_needed
from penstock.operators.aggregate.slicer import Batch, FamilyRows, SlicedFamily, family_rows, slice_family
from penstock.operators.base.log_reader import LogReader
from penstock.operators.base.ranges import Range, joined

READ_ROWS = 1 << 18
Keep = Callable[[Ints, Ints], np.ndarray]
"""Which rows count, by their times and their positions in the log. Picklable: workers get it, too."""


@dataclass(slots=True)
class HistoryFill:
    """A history that Spark's workers slice for a query, which is FILLING meanwhile."""

    rows: int
    left: int
    _began_s: float = field(default_factory=time.monotonic)

    @property
    def progress(self) -> float:
        return 1.0 - self.left / self.rows

    @property
    def seconds_left(self) -> float | None:
        """An estimate by the pace so far; None before there is one."""
        done = self.rows - self.left
        return self.left * (time.monotonic() - self._began_s) / done if done else None


class WideCells(NamedTuple):
    """How wide the cells of rows before a time are: a multiple of the width."""

    width: int
    before_us: int


@dataclass(frozen=True, slots=True)
class SliceRequest:
    """How rows of a range of the log are sliced: those that belong to the family and that `keep` accepts."""

    family: Family
    measures: tuple[Measure, ...]
    width: int
    keep: Keep | None = None
    wide: WideCells | None = None

    def by_width(self, batch: Batch, chosen: Ints) -> Iterator[tuple[int, Ints]]:
        """Some rows of a batch, with the width of their cells."""
        if self.wide is None:
            yield self.width, chosen
            return
        is_old = batch.times[chosen] < self.wide.before_us
        for width, some in ((self.wide.width, chosen[is_old]), (self.width, chosen[~is_old])):
            if len(some):
                yield width, some


def slice_log(log_reader: LogReader, request: SliceRequest, positions: Sequence[Range]) -> Iterator[SlicedFamily]:
    """Slice some ranges of positions, some rows at a time."""
    pieces = [(low, min(end, low + READ_ROWS)) for first, end in positions for low in range(first, end, READ_ROWS)]
    for _, sliced in slice_pieces(log_reader, request, pieces):
        yield from sliced


def ranges_with(log_reader: LogReader, positions: Range, periods: Sequence[tuple[int, int]]) -> list[Range]:
    """What of a range lies in files that may have a row in one of the (half-open) periods; a lost file is an error."""
    log_reader.require(None, *positions)
    return list(joined(r for low, high in periods for r in log_reader.ranges(*positions, low, high - 1)))


def slice_pieces(
    log_reader: LogReader, request: SliceRequest, pieces: Sequence[Range]
) -> Iterator[tuple[Range, list[SlicedFamily]]]:
    """Slice each of some ranges: here, or by Spark's workers where the answer may not read so many rows."""
    for first, end in pieces:
        log_reader.require(None, first, end)
    if not log_reader.affords(sum(end - first for first, end in pieces)):
        found = log_reader.run([log_reader.source.task(_slice_in_worker, request, piece) for piece in pieces])
        yield from zip(pieces, found, strict=True)
        return
    index = _index_of(request)
    for piece in pieces:
        yield piece, _slice(log_reader, request, piece, index)


def _index_of(request: SliceRequest) -> PredicateIndex | None:
    """None: every row belongs to the family."""
    predicates = request.family.static_predicate, request.family.stream_predicate
    return PredicateIndex([(1, *predicates)]) if any(p is not None for p in predicates) else None


def _slice(
    log_reader: LogReader, request: SliceRequest, piece: Range, index: PredicateIndex | None = None
) -> list[SlicedFamily]:
    batches = _batches(log_reader, request, piece, index)
    return [
        slice_family(request.family, request.measures, batch, some, width)
        for batch, chosen in batches
        for width, some in request.by_width(batch, chosen)
    ]


def _slice_in_worker(log_reader: LogReader, request: SliceRequest, piece: Range) -> list[SlicedFamily]:
    """The same where users' code may run."""
    found = _slice(log_reader, request, piece)
    for sliced in found:
        for measure, cells in zip(request.measures, sliced.cells, strict=True):
            measure.make().condense(cells.state)
    return found


def read_rows(log_reader: LogReader, request: SliceRequest, piece: Range) -> list[FamilyRows]:
    """The rows themselves, of a range of positions that the answer may read here."""
    batches = _batches(log_reader, request, piece)
    return [family_rows(request.family, request.measures, batch, chosen) for batch, chosen in batches]


def _batches(
    log_reader: LogReader, request: SliceRequest, piece: Range, index: PredicateIndex | None = None
) -> Iterator[tuple[Batch, Ints]]:
    """What the log has of a range, and which of its rows are wanted. `index`: that of the request, where it is made already."""
    versions, index = log_reader.static.versions(), index if index is not None else _index_of(request)
    for start, vids, columns in log_reader.runs(*piece, columns_needed(request.family, request.measures)):
        chosen = np.arange(len(vids))
        if index is not None:
            matrix = index.match_matrix(columns, vids, versions)
            chosen = set_bits(matrix.words[matrix.row_of[0]])
        times = columns[TIME_COLUMN].cast(pa.int64()).to_numpy()
        if request.keep is not None:
            chosen = chosen[request.keep(times[chosen], chosen + start)]
        yield Batch(start, times, vids, columns, versions), chosen


def are_inside(times: Ints, periods: Sequence[tuple[int, int]], low: int, high: int) -> np.ndarray:
    """Which times lie in one of the (half-open) periods and in [low, high]."""
    begins, ends = np.array([p[0] for p in periods]), np.array([p[1] for p in periods])
    at = np.searchsorted(begins, times, side="right") - 1
    found: np.ndarray = (at >= 0) & (times < ends[np.maximum(at, 0)]) & (times >= low) & (times <= high)
    return found


@dataclass(frozen=True, slots=True)
class InPeriods:
    """Keeps rows with a time in one of the (half-open) periods and in [low, high]."""

    periods: tuple[tuple[int, int], ...]
    low: int
    high: int

    def __call__(self, times: Ints, _positions: Ints) -> np.ndarray:
        return are_inside(times, self.periods, self.low, self.high)


@dataclass(frozen=True, slots=True)
class AtPositions:
    """Keeps rows at some positions."""

    positions: Ints

    def __call__(self, _times: Ints, positions: Ints) -> np.ndarray:
        return np.isin(positions, self.positions)
