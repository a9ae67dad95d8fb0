"""After binding: which sources are streams and what each relation reads.

Works on the collected SELECTs of a question and rewrites their FROM lists for Spark.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from sqlglot import exp

from penstock.errors import error
from penstock.expr.expression import Call, Expr, is_static
from penstock.expr.windows import RowsWindow
from penstock.sql.binding.context import Collected, SelectContext
from penstock.sql.bound_trees import alias_of, conjuncts, hidden_column, micros_of, time_of
from penstock.sql.kernel_expressions import NotCovered, lower
from penstock.sql.nodes import Hold, OwnWindow
from penstock.sql.plan import Relation
from penstock.sql.scope import BoundSource
from penstock.sql.spark.table_versions import join_versions
from penstock.sql.spark.text import relation_name
from penstock.sql.window_clauses import anchored
from penstock.types import BOOLEAN


def settle(collected: Collected) -> None:
    """Decide which sources are streams, and their windows. Before any plan is made."""
    for context in collected.contexts:
        timed = context.windows.explicit or _has_own_window(context)
        if timed and not context.own_streams and not any(c.reads_streams() for c in context.in_from):
            # A window over static columns alone asks about readings all the same.
            for source in context.sources:
                source.needs_stream = source.needs_stream or source.kind == "sensors"
        for source in context.sources:
            if source.is_stream:
                window = context.windows.of(source.alias)
                source.window = anchored(window, context.start_us) if context.inlined else window
    for context in collected.contexts:
        for source in context.sources:
            if source.is_stream and isinstance(source.window, RowsWindow) and source.kind == "query":
                hint = "use BEGIN (NOW - d) END (NOW)"
                failure = error("not_supported", feature="a window of rows over another query", hint=hint)
                context.fail(source.node, failure)


def _has_own_window(context: SelectContext) -> bool:
    """Whether an aggregate of this SELECT has a window of its own."""
    items = [
        *context.select.expressions,
        *filter(None, [context.select.args.get(key) for key in ("having", "qualify", "order")]),
    ]
    return any(
        isinstance(node, OwnWindow) for item in items for node in item.walk(prune=lambda n: isinstance(n, exp.Query))
    )


_CLAUSES = (
    ("distinct", "DISTINCT"),
    ("group", "GROUP BY"),
    ("having", "HAVING"),
    ("qualify", "QUALIFY"),
    ("order", "ORDER BY"),
    ("limit", "LIMIT"),
    ("offset", "OFFSET"),
    ("windows", "a window function"),
)


def refuse_clauses(context: SelectContext) -> None:
    """NotCovered for a clause that no plan but Spark SQL has."""
    for key, words in _CLAUSES:
        if context.select.args.get(key):
            raise NotCovered(f"{words} runs as Spark SQL")
    if context.aggregated:
        raise NotCovered("an aggregate runs as Spark SQL")


def static_conditions(context: SelectContext, source: BoundSource) -> list[tuple[exp.Expr, Expr]]:
    """The conditions that static columns of one source decide alone, before anything is joined."""
    if source.kind != "sensors":
        return []
    found = []
    for condition in _before_joining(context, source):
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


def _before_joining(context: SelectContext, source: BoundSource) -> list[exp.Expr]:
    """Where conditions on one source may stand: its own LEFT JOIN, or anywhere if no join can leave it empty."""
    joins = context.select.args.get("joins") or []
    if source.nullable:
        own = [join for join in joins if join.this is source.node and (join.args.get("side") or "").upper() == "LEFT"]
        return [condition for join in own for condition in conjuncts(join.args.get("on"))]
    inner = [join for join in joins if not join.args.get("side")]
    on = [condition for join in inner for condition in conjuncts(join.args.get("on"))]
    return [*on, *conjuncts(context.select.args.get("where"))]


def all_of(conditions: Iterable[Expr | None]) -> Expr | None:
    """All that there are of these conditions, or None."""
    asked = [condition for condition in conditions if condition is not None]
    if not asked:
        return None
    return asked[0] if len(asked) == 1 else Call("and", tuple(asked), BOOLEAN)


def by_decider(conditions: Sequence[Expr]) -> tuple[Expr | None, Expr | None]:
    """What static columns decide, before any reading, and what readings do."""
    return all_of(c for c in conditions if is_static(c)), all_of(c for c in conditions if not is_static(c))


def place_relations(collected: Collected) -> tuple[Relation, ...]:
    """Give every table reference its relation, and write it into FROM."""
    relations: list[Relation] = []
    for context in collected.contexts:
        for source in context.sources:
            if source.kind != "derived":
                source.relation = f"r{len(relations)}"
                relations.append(_relation(context, source))
    join_versions(collected)
    for context in collected.contexts:
        relations += _place_held(context, len(relations))
    for context in collected.contexts:
        for source in context.sources:
            if source.kind != "derived":
                source.node.replace(_reference(context, source))
    return tuple(relations)


def _place_held(context: SelectContext, count: int) -> list[Relation]:
    """Conditions that have to hold look at all readings of their stream: each has a relation without a window."""
    relations: list[Relation] = []
    where = context.select.args.get("where")
    for held in list(where.find_all(Hold)) if where is not None else []:
        source = held.meta["source"]
        if source in context.sources:
            own = static_conditions(context, source)
            relation = f"r{count + len(relations)}"
            predicate = all_of([lowered for _, lowered in own])
            relations.append(Relation(relation, "stream", source.name, None, predicate))
            held.replace(_held_positions(held, source, relation, [condition.copy() for condition, _ in own]))
    return relations


def _relation(context: SelectContext, source: BoundSource) -> Relation:
    kind: Literal["stream", "static", "ordinary", "system", "state", "query", "core"]
    if source.kind == "sensors":
        kind = "stream" if source.needs_stream else "static"
    else:
        assert source.kind != "derived"
        kind = source.kind
    window = source.window if source.is_stream else None
    predicate = all_of([lowered for _, lowered in static_conditions(context, source)])
    return Relation(source.relation, kind, source.name, window, predicate)


def _reference(context: SelectContext, source: BoundSource) -> exp.Expr:
    table = exp.Table(this=relation_name(source.relation), alias=alias_of(source))
    if not (source.is_stream and isinstance(source.window, RowsWindow)):
        return table
    static = [condition.copy() for condition, _ in static_conditions(context, source)]
    newest = exp.Window(
        this=exp.RowNumber(),
        partition_by=[hidden_column(source, "_sid")] if source.window.per_sensor else None,
        order=exp.Order(expressions=[_newest(time_of(source)), _newest(hidden_column(source, "_pos"))]),
    )
    ranked = exp.select("*", exp.alias_(newest, "_rank", quoted=True)).from_(table)
    if static:
        ranked = ranked.where(*static)
    kept = exp.LTE(this=exp.column("_rank", quoted=True), expression=exp.Literal.number(source.window.count))
    return exp.Subquery(this=exp.select("*").from_(ranked.subquery("_ranked")).where(kept), alias=alias_of(source))


def _newest(node: exp.Expr) -> exp.Expr:
    return exp.Ordered(this=node, desc=True, nulls_first=False)


# -- conditions that hold FOR some time: a reading is in if an unbroken run of true readings reaches back far enough

_TRUE, _RUN, _SINCE = "_true", "_run", "_since"


def _held_positions(held: Hold, source: BoundSource, relation: str, static: list[exp.Expr]) -> exp.Expr:
    """The condition as positions of the stream's rows, of which `relation` has all.

    The run is looked for over all that the log holds of the sensor, before any window is cut.
    """
    rows = exp.select(
        hidden_column(source, "_sid"),
        hidden_column(source, "_pos"),
        time_of(source),
        exp.alias_(exp.Coalesce(this=held.this.copy(), expressions=[exp.Boolean(this=False)]), _TRUE, quoted=True),
    ).from_(exp.Table(this=relation_name(relation), alias=alias_of(source)))
    if static:
        rows = rows.where(*static)
    # Each reading that is not true begins another run; those that follow it belong to it.
    breaks = exp.Case(ifs=[exp.If(this=_column(_TRUE), true=exp.Literal.number(0))], default=exp.Literal.number(1))
    order = exp.Order(expressions=[exp.Ordered(this=_column("ts")), exp.Ordered(this=_column("_pos"))])
    upto = exp.WindowSpec(kind="ROWS", start="UNBOUNDED", start_side="PRECEDING", end="CURRENT ROW")
    run = exp.Window(this=exp.Sum(this=breaks), partition_by=[_column("_sid")], order=order, spec=upto)
    numbered = exp.select("*", exp.alias_(run, _RUN, quoted=True)).from_(rows.subquery("_rows"))
    first = exp.Min(this=exp.Case(ifs=[exp.If(this=_column(_TRUE), true=_column("ts"))]))
    since = exp.Window(this=first, partition_by=[_column("_sid"), _column(_RUN)])
    runs = exp.select("*", exp.alias_(since, _SINCE, quoted=True)).from_(numbered.subquery("_numbered"))
    lasted = exp.Sub(this=micros_of(_column("ts")), expression=micros_of(_column(_SINCE)))
    long_enough = exp.GTE(this=lasted, expression=exp.Literal.number(held.us))
    positions = exp.select(_column("_pos")).from_(runs.subquery("_runs")).where(_column(_TRUE), long_enough)
    return exp.In(this=hidden_column(source, "_pos"), query=exp.Subquery(this=positions))


def _column(name: str) -> exp.Column:
    return exp.column(name, quoted=True)
