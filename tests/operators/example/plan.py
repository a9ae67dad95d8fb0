"""The plan of the example: a selection, and how its rows are sorted and cut. Plain data, stored as JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from penstock.errors import expect
from penstock.sql.plan import Plan, SelectPlan, plan_from_json, plan_to_json
from penstock.sql.plan.output import Sorted
from penstock.sql.plan.plan_json import sorted_json, sorted_of
from penstock.types import Type


@dataclass(frozen=True, slots=True)
class TopPlan(Plan):
    """The first rows of a selection by some order."""

    operator: ClassVar[str] = "top"
    rows: SelectPlan
    sorted: Sorted

    @property
    def kernel(self) -> SelectPlan:
        return self.rows

    @property
    def functions(self) -> tuple[str, ...]:
        return self.rows.functions

    @property
    def columns(self) -> tuple[tuple[str, Type], ...]:
        return self.rows.columns


def to_json(plan: Plan) -> dict[str, Any]:
    top = expect(TopPlan, plan)
    return {"rows": plan_to_json(top.rows), "sorted": sorted_json(top.sorted)}


def from_json(data: dict[str, Any]) -> TopPlan:
    return TopPlan(expect(SelectPlan, plan_from_json(data["rows"])), sorted_of(data["sorted"]))
