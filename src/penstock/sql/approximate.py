"""Approximate aggregates of a bound question: as calls that slices answer, and as exact ones for Spark."""

from __future__ import annotations

from dataclasses import replace

import sqlglot
from sqlglot import exp

from penstock.operators.expr import Expr
from penstock.operators.slices.approximate.naming import approximate_for
from penstock.operators.slices.combining import Panes
from penstock.operators.windows import FOREVER, TimeWindow, Window
from penstock.sql.binding.approximate import APPROXIMATE, ERROR
from penstock.sql.lower import NotCovered, lower
from penstock.sql.plan import AggregateCall
from penstock.sql.values import external, type_of

RECENT_US = 60_000_000
"""How long cells stay as fine as they came: whoever asks about a cycle of a moment ago need not read much."""


def is_approximate(node: exp.Expr) -> bool:
    return isinstance(node, exp.Anonymous) and node.name.removesuffix(ERROR) in APPROXIMATE


def approximate_call(node: exp.Expr) -> AggregateCall:
    """`parameter` is what is special and the error; `settled` adds how coarse cells may be."""
    value, special, epsilon = node.expressions
    arguments: tuple[Expr, ...] = () if isinstance(value, exp.Star) else (lower(value),)
    if approximate_for(node.name, tuple(a.type for a in arguments)) is None:
        raise NotCovered(f"{node.name.upper()} of {arguments[0].type} runs as Spark SQL, exactly")
    return AggregateCall(node.name, arguments, external(type_of(node)), (special.value, epsilon.value))


def settled(call: AggregateCall, panes: Panes | None, window: Window) -> AggregateCall:
    """The call with the width of panes, which no cell may cross, and how long cells stay fine."""
    if not isinstance(call.parameter, tuple):
        return call
    recent = RECENT_US  # over the newest rows nothing is kept that could grow
    if isinstance(window, TimeWindow):
        # Cells that END cuts have to be read, so none may be wide there.
        recent = RECENT_US - window.end.offset_us if window.end.anchor == "now" else FOREVER
    slot = 0 if panes is None else _slot(panes)
    return replace(call, parameter=(*call.parameter, slot, max(RECENT_US, recent)))


def _slot(panes: Panes) -> int:
    width, step = panes.width, panes.step
    while step:
        width, step = step, width % step
    return width


# `x` is the value, `k` what is special. Exact, where Spark can say it exactly.
_SPARK = {
    "approx_count": "COUNT(x)",
    "approx_sum": "CAST(SUM(x) AS DOUBLE)",
    "approx_distinct": "COUNT(DISTINCT x)",
    "approx_percentile": "PERCENTILE(x, k)",
    "approx_top_k": "approx_top_k(x, CAST(k AS INT)) FILTER (WHERE NOT x IS NULL)",
    # Equal values stand side by side: runs are counted.
    "approx_norm": "aggregate(array_sort(collect_list(x)), "
    "named_struct('seen', false, 'last', try_element_at(collect_list(x), 1), 'run', 0D, 'total', 0D), "
    "(a, v) -> named_struct('seen', true, 'last', v, 'run', IF(a.seen AND a.last = v, a.run + 1D, 1D), "
    "'total', IF(a.seen AND a.last = v, a.total, a.total + power(a.run, k))), "
    "a -> IF(a.seen, power(a.total + power(a.run, k), 1D / k), CAST(NULL AS DOUBLE)))",
}


def spark_aggregate(node: exp.Expr) -> exp.Expr:
    """An approximate aggregate as Spark says it; its error is none, or for the most frequent values not known."""
    name = node.name
    if name.endswith(ERROR):
        none = "CAST(NULL AS DOUBLE)" if name.startswith("approx_top_k") else "CAST(0 AS DOUBLE)"
        # An aggregate all the same: a question of it alone has one row.
        return sqlglot.parse_one(f"IF(COUNT(*) >= 0, {none}, NULL)", dialect="spark")
    value, special, _ = node.expressions
    found = sqlglot.parse_one(_SPARK[name], dialect="spark")
    for column in list(found.find_all(exp.Column)):
        if column.name in ("x", "k") and not column.table:
            column.replace((value if column.name == "x" else special).copy())
    return found
