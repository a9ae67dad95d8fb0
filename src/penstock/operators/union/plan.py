"""The plan of UNION ALL: plans that cycles run each for itself. Plain data, stored as JSON."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from penstock.errors import check_known
from penstock.sql.plan import Plan, plan_from_json, plan_to_json
from penstock.sql.plan.nodes import KernelPlan
from penstock.types import Type


@dataclass(frozen=True, slots=True)
class UnionPlan(Plan):
    """The rows of all branches, as often as each has them. They are selections, or the joins of one question.

    A row enters and leaves as it does in its branch. NOW is the smallest of all streams, and the same for all branches.
    Late rows are those of the branches. All branches have the same columns.
    """

    operator: ClassVar[str] = "union"
    branches: tuple[KernelPlan, ...] = field()  # or the property of `Plan` would be its default

    @property
    def columns(self) -> tuple[tuple[str, Type], ...]:
        return self.branches[0].columns

    @property
    def functions(self) -> tuple[str, ...]:
        return tuple(sorted({name for branch in self.branches for name in branch.functions}))


def to_json(plan: Plan) -> dict[str, Any]:
    return {"branches": [plan_to_json(branch) for branch in plan.branches]}


def from_json(data: dict[str, Any]) -> UnionPlan:
    check_known(data, {"kind", "branches"}, "a plan")
    kernels = [plan_from_json(branch).kernel for branch in data["branches"]]
    return UnionPlan(tuple(kernel for kernel in kernels if kernel is not None))
