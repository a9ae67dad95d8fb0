"""DISTINCT, ORDER BY, LIMIT and OFFSET of aggregates, as what becomes of their rows."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from penstock.expr.expression import Expr
from penstock.sql.binding.calls import is_aggregate
from penstock.sql.binding.context import BoundQuery
from penstock.sql.kernel_expressions import NotCovered
from penstock.sql.nodes import Const
from penstock.sql.plan.output import Output, Sorted, Sorting
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


def group_distinct(bound: BoundQuery) -> bool:
    """Let a SELECT DISTINCT without aggregates group by all that it asks for, which says the same. Whether it is one.

    Spark SQL gets it as it was written (`ungroup_distinct`): there a constant in GROUP BY is a place in the SELECT list.
    """
    query, context = bound.query, bound.collected.contexts[0]
    if (
        context.select is not query
        or not _is_distinct(context.select)
        or context.aggregated
        or query.args.get("qualify")
    ):
        return False
    keys = [item.this for item in query.expressions if not isinstance(item.this, Const)]
    if not keys:
        return False  # no row or one, whatever the stream says
    query.set("group", exp.Group(expressions=[key.copy() for key in dict.fromkeys(keys)]))
    context.aggregated = True
    return True


def ungroup_distinct(bound: BoundQuery) -> None:
    """The question as it was before `group_distinct`."""
    bound.query.set("group", None)
    bound.collected.contexts[0].aggregated = False


def refuse_distinct(query: exp.Select) -> None:
    """NotCovered for a DISTINCT that slices cannot say."""
    if query.args.get("distinct") is None:
        return
    if not _is_distinct(query):
        raise NotCovered("DISTINCT ON over aggregates runs as Spark SQL")
    if any(type_of(item.this).kind in ("ARRAY", "STRUCT") for item in query.expressions):
        raise NotCovered("DISTINCT of an array or a struct runs as Spark SQL")


def drops_repeats(query: exp.Select) -> bool:
    """Whether DISTINCT has something to do: rows that show all of their keys are all different."""
    group = query.args.get("group")
    shown = [item.this for item in query.expressions]
    return _is_distinct(query) and group is not None and any(key not in shown for key in group.expressions)


def refuse_hidden(query: exp.Select, node: exp.Expr) -> None:
    """NotCovered for an order by what rows that are alike may have different values of."""
    group = query.args.get("group")
    keys = group.expressions if group is not None else []
    if _is_distinct(query) and (drops_repeats(query) or not _is_made_of(node, keys)):
        raise NotCovered("DISTINCT in an order by something that is not in the SELECT list runs as Spark SQL")


def _is_made_of(node: exp.Expr, keys: list[exp.Expr]) -> bool:
    """Whether keys, aggregates and constants are all that an expression needs."""
    if node in keys or is_aggregate(node):
        return True
    return not isinstance(node, exp.Column) and all(_is_made_of(child, keys) for child in node.iter_expressions())


def _is_distinct(query: exp.Select) -> bool:
    distinct = query.args.get("distinct")
    return distinct is not None and distinct.args.get("on") is None
