"""The cells of all standing aggregations: folded from commit records, forgotten when no window reaches them.

Cells are facts about the log. A row of the log is in exactly one cell of each measure, or in a range that is not
sliced yet; then the next answer slices it (`history`). So nothing here can be wrong, only missing.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar, Literal

import numpy as np
import pyarrow as pa

from penstock.cache import Cache
from penstock.catalog.model import PRIORITIES
from penstock.cycle.commit_files import CommitRecord, ResultRow
from penstock.cycle.folder import DataFolder
from penstock.expr.windows import FOREVER, TimeWindow
from penstock.operators.aggregate import payload
from penstock.operators.aggregate.cell_files import CellFiles, FileBatch, file_batches
from penstock.operators.aggregate.edge_rows import EdgeCache
from penstock.operators.aggregate.family import FamilyStore, MeasureStore
from penstock.operators.aggregate.finish_times import FinishTimes
from penstock.operators.aggregate.history import HistoryFill
from penstock.operators.aggregate.latch import LatchFamily
from penstock.operators.aggregate.over_joins.family import ResultsFamily
from penstock.operators.aggregate.partials.cell_sums import CellRange
from penstock.operators.aggregate.partials.cells import CellStore
from penstock.operators.aggregate.series_cache import SeriesCache
from penstock.operators.aggregate.shape import Measure, family_name, family_of, measure_name, measures_of
from penstock.operators.aggregate.within import AnswerCache
from penstock.operators.base.ranges import from_position, inside, joined
from penstock.operators.base.state import OperatorState
from penstock.operators.select.window_cut import WindowAt
from penstock.sql.plan import AggregatePlan, Plan
from penstock.streams.log.segments import Segment
from penstock.views.query_state import QueryState

LARGE_BYTES = 64 << 20
SNAPSHOT_CELLS = 1 << 24
"""A snapshot has at most so many cells: about 80 bytes each, and one file holds no more than two gigabytes of them."""
FOLLOWS, SWINGS = 10_000, 1 / 16
"""What has grown over about so many cycles is new; and so much more or less than usual is not growth: sums of tiles come and go."""
AnswerKey = tuple[int, int, int, WindowAt]
"""A query, a cycle, from where on the log counts, and what the window depends on."""
LooksOf = Callable[[AggregatePlan], Sequence[CellRange]]
SegmentsOf = Callable[[int], Sequence[Segment]]
# Which list of results, and whatever else cells of them depend on.
Generation = tuple[int, ...]


class SliceStore(OperatorState):
    """Families by name. Called under the lock of the answers' owner."""

    # A version that does not know the kind "tiles" leaves such rows out, and slices the log again.
    kinds: ClassVar[Mapping[str, Literal["query", "table"]]] = {"slices": "table", "tiles": "table"}

    def __init__(self, folder: DataFolder) -> None:
        self.files = CellFiles(folder.root)
        self.waits_for_cells = False  # whether a later snapshot has the cells of the records that are folded now
        self._named: dict[str, set[str]] = {}  # by family, the files that the last snapshot names
        self.families: dict[str, FamilyStore] = {}
        self._plans: dict[int, AggregatePlan] = {}  # whose rows count as a query's own
        self._beside: dict[int, tuple[AggregatePlan, ...]] = {}  # of subqueries that are values in a query
        self._of_results: dict[
            int, dict[Generation, ResultsFamily]
        ] = {}  # by query and generation of its join's results
        self.said = AnswerCache()
        self.edges = EdgeCache()
        self.fills: dict[int, HistoryFill] = {}  # of queries that are FILLING
        self.large: Cache[AnswerKey, tuple[AggregatePlan, pa.Table]] = Cache(most_bytes=LARGE_BYTES)  # whole answers
        self.series = SeriesCache()
        self.finish = FinishTimes()
        self.series_slots_max = 4_000_000  # elements of the series of one answer, in all groups
        self._usual: dict[MeasureStore | ResultsFamily, float] | None = None  # bytes that each has had lately
        self._bytes = 0  # of all at the last look
        self._rows_before: dict[int, int] = {}  # how many rows a query's family had when the query was registered

    def define(self, query_id: int, plan: Plan, position: int) -> None:
        own = plan.kernel.aggregation if plan.kernel is not None else None
        if own is not None or plan.over_results is not None:
            self.take(query_id, own, tuple(scalar.plan for scalar in plan.scalars))
        elif plan.over_read is None:
            self.drop(query_id)  # a reader of a join keeps the cells of its results

    def take(self, query_id: int, plan: AggregatePlan | None, beside: tuple[AggregatePlan, ...] = ()) -> None:
        """A query came or changed. `plan` None: its own aggregates are of a join's results; `beside`: its subqueries."""
        before, used_before, matched = self._plans.get(query_id), self._used(query_id), self.matched(query_id)
        for each in (*((plan,) if plan is not None else ()), *beside):
            family = self._family(each)
            for measure in measures_of(each):
                if measure not in family.measures:
                    family.measures[measure] = MeasureStore(family.new_cells(measure))
                family.keep_panes(measure, each.panes)
                family.measures[measure].users.add(query_id)
        if plan is None:
            self._plans.pop(query_id, None)
            self._rows_before.pop(query_id, None)
        else:
            if before is None or family_of(before) != family_of(plan):
                self._rows_before[query_id] = self.of(plan).rows - matched
            self._plans[query_id] = plan
        self._beside.pop(query_id, None)
        if beside:
            self._beside[query_id] = beside
        self._leave(query_id, used_before.keys() - self._used(query_id).keys())

    def _family(self, plan: AggregatePlan) -> FamilyStore:
        name = family_name(family_of(plan))
        if name not in self.families:
            kind = FamilyStore if plan.latch is None else LatchFamily
            self.families[name] = kind(family_of(plan))
        return self.families[name]

    def _used(self, query_id: int) -> dict[tuple[str, Measure], MeasureStore]:
        """The cells that a query uses, each once, by family and measure."""
        plan = self._plans.get(query_id)
        plans = (*((plan,) if plan is not None else ()), *self._beside.get(query_id, ()))
        return {(family_name(family_of(p)), m): self.of(p).measures[m] for p in plans for m in measures_of(p)}

    def matched(self, query_id: int) -> int:
        plan = self._plans.get(query_id)
        return self.of(plan).rows - self._rows_before[query_id] if plan is not None else 0

    def drop(self, query_id: int) -> None:
        self._of_results.pop(query_id, None)
        self.fills.pop(query_id, None)
        self.finish.drop(query_id)
        self.take(query_id, None)

    def _leave(self, query_id: int, gone: Iterable[tuple[str, Measure]]) -> None:
        for name, measure in gone:
            family = self.families[name]
            family.measures[measure].users.discard(query_id)
            if not family.measures[measure].users:
                del family.measures[measure]
            if not family.measures:
                del self.families[name]

    def missing_rows(self, query_id: int, reach: int, looks_of: LooksOf, segments_of: SegmentsOf) -> int:
        """How many rows of the log a query needs that have no cells yet. `looks_of`: how a plan looks at it, the whole window first."""
        rows = 0
        for each in self._windowed(query_id):
            family, measures, look = self.of(each), measures_of(each), looks_of(each)[0]
            family.reach_back(measures, look)
            gaps = [gap for gap, _ in family.missing(measures, reach, look)]
            rows += sum(end - low for low, end in joined(gap[:2] for gap in gaps if gap.before_us is None))
            for gap in (gap for gap in gaps if gap.before_us is not None):
                there = (s for s in segments_of(each.table_id) if s.min_ts < (gap.before_us or 0))
                rows += sum(end - low for s in there for low, end in inside((gap[:2],), s.first, s.end))
        return rows

    def _windowed(self, query_id: int) -> list[AggregatePlan]:
        """The aggregations over time of a query and of its subqueries."""
        plan = self._plans.get(query_id)
        plans = (*((plan,) if plan is not None else ()), *self._beside.get(query_id, ()))
        return [each for each in plans if each.latch is None and isinstance(each.window, TimeWindow)]

    def cut_rows(self, query_id: int, looks_of: LooksOf, segments_of: SegmentsOf) -> int:
        """How many rows have to be read to make the wide slots again that the windows of a query cut.

        They are made again in steps. Each reads less than half as many rows as the one before.
        """
        rows = 0
        for each in self._windowed(query_id):
            for slot in self.of(each).unrefined(measures_of(each), *looks_of(each)):
                end_us, positions = slot.start + slot.width, ((slot.first, slot.last + 1),)
                there = (s for s in segments_of(each.table_id) if s.min_ts < end_us and s.max_ts >= slot.start)
                rows += 2 * sum(end - low for s in there for low, end in inside(positions, s.first, s.end))
        return rows

    def note_fill(self, query_id: int, rows: int) -> None:
        """So many rows of a query's history are left for Spark's workers to slice; none: it is not FILLING any more."""
        fill = self.fills.get(query_id)
        if not rows:
            self.fills.pop(query_id, None)
        elif fill is None:
            self.fills[query_id] = HistoryFill(rows, rows)
        else:
            fill.left = min(rows, fill.rows)

    @property
    def tiled_queries(self) -> set[int]:
        """Queries with so many cells that wide slots may have to be made ready for them."""
        measures = (known for family in self.families.values() for known in family.measures.values())
        return {q for m in measures if m.tiles is not None and m.tiles.has_wide_slots for q in m.users}

    def keeps(self, plan: AggregatePlan) -> bool:
        """Whether a query uses cells of this plan's family."""
        return family_name(family_of(plan)) in self.families

    def of(self, plan: AggregatePlan) -> FamilyStore:
        return self.families[family_name(family_of(plan))]

    def of_results(self, query_id: int, generation: Generation, top: AggregatePlan, inputs: int) -> ResultsFamily:
        """The cells of a join's results, which answers fill on request."""
        known = self._of_results.setdefault(query_id, {})
        if generation not in known:
            known[generation] = ResultsFamily(query_id, top, inputs)
        return known[generation]

    def results_of(self, query_id: int) -> ResultsFamily | None:
        """The cells of the newest generation that has been asked for."""
        known = self._of_results.get(query_id)
        return known[max(known)] if known else None

    def trim_results(self, query_id: int, generations: Container[int], low: int) -> None:
        """Forget results of a join before a time, and those of generations that no kept cycle knows."""
        known = self._of_results.get(query_id, {})
        for generation in [g for g in known if g[0] not in generations]:
            del known[generation]
        for family in known.values():
            family.forget_before(low)

    def fold(self, row: ResultRow, answer: QueryState | None, cycle: int) -> None:
        """Fold a payload of a cycle or a snapshot."""
        told = payload.from_bytes(row[4] or b"")
        family = self.families.get(told.family)
        if family is not None:
            family.rows += row[2]
            if not self.waits_for_cells or family.family.latch is not None:
                self._fold(row[1], told, family)

    def _fold(self, kind: str, told: payload.CellBatch, family: FamilyStore) -> None:
        if kind == "tiles":
            # Also where the cells are not taken in, because one file is damaged: until the next snapshot it names the others.
            self._named.setdefault(told.family, set()).update(told.about.get("files", ()))
            family.fold_files(told, self.files)
        else:
            family.fold(told)

    def take_cells(self, snapshot: CommitRecord) -> None:
        """Take the cells of a snapshot in place of those that are known, where they are of no fewer rows."""
        self.waits_for_cells = False
        for kind, data in snapshot.payloads(*self.kinds):
            told = payload.from_bytes(data)
            family = self.families.get(told.family)
            if family is not None and family.family.latch is None:
                family.forget_covered(told)
                self._fold(kind, told, family)

    def users_of(self, data: bytes | None) -> set[int]:
        """The queries that use a payload's cells."""
        family = self.families.get(payload.from_bytes(data or b"").family)
        return set().union(*(measure.users for measure in family.measures.values())) if family is not None else set()

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
                if position > 0 and isinstance(known.cells, CellStore):
                    known.covered = from_position(known.covered, known.cells.forget_below(position))
            family.renumber()

    def trim_tiles(self, lows: Mapping[int, int], floors: Mapping[int, int]) -> None:
        """Forget cells of times that no query reaches (`lows`), and of rows that no table has any more (`floors`)."""
        for family in self.families.values():
            for known in family.measures.values():
                low = min((lows.get(q, -FOREVER) for q in known.users), default=-FOREVER)
                known.forget_before(low, floors.get(family.family.table_id, 0))

    def give_up(
        self,
        most_bytes: int,
        rank_of: Callable[[int], int],
        look_of: Callable[[int, AggregatePlan], CellRange | None],
    ) -> set[int]:
        """Empty cells until the rest fits; the queries that lost them. Called after each cycle.

        What can be made again goes first. Then cells of the lowest class go, that of their most important query (the highest `rank_of`),
        and of these what has grown the most lately. `look_of`: how a query looks at the log. Where a window has become longer, the
        cells before are given up first, with those that need them.
        """
        sizes = self._sizes()
        # What can be given back at once takes no room from another query.
        self._bytes = sum(sizes.values()) - sum(family.refined_bytes for family in self.families.values())
        # After a start, nothing has grown yet.
        usual = self._usual if self._usual is not None else {each: float(size) for each, size in sizes.items()}
        if sum(sizes.values()) + self.edges.nbytes + self.large.nbytes + self.series.nbytes > most_bytes:
            self.edges.clear()
            for family in self.families.values():
                family.release()
            self.large.clear()
            self.series.clear()
            sizes = self._sizes()
        gone: set[int] = set()
        while sizes and sum(sizes.values()) > most_bytes:
            grown = {each: size - usual.get(each, 0.0) * (1 + SWINGS) for each, size in sizes.items()}
            ranks = {each: min(map(rank_of, each.users), default=len(PRIORITIES)) for each in sizes}
            chosen = max(grown, key=lambda each: (ranks[each], max(0.0, grown[each]), sizes[each]))
            gone |= self._give_up_older(chosen, look_of) or chosen.users
            self._empty_of(gone)
            sizes = {each: size for each, size in self._sizes().items() if size and not each.users <= gone}
        self._usual = {
            each: was + (size - was) / FOLLOWS for each, size in sizes.items() for was in (usual.get(each, 0.0),)
        }
        return gone

    def _give_up_older(
        self, known: MeasureStore | ResultsFamily, look_of: Callable[[int, AggregatePlan], CellRange | None]
    ) -> set[int]:
        """The queries that need cells which a measure is making for a longer window; none where it makes none."""
        if not isinstance(known, MeasureStore) or known.older is None or known.tiles is None:
            return set()
        since_us = known.tiles.since_us
        plans = {q: [self._plans[q]] if q in self._plans else [] for q in known.users}
        looks = {q: [look_of(q, plan) for plan in (*own, *self._beside.get(q, ()))] for q, own in plans.items()}
        known.older = known.tiles.edge_us = None
        for family in self.families.values():
            if known in family.measures.values():
                family.renumber()
        return {q for q, found in looks.items() if any(look is not None and look.low < since_us for look in found)}

    def _sizes(self) -> dict[MeasureStore | ResultsFamily, int]:
        """Bytes of each measure, with its share of the groups, and of the results of each join."""
        found: dict[MeasureStore | ResultsFamily, int] = {each: each.nbytes for each in self._families_of_results()}
        for family in self.families.values():
            share = family.groups.nbytes // len(family.measures)
            found |= {known: known.nbytes + share for known in family.measures.values()}
        return found

    def _empty_of(self, gone: set[int]) -> None:
        """Forget the cells that only queries use which have failed."""
        for family in self.families.values():
            for measure in [m for m, known in family.measures.items() if known.users <= gone]:
                family.give_up(measure)
            if family.users <= gone:
                family.empty()
        for of_results in self._families_of_results():
            if of_results.users <= gone:
                of_results.empty()

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
        for name, measure in self._used(query_id):
            self.families[name].doubt(measure)

    def release(self, query_id: int) -> None:
        for name in {name for name, _ in self._used(query_id)}:
            self.families[name].release()

    def empty(self, query_id: int) -> None:
        for (name, measure), known in self._used(query_id).items():
            if known.users == {query_id}:
                self.families[name].give_up(measure)
                self.families[name].renumber()
        for family in self._of_results.get(query_id, {}).values():
            family.empty()

    def memory_of(self, query_id: int) -> int:
        """Bytes of a query's measures and groups, divided evenly among the queries that use them."""
        of_results = sum(family.nbytes for family in self._of_results.get(query_id, {}).values())
        used = self._used(query_id)
        shares = [known.nbytes // max(1, len(known.users)) for known in used.values()]
        families = [self.families[name] for name in {name for name, _ in used}]
        return (
            of_results
            + self.series.memory_of(query_id, used)
            + sum(shares)
            + sum(family.groups.nbytes // len(family.users) for family in families)
        )

    @property
    def nbytes(self) -> int:
        return sum(family.nbytes for family in self._all_families())

    def taken_by_others(self, plan: AggregatePlan) -> int:
        """Bytes of all cells at the last cycle but those that a query with this plan has or would share."""
        family = self.families.get(family_name(family_of(plan)))
        if family is None:
            return self._bytes
        own = (family.measures[m].nbytes for m in measures_of(plan) if m in family.measures)
        return max(0, self._bytes - family.groups.nbytes - sum(own))

    def unfiled(self, settled: bool = False) -> list[FileBatch]:
        """Tiles that are to be in files, in batches of a file each. `settled`: but those that the next cells replace."""
        found: list[FileBatch] = []
        for name, family in self.families.items():
            for known in family.measures.values():
                if known.tiles is not None:
                    found += file_batches(name, known.tiles.unfiled(settled), known.tiles.partial)
        return found

    def used_files(self) -> dict[str, set[str]]:
        """By family, the files with cells that are known, and those that the newest snapshot names."""
        used = {name: set(files) for name, files in self._named.items()}
        for name, family in self.families.items():
            for known in family.measures.values():
                if known.tiles is not None and known.tiles.files:
                    used.setdefault(name, set()).update(known.tiles.files)
        return used

    def snapshot(self) -> Iterator[ResultRow]:
        """The cells of all measures but those that are too many: after a restart these are sliced from the log again.

        Of cells in files there are the names of the files, and once for a family the keys of all its groups.
        """
        measures = [(n, f, m, known) for n, f in self.families.items() for m, known in f.measures.items()]
        room, self._named = SNAPSHOT_CELLS, {}
        for name, family, measure, known in sorted(measures, key=lambda each: len(each[3].cells)):
            files = known.tiles.files if known.tiles is not None else {}
            cells = known.tiles.unfiled_cells() if known.tiles is not None else known.cells.view()
            room -= len(cells)
            if room < 0 and not isinstance(family, LatchFamily):
                continue
            if files and name not in self._named:
                count = len(family.groups)
                data = payload.keys_to_bytes(name, family.groups.columns(np.arange(count)), count)
                yield family.family.table_id, "tiles", 0, 0, data
            if files:
                self._named.setdefault(name, set()).update(files)
            used, inverse = np.unique(cells.groups, return_inverse=True)
            keys = family.groups.columns(used)
            one = replace(cells, groups=inverse)
            partials = {measure_name(measure): known.cells.partial}
            about = family.about(measure)
            if known.tiles is not None and files:
                about |= {"files": files, "refined": known.tiles.refined_files}
            data = payload.to_bytes(name, partials, known.covered, keys, [one], about)
            yield family.family.table_id, "tiles" if files else "slices", 0, 0, data


STATE = SliceStore
