"""W-joins: windows between the streams of one FROM, as plain conditions on their times.

That is how Spark runs them; `planning.join` reads the same windows from the context's graph.
"""

from __future__ import annotations

from typing import NoReturn

from sqlglot import exp

from penstock.catalog.model import TIME_COLUMN
from penstock.errors import error
from penstock.sql.binding.context import SelectContext, WindowGraph
from penstock.sql.binding.unmatched_rows import note_windows_passed, unmatched_or, window_passed
from penstock.sql.binding.window_graph import StatedPair, graph_of, own_streams, state_pairs
from penstock.sql.nodes import WindowJoin, WindowJoins, between_streams
from penstock.sql.positions import point, span_of
from penstock.sql.scope import BoundSource
from penstock.sql.values import DURATION, constant, typed
from penstock.types import BOOLEAN, TIMESTAMP

# The earliest time of a combination; the latest is its `ts`.
EARLIEST_COLUMN = "ts_min"


def bind_window_joins(context: SelectContext, standing: bool) -> list[exp.Expr]:
    """What WINDOW adds to WHERE. Leaves the graph in the context, and lets bare `ts` mean the combination's."""
    clauses = context.select.args.get("window_joins")
    if not isinstance(clauses, WindowJoins):
        return []
    pairs = state_pairs(clauses.expressions, context)
    graph = graph_of(pairs, context, standing)
    for stream in graph.streams:
        stream.needs_stream = True
    context.graph = graph
    own = own_streams(context)
    if len(own) > 1:
        _name_times(context, own)
    conditions = [condition for a, b, clause in pairs for condition in _conditions(a, b, clause)]
    if any(stream.nullable for stream in own):
        return _outer_join(context, graph, pairs, conditions)
    around = [stream for stream in graph.streams if stream not in own]
    if around:
        note_windows_passed(context.select, [_passed(graph, stream, own) for stream in around])
    return conditions


def _name_times(context: SelectContext, streams: list[BoundSource]) -> None:
    first, *others = [time_of(stream) for stream in streams]
    names = context.scope.combination
    names[TIME_COLUMN] = typed(exp.Greatest(this=first, expressions=others), TIMESTAMP)
    if all(source.find([EARLIEST_COLUMN]) is None for source in context.sources):
        least = exp.Least(this=first.copy(), expressions=[other.copy() for other in others])
        names[EARLIEST_COLUMN] = typed(least, TIMESTAMP)


def _outer_join(
    context: SelectContext, graph: WindowGraph, pairs: list[StatedPair], conditions: list[exp.Expr]
) -> list[exp.Expr]:
    """LEFT JOIN of two streams: the windows belong to ON, and a row without partner waits for its window."""
    if len(graph.streams) != 2 or graph.streams[0].nullable:
        _refuse_outer_join(context, pairs)
    kept, partner = graph.streams
    join = partner.node.parent
    if not isinstance(join, exp.Join) or (join.args.get("side") or "").upper() != "LEFT":
        _refuse_outer_join(context, pairs)
    on = join.args.get("on")
    for condition in conditions:
        grouped = typed(exp.Paren(this=on), BOOLEAN) if isinstance(on, exp.Or) else on
        on = condition if grouped is None else typed(exp.And(this=grouped, expression=condition), BOOLEAN)
    join.set("on", on)
    return [unmatched_or(time_of(partner), _passed(graph, kept, [partner]))]


def _refuse_outer_join(context: SelectContext, pairs: list[StatedPair]) -> NoReturn:
    failure = error(
        "not_supported",
        feature="this outer join within a window",
        hint="two streams can be joined so: FROM a LEFT JOIN b ON ... WINDOW(a, b) = d",
    )
    raise point(failure, context.text, span_of(pairs[0][2]))


def _passed(graph: WindowGraph, stream: BoundSource, partners: list[BoundSource]) -> exp.Expr:
    number = graph.streams.index(stream)
    latest = [graph.bounds.upper[number][graph.streams.index(partner)] for partner in partners]
    return window_passed(time_of(stream), max(upper for upper in latest if upper is not None))


def _conditions(a: BoundSource, b: BoundSource, clause: WindowJoin) -> list[exp.Expr]:
    difference = typed(exp.Sub(this=time_of(b), expression=time_of(a)), DURATION)
    low = constant(int(clause.args["low"]), DURATION)
    high = constant(int(clause.args["high"]), DURATION)
    return [
        between_streams(typed(exp.GTE(this=difference, expression=low), BOOLEAN)),
        between_streams(typed(exp.LTE(this=difference.copy(), expression=high), BOOLEAN)),
    ]


def time_of(source: BoundSource) -> exp.Expr:
    """A bound reference to a stream's time."""
    node = exp.Column(
        this=exp.Identifier(this=TIME_COLUMN, quoted=True), table=exp.Identifier(this=source.alias, quoted=True)
    )
    node.meta["source"] = source
    node.meta["origin"] = "time"
    return typed(node, TIMESTAMP)
