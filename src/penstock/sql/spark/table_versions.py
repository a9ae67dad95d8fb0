"""Ordinary tables beside streams: which versions of their rows take part.

An ordinary table is read as it was at the last tuple of a combination: born <= the tuple's journal position < died.
A subquery in FROM carries the position of its own last tuple out in a hidden column. Without any stream the rows
that are alive take part. What cannot be done right is refused.
"""

from __future__ import annotations

from typing import NoReturn

from sqlglot import exp

from penstock.errors import error
from penstock.sql.binding.context import Collected, SelectContext
from penstock.sql.bound_trees import alias_of, both, hidden_column, quoted
from penstock.sql.scope import BoundSource
from penstock.sql.spark.text import relation_name
from penstock.sql.values import constant, typed
from penstock.types import BIGINT, BOOLEAN

ALIVE = 2**62
_JOURNAL = "_journal"


def join_versions(collected: Collected) -> None:
    """Add the conditions to every SELECT that names an ordinary table."""
    by_select = {id(context.select): context for context in collected.contexts}
    for context in collected.contexts:
        ordinary = [source for source in context.sources if source.kind == "ordinary"]
        if not ordinary:
            continue
        carriers = _carriers(context, by_select, ordinary[0])
        around = [] if carriers else _carriers_around(context, by_select, ordinary[0])
        for source in ordinary:
            if carriers:
                _join_own(context, source, carriers)
            else:
                _require(context, source, _valid_at(around, source) if around else _alive(source))


# -- where the position of the last tuple comes from


def _carriers(context: SelectContext, by_select: dict[int, SelectContext], table: BoundSource) -> list[BoundSource]:
    """The sources of a SELECT that have a journal position in each row: streams, and subqueries over streams."""
    carriers = []
    for source in context.sources:
        if source.is_stream:
            carriers.append(source)
        elif source.kind == "derived" and isinstance(source.node, exp.Subquery):
            branches = [by_select[id(select)] for select in _branches(source.node.this, context, table)]
            if any(branch.reads_streams() for branch in branches):
                for branch in branches:
                    _carry(branch, by_select, table)
                columns = source.node.args["alias"].args["columns"]
                if all(column.name != _JOURNAL for column in columns):
                    source.node.args["alias"].append("columns", quoted(_JOURNAL))
                carriers.append(source)
    return carriers


def _branches(query: exp.Expr, context: SelectContext, table: BoundSource) -> list[exp.Select]:
    if isinstance(query, exp.Subquery):
        return _branches(query.this, context, table)
    if isinstance(query, exp.SetOperation):
        found = [*_branches(query.left, context, table), *_branches(query.right, context, table)]
        if not isinstance(query, exp.Union) or query.args.get("distinct"):
            _refuse(context, table, f"joining a table with a {type(query).__name__.upper()} of streams")
        return found
    assert isinstance(query, exp.Select)
    return [query]


def _carry(context: SelectContext, by_select: dict[int, SelectContext], table: BoundSource) -> None:
    """Give a subquery the hidden output `_journal`."""
    select = context.select
    if any(item.alias == _JOURNAL for item in select.expressions):
        return
    distinct = select.args.get("distinct")
    if distinct is not None and distinct.args.get("on") is None:
        _refuse(context, table, "joining a table with a DISTINCT over a stream")
    carriers = _carriers(context, by_select, table)
    # A group without a tuple is as of now.
    latest: exp.Expr = constant(ALIVE - 1, BIGINT)
    if carriers:
        last = _last(carriers)
        if context.aggregated:
            last = typed(exp.Coalesce(this=typed(exp.Max(this=last), BIGINT), expressions=[latest]), BIGINT)
        latest = last
    select.append("expressions", exp.alias_(latest, _JOURNAL, quoted=True))


def _carriers_around(
    context: SelectContext, by_select: dict[int, SelectContext], table: BoundSource
) -> list[BoundSource]:
    """For a subquery over tables alone: the streams of the SELECT around it."""
    parent, role = context.parent, context.role
    if parent is None:
        return []
    if role == "derived":
        beside = any(c is not context and c.reads_streams() for c in parent.in_from)
        if parent.own_streams or beside or _streams_further_out(parent):
            _refuse(context, table, "a subquery over a table beside a stream")
        return []
    if parent.reads_streams():
        if role == "scalar":
            _refuse(context, table, "a subquery as a value over a table beside a stream")
        if context.aggregated or any(context.select.args.get(key) for key in ("limit", "offset", "qualify")):
            _refuse(context, table, "an aggregate or LIMIT over a table inside IN or EXISTS beside a stream")
        return _carriers(parent, by_select, table)
    if _streams_further_out(parent):
        _refuse(context, table, "a table in a subquery that is not directly below the stream's SELECT")
    return []


def _streams_further_out(context: SelectContext) -> bool:
    at = context.parent
    while at is not None:
        if at.reads_streams():
            return True
        at = at.parent
    return False


def _refuse(context: SelectContext, table: BoundSource, feature: str) -> NoReturn:
    hint = f'name "{table.name}" in the FROM of the SELECT that reads the stream, or test it with IN (SELECT ...)'
    context.fail(table.node, error("not_supported", feature=feature, hint=hint))


# -- where the condition goes


def _join_own(context: SelectContext, source: BoundSource, carriers: list[BoundSource]) -> None:
    if all(carrier.nullable for carrier in carriers):
        _refuse(context, source, "keeping rows of a table for which a stream has no reading")
    if source.nullable:
        place = context.sources.index(source)
        later = any(context.sources.index(carrier) > place for carrier in carriers)
        if later or _left_join(source) is None:
            _refuse(context, source, "this outer join of a table with a stream")
    _require(context, source, _valid_at(carriers, source))


def _left_join(source: BoundSource) -> exp.Join | None:
    join = source.node.parent
    if isinstance(join, exp.Join) and (join.args.get("side") or "").upper() == "LEFT":
        return join
    return None


def _require(context: SelectContext, source: BoundSource, condition: exp.Expr) -> None:
    """Add a condition: to WHERE, or before an outer join may leave the source empty."""
    if not source.nullable:
        where = context.select.args.get("where")
        context.select.set("where", exp.Where(this=both(where and where.this, condition)))
        return
    join = _left_join(source)
    if join is not None:
        join.set("on", both(join.args.get("on"), condition))
        return
    # RIGHT and FULL: the dead versions have to go before the join.
    alive = (
        exp.select("*").from_(exp.Table(this=relation_name(source.relation), alias=alias_of(source))).where(condition)
    )
    source.node.replace(exp.Subquery(this=alive, alias=alias_of(source)))
    source.node = alive.args["from_"].this


def _last(carriers: list[BoundSource]) -> exp.Expr:
    journals = [hidden_column(carrier, _JOURNAL) for carrier in carriers]
    if len(journals) == 1:
        return journals[0]
    return typed(exp.Greatest(this=journals[0], expressions=journals[1:]), BIGINT)


def _valid_at(carriers: list[BoundSource], source: BoundSource) -> exp.Expr:
    last = _last(carriers)
    born = typed(exp.GTE(this=last, expression=hidden_column(source, "_born")), BOOLEAN)
    died = typed(exp.LT(this=last.copy(), expression=hidden_column(source, "_died")), BOOLEAN)
    return typed(exp.And(this=born, expression=died), BOOLEAN)


def _alive(source: BoundSource) -> exp.Expr:
    return typed(exp.EQ(this=hidden_column(source, "_died"), expression=constant(ALIVE, BIGINT)), BOOLEAN)
