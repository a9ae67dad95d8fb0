"""The cells of all standing aggregations: folded from commit records, forgotten when no window reaches them.

Cells are facts about the log. A row of the log is in exactly one cell of each measure, or in a range that nobody has
sliced yet; then whoever asks slices it (`reading`). So nothing here can be wrong, only missing.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping

import numpy as np

from penstock.pipeline.slices import payload
from penstock.pipeline.slices.shape import family_name, family_of, measure_name, measures_of
from penstock.queries.ranges import from_position
from penstock.queries.slices.family import FamilyStore, MeasureStore, renumbered
from penstock.queries.slices.latch import LatchFamily
from penstock.queries.slices.results.family import ResultsFamily
from penstock.queries.slices.said import Said
from penstock.sql.plan import AggregatePlan

# Which list of results, and whatever else cells of them depend on.
Generation = tuple[int, ...]


class SliceStore:
    """Families by name. Called under the lock of the answers' owner."""

    def __init__(self) -> None:
        self.families: dict[str, FamilyStore] = {}
        self._plans: dict[int, AggregatePlan] = {}
        self._of_results: dict[
            int, dict[Generation, ResultsFamily]
        ] = {}  # by query and generation of its join's results
        self.said = Said()
        self._rows_before: dict[int, int] = {}  # how many rows a query's family had met when the query came

    def take(self, query_id: int, plan: AggregatePlan) -> None:
        """A query came or changed."""
        before = self._plans.get(query_id)
        name = family_name(family_of(plan))
        family = self.families.get(name)
        if family is None:
            kind = FamilyStore if plan.latch is None else LatchFamily
            family = self.families[name] = kind(family_of(plan))
        if before is None or family_of(before) != family_of(plan):
            self._rows_before[query_id] = family.rows - self.matched(query_id, before)
        for measure in measures_of(plan):
            if measure not in family.measures:
                family.measures[measure] = MeasureStore(family.new_cells(measure))
            family.measures[measure].users.add(query_id)
        self._plans[query_id] = plan
        if before is not None and (family_of(before), measures_of(before)) != (family_of(plan), measures_of(plan)):
            self._leave(query_id, before, plan)

    def matched(self, query_id: int, plan: AggregatePlan | None = None) -> int:
        """How many rows cycles have found for a query."""
        plan = plan if plan is not None else self._plans.get(query_id)
        return self.of(plan).rows - self._rows_before[query_id] if plan is not None else 0

    def forget(self, query_id: int) -> None:
        self._of_results.pop(query_id, None)
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

    def keeps(self, plan: AggregatePlan) -> bool:
        """Whether anybody asks for such cells."""
        return family_name(family_of(plan)) in self.families

    def of(self, plan: AggregatePlan) -> FamilyStore:
        return self.families[family_name(family_of(plan))]

    def of_results(self, query_id: int, generation: Generation, top: AggregatePlan, inputs: int) -> ResultsFamily:
        """The cells of a join's results, which whoever asks makes."""
        known = self._of_results.setdefault(query_id, {})
        if generation not in known:
            known[generation] = ResultsFamily(query_id, top, inputs)
        return known[generation]

    def results_of(self, query_id: int) -> ResultsFamily | None:
        """Those of the newest generation that somebody asked about."""
        known = self._of_results.get(query_id)
        return known[max(known)] if known else None

    def trim_results(self, query_id: int, generations: Container[int], low: int) -> None:
        """Forget results of a join before a time, and those of generations that no kept cycle knows."""
        known = self._of_results.get(query_id, {})
        for generation in [g for g in known if g[0] not in generations]:
            del known[generation]
        for family in known.values():
            family.forget_before(low)

    def fold(self, data: bytes, rows: int) -> None:
        """Take in what a cycle or a snapshot told."""
        told = payload.from_bytes(data)
        family = self.families.get(told.family)
        if family is not None:
            family.rows += rows
            family.fold(told)

    def latch_of(self, plan: AggregatePlan) -> LatchFamily:
        family = self.of(plan)
        assert isinstance(family, LatchFamily)
        return family

    def merge_latches(self, oldest: Mapping[int, int], filling: Container[int]) -> None:
        """Merge the states of LATCH queries as of the oldest kept cycle, which read the tables up to these positions.

        Not of those that are filling: what lies between two pieces may still come.
        """
        for family in self.families.values():
            users = next(iter(family.measures.values())).users
            if isinstance(family, LatchFamily) and not any(query_id in filling for query_id in users):
                family.merge_below(oldest.get(family.family.table_id, 0))

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
            largest = max(self._all_families(), key=lambda family: family.nbytes)
            gone |= largest.users
            largest.empty()
        return gone

    def give_up_kept(self, most_values: int) -> set[int]:
        """Empty measures that keep more values one by one than they may; the queries that lost their cells."""
        gone: set[int] = set()
        for family in self.families.values():
            for measure, known in family.measures.items():
                if known.cells.kept > most_values:
                    gone |= known.users
                    family.give_up(measure)
        for of_results in self._families_of_results():
            if of_results.cells.kept > most_values:
                gone |= of_results.users
                of_results.empty()
        return gone

    def _families_of_results(self) -> list[ResultsFamily]:
        return [family for known in self._of_results.values() for family in known.values()]

    def _all_families(self) -> list[FamilyStore | ResultsFamily]:
        return [*self.families.values(), *self._families_of_results()]

    def doubt(self, query_id: int) -> None:
        """Something failed while a query's rows were read: everything is sliced again."""
        plan = self._plans.get(query_id)
        if plan is not None:
            family = self.of(plan)
            for measure in measures_of(plan):
                family.doubt(measure)

    def memory_of(self, query_id: int) -> int:
        """Bytes of a query's measures, shared evenly among those who use them."""
        plan = self._plans.get(query_id)
        if plan is None:
            return sum(family.nbytes for family in self._of_results.get(query_id, {}).values())
        used = [self.of(plan).measures[m] for m in measures_of(plan)]
        return sum(known.cells.nbytes // max(1, len(known.users)) for known in used)

    @property
    def nbytes(self) -> int:
        return sum(family.nbytes for family in self._all_families())

    def snapshot(self) -> Iterator[tuple[int, bytes]]:
        """Everything as payloads, each with the table it is about."""
        for name, family in self.families.items():
            types = [key.type for key in family.family.keys]
            for measure, known in family.measures.items():
                cells = known.cells.view()
                used, inverse = np.unique(cells.groups, return_inverse=True)
                keys = family.groups.columns(used, types)
                one = renumbered(cells, inverse)
                partials = [known.cells.partial]
                data = payload.to_bytes(
                    name, [measure_name(measure)], known.covered, keys, [one], partials, family.about()
                )
                yield family.family.table_id, data
