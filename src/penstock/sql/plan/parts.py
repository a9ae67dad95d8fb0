"""What others ask of a plan: the streams that kernels read for it, and the window that they reach."""

from __future__ import annotations

from dataclasses import replace

from penstock.expr.windows import TimeWindow, Window
from penstock.sql.plan.nodes import KernelPlan, Plan, ScalarSubquery, SparkPlan, StreamUse


def evaluated_by_spark(plan: Plan) -> bool:
    """Whether Spark SQL gives the answer of a standing query."""
    return plan.operator == SparkPlan.operator


def stream_uses(plan: Plan) -> tuple[StreamUse, ...]:
    """The streams that kernels read for a plan."""
    if plan.kernel is not None:
        return plan.kernel.uses
    return tuple(use for branch in plan.branches for use in branch.uses)


def own_windows_of(scalars: tuple[ScalarSubquery, ...]) -> tuple[Window, ...]:
    """Windows of subqueries that stay what they are when the question's changes."""
    return tuple(scalar.plan.window for scalar in scalars if not scalar.inherits)


def looks_of(plan: Plan) -> tuple[StreamUse, ...]:
    """The streams that kernels read for a plan, of all sensors and through every window that it and its subqueries have."""
    return tuple(dict.fromkeys([*stream_uses(plan), *(use for s in plan.scalars for use in s.plan.uses)]))


def all_windows(plan: Plan) -> list[Window]:
    """Every window that a plan has: of its streams, its subqueries and its relations."""
    return [*(use.window for use in looks_of(plan)), *(r.window for r in plan.relations if r.window is not None)]


def reach_of(plan: KernelPlan, window: Window) -> Window:
    """Which rows a plan looks at through a window."""
    if not plan.lookback_us or not isinstance(window, TimeWindow):
        return window
    return replace(window, begin=replace(window.begin, offset_us=window.begin.offset_us - plan.lookback_us))
