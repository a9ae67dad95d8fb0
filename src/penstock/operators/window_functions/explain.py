"""Window functions over readings in EXPLAIN, one fact a line."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.catalog.state import CatalogState
from penstock.errors import expect
from penstock.expr.expression import Column, Expr, substituted, walk
from penstock.operators.window_functions.plan import WindowFunctionsPlan
from penstock.sql.explain.aggregate import show_sorted
from penstock.sql.explain.notation import show, show_conditions, show_output, show_table, show_window, show_window_call
from penstock.sql.plan import Plan
from penstock.sql.plan.window_calls import window_name


def lines(plan: Plan, state: CatalogState) -> list[str]:
    asked = expect(WindowFunctionsPlan, plan)
    rows, table = asked.rows, show_table(asked.rows.table_id, state)
    how = "all rows of the window, put into order when asked"
    if asked.top is not None:
        how = "the first rows of each partition, kept per slice and read when asked"
    names = {window_name(place): show_window_call(call) for place, call in enumerate(asked.over)}
    found = [
        f"window functions over the stream of {table}: {how}",
        f"  window: {show_window(rows.window)}",
        *(f"  {line}" for line in show_conditions(rows.static_predicate, rows.stream_predicate)),
    ]
    if asked.qualify is not None:
        found.append(f"  qualify: {show(_named(asked.qualify, names))}")
    if asked.sorted is not None:
        outputs = [*(o.name for o in asked.outputs), *(show(_named(o.expr, names)) for o in asked.sorted.hidden)]
        found.append(f"  sorted: {show_sorted(asked.sorted, outputs)}")
    shown = (show_output(output, show(_named(output.expr, names))) for output in asked.outputs)
    return [*found, f"  output: {', '.join(shown)}"]


def _named(expr: Expr, names: Mapping[str, str]) -> Expr:
    """The expression with the window functions as they were asked for."""
    columns = {node.name: node for node in walk(expr) if isinstance(node, Column)}
    return substituted(expr, {n: Column(names.get(n, n), node.type) for n, node in columns.items()})
