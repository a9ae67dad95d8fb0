"""The shape of a rollup's cells: keys, number of readings, first and last time, and the requested partials."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from penstock.catalog.model import TIME_COLUMN
from penstock.catalog.rollup_records import RollupDefinition
from penstock.errors import expect
from penstock.expr.expression import Column
from penstock.operators.aggregate.partials.base import Partial
from penstock.operators.aggregate.shape import Family, Measure, family_of, measures_of
from penstock.sql.plan import AggregatePlan, plan_from_json
from penstock.types import TIMESTAMP

# Always kept: a cell that lies on an edge of a window is not cut by it if its readings are not.
TIMES = Measure("extremes", (Column(TIME_COLUMN, TIMESTAMP),))
ROWS = Measure("count", ())


@dataclass(frozen=True, slots=True)
class Shape:
    """The rows and groups of a rollup, and its measures: TIMES, ROWS, then what was asked for."""

    family: Family
    measures: tuple[Measure, ...]

    def partials(self) -> list[Partial]:
        return [measure.make() for measure in self.measures]


@lru_cache(256)
def shape_of(rollup: RollupDefinition) -> Shape:
    plan = expect(AggregatePlan, plan_from_json(rollup.plan))
    return Shape(family_of(plan), tuple(dict.fromkeys((TIMES, ROWS, *measures_of(plan)))))
