"""DISTINCT, ORDER BY, LIMIT and OFFSET of aggregates, as what becomes of their rows."""

from __future__ import annotations

from sqlglot import exp

from penstock.sql.binding.context import Bound
from penstock.sql.distinct import drops_repeats
from penstock.sql.lower import NotCovered
from penstock.sql.plan.sorting import Sorted, Sorting


def sorting_of(bound: Bound) -> Sorted | None:
    """None where nothing is said; NotCovered for an order by what is not in the answer."""
    clause = bound.query.args.get("order")
    order = tuple(_sorting(bound, item) for item in (clause.expressions if clause is not None else []))
    limit, offset = (_count(bound, key) for key in ("limit", "offset"))
    distinct = isinstance(bound.query, exp.Select) and drops_repeats(bound.query)
    if not order and limit is None and offset is None and not distinct:
        return None
    return Sorted(order, limit, offset or 0, distinct)


def _sorting(bound: Bound, item: exp.Expr) -> Sorting:
    output = _output(bound, item.this)
    if bound.fields[output].type.kind in ("ARRAY", "STRUCT"):
        raise NotCovered("ORDER BY an array or a struct runs as Spark SQL")
    return Sorting(output, bool(item.args.get("desc")), bool(item.args.get("nulls_first")))


def _output(bound: Bound, node: exp.Expr) -> int:
    """Which output ORDER BY names, or writes out again."""
    if isinstance(node, exp.Column) and not node.table:
        return [field.name for field in bound.fields].index(node.name)
    for place, item in enumerate(bound.query.expressions):
        if item.this == node:
            return place
    raise NotCovered("ORDER BY something that is not in the SELECT list runs as Spark SQL")


def _count(bound: Bound, key: str) -> int | None:
    clause = bound.query.args.get(key)
    if clause is None:
        return None
    text = clause.expression.name
    if not text.isdecimal():
        raise NotCovered(f"{key.upper()} of something else than a number runs as Spark SQL")
    return int(text)
