"""One of the two streams of a question with RESAMPLE, as of a committed cycle: its rows, read when they are needed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.catalog.model import POSITION_COLUMN
from penstock.operators.evaluate import evaluate_mask
from penstock.operators.expr import Expr, columns_of
from penstock.queries.fetch import Fetcher, TimedPositions, no_rows


@dataclass(frozen=True, slots=True)
class Stream:
    """`span` is its window's range of time, `passing` which static versions pass its initial scan (None: all)."""

    reader: Callable[[], Fetcher]
    fresh: Callable[[], Fetcher]  # a reader that looks at the log anew
    floor: int
    head: int
    span: tuple[int, int]
    passing: np.ndarray | None

    def rows_at_most(self) -> int:
        """How many rows of the log lie in files that its window touches."""
        return sum(end - first for first, end in self.reader().ranges(self.floor, self.head, *self.span))


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of a stream with columns by flat name."""

    found: TimedPositions
    columns: dict[str, pa.Array]

    @property
    def count(self) -> int:
        return len(self.found.positions)

    def take(self, chosen: np.ndarray) -> Rows:
        index = pa.array(chosen)
        return Rows(self.found.take(chosen), {name: column.take(index) for name, column in self.columns.items()})

    @staticmethod
    def together(parts: Sequence[Rows]) -> Rows:
        found = TimedPositions.together([part.found for part in parts])
        names = parts[0].columns
        return Rows(found, {name: pa.concat_arrays([part.columns[name] for part in parts]) for name in names})


def read_rows(
    stream: Stream, fetcher: Fetcher, low: int, high: int, predicate: Expr | None, asked: Sequence[Expr]
) -> Rows:
    """Its rows inside the window and [low, high] that satisfy the predicate, in log order, with the columns that are asked for."""
    low, high = max(low, stream.span[0]), min(high, stream.span[1])
    found = fetcher.times(None, stream.head, low, high, stream.floor) if low <= high else no_rows()
    if stream.passing is not None:
        found = found.take(np.flatnonzero(stream.passing[found.vids]))
    wanted = set().union(*(columns_of(e) for e in (*asked, *([] if predicate is None else [predicate]))))
    columns = fetcher.columns(wanted - {POSITION_COLUMN.name}, found.positions)
    columns[POSITION_COLUMN.name] = pa.array(found.positions)
    rows = Rows(found, columns)
    return rows if predicate is None else rows.take(np.flatnonzero(evaluate_mask(predicate, columns, rows.count)))
