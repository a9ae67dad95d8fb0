"""The step of a worker for all standing aggregations of one table: each family is sliced once for all its queries."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import ClassVar

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from penstock.catalog.model import QueryDefinition
from penstock.cycle.commit_files import ResultRow
from penstock.cycle.folder import DataFolder
from penstock.cycle.log_batch import LogBatch
from penstock.cycle.result_rows import UnitCost, told, units_row
from penstock.errors import PenstockError, error
from penstock.expr.evaluate import Functions
from penstock.expr.expression import Expr
from penstock.expr.lazy_factors import FactorFigures
from penstock.expr.predicate_index import PredicateIndex
from penstock.expr.windows import TimeWindow
from penstock.operators.aggregate import payload
from penstock.operators.aggregate.shape import (
    Family,
    Measure,
    columns_needed,
    family_name,
    family_of,
    measure_name,
    measures_of,
    plan_width,
)
from penstock.operators.aggregate.slicer import Batch, slice_family
from penstock.operators.base.step import RowStep
from penstock.operators.select.durability import meets_rows
from penstock.pipeline.tasks import Unit
from penstock.sql.plan import AggregatePlan, Plan


class _Members:
    """One family's queries, with their measures and widths."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.measures: Counter[Measure] = Counter()
        self.widths: Counter[int] = Counter()


class AggregateStep(RowStep):
    """All aggregations of one table. A new query changes its own families only; with its subqueries it may have several."""

    cost: ClassVar[str | None] = None  # it reports each family

    def __init__(self, table_id: int, functions: Functions) -> None:
        """Keys and arguments call no functions of users, so none are needed."""
        self._table_id = table_id
        self.plans: dict[int, tuple[AggregatePlan, ...]] = {}
        self._families: dict[Family, _Members] = {}
        self._by_number: dict[int, Family] = {}
        self._index = PredicateIndex()
        self._numbers = 0

    def __iter__(self) -> Iterator[int]:
        return iter(self.plans)

    def follow(self, query_id: int, query: QueryDefinition | None, plan: Plan | None, fill: bool) -> None:
        """Of a query that runs, also the aggregates of subqueries that are values in it; a fill reads for its own ones alone."""
        own = plan.kernel.aggregation if plan is not None and plan.kernel is not None else None
        inner = [scalar.plan for scalar in plan.scalars] if plan is not None and not fill else []
        wanted = [each for each in (own, *inner) if each is not None and each.table_id == self._table_id]
        if not fill:
            # Aggregates over the newest rows read them on request.
            wanted = [
                each
                for each in wanted
                if isinstance(each.window, TimeWindow) and query is not None and meets_rows(query, each)
            ]
        if wanted:
            self.add(query_id, *wanted)
        elif query_id in self.plans:
            self.remove(query_id)

    def add(self, query_id: int, *plans: AggregatePlan) -> None:
        """Put a query in, in place of what it was before."""
        if query_id in self.plans:
            self.remove(query_id)
        self.plans[query_id] = plans
        for plan in plans:
            self._add(plan)

    def _add(self, plan: AggregatePlan) -> None:
        family = family_of(plan)
        members = self._families.get(family)
        if members is None:
            self._numbers += 1
            members = self._families[family] = _Members(self._numbers)
            self._by_number[members.number] = family
            self._index.add(members.number, family.static_predicate, family.stream_predicate)
        members.measures.update(measures_of(plan))
        members.widths[plan_width(plan)] += 1

    def remove(self, query_id: int) -> None:
        for plan in self.plans.pop(query_id):
            self._remove(plan)

    def _remove(self, plan: AggregatePlan) -> None:
        family = family_of(plan)
        members = self._families[family]
        members.measures -= Counter(measures_of(plan))
        members.widths -= Counter([plan_width(plan)])
        if not members.measures:
            del self._families[family], self._by_number[members.number]
            self._index.remove(members.number)

    @property
    def columns(self) -> set[str]:
        """What slicing has to read of each row."""
        needed: set[str] = set()
        for family, members in self._families.items():
            needed |= columns_needed(family, tuple(members.measures))
        return needed

    def take_figures(self, most: int) -> Mapping[Expr, FactorFigures]:
        return self._index.take_figures(most)

    def run(self, batch: LogBatch, unit: Unit, folder: DataFolder) -> Iterator[ResultRow]:
        """A family without rows has a result, too, so that the server need not read the log for it.

        Each query of a fill is alone in its family.
        """
        if not self._families:
            return
        versions = batch.static.versions()
        began, spent = time.perf_counter_ns(), list[UnitCost]()
        matches = dict(self._index.match(batch.columns, batch.vids, versions))
        matching_ns = (time.perf_counter_ns() - began) // len(self._families)
        rows = Batch(batch.first, batch.times, batch.vids, batch.columns, versions)
        asked = {family_of(p): (first, end) for q, first, end in unit.spans for p in self.plans.get(q, ())}
        for family, members in self._families.items():
            began = time.perf_counter_ns()
            found = matches.get(members.number, BitMap())
            if isinstance(found, PenstockError):
                yield from self._failed(family, found, batch.first)
                continue
            first, end = asked.get(family, (batch.first, batch.first + batch.count))
            if (first, end) != (batch.first, batch.first + batch.count):
                found = found & BitMap(range(first - batch.first, end - batch.first))
            chosen = None if len(found) == batch.count else np.asarray(found.to_array(), np.int64)
            measures = tuple(members.measures)
            try:
                sliced = slice_family(family, measures, rows, chosen, min(members.widths))
                partials = {measure_name(m): m.make() for m in measures}
                for partial, cells in zip(partials.values(), sliced.cells, strict=True):
                    partial.condense(cells.state)
            except PenstockError as failure:
                yield from self._failed(family, failure, batch.first)
                continue
            except pa.ArrowException as failure:
                # A plan of an older version that would not be made any more; answers of other families are not affected.
                yield from self._failed(family, error("internal_error", detail=f"slices: {failure}"), batch.first)
                continue
            name = family_name(family)
            data = payload.to_bytes(name, partials, [(first, end)], sliced.keys, sliced.cells)
            took_ns = matching_ns + time.perf_counter_ns() - began
            spent.append(UnitCost("slices", name, batch.count, len(found), took_ns))
            yield self._table_id, "slices", len(found), batch.first, data
        if unit.kind == "live":
            yield from units_row(self._table_id, batch.first, spent)

    def _failed(self, family: Family, failure: PenstockError, first: int) -> Iterator[ResultRow]:
        for query_id, plans in self.plans.items():
            if any(family_of(plan) == family for plan in plans):
                yield query_id, "error", 0, first, told(failure)


STEP = AggregateStep
