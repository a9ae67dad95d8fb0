"""How a question with RESAMPLE runs where the log answers it, one fact a line."""

from __future__ import annotations

from penstock.expr.expression import Column, Expr, substituted, walk
from penstock.sql.explain.aggregate import show_sorted
from penstock.sql.explain.notation import show, show_outputs, show_window
from penstock.sql.plan import Output, Relation, ResampleCall, ResamplePlan, Resampling, resample_name
from penstock.types import format_duration


def resample_lines(plan: ResamplePlan) -> list[str]:
    asked = plan.resample
    times, values = plan.relations[asked.times], plan.relations[asked.values]
    lines = [f'values of "{values.table}" at the readings of "{times.table}", found in the log when asked']
    lines += _stream_lines("times", times, [] if asked.times_predicate is None else [show(asked.times_predicate)])
    lines += _stream_lines("values", values, [] if asked.values_predicate is None else [show(asked.values_predicate)])
    if asked.keys:
        equal = ", ".join(f'{show(ours)} = {show(theirs)} of "{values.table}"' for ours, theirs in asked.keys)
        lines.append(f"  same: {equal}")
    lines.append("  resampled: " + ", ".join(show_call(call) for call in asked.calls))
    if asked.having is not None:
        lines.append(f"  of those: {show(_named(asked, asked.having))}")
    if asked.sorted is not None:
        lines.append("  sorted: " + show_sorted(asked.sorted, [o.name for o in asked.outputs]))
    outputs = [Output(o.name, o.type, _named(asked, o.expr)) for o in asked.outputs]
    lines.append(f"  output: {show_outputs(outputs)}")
    return lines


def _stream_lines(role: str, relation: Relation, conditions: list[str]) -> list[str]:
    assert relation.window is not None
    of_query = f'answers of query "{relation.table}", one cycle later'
    what = of_query if relation.kind == "query" else f'readings of "{relation.table}"'
    lines = [f"  {role}: {what}", f"    window: {show_window(relation.window)}"]
    if relation.static_predicate is not None:
        lines.append(f"    initial scan: {show(relation.static_predicate)}")
    return [*lines, *(f"    conditions: {condition}" for condition in conditions)]


def show_call(call: ResampleCall) -> str:
    return f"RESAMPLE({show(call.value)}, {format_duration(call.us)}, {call.method.upper()})"


def _named(asked: Resampling, expr: Expr) -> Expr:
    """The expression with the calls as they were asked for."""
    calls: dict[str, Expr] = {resample_name(i): Column(show_call(c), c.type) for i, c in enumerate(asked.calls)}
    own: dict[str, Expr] = {node.name: node for node in walk(expr) if isinstance(node, Column)}
    return substituted(expr, own | calls)
