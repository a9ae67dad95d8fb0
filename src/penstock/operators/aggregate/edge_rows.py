"""The rows of slots that an edge of a window cuts: read from the log once, and kept for the next answers and cycles.

BEGIN and END cut the same slot in many cycles, and in many queries of a family. Its rows are facts about the log, as cells are:
they can be missing here, but never wrong.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from penstock.cache import Cache
from penstock.expr.expression import Expr
from penstock.expr.windows import FOREVER
from penstock.operators.aggregate.groups import Groups
from penstock.operators.aggregate.partials.cell_sums import CellRange, CombinedCells, Panes, combine
from penstock.operators.aggregate.partials.slices import SlicedRows, slice_rows
from penstock.operators.aggregate.shape import Measure
from penstock.operators.aggregate.slicer import FamilyRows
from penstock.operators.base.ranges import Range, Ranges, joined, outside

MOST_BYTES = 64 << 20
MOST_SUMS = 3
"""Ranges of one slot of which the rows are kept apart."""
Period = tuple[int, int]


@dataclass(frozen=True, slots=True)
class EdgeSum:
    """The rows of a slot inside one range, cut for panes, and the sums of measures that were asked for."""

    rows: FamilyRows
    sliced: SlicedRows
    lines: dict[tuple[Measure, Panes | None], CombinedCells] = field(default_factory=dict)

    def of(self, measure: Measure, panes: Panes | None) -> CombinedCells:
        found = self.lines.get((measure, panes))
        if found is None:
            partial = measure.make()
            cells = self.sliced.aggregate(partial, [self.rows.arguments[a] for a in measure.arguments])
            found = self.lines[measure, panes] = combine(cells, partial, panes)
        return found


class EdgeRows:
    """The rows of a family in one slot, with the family's own numbers of groups. Rows are added, none is changed.

    Readers ask for sums without the store's lock.
    """

    def __init__(self, groups: Groups, arguments: frozenset[Expr]) -> None:
        self.groups = groups
        self.arguments = arguments
        self.covered: Ranges = ()
        self._rows: FamilyRows | None = None
        self._lock = threading.Lock()
        self._sums: Cache[tuple[int, ...], EdgeSum] = Cache(most=MOST_SUMS)

    @property
    def nbytes(self) -> int:
        return (1 + MOST_SUMS) * self._rows.nbytes if self._rows is not None else 0

    def add(self, positions: Range, rows: Sequence[FamilyRows]) -> None:
        """Rows of a range of the log that was not covered."""
        self.covered = joined([*self.covered, positions])
        if not rows:
            return
        whole = concat_rows([self._rows, *rows] if self._rows is not None else list(rows))
        with self._lock:
            self._rows = whole
            self._sums.clear()

    def sum(self, low: int, high: int, look: CellRange) -> EdgeSum | None:
        """The rows with ts in [low, high] and inside the log range of a look; None where there are none."""
        with self._lock:
            rows = self._rows
            if rows is None or not len(rows.times):
                return None
            floor, head = max(look.floor, int(rows.positions[0])), min(look.head, int(rows.positions[-1]) + 1)
            key = (low, high, floor, head, look.pane or 0)
            found = self._sums.get(key)
        if found is None:
            inside = (rows.times >= low) & (rows.times <= high) & (rows.positions >= floor) & (rows.positions < head)
            chosen = rows if inside.all() else rows.take(np.flatnonzero(inside))
            found = EdgeSum(chosen, slice_rows(chosen.times, chosen.positions, chosen.groups, look.pane or FOREVER))
            with self._lock:
                if rows is self._rows:
                    self._sums.put(key, found)
        return found


def concat_rows(parts: Sequence[FamilyRows]) -> FamilyRows:
    """All rows, in the order of their positions."""
    positions = np.concatenate([part.positions for part in parts])
    whole = FamilyRows(
        np.concatenate([part.times for part in parts]),
        positions,
        np.concatenate([part.groups for part in parts]),
        [],
        {e: _one_array([part.arguments[e] for part in parts]) for e in parts[0].arguments},
    )
    return whole if (np.diff(positions) > 0).all() else whole.take(np.argsort(positions, kind="stable"))


def _one_array(parts: Sequence[pa.Array | pa.ChunkedArray]) -> pa.Array:
    chunks = [c for part in parts for c in (part.chunks if isinstance(part, pa.ChunkedArray) else [part])]
    return pa.concat_arrays(chunks)


class EdgeCache:
    """The rows of cut slots, by the name of their family and their period. Called under the store's lock."""

    def __init__(self) -> None:
        self._known: Cache[tuple[str, Period], EdgeRows] = Cache(most_bytes=MOST_BYTES)

    @property
    def nbytes(self) -> int:
        return self._known.nbytes

    def of(self, family: str, period: Period, groups: Groups, arguments: frozenset[Expr]) -> EdgeRows:
        """What is known of a slot: nothing, where the family has numbered its groups anew or has other arguments."""
        found = self._known.get((family, period))
        if found is None or found.groups is not groups or found.arguments != arguments:
            found = EdgeRows(groups, arguments)
        return found

    def add(self, key: tuple[str, Period], edge: EdgeRows, positions: Range, rows: Sequence[FamilyRows]) -> None:
        """Rows that were read, without those that another thread has added meanwhile."""
        for low, high in outside(edge.covered, *positions):
            inside = [np.flatnonzero((part.positions >= low) & (part.positions < high)) for part in rows]
            edge.add((low, high), [part.take(own) for part, own in zip(rows, inside, strict=True) if len(own)])
        self._known.put(key, edge, edge.nbytes)

    def clear(self) -> None:
        self._known.clear()
