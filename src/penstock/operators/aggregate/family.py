"""What the queries of a family share: its groups, and the cells of each measure."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from penstock.operators.aggregate import payload
from penstock.operators.aggregate.approximate.base import Approximate
from penstock.operators.aggregate.approximate.brackets import NONE, CellSum, look_approximately
from penstock.operators.aggregate.approximate.coarse_cells import cell_store
from penstock.operators.aggregate.groups import Groups
from penstock.operators.aggregate.partials.base import Ints
from penstock.operators.aggregate.partials.cell_sums import CellRange, Panes, choose_cells, combine
from penstock.operators.aggregate.partials.cells import Cells, CellStore, distinct_groups
from penstock.operators.aggregate.partials.tiles import ALWAYS, CutSlot, TileStore, may_be_slot
from penstock.operators.aggregate.shape import Family, Measure, measure_name
from penstock.operators.aggregate.slicer import SlicedFamily
from penstock.operators.base.ranges import Range, Ranges, joined, outside


@dataclass(slots=True)
class MeasureStore:
    """One measure's cells, and which rows of the log are in them."""

    cells: CellStore | TileStore
    covered: Ranges = ()
    users: set[int] = field(default_factory=set)


class FamilyStore:
    """The groups and the cells by measure that the queries of a family share."""

    def __init__(self, family: Family) -> None:
        self.family = family
        self.groups = Groups.by(family.keys)
        self.measures: dict[Measure, MeasureStore] = {}
        self.rows = 0

    def keep_panes(self, measure: Measure, panes: Panes | None) -> None:
        """A query with panes uses a measure: if its cells are too wide for them, the log is sliced again."""
        cells = self.measures[measure].cells
        if panes is not None and isinstance(cells, TileStore) and not cells.keep_panes(panes.pane):
            self.give_up(measure)

    def reach_back(self, measures: tuple[Measure, ...], low_us: int) -> None:
        """A window reaches back to a time: where cells before it were forgotten, the log is sliced again."""
        for measure in measures:
            cells = self.measures[measure].cells
            if isinstance(cells, TileStore) and low_us < cells.since_us:
                self.give_up(measure)

    def unrefined(self, measures: tuple[Measure, ...], look: CellRange) -> dict[CutSlot, list[Measure]]:
        """Wide slots with rows far apart that a look cuts, with the measures that need them in finer cells."""
        found: dict[CutSlot, list[Measure]] = {}
        for measure in measures:
            cells = self.measures[measure].cells
            for slot in cells.unrefined(look) if isinstance(cells, TileStore) else ():
                if slot.first >= look.floor:
                    found.setdefault(slot, []).append(measure)
        return found

    def refine(self, slot: CutSlot, measures: list[Measure], parts: list[SlicedFamily]) -> None:
        """Take in the finer cells of a slot."""
        renumbered = [numbered_cells(self.groups, sliced) for sliced in parts]
        for place, measure in enumerate(measures):
            known = self.measures.get(measure)
            if known is not None and isinstance(known.cells, TileStore):
                known.cells.refine(slot, [cells[place] for cells in renumbered])

    def missing(self, measures: tuple[Measure, ...], first: int, head: int) -> list[tuple[Range, list[Measure]]]:
        """Ranges of the log that some of the measures do not cover yet."""
        found: dict[Range, list[Measure]] = {}
        for measure in measures:
            for gap in outside(self.measures[measure].covered, first, head):
                found.setdefault(gap, []).append(measure)
        return list(found.items())

    def put(self, measures: list[Measure], gap: Range, parts: list[SlicedFamily]) -> None:
        """Add the cells of a range, unless another thread has added them meanwhile."""
        renumbered = [numbered_cells(self.groups, sliced) for sliced in parts]
        for place, measure in enumerate(measures):
            known = self.measures.get(measure)
            if known is None or outside(known.covered, *gap) != [gap]:
                continue
            for cells in renumbered:
                known.cells.put(cells[place])
            known.covered = joined([*known.covered, gap])

    def fold(self, told: payload.CellBatch) -> None:
        numbers = self.groups.number(told.keys(), told.table.num_rows)
        for measure, known in self.measures.items():
            name = measure_name(measure)
            if name not in told.measures:
                continue
            gaps = [outside(known.covered, *each) for each in told.ranges]
            if all(gap == [each] for gap, each in zip(gaps, told.ranges, strict=True)):
                known.cells.put(self.told_cells(told, name, measure, numbers))
                if isinstance(known.cells, TileStore):
                    known.cells.since_us = max(known.cells.since_us, told.about.get("since_us", ALWAYS))
                known.covered = joined([*known.covered, *told.ranges])

    def take_cells(self, told: payload.CellBatch) -> None:
        """Take the cells of a snapshot in place of those that are known, where they are of more rows."""
        for measure, known in self.measures.items():
            inside = all(not outside(tuple(told.ranges), *covered) for covered in known.covered)
            if measure_name(measure) in told.measures and inside:
                self.give_up(measure)
        self.fold(told)

    def told_cells(self, told: payload.CellBatch, name: str, measure: Measure, numbers: Ints) -> Cells:
        return told.cells(name, self.measures[measure].cells.partial, numbers)

    def look(self, measure: Measure, look: CellRange, panes: Panes | None) -> list[CellSum]:
        """The sum of the cells in a range, and the rows of the log that have to be read besides."""
        store = self.measures[measure].cells
        if isinstance(store, TileStore):
            return [CellSum(*store.look(look, panes), NONE, keeps_rows=True)]
        view = store.view()
        if isinstance(store.partial, Approximate):
            return look_approximately(view, store.partial, look, panes)
        chosen, rest = choose_cells(view, look)
        lines = combine(view.take(chosen), store.partial, panes)
        return [CellSum(lambda: lines, rest, NONE)]

    def renumber(self) -> None:
        """Forget the keys of groups that have no cells, once they are most of them."""
        used = distinct_groups(known.cells.used_groups() for known in self.measures.values())
        left = self.groups.without_unused(used)
        if left is not None:
            self.groups, numbers = left
            for known in self.measures.values():
                known.cells.renumber(numbers)

    def empty(self) -> None:
        """Forget everything; the next answer slices the log again."""
        self.groups = Groups.by(self.family.keys)
        for measure in self.measures:
            self.give_up(measure)

    def give_up(self, measure: Measure) -> None:
        """Forget a measure's cells."""
        known, cells = self.measures[measure], self.new_cells(measure)
        if isinstance(cells, TileStore) and isinstance(known.cells, TileStore):
            cells.keep_panes(known.cells.pane_us)
        known.cells, known.covered = cells, ()

    def may_have(self, measures: list[Measure], width: int) -> bool:
        """Whether cells of a width may be put for all of the measures."""
        stores = [self.measures[measure].cells for measure in measures if measure in self.measures]
        return all(isinstance(cells, TileStore) and may_be_slot(width, cells.pane_us) for cells in stores)

    def release(self) -> None:
        """Forget what can be made again from cells and the log."""
        for known in self.measures.values():
            if isinstance(known.cells, TileStore):
                known.cells.release()

    def doubt(self, measure: Measure) -> None:
        """Something failed while rows were read: everything is sliced again."""
        self.give_up(measure)

    def new_cells(self, measure: Measure) -> CellStore | TileStore:
        return cell_store(measure.make())

    def about(self, measure: Measure) -> dict[str, Any]:
        """What a snapshot holds of a measure beside its cells."""
        cells = self.measures[measure].cells
        return {"since_us": cells.since_us} if isinstance(cells, TileStore) else {}

    @property
    def users(self) -> set[int]:
        return set().union(*(known.users for known in self.measures.values()))

    @property
    def nbytes(self) -> int:
        return self.groups.nbytes + sum(known.cells.nbytes for known in self.measures.values())


def numbered_cells(groups: Groups, sliced: SlicedFamily) -> list[Cells]:
    """The cells of each measure that were sliced, with a family's numbers of their groups."""
    numbers = groups.number(sliced.keys)
    return [replace(cells, groups=numbers[cells.groups]) for cells in sliced.cells]
