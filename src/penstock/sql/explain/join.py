"""A join as people read it: its streams, how far apart they may be, and what is tested."""

from __future__ import annotations

from itertools import combinations

from penstock.catalog.state import CatalogState
from penstock.operators.join.kernels.bounds import form, stated
from penstock.sql.explain.notation import show, show_conditions, show_outputs, show_table, show_window
from penstock.sql.plan import JoinInput, JoinPlan, JoinTable
from penstock.sql.planning.join.keys import partial_keys
from penstock.sql.planning.relations import all_of
from penstock.types import format_duration


def join_lines(plan: JoinPlan, state: CatalogState) -> list[str]:
    """How a join runs, one fact a line."""
    if len(plan.inputs) == 1:
        return _stream_lines(plan, state)
    shape = form(stated(plan.bounds))
    lines = [f"window join of {len(plan.inputs)} streams, {shape}, in the cycle beside the shared pass"]
    for each in plan.inputs:
        lines += [*_input_lines(each, state), f"    key: {', '.join(map(show, each.keys)) or 'none'}"]
    pairs = combinations(range(len(plan.inputs)), 2)
    lines.append("  times: " + "; ".join(_distance(plan, i, j) for i, j in pairs))
    linked = [c for key in partial_keys(plan) for c in key.conditions]
    if linked:
        lines.append("  looked up: " + "; ".join(map(show, linked)))
    conditions = all_of([c for c in plan.conditions if c not in linked])
    lines.append("  conditions: " + ("none" if conditions is None else show(conditions)))
    for table in plan.tables:
        lines += _table_lines(table, state)
    if plan.missing != "inner":
        lines.append(f"  {_without_partner(plan)}")
    chosen = "chosen by cost at run time" if plan.algorithm is None else f"{plan.algorithm}, as the hint asks"
    return [*lines, f"  algorithm: {chosen}", f"  output: {show_outputs(plan.outputs)}"]


def _stream_lines(plan: JoinPlan, state: CatalogState) -> list[str]:
    """Of one stream beside ordinary tables."""
    lines = ["one stream joined with tables, in the cycle beside the shared pass", *_input_lines(plan.inputs[0], state)]
    for table in plan.tables:
        lines += _table_lines(table, state, "when the reading is logged")
    return [*lines, f"  output: {show_outputs(plan.outputs)}"]


def _input_lines(each: JoinInput, state: CatalogState) -> list[str]:
    return [
        f"  {each.alias}: stream of {show_table(each.table_id, state)}",
        f"    window: {show_window(each.window)}",
        *(f"    {line}" for line in show_conditions(each.static_predicate, each.stream_predicate)),
    ]


def _table_lines(table: JoinTable, state: CatalogState, when: str = "at the last reading") -> list[str]:
    keys = ", ".join(f"{show(own)} = {show(value)}" for value, own in table.keys)
    conditions = all_of(table.conditions)
    use = {"inner": "", "left": "or NULL, ", "exists": "one row is enough, ", "missing": "no row must match, "}[
        table.use
    ]
    return [
        f"  {table.alias}: table {show_table(table.table_id, state)}, {use}as it is {when}",
        *([] if table.predicate is None else [f"    rows: {show(table.predicate)}"]),
        f"    looked up by: {keys or 'nothing'}",
        *([] if conditions is None else [f"    conditions: {show(conditions)}"]),
    ]


def _without_partner(plan: JoinPlan) -> str:
    kept, partner = (each.alias for each in plan.inputs)
    latest = plan.bounds[0][1] or 0
    moved = f" {'-' if latest < 0 else '+'} {format_duration(abs(latest))}" if latest else ""
    what = f"without a partner: NULL for {partner}" if plan.missing == "left" else f"answers: {kept} without a partner"
    return f"{what}, once NOW > {kept}.ts{moved}"


def _distance(plan: JoinPlan, i: int, j: int) -> str:
    """What the bounds say about two streams, in words."""
    a, b = plan.inputs[i].alias, plan.inputs[j].alias
    high, back = plan.bounds[i][j], plan.bounds[j][i]
    if high is None or back is None:
        return f"{a} and {b} any time apart"
    low = -back
    if low == -high:
        return f"{a} and {b} at most {format_duration(high)} apart" if high else f"{a} and {b} at the same time"
    if low >= 0:
        return f"{b} {_between(low, high)} after {a}"
    if high <= 0:
        return f"{b} {_between(-high, -low)} before {a}"
    return f"{b} from {format_duration(-low)} before to {format_duration(high)} after {a}"


def _between(near: int, far: int) -> str:
    if near == far:
        return f"exactly {format_duration(far)}"
    return f"{format_duration(near)} to {format_duration(far)}" if near else f"at most {format_duration(far)}"
