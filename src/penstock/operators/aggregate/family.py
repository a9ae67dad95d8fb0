"""What the queries of a family share: its groups, and the cells of each measure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from penstock.errors import expect
from penstock.operators.aggregate import payload
from penstock.operators.aggregate.approximate.base import Approximate
from penstock.operators.aggregate.approximate.brackets import NONE, CellSum, look_approximately
from penstock.operators.aggregate.approximate.coarse_cells import cell_store
from penstock.operators.aggregate.cell_files import CellFiles
from penstock.operators.aggregate.groups import Groups
from penstock.operators.aggregate.partials.base import Ints
from penstock.operators.aggregate.partials.cell_sums import CellRange, Panes, choose_cells, combine
from penstock.operators.aggregate.partials.cells import Cells, CellStore, distinct_groups
from penstock.operators.aggregate.partials.tiles import ALWAYS, CutSlot, TileStore, may_be_slot
from penstock.operators.aggregate.shape import Family, Measure, measure_name
from penstock.operators.aggregate.slicer import SlicedFamily
from penstock.operators.base.ranges import Range, Ranges, from_position, joined, outside


class MissingRows(NamedTuple):
    """Log positions [first, end) without cells; `before_us`: only the rows of earlier times are missing."""

    first: int
    end: int
    before_us: int | None = None


@dataclass(slots=True)
class OlderCells:
    """Cells of all rows before a time, made for a window that reaches further back than those that are known."""

    before_us: int
    cells: TileStore
    covered: Ranges = ()
    is_used: bool = True  # whether rows were sliced for it since the last look


@dataclass(slots=True, eq=False)
class MeasureStore:
    """One measure's cells, and which rows of the log are in them."""

    cells: CellStore | TileStore
    covered: Ranges = ()
    users: set[int] = field(default_factory=set)
    older: OlderCells | None = None

    @property
    def tiles(self) -> TileStore | None:
        """The cells, where they are in tiles."""
        return self.cells if isinstance(self.cells, TileStore) else None

    def stores(self) -> list[CellStore | TileStore]:
        return [self.cells] if self.older is None else [self.cells, self.older.cells]

    @property
    def nbytes(self) -> int:
        return sum(cells.nbytes for cells in self.stores())

    def forget_before(self, low_us: int, floor: int) -> None:
        """No window reaches further back than this, and the log begins at this position."""
        tiles, older = self.tiles, self.older
        if tiles is None:
            return
        tiles.forget_before(low_us, floor)
        if older is not None and low_us >= tiles.since_us and not older.is_used:
            self.older = tiles.edge_us = None  # its query is gone
        elif older is not None:
            older.cells.forget_before(low_us, floor)
            older.is_used = False

    def reach_back(self, look: CellRange, new_cells: Callable[[], CellStore | TileStore]) -> bool:
        """Begin to make older cells, or take them in once they are of the same rows; False where that cannot be."""
        tiles, older = self.tiles, self.older
        if tiles is None:
            return True
        if older is None and look.low < tiles.since_us and self.covered:
            cells = expect(TileStore, new_cells())
            cells.keep_panes(tiles.pane_us)
            self.older = OlderCells(tiles.set_edge(), cells)
        elif older is not None and from_position(older.covered, look.floor) == from_position(self.covered, look.floor):
            self.older = None
            return tiles.take_older(older.cells)
        return True


class FamilyStore:
    """The groups and the cells by measure that the queries of a family share."""

    def __init__(self, family: Family) -> None:
        self.family = family
        self.groups = Groups.by(family.keys)
        self.measures: dict[Measure, MeasureStore] = {}
        self.rows = 0
        self.file_numbers = np.empty(0, np.int64)  # of the groups in files that the snapshot names which is taken in

    def keep_panes(self, measure: Measure, panes: Panes | None) -> None:
        """A query with panes uses a measure: if its cells are too wide for them, the log is sliced again."""
        tiles = self.measures[measure].tiles
        if panes is not None and tiles is not None and not tiles.keep_panes(panes.pane):
            self.give_up(measure)

    def reach_back(self, measures: tuple[Measure, ...], look: CellRange) -> None:
        """A window reaches back to a time: where cells before it were forgotten, that part of the log is sliced again."""
        for measure in measures:
            if not self.measures[measure].reach_back(look, partial(self.new_cells, measure)):
                self.give_up(measure)

    def unrefined(self, measures: tuple[Measure, ...], *looks: CellRange) -> dict[CutSlot, list[Measure]]:
        """Wide slots with rows far apart that some looks cut, with the measures that need them in finer cells."""
        found: dict[CutSlot, list[Measure]] = {}
        for measure in measures:
            for slot in self._cut(measure, looks):
                if slot.first >= looks[0].floor:
                    found.setdefault(slot, []).append(measure)
        for measure in self.measures if found else ():  # the others will be asked for, too
            if measure not in measures:
                for slot in found.keys() & self._cut(measure, looks):
                    found[slot].append(measure)
        return found

    def _cut(self, measure: Measure, looks: Sequence[CellRange]) -> set[CutSlot]:
        tiles = self.measures[measure].tiles
        return (
            {slot for look in looks for slot in tiles.unrefined(measure.range_of(look))} if tiles is not None else set()
        )

    def refine(self, slot: CutSlot, measures: list[Measure], parts: list[SlicedFamily]) -> bool:
        """Take in the finer cells of a slot; whether they are kept."""
        renumbered = [numbered_cells(self.groups, sliced) for sliced in parts]
        kept = False
        for place, measure in enumerate(measures):
            known = self.measures.get(measure)
            if known is not None and known.tiles is not None:
                kept |= known.tiles.refine(slot, [cells[place] for cells in renumbered])
        return kept

    def missing(
        self, measures: tuple[Measure, ...], reach: int, look: CellRange
    ) -> list[tuple[MissingRows, list[Measure]]]:
        """Rows of the log, from a position on, that some of the measures do not have in cells yet."""
        found: dict[MissingRows, list[Measure]] = {}
        first = max(reach, look.floor)
        if first >= look.head:
            return []
        for measure in measures:
            known = self.measures[measure]
            gaps = [MissingRows(*gap) for gap in outside(known.covered, first, look.head)]
            if known.older is not None and known.tiles is not None and look.low < known.tiles.since_us:
                wanted = joined([*from_position(known.covered, look.floor), (first, look.head)])
                there = joined([*known.older.covered, *(gap[:2] for gap in gaps)])  # `put` serves both
                older = (gap for each in wanted for gap in outside(there, *each))
                gaps += [MissingRows(*gap, known.older.before_us) for gap in older]
            for each in gaps:
                found.setdefault(each, []).append(measure)
        return list(found.items())

    def put(self, measures: list[Measure], gap: MissingRows, parts: list[SlicedFamily]) -> None:
        """Add the cells of a range, unless another thread has added them meanwhile."""
        renumbered = [numbered_cells(self.groups, sliced) for sliced in parts]
        for place, measure in enumerate(measures):
            known = self.measures.get(measure)
            target = known if known is None or gap.before_us is None else known.older
            if isinstance(target, OlderCells) and target.before_us != gap.before_us:
                continue
            if target is None or outside(target.covered, gap.first, gap.end) != [gap[:2]]:
                continue
            found = [cells[place] for cells in renumbered]
            for cells in found:
                target.cells.put(cells)
            target.covered = joined([*target.covered, gap[:2]])
            if isinstance(target, OlderCells):
                target.is_used = True
            else:
                _fold_older(target.older, found, [gap[:2]])

    def fold(self, told: payload.CellBatch) -> None:
        numbers = self.groups.number(told.keys(), told.table.num_rows)
        for measure, known in self.measures.items():
            name = measure_name(measure)
            if name not in told.measures:
                continue
            gaps = [outside(known.covered, *each) for each in told.ranges]
            if all(gap == [each] for gap, each in zip(gaps, told.ranges, strict=True)):
                cells = self.told_cells(told, name, measure, numbers)
                known.cells.put(cells)
                if known.tiles is not None:
                    known.tiles.since_us = max(known.tiles.since_us, told.about.get("since_us", ALWAYS))
                known.covered = joined([*known.covered, *told.ranges])
                _fold_older(known.older, [cells], told.ranges)

    def fold_files(self, told: payload.CellBatch, files: CellFiles) -> None:
        """Fold a row of a snapshot about cells in files: the keys of their groups, and then each measure's files and other cells."""
        if "groups" in told.about:
            self.file_numbers = self.groups.number(told.keys(), told.about["groups"])
            return
        known = next((k for m, k in self.measures.items() if measure_name(m) in told.measures), None)
        if known is None or known.tiles is None or known.covered:
            return
        found = files.open(told.family, told.about["files"], known.cells.partial)
        if found is not None:
            known.tiles.take_tiles(found, self.file_numbers, told.about["refined"])
            self.fold(told)

    def forget_covered(self, told: payload.CellBatch) -> None:
        """Forget the cells that a snapshot has, too, where it has them of no fewer rows."""
        for measure, known in self.measures.items():
            inside = all(not outside(tuple(told.ranges), *covered) for covered in known.covered)
            if measure_name(measure) in told.measures and inside:
                self.give_up(measure)

    def told_cells(self, told: payload.CellBatch, name: str, measure: Measure, numbers: Ints) -> Cells:
        return told.cells(name, self.measures[measure].cells.partial, numbers)

    def look(self, measure: Measure, look: CellRange, panes: Panes | None) -> list[CellSum]:
        """The sum of the cells in a range, and the rows of the log that have to be read besides."""
        store, tiles = self.measures[measure].cells, self.measures[measure].tiles
        look, panes = measure.range_of(look), measure.panes_of(panes)
        if tiles is not None:
            return [CellSum(*tiles.look(look, panes), NONE, keeps_rows=True)]
        view = store.view()
        if isinstance(store.partial, Approximate):
            return look_approximately(view, store.partial, look, panes)
        chosen, rest = choose_cells(view, look)
        lines = combine(view.take(chosen), store.partial, panes)
        return [CellSum(lambda: lines, rest, NONE)]

    def renumber(self) -> None:
        """Forget the keys of groups that have no cells, once they are most of them."""
        used = distinct_groups(cells.used_groups() for known in self.measures.values() for cells in known.stores())
        left = self.groups.without_unused(used)
        if left is not None:
            self.groups, numbers = left
            for known in self.measures.values():
                for cells in known.stores():
                    cells.renumber(numbers)

    def empty(self) -> None:
        """Forget everything; the next answer slices the log again."""
        self.groups = Groups.by(self.family.keys)
        for measure in self.measures:
            self.give_up(measure)

    def give_up(self, measure: Measure) -> None:
        """Forget a measure's cells."""
        known = self.measures[measure]
        pane_us = known.tiles.pane_us if known.tiles is not None else 0
        known.cells, known.covered, known.older = self.new_cells(measure), (), None
        if known.tiles is not None:
            known.tiles.keep_panes(pane_us)

    def may_have(self, measures: list[Measure], width: int) -> bool:
        """Whether cells of a width may be put for all of the measures."""
        stores = [self.measures[measure].tiles for measure in measures if measure in self.measures]
        return all(c is not None and c.edge_us is None and may_be_slot(width, c.pane_us) for c in stores)

    @property
    def refined_bytes(self) -> int:
        """What `release` gives back."""
        return sum(known.tiles.refined_bytes for known in self.measures.values() if known.tiles is not None)

    def release(self) -> None:
        """Forget what can be made again from cells and the log."""
        for known in self.measures.values():
            if known.tiles is not None:
                known.tiles.release()

    def doubt(self, measure: Measure) -> None:
        """Something failed while rows were read: everything is sliced again."""
        self.give_up(measure)

    def new_cells(self, measure: Measure) -> CellStore | TileStore:
        return cell_store(measure.make(), measure.every_us)

    def about(self, measure: Measure) -> dict[str, Any]:
        """What a snapshot holds of a measure beside its cells."""
        tiles = self.measures[measure].tiles
        return {"since_us": tiles.since_us} if tiles is not None else {}

    @property
    def users(self) -> set[int]:
        return set().union(*(known.users for known in self.measures.values()))

    @property
    def nbytes(self) -> int:
        return self.groups.nbytes + sum(known.nbytes for known in self.measures.values())


def _fold_older(older: OlderCells | None, parts: list[Cells], ranges: Sequence[Range]) -> None:
    """Fold those cells of some ranges that are before a time, whether or not there are any."""
    if older is not None and all(outside(older.covered, *each) == [each] for each in ranges):
        for cells in parts:
            older.cells.put(cells.take(cells.starts < older.before_us))
        older.covered = joined([*older.covered, *ranges])


def numbered_cells(groups: Groups, sliced: SlicedFamily) -> list[Cells]:
    """The cells of each measure that were sliced, with a family's numbers of their groups."""
    numbers = groups.number(sliced.keys)
    return [replace(cells, groups=numbers[cells.groups]) for cells in sliced.cells]
