"""Rows where an edge of a window cuts a slot: read from the log in pages, which the next answers and cycles use again.

BEGIN and END cut the same slots in many cycles, and in many queries of a family. A page is a fixed number of log positions. Its rows, and
their sums, are facts about the log, as cells are: they can be missing here, but never wrong. Sums stay longer than rows.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from penstock.cache import Cache
from penstock.expr.expression import Expr
from penstock.expr.windows import FOREVER
from penstock.operators.aggregate.groups import Groups
from penstock.operators.aggregate.partials.cell_sums import CellRange, CombinedCells, Panes, UncoveredRows
from penstock.operators.aggregate.partials.slices import slice_rows
from penstock.operators.aggregate.shape import Measure
from penstock.operators.aggregate.slicer import FamilyRows
from penstock.operators.base.log_reader import concat_columns
from penstock.operators.base.ranges import Range, joined

PAGE_ROWS = 1 << 12
MOST_ROW_BYTES, MOST_SUM_BYTES = 64 << 20, 32 << 20
MOST_SUMS = 4
"""Parts of one page of which sums are kept."""
PAGE_BYTES, SUM_BYTES = 1_000, 500
"""About what objects take beside their arrays."""

PageKey = tuple[str, int]
Part = tuple[int, int, int, int]
"""Rows of a page by the first and last ts, and the first position and the one behind the last. No wider than the rows are, so equal parts are one."""
Sums = dict[Measure, CombinedCells]


class EdgePage:
    """What is known of one page: which positions were read, where its rows are, and their sums."""

    def __init__(self, covered: Range, groups: Groups, rows: FamilyRows) -> None:
        self.covered = covered
        self.groups = groups
        self.sums: Cache[Part, Sums] = Cache(most=MOST_SUMS)
        self._times = self._positions = (0, -1)
        if len(rows.times):
            self._times = int(rows.times.min()), int(rows.times.max())
            self._positions = int(rows.positions[0]), int(rows.positions[-1]) + 1

    @property
    def nbytes(self) -> int:
        return PAGE_BYTES + self.sums.nbytes

    def parts(self, periods: Iterable[tuple[int, int]], look: CellRange) -> list[Part]:
        """What a look sees of the page in some (half-open) periods; none is of two panes."""
        floor, head = max(look.floor, self._positions[0]), min(look.head, self._positions[1])
        found: list[Part] = []
        for begin, end in periods if floor < head else ():
            low, high = max(look.low, begin, self._times[0]), min(look.high, end - 1, self._times[1])
            while look.pane is not None and low // look.pane < high // look.pane:
                edge = (low // look.pane + 1) * look.pane
                found.append((low, edge - 1, floor, head))
                low = edge
            if low <= high:
                found.append((low, high, floor, head))
        return found


class EdgeCache:
    """Pages by family and number, and the rows of those that were used last. Thread-safe."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.pages: Cache[PageKey, EdgePage] = Cache(most_bytes=MOST_SUM_BYTES)
        self.rows: Cache[PageKey, FamilyRows] = Cache(most_bytes=MOST_ROW_BYTES)

    @property
    def nbytes(self) -> int:
        return self.pages.nbytes + self.rows.nbytes

    def clear(self) -> None:
        with self.lock:
            self.pages.clear()
            self.rows.clear()


@dataclass(frozen=True, slots=True)
class SeenPart:
    """What a look sees of a page. Either the rows are there or all the sums, whatever is forgotten meanwhile."""

    key: PageKey
    page: EdgePage
    rows: FamilyRows | None
    part: Part
    sums: Sums


@dataclass(slots=True)
class EdgeLook:
    """One answer's look at the slots that its window cuts: what has to be read first, then the sums."""

    cache: EdgeCache
    family: str
    groups: Groups  # another one, where the family has numbered its groups anew
    measures: Sequence[Measure]
    rest: UncoveredRows
    look: CellRange
    panes: Panes | None
    _seen: list[SeenPart] = field(default_factory=list)

    def missing(self, wanted: Iterable[Range], log: Range) -> list[Range]:
        """What has to be read so that these ranges of positions are known, of a log with these positions: whole pages."""
        needed = frozenset(a for measure in self.measures for a in measure.arguments)
        pages: dict[int, Range] = {}  # what is wanted of each: several ranges may share one
        for first, end in wanted:
            for number in range(first // PAGE_ROWS, -(-end // PAGE_ROWS)):
                low, high = max(first, number * PAGE_ROWS), min(end, (number + 1) * PAGE_ROWS)
                known = pages.get(number, (low, high))
                pages[number] = min(low, known[0]), max(high, known[1])
        unknown = [number for number, hull in pages.items() if not self._knows(number, hull, needed)]
        return list(joined((max(n * PAGE_ROWS, log[0]), min((n + 1) * PAGE_ROWS, log[1])) for n in unknown))

    def _knows(self, number: int, wanted: Range, needed: frozenset[Expr]) -> bool:
        key = (self.family, number)
        with self.cache.lock:
            page, rows = self.cache.pages.get(key), self.cache.rows.get(key)
            if page is None or page.groups is not self.groups:
                return False
            if page.covered[0] > wanted[0] or page.covered[1] < wanted[1]:
                return False
            parts = page.parts(self.rest.periods, self.look)
            sums = [page.sums.get(part) or {} for part in parts]
        if rows is None or not needed <= rows.arguments.keys():
            rows = None
            if not all(measure in known for known in sums for measure in self.measures):
                return False
        self._seen += [SeenPart(key, page, rows, *each) for each in zip(parts, sums, strict=True)]
        return True

    def put(self, piece: Range, rows: FamilyRows) -> None:
        """The rows of whole pages that were read."""
        for number in range(piece[0] // PAGE_ROWS, -(-piece[1] // PAGE_ROWS)):
            low, high = max(piece[0], number * PAGE_ROWS), min(piece[1], (number + 1) * PAGE_ROWS)
            # A copy: a part of an array would keep all of it in memory.
            own = rows.take(np.arange(*np.searchsorted(rows.positions, (low, high))))
            page, key = EdgePage((low, high), self.groups, own), (self.family, number)
            self._seen += [SeenPart(key, page, own, part, {}) for part in page.parts(self.rest.periods, self.look)]
            with self.cache.lock:
                self.cache.pages.put(key, page, page.nbytes)
                self.cache.rows.put(key, own, own.nbytes)

    def sums(self) -> dict[Measure, list[CombinedCells]]:
        """The lines of each measure, page by page."""
        found: dict[Measure, list[CombinedCells]] = {measure: [] for measure in self.measures}
        windows: dict[int, list[int]] = {}  # by pane
        for seen in self._seen:
            begin = seen.part[0]
            pane = begin // self.look.pane if self.look.pane is not None else 0
            if pane not in windows:
                windows[pane] = [0] if self.panes is None else self.panes.of(np.array([begin]))[1].tolist()
            known = self._known(seen)
            for measure in self.measures:
                lines = known[measure]
                found[measure] += [
                    CombinedCells(np.full(len(lines.groups), w), lines.groups, lines.state) for w in windows[pane]
                ]
        return found

    def _known(self, seen: SeenPart) -> Sums:
        """The sums of a part, all that are needed."""
        unsummed = [measure for measure in self.measures if measure not in seen.sums]
        if not unsummed:
            return seen.sums
        assert seen.rows is not None
        known = seen.sums | sums_of(seen.rows, seen.part, unsummed)
        with self.cache.lock:
            seen.page.sums.put(seen.part, known, sum(map(bytes_of, known.values())))
            if (
                self.cache.pages.get(seen.key) is seen.page
            ):  # otherwise the rows that are kept are those of another reading
                self.cache.pages.put(seen.key, seen.page, seen.page.nbytes)
        return known


def sums_of(rows: FamilyRows, part: Part, measures: Sequence[Measure]) -> Sums:
    low, high, floor, head = part
    inside = (rows.times >= low) & (rows.times <= high) & (rows.positions >= floor) & (rows.positions < head)
    chosen = rows if inside.all() else rows.take(np.flatnonzero(inside))
    sliced = slice_rows(chosen.times, chosen.positions, chosen.groups, FOREVER)
    found: Sums = {}
    for measure in measures:
        cells = sliced.aggregate(measure.make(), [chosen.arguments[a] for a in measure.arguments])
        found[measure] = CombinedCells(np.zeros(len(cells), np.int64), cells.groups, cells.state)
    return found


def bytes_of(lines: CombinedCells) -> int:
    return SUM_BYTES + 2 * lines.groups.nbytes + sum(int(column.nbytes) for column in lines.state.values())


def concat_rows(parts: Sequence[FamilyRows]) -> FamilyRows:
    """All rows of parts that follow each other in the log."""
    times, positions, groups = (
        np.concatenate([getattr(part, name) for part in parts]) for name in ("times", "positions", "groups")
    )
    arguments = {expr: concat_columns([part.arguments[expr] for part in parts]) for expr in parts[0].arguments}
    return FamilyRows(times, positions, groups, [], arguments)
