"""Read a rollup's cells for a window, and find the window that they can answer exactly."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.catalog.rollup_records import RollupFile, RollupState
from penstock.catalog.state import CatalogState
from penstock.expr.evaluate import evaluate, evaluate_mask
from penstock.expr.expression import Column
from penstock.operators.aggregate.partials.base import Ints
from penstock.operators.aggregate.partials.cells import Cells
from penstock.operators.aggregate.partials.slices import number_groups
from penstock.operators.aggregate.rollups.cells import TIMES, RollupCells, shape_of
from penstock.operators.aggregate.rollups.files import RollupFiles
from penstock.operators.aggregate.rollups.rollup_choice import Match, as_asked, find_match, kept_from_us, stand_in
from penstock.operators.aggregate.shape import Measure
from penstock.operators.aggregate.slicer import SlicedFamily
from penstock.sql.plan import AggregatePlan


@dataclass(frozen=True, slots=True)
class RollupUse:
    """Cells of one tier that became part of an answer: their width, and the half-open time range that they cover."""

    every_us: int
    from_us: int
    to_us: int


@dataclass(frozen=True, slots=True)
class RollupRange:
    """What a rollup adds to an answer over [low, high]: cells of readings below a log position, and of nothing else.

    The edges are those that were asked for, moved inwards to where no cell is cut.
    """

    low: int
    high: int
    position: int
    parts: list[SlicedFamily]
    used: tuple[RollupUse, ...]


@dataclass(frozen=True, slots=True)
class RollupSource:
    """A rollup as of a committed cycle, for one question."""

    match: Match
    rolled: RollupState
    files: RollupFiles

    @property
    def kept_from_us(self) -> int | None:
        """Since when it has every reading; None: since ever."""
        return kept_from_us(self.match.rollup, self.rolled)

    def reaches(self, low: int, high: int) -> bool:
        """Whether it may have readings of that time."""
        return any(file.last_us >= low and file.first_us <= high for file in self.rolled.files)

    def look(self, measures: tuple[Measure, ...], low: int, high: int, pane: int | None) -> RollupRange | None:
        """The rollup's part of a window; None where it has nothing of that time, and the log has everything."""
        kept = self._stand_ins(measures)
        read = [(f, self._read(f, kept)) for f in self.rolled.files if f.last_us >= low and f.first_us <= high]
        read = [(file, cells) for file, cells in read if len(cells)]
        if not read:
            return None
        newest = max(file.last_us for file in self.rolled.files)
        low, high = fitted(_edges(read), low, high, pane, newest)
        parts: list[SlicedFamily] = []
        used: dict[int, tuple[int, int]] = {}
        for file, cells in read:
            chosen = (cells.latest >= low) & (cells.earliest <= high)
            if chosen.any():
                mine = cells if chosen.all() else cells.take(chosen)
                parts.append(self._sliced(mine, file.every_us, measures, kept))
                begins, ends = int(mine.starts.min()), int(mine.starts.max()) + file.every_us
                known = used.get(file.every_us, (begins, ends))
                used[file.every_us] = (min(begins, known[0]), max(ends, known[1]))
        told = tuple(RollupUse(every, *used[every]) for every in sorted(used, reverse=True))
        return RollupRange(low, high, self.rolled.position, parts, told)

    def _stand_ins(self, measures: tuple[Measure, ...]) -> tuple[Measure, ...]:
        """What the rollup has for each of them; that it has all was found out when it was matched."""
        shape = shape_of(self.match.rollup)
        return tuple(stand_in(measure, shape) or measure for measure in measures)

    def _read(self, file: RollupFile, measures: tuple[Measure, ...]) -> RollupCells:
        """The cells of a file that the question is about."""
        rollup = self.match.rollup
        cells = self.files.read(rollup.id, file, shape_of(rollup), (TIMES, *measures))
        for condition in self.match.conditions:
            kept = evaluate_mask(condition, self._columns(cells), len(cells))
            if not kept.all():
                cells = cells.take(np.asarray(kept))
        return cells

    def _columns(self, cells: RollupCells) -> dict[str, pa.Array]:
        """The keys by the names that the question's expressions have for them."""
        columns: dict[str, pa.Array] = {}
        for place, (key, values) in enumerate(zip(shape_of(self.match.rollup).family.keys, cells.keys, strict=True)):
            columns[f"key.{place}"] = values
            if isinstance(key, Column):
                columns[key.name] = values
        return columns

    def _sliced(
        self, cells: RollupCells, every_us: int, measures: tuple[Measure, ...], kept: tuple[Measure, ...]
    ) -> SlicedFamily:
        """The cells by the question's own groups. A cell stands where its first reading is: inside its pane."""
        count, columns = len(cells), self._columns(cells)
        groups, keys = number_groups([evaluate(key, columns, count) for key in self.match.keys], count)
        nothing, widths = np.zeros(count, np.int64), np.full(count, every_us, np.int64)
        rows = cells.states[0]["count"]
        asked = zip(cells.states[1:], kept, measures, strict=True)
        states = [as_asked(state, mine, theirs, cells.latest) for state, mine, theirs in asked]
        found = [Cells(cells.earliest, widths, groups, nothing, nothing, rows, state) for state in states]
        return SlicedFamily(keys, found)


def find_source(plan: AggregatePlan, state: CatalogState, low: int, files: RollupFiles) -> RollupSource | None:
    """The rollup that serves a question about a time and later best."""
    found = find_match(plan, state, low)
    rolled = state.rolled_up(found.rollup.id) if found is not None else None
    return RollupSource(found, rolled, files) if found is not None and rolled is not None else None


@dataclass(frozen=True, slots=True)
class Edges:
    """Begin and end of many cells, and the times of their first and last readings."""

    starts: Ints
    ends: Ints
    earliest: Ints
    latest: Ints


def _edges(read: list[tuple[RollupFile, RollupCells]]) -> Edges:
    starts = np.concatenate([cells.starts for _, cells in read])
    ends = np.concatenate([cells.starts + file.every_us for file, cells in read])
    return Edges(
        starts,
        ends,
        np.concatenate([cells.earliest for _, cells in read]),
        np.concatenate([cells.latest for _, cells in read]),
    )


def fitted(cells: Edges, low: int, high: int, pane: int | None, newest: int) -> tuple[int, int]:
    """The widest [low, high] inside the one that was asked for that cuts no cell, and no cell straddles two panes.

    An edge moves to the edge of a cell that is in the way, but never past the newest reading that the rollup has: what is
    newer stands in the log.
    """
    while True:
        cut = (cells.earliest <= high) & (cells.latest > high) & (cells.latest >= low)
        if not cut.any():
            break
        high = int(cells.starts[cut].min()) - 1
    while True:
        seen = (cells.latest >= low) & (cells.earliest <= high)
        cut = seen & (cells.earliest < low)
        if pane is not None:
            cut |= seen & (np.floor_divide(cells.earliest, pane) != np.floor_divide(cells.latest, pane))
        if not cut.any():
            return low, high
        low = min(int(cells.ends[cut].max()), newest + 1)
