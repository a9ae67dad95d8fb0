"""DISTINCT, ORDER BY, LIMIT and OFFSET of aggregates, as what becomes of their rows."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from penstock.expr.expression import Expr
from penstock.sql.binding.context import BoundQuery
from penstock.sql.kernel_expressions import NotCovered
from penstock.sql.plan.output import Output, Sorted, Sorting
from penstock.sql.planning.distinct import drops_repeats, refuse_hidden
from penstock.sql.values import external, type_of


def sorting_of(bound: BoundQuery, lowered: Callable[[exp.Expr], Expr] | None = None) -> Sorted | None:
    """None where nothing is said; NotCovered for an order by what rows do not have.

    `lowered`: an expression over what the rows are made of. Without it only what is in the answer can be sorted by.
    """
    clause = bound.query.args.get("order")
    hidden: list[Output] = []
    order = tuple(_sorting(bound, item, hidden, lowered) for item in (clause.expressions if clause is not None else []))
    limit, offset = (_count(bound, key) for key in ("limit", "offset"))
    distinct = isinstance(bound.query, exp.Select) and drops_repeats(bound.query)
    if not order and limit is None and offset is None and not distinct:
        return None
    return Sorted(order, limit, offset or 0, distinct, tuple(hidden))


def _sorting(
    bound: BoundQuery, item: exp.Expr, hidden: list[Output], lowered: Callable[[exp.Expr], Expr] | None
) -> Sorting:
    place = _shown(bound, item.this)
    type_ = bound.fields[place].type if place is not None else external(type_of(item.this))
    if type_.kind in ("ARRAY", "STRUCT"):
        raise NotCovered("ORDER BY an array or a struct runs as Spark SQL")
    if place is None:
        if lowered is None or not isinstance(bound.query, exp.Select):
            raise NotCovered("ORDER BY something that is not in the SELECT list runs as Spark SQL")
        refuse_hidden(bound.query, item.this)
        place = len(bound.fields) + len(hidden)
        hidden.append(Output(f"order.{len(hidden)}", type_, lowered(item.this)))
    return Sorting(place, bool(item.args.get("desc")), bool(item.args.get("nulls_first")))


def _shown(bound: BoundQuery, node: exp.Expr) -> int | None:
    """Which output ORDER BY names, or writes out again; None for one that is not there."""
    if isinstance(node, exp.Column) and not node.table:
        return [field.name for field in bound.fields].index(node.name)
    return next((place for place, item in enumerate(bound.query.expressions) if item.this == node), None)


def _count(bound: BoundQuery, key: str) -> int | None:
    clause = bound.query.args.get(key)
    if clause is None:
        return None
    text = clause.expression.name
    if not text.isdecimal():
        raise NotCovered(f"{key.upper()} of something else than a number runs as Spark SQL")
    return int(text)
