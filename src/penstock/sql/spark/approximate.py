"""Approximate aggregates in Spark SQL, where they are exact."""

from __future__ import annotations

import sqlglot
from sqlglot import exp

from penstock.sql.binding.approximate import ERROR

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
