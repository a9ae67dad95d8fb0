"""The cells of all standing aggregations: folded from commit records, forgotten when no window reaches them.

Cells are facts about the log. A row of the log is in exactly one cell of each measure, or in a range that nobody has
sliced yet; then whoever asks slices it (`reading`). So nothing here can be wrong, only missing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from penstock.operators.slices.approximate.base import Approximate
from penstock.operators.slices.approximate.looking import NONE, Looked, look_approximately
from penstock.operators.slices.approximate.store import cell_store
from penstock.operators.slices.base import Ints
from penstock.operators.slices.cells import Cells, CellStore
from penstock.operators.slices.combining import Look, Panes, choose_cells, combine
from penstock.pipeline.slices import payload
from penstock.pipeline.slices.shape import Family, Measure, family_name, family_of, measure_name, measures_of
from penstock.pipeline.slices.slicer import SlicedFamily
from penstock.queries.ranges import Range, Ranges, from_position, joined, outside
from penstock.queries.slices.groups import Groups
from penstock.queries.slices.said import Said
from penstock.sql.plan import AggregatePlan

FEW_GROUPS = 1000


@dataclass(slots=True)
class MeasureStore:
    """One measure's cells, and which rows of the log are in them."""

    cells: CellStore
    covered: Ranges = ()
    users: set[int] = field(default_factory=set)


class FamilyStore:
    """What the queries of a family share."""

    def __init__(self, family: Family) -> None:
        self.family = family
        self.groups = Groups()
        self.measures: dict[Measure, MeasureStore] = {}
        self.rows = 0

    def missing(self, measures: tuple[Measure, ...], first: int, head: int) -> list[tuple[Range, list[Measure]]]:
        """Ranges of the log that some of the measures do not cover yet."""
        found: dict[Range, list[Measure]] = {}
        for measure in measures:
            for gap in outside(self.measures[measure].covered, first, head):
                found.setdefault(gap, []).append(measure)
        return list(found.items())

    def put(self, measures: list[Measure], gap: Range, parts: list[SlicedFamily]) -> None:
        """Take in what somebody sliced of a range, unless it has become known meanwhile."""
        numbers = [number_groups(self.groups, sliced) for sliced in parts]
        for place, measure in enumerate(measures):
            known = self.measures.get(measure)
            if known is None or outside(known.covered, *gap) != [gap]:
                continue
            for sliced, own in zip(parts, numbers, strict=True):
                cells = sliced.cells[place]
                known.cells.put(_renumbered(cells, own[cells.groups]))
            known.covered = joined([*known.covered, gap])

    def fold(self, told: payload.Told) -> None:
        numbers = self.groups.number(told.keys())
        for measure, known in self.measures.items():
            name = measure_name(measure)
            if name not in told.measures:
                continue
            gaps = [outside(known.covered, *each) for each in told.ranges]
            if all(gap == [each] for gap, each in zip(gaps, told.ranges, strict=True)):
                known.cells.put(told.cells(name, known.cells.partial, numbers))
                known.covered = joined([*known.covered, *told.ranges])

    def look(self, measure: Measure, look: Look, panes: Panes | None) -> list[Looked]:
        """What cells say inside a look, and what of the log has to be read beside them."""
        store = self.measures[measure].cells
        view = store.view()
        if isinstance(store.partial, Approximate):
            return look_approximately(view, store.partial, look, panes)
        chosen, rest = choose_cells(view, look)
        return [Looked(combine(view.take(chosen), store.partial, panes), rest, NONE)]

    def renumber(self) -> None:
        """Forget the keys of groups that have no cells, once they are most of them."""
        used = np.unique(np.concatenate([known.cells.view().groups for known in self.measures.values()]))
        if len(self.groups) < 2 * len(used) + FEW_GROUPS:
            return
        groups, numbers = Groups(), np.zeros(len(self.groups), np.int64)
        numbers[used] = groups.number(self.groups.keys(used))
        for known in self.measures.values():
            known.cells.renumber(numbers)
        self.groups = groups

    def empty(self) -> None:
        """Forget everything; whoever asks slices the log again."""
        self.groups = Groups()
        for measure, known in self.measures.items():
            known.cells, known.covered = cell_store(measure.make()), ()

    @property
    def nbytes(self) -> int:
        return self.groups.nbytes + sum(known.cells.nbytes for known in self.measures.values())


class SliceStore:
    """Families by name. Called under the lock of the answers' owner."""

    def __init__(self) -> None:
        self.families: dict[str, FamilyStore] = {}
        self._plans: dict[int, AggregatePlan] = {}
        self.said = Said()
        self._rows_before: dict[int, int] = {}  # how many rows a query's family had met when the query came

    def take(self, query_id: int, plan: AggregatePlan) -> None:
        """A query came or changed."""
        before = self._plans.get(query_id)
        name = family_name(family_of(plan))
        family = self.families.get(name)
        if family is None:
            family = self.families[name] = FamilyStore(family_of(plan))
        if before is None or family_of(before) != family_of(plan):
            self._rows_before[query_id] = family.rows - self.matched(query_id, before)
        for measure in measures_of(plan):
            if measure not in family.measures:
                family.measures[measure] = MeasureStore(cell_store(measure.make()))
            family.measures[measure].users.add(query_id)
        self._plans[query_id] = plan
        if before is not None and (family_of(before), measures_of(before)) != (family_of(plan), measures_of(plan)):
            self._leave(query_id, before, plan)

    def matched(self, query_id: int, plan: AggregatePlan | None = None) -> int:
        """How many rows cycles have found for a query."""
        plan = plan if plan is not None else self._plans.get(query_id)
        return self.of(plan).rows - self._rows_before[query_id] if plan is not None else 0

    def forget(self, query_id: int) -> None:
        plan = self._plans.pop(query_id, None)
        if plan is not None:
            del self._rows_before[query_id]
            self._leave(query_id, plan, None)

    def _leave(self, query_id: int, plan: AggregatePlan, stays: AggregatePlan | None) -> None:
        name = family_name(family_of(plan))
        family = self.families[name]
        kept = measures_of(stays) if stays is not None and family_of(stays) == family.family else ()
        for measure in measures_of(plan):
            if measure in kept:
                continue
            family.measures[measure].users.discard(query_id)
            if not family.measures[measure].users:
                del family.measures[measure]
        if not family.measures:
            del self.families[name]

    def of(self, plan: AggregatePlan) -> FamilyStore:
        return self.families[family_name(family_of(plan))]

    def fold(self, data: bytes, rows: int) -> None:
        """Take in what a cycle or a snapshot told."""
        told = payload.from_bytes(data)
        family = self.families.get(told.family)
        if family is not None:
            family.rows += rows
            family.fold(told)

    def trim(self, keep_from: Mapping[int, int]) -> None:
        """Forget cells of rows that no query reaches. Queries without a position keep everything."""
        for family in self.families.values():
            for known in family.measures.values():
                position = min((keep_from.get(q, 0) for q in known.users), default=0)
                if position > 0:
                    known.covered = from_position(known.covered, known.cells.forget_below(position))
            family.renumber()

    def give_up(self, most_bytes: int) -> set[int]:
        """Empty the largest families until the rest fits; the queries that lost their cells."""
        gone: set[int] = set()
        while self.nbytes > most_bytes:
            largest = max(self.families.values(), key=lambda family: family.nbytes)
            gone.update(*(known.users for known in largest.measures.values()))
            largest.empty()
        return gone

    def give_up_kept(self, most_values: int) -> set[int]:
        """Empty measures that keep more values one by one than they may; the queries that lost their cells."""
        gone: set[int] = set()
        for family in self.families.values():
            for measure, known in family.measures.items():
                if known.cells.kept > most_values:
                    gone |= known.users
                    known.cells, known.covered = cell_store(measure.make()), ()
        return gone

    def doubt(self, query_id: int) -> None:
        """Something failed while a query's rows were read: everything is sliced again."""
        plan = self._plans.get(query_id)
        if plan is not None:
            family = self.of(plan)
            for measure in measures_of(plan):
                family.measures[measure].cells = cell_store(measure.make())
                family.measures[measure].covered = ()

    def memory_of(self, query_id: int) -> int:
        """Bytes of a query's measures, shared evenly among those who use them."""
        plan = self._plans.get(query_id)
        if plan is None:
            return 0
        used = [self.of(plan).measures[m] for m in measures_of(plan)]
        return sum(known.cells.nbytes // max(1, len(known.users)) for known in used)

    @property
    def nbytes(self) -> int:
        return sum(family.nbytes for family in self.families.values())

    def snapshot(self) -> Iterator[tuple[int, bytes]]:
        """Everything as payloads, each with the table it is about."""
        for name, family in self.families.items():
            types = [key.type for key in family.family.keys]
            for measure, known in family.measures.items():
                cells = known.cells.view()
                used, inverse = np.unique(cells.groups, return_inverse=True)
                keys = family.groups.columns(used, types)
                one = _renumbered(cells, inverse)
                partials = [known.cells.partial]
                data = payload.to_bytes(name, [measure_name(measure)], known.covered, keys, [one], partials)
                yield family.family.table_id, data


def number_groups(groups: Groups, sliced: SlicedFamily) -> Ints:
    """A family's numbers of the groups that were sliced."""
    keys = list(zip(*(key.to_pylist() for key in sliced.keys), strict=True)) if sliced.keys else [()]
    return groups.number(keys)


def _renumbered(cells: Cells, groups: Ints) -> Cells:
    return Cells(cells.starts, cells.widths, groups, cells.firsts, cells.lasts, cells.rows, cells.state)
