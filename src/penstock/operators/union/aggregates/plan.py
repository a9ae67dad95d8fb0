"""The plan of aggregates over UNION ALL. Plain data, stored as JSON."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from penstock.errors import check_known, expect
from penstock.sql.plan import AggregatePlan, Plan, plan_from_json, plan_to_json
from penstock.sql.plan.nodes import KernelPlan
from penstock.types import Type


@dataclass(frozen=True, slots=True)
class UnionAggregatePlan(Plan):
    """Emits what an `AggregatePlan` emits, over the rows of all branches; a late row counts from the cycle on that reads it.

    A branch has the same keys and aggregates, in the columns of its own stream. `top` has them in those of the union, and what is made of
    them; its table and window say nothing.
    """

    operator: ClassVar[str] = "union_aggregate"
    branches: tuple[KernelPlan, ...] = field()  # or the property of `Plan` would be its default
    top: AggregatePlan

    @property
    def columns(self) -> tuple[tuple[str, Type], ...]:
        return self.top.columns


def to_json(plan: Plan) -> dict[str, Any]:
    top = expect(UnionAggregatePlan, plan).top
    return {"branches": [plan_to_json(branch) for branch in plan.branches], "top": plan_to_json(top)}


def from_json(data: dict[str, Any]) -> UnionAggregatePlan:
    check_known(data, {"kind", "branches", "top"}, "a plan")
    kernels = [plan_from_json(branch).kernel for branch in data["branches"]]
    top = expect(AggregatePlan, plan_from_json(data["top"]))
    return UnionAggregatePlan(tuple(kernel for kernel in kernels if kernel is not None), top)
