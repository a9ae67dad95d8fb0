"""After binding: which sources are streams, what each relation reads, and which versions of ordinary rows join.

Works on the collected SELECTs of a question and rewrites their FROM lists for Spark.
"""

from __future__ import annotations

from typing import Literal

from sqlglot import exp

from penstock.errors import PenstockError, error
from penstock.operators.expr import Call, Expr, is_static
from penstock.operators.windows import RowsWindow
from penstock.sql.binding.context import Collected, SelectContext
from penstock.sql.lower import NotCovered, lower
from penstock.sql.plan import Relation
from penstock.sql.positions import point, span_of
from penstock.sql.scope import Source
from penstock.sql.spark_text import hole
from penstock.sql.values import constant, typed
from penstock.sql.windowing import anchored
from penstock.types import BIGINT, BOOLEAN, TIMESTAMP

ALIVE = 2**62


def settle(collected: Collected) -> None:
    """Decide which sources are streams, and their windows. Before any plan is made."""
    for context in collected.contexts:
        if context.windows.explicit and not context.own_streams and not any(c.reads_streams() for c in context.in_from):
            # A window over static columns alone asks about readings all the same.
            for source in context.sources:
                source.needs_stream = source.needs_stream or source.kind == "sensors"
        for source in context.sources:
            if source.is_stream:
                window = context.windows.of(source.alias)
                source.window = anchored(window, context.start_us) if context.inlined else window
    for context in collected.contexts:
        _name_streams(context)


def _name_streams(context: SelectContext) -> None:
    for source in context.sources:
        if source.is_stream and isinstance(source.window, RowsWindow) and source.kind == "query":
            failure = error(
                "not_supported", feature="a window of rows over another query", hint="use BEGIN (NOW - d) END (NOW)"
            )
            raise point(failure, context.text, span_of(source.node))


def conjuncts(where: exp.Expr | None) -> list[exp.Expr]:
    """The conditions that AND connects, in order."""
    if where is None:
        return []
    if isinstance(where, exp.Where):
        return conjuncts(where.this)
    if isinstance(where, exp.Paren):
        return conjuncts(where.this)
    if isinstance(where, exp.And):
        terms: list[exp.Expr] = []
        inner: exp.Expr = where
        while isinstance(inner, exp.And):
            terms = [*conjuncts(inner.expression), *terms]
            inner = inner.this
        return [*conjuncts(inner), *terms]
    return [where]


def static_conditions(context: SelectContext, source: Source) -> list[tuple[exp.Expr, Expr]]:
    """The conditions of WHERE that static columns of one source decide alone."""
    if source.kind != "sensors" or source.nullable:
        return []
    found = []
    for condition in conjuncts(context.select.args.get("where")):
        columns = list(condition.find_all(exp.Column))
        if not columns or any(column.meta.get("source") is not source for column in columns):
            continue
        try:
            lowered = lower(condition)
        except NotCovered:
            continue
        if is_static(lowered):
            found.append((condition, lowered))
    return found


def all_of(conditions: list[Expr]) -> Expr | None:
    if not conditions:
        return None
    return conditions[0] if len(conditions) == 1 else Call("and", tuple(conditions), BOOLEAN)


def place_relations(collected: Collected) -> tuple[Relation, ...]:
    """Give every table reference its relation, and write it into FROM."""
    relations: list[Relation] = []
    for context in collected.contexts:
        for source in context.sources:
            if source.kind != "derived":
                source.relation = f"r{len(relations)}"
                relations.append(_relation(context, source))
    for context in collected.contexts:
        _join_versions(context)
    for context in collected.contexts:
        for source in context.sources:
            if source.kind != "derived":
                source.node.replace(_reference(context, source))
    return tuple(relations)


def _relation(context: SelectContext, source: Source) -> Relation:
    kind: Literal["stream", "static", "ordinary", "system", "query"]
    if source.kind == "sensors":
        kind = "stream" if source.needs_stream else "static"
    else:
        assert source.kind != "derived"
        kind = source.kind
    window = source.window if source.is_stream else None
    predicate = all_of([lowered for _, lowered in static_conditions(context, source)])
    return Relation(source.relation, kind, source.name, window, predicate)


def _reference(context: SelectContext, source: Source) -> exp.Expr:
    table = exp.Table(this=hole(source.relation), alias=_alias(source))
    if not (source.is_stream and isinstance(source.window, RowsWindow)):
        return table
    static = [condition.copy() for condition, _ in static_conditions(context, source)]
    newest = exp.Window(
        this=exp.RowNumber(),
        partition_by=[_column(source, "_sid")] if source.window.per_sensor else None,
        order=exp.Order(expressions=[_newest(source, "ts"), _newest(source, "_pos")]),
    )
    ranked = exp.select("*", exp.alias_(newest, "_rank", quoted=True)).from_(table)
    if static:
        ranked = ranked.where(*static)
    kept = exp.LTE(this=exp.column("_rank", quoted=True), expression=exp.Literal.number(source.window.count))
    return exp.Subquery(this=exp.select("*").from_(ranked.subquery("_ranked")).where(kept), alias=_alias(source))


def _newest(source: Source, name: str) -> exp.Expr:
    return exp.Ordered(this=_column(source, name), desc=True, nulls_first=False)


def _alias(source: Source) -> exp.TableAlias:
    return exp.TableAlias(this=exp.Identifier(this=source.alias, quoted=True))


def _column(source: Source, name: str) -> exp.Expr:
    node = exp.Column(this=exp.Identifier(this=name, quoted=True), table=exp.Identifier(this=source.alias, quoted=True))
    node.meta["source"] = source
    return typed(node, TIMESTAMP if name == "ts" else BIGINT)


# -- which versions of an ordinary table's rows take part


def _join_versions(context: SelectContext) -> None:
    """Ordinary tables as they were at the last tuple of a combination; without a stream, as they are now."""
    ordinary = [source for source in context.sources if source.kind == "ordinary"]
    if not ordinary:
        return
    streams = context.own_streams
    if streams or context.reads_streams():
        if not streams or any(inner.reads_streams() for inner in context.in_from):
            _refuse(context, ordinary[0], "joining a table with a subquery that reads a stream")
        for source in ordinary:
            _join_own(context, source, streams)
        return
    around = _streams_around(context, ordinary[0])
    for source in ordinary:
        condition = _valid_at(around, source) if around else _alive(source)
        _require(context, source, condition)


def _streams_around(context: SelectContext, source: Source) -> list[Source]:
    """The streams of the SELECT around this subquery, whose rows say as of when the table is read."""
    parent, role = context.parent, context.role
    if parent is None:
        return []
    if role == "derived":
        beside = any(c is not context and c.reads_streams() for c in parent.in_from)
        if parent.own_streams or beside or _streams_around_any(parent):
            _refuse(context, source, "a subquery over a table beside a stream")
        return []
    if parent.own_streams:
        if role == "scalar":
            _refuse(context, source, "a subquery as a value over a table beside a stream")
        if context.aggregated or any(context.select.args.get(key) for key in ("limit", "offset")):
            _refuse(context, source, "an aggregate or LIMIT over a table inside IN or EXISTS beside a stream")
        return parent.own_streams
    if parent.reads_streams() or _streams_around_any(parent):
        _refuse(context, source, "a table in a subquery that is not directly below the stream's SELECT")
    return []


def _streams_around_any(context: SelectContext) -> bool:
    at: SelectContext | None = context
    while at is not None and at.parent is not None:
        at = at.parent
        if at.reads_streams():
            return True
    return False


def _refuse(context: SelectContext, source: Source, feature: str) -> None:
    hint = f'name "{source.name}" in the FROM of the SELECT that reads the stream, or test it with IN (SELECT ...)'
    raise _at(context, source, error("not_supported", feature=feature, hint=hint))


def _at(context: SelectContext, source: Source, failure: PenstockError) -> PenstockError:
    return point(failure, context.text, span_of(source.node))


def _join_own(context: SelectContext, source: Source, streams: list[Source]) -> None:
    if all(stream.nullable for stream in streams):
        _refuse(context, source, "keeping rows of a table for which a stream has no reading")
    condition = _valid_at(streams, source)
    if not source.nullable:
        _require(context, source, condition)
        return
    join = source.node.parent
    place = context.sources.index(source)
    if (
        not isinstance(join, exp.Join)
        or (join.args.get("side") or "").upper() != "LEFT"
        or any(context.sources.index(stream) > place for stream in streams)
    ):
        _refuse(context, source, "this outer join of a table with a stream")
    assert isinstance(join, exp.Join)
    on = join.args.get("on")
    join.set("on", condition if on is None else _and(on, condition))


def _require(context: SelectContext, source: Source, condition: exp.Expr) -> None:
    """Add a condition: to WHERE, or to ON where an outer join may leave the source empty."""
    join = source.node.parent
    if source.nullable and isinstance(join, exp.Join) and (join.args.get("side") or "").upper() == "LEFT":
        on = join.args.get("on")
        join.set("on", condition if on is None else _and(on, condition))
        return
    if source.nullable:
        # RIGHT and FULL: the dead versions have to go before the join.
        alive = exp.select("*").from_(exp.Table(this=hole(source.relation), alias=_alias(source))).where(condition)
        replacement = exp.Subquery(this=alive, alias=_alias(source))
        source.node.replace(replacement)
        source.node = alive.args["from_"].this
        return
    where = context.select.args.get("where")
    context.select.set("where", exp.Where(this=condition if where is None else _and(where.this, condition)))


def _and(left: exp.Expr, right: exp.Expr) -> exp.Expr:
    grouped = typed(exp.Paren(this=left), BOOLEAN) if isinstance(left, exp.Or) else left
    return typed(exp.And(this=grouped, expression=right), BOOLEAN)


def _valid_at(streams: list[Source], source: Source) -> exp.Expr:
    journals = [_column(stream, "_journal") for stream in streams]
    last = journals[0] if len(journals) == 1 else exp.Greatest(this=journals[0], expressions=journals[1:])
    typed(last, BIGINT)
    born = typed(exp.GTE(this=last, expression=_column(source, "_born")), BOOLEAN)
    died = typed(exp.LT(this=last.copy(), expression=_column(source, "_died")), BOOLEAN)
    return typed(exp.And(this=born, expression=died), BOOLEAN)


def _alive(source: Source) -> exp.Expr:
    return typed(exp.EQ(this=_column(source, "_died"), expression=constant(ALIVE, BIGINT)), BOOLEAN)
