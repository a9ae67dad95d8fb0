"""The plan of a question with window functions over the readings of a stream. Plain data, stored as JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from penstock.errors import expect
from penstock.expr.expression import Expr
from penstock.sql.plan import AggregatePlan, KernelPlan, Output, Plan, SelectPlan, plan_from_json, plan_to_json
from penstock.sql.plan.output import Sorted
from penstock.sql.plan.plan_json import WINDOW_FUNCTIONS
from penstock.sql.plan.window_calls import WindowCall
from penstock.types import Type


@dataclass(frozen=True, slots=True)
class WindowFunctionsPlan(Plan):
    """Readings inside the window that satisfy `rows`, with values of the window functions `over` beside them; of those, what `qualify` leaves.

    Partitions have the readings inside the window alone, and those that are alike in an order come by time and log position. A late
    reading, and one that leaves, may change rows that were there already. `outputs`, `qualify` and `sorted` name columns of the stream,
    and window functions by `window_name`. `top` finds the positions of rows that can qualify: if it is there, no others are looked at.
    """

    operator: ClassVar[str] = "window_functions"
    rows: SelectPlan
    over: tuple[WindowCall, ...]
    outputs: tuple[Output, ...]
    qualify: Expr | None = None
    top: AggregatePlan | None = None
    sorted: Sorted | None = None

    @property
    def kernel(self) -> KernelPlan:
        return self.rows if self.top is None else self.top

    @property
    def functions(self) -> tuple[str, ...]:
        return self.rows.functions

    @property
    def columns(self) -> tuple[tuple[str, Type], ...]:
        return tuple((output.name, output.type) for output in self.outputs)


def to_json(plan: Plan) -> dict[str, Any]:
    asked = expect(WindowFunctionsPlan, plan)
    found: dict[str, Any] = {"rows": plan_to_json(asked.rows), **WINDOW_FUNCTIONS.write(asked)}
    return found if asked.top is None else {**found, "top": plan_to_json(asked.top)}


def from_json(data: dict[str, Any]) -> WindowFunctionsPlan:
    top = expect(AggregatePlan, plan_from_json(data["top"])) if "top" in data else None
    rows = expect(SelectPlan, plan_from_json(data["rows"]))
    return WindowFunctionsPlan(rows, top=top, **WINDOW_FUNCTIONS.read(data))
