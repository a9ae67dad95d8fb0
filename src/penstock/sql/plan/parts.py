"""What others ask of a plan: the part that runs in the cycle, and the streams, tables and window of that part."""

from __future__ import annotations

from dataclasses import dataclass, replace

from penstock.expr.expression import Expr
from penstock.expr.windows import AnyWindow, JoinWindows, TimeWindow, Window
from penstock.sql.plan.nodes import (
    AggregatePlan,
    JoinAggregatePlan,
    JoinPlan,
    KernelPlan,
    Plan,
    Scalar,
    SelectPlan,
    SparkPlan,
)


@dataclass(frozen=True, slots=True)
class StreamUse:
    """One stream that a kernel's plan reads: of which table and sensors, through which window."""

    table_id: int
    static_predicate: Expr | None
    window: Window


def kernel_of(plan: Plan) -> KernelPlan | None:
    """What of a plan runs in the cycle: all of it, the join below it, or nothing."""
    if isinstance(plan, JoinAggregatePlan):
        return plan.join
    return plan.core if isinstance(plan, SparkPlan) else plan


def evaluated_by_spark(plan: Plan) -> bool:
    """Whether Spark SQL gives the answer of a standing query."""
    return isinstance(plan, SparkPlan) and plan.top is None and plan.resampled is None


def join_of(plan: Plan) -> JoinPlan | None:
    """The window join that a plan is or stands on."""
    kernel = kernel_of(plan)
    return kernel if isinstance(kernel, JoinPlan) else None


def stream_uses(plan: Plan) -> tuple[StreamUse, ...]:
    """The streams that kernels read for a plan."""
    kernel = kernel_of(plan)
    if isinstance(kernel, SelectPlan | AggregatePlan):
        return (StreamUse(kernel.table_id, kernel.static_predicate, kernel.window),)
    return () if kernel is None else tuple(StreamUse(i.table_id, i.static_predicate, i.window) for i in kernel.inputs)


def scalars_of(plan: Plan) -> tuple[Scalar, ...]:
    """The subqueries that are values in a question over slices."""
    asked = plan.top if isinstance(plan, JoinAggregatePlan) else plan
    return asked.scalars if isinstance(asked, AggregatePlan) else ()


def own_windows_of(scalars: tuple[Scalar, ...]) -> tuple[Window, ...]:
    """Windows of subqueries that stay what they are when the question's changes."""
    return tuple(scalar.plan.window for scalar in scalars if not scalar.inherits)


def looks_of(plan: Plan) -> tuple[StreamUse, ...]:
    """The streams that kernels read for a plan, of all sensors and through every window that it and its subqueries have."""
    inner = (scalar.plan for scalar in scalars_of(plan))
    beside = [StreamUse(p.table_id, p.static_predicate, p.window) for p in inner]
    return tuple(dict.fromkeys([*stream_uses(plan), *beside]))


def tables_under(plan: KernelPlan) -> set[int]:
    """All tables that a kernel cannot run without, by id."""
    joined = {each.table_id for each in plan.tables} if isinstance(plan, JoinPlan) else set()
    return joined | {use.table_id for use in stream_uses(plan)}


def window_of(plan: KernelPlan) -> AnyWindow:
    """What ALTER QUERY changes."""
    return JoinWindows(tuple(i.window for i in plan.inputs)) if isinstance(plan, JoinPlan) else plan.window


def is_approximate(plan: AggregatePlan) -> bool:
    """Whether some of its values are estimates."""
    return any(isinstance(call.parameter, tuple) for call in plan.aggregates)


def is_latch(plan: Plan) -> bool:
    """Whether it keeps a state without end."""
    return isinstance(plan, AggregatePlan) and plan.latch is not None


def reach_of(plan: SelectPlan | AggregatePlan) -> Window:
    """Which rows a plan looks at: those of its window, and those that say since when a condition lasts."""
    window = plan.window
    if isinstance(plan, AggregatePlan) or plan.lasting is None or not isinstance(window, TimeWindow):
        return window
    return replace(window, begin=replace(window.begin, offset_us=window.begin.offset_us - plan.lasting.us))
