"""W-joins: the graph of windows between the streams of one FROM, as plain conditions on their times."""

from __future__ import annotations

from itertools import combinations

from sqlglot import exp

from penstock.catalog.model import TIME_COLUMN
from penstock.errors import error, suggest
from penstock.sql.binding.context import SelectContext
from penstock.sql.nodes import WindowJoin, WindowJoins
from penstock.sql.positions import point, span_of
from penstock.sql.scope import Source
from penstock.sql.values import DURATION, constant, typed
from penstock.types import BOOLEAN, TIMESTAMP


def window_join_conditions(select: exp.Select, context: SelectContext, text: str) -> list[exp.Expr]:
    """low <= right.ts - left.ts <= high for every pair that a WINDOW clause names."""
    clauses = select.args.get("window_joins")
    if not isinstance(clauses, WindowJoins):
        return []
    streams = [source for source in context.sources if source.kind in ("sensors", "query")]
    pairs: list[tuple[Source, Source, WindowJoin]] = []
    for clause in clauses.expressions:
        if clause.args.get("left") is None:
            pairs.extend((a, b, clause) for a, b in combinations(streams, 2))
        else:
            pairs.append((_named(clause, "left", streams, text), _named(clause, "right", streams, text), clause))
    for stream in streams:
        stream.needs_stream = True
    if not context.windows.explicit:
        _check_connected(streams, pairs, clauses, text)
    _check_satisfiable(streams, pairs, clauses, text)
    return [condition for a, b, clause in pairs for condition in _conditions(a, b, clause)]


def _named(clause: WindowJoin, side: str, streams: list[Source], text: str) -> Source:
    name = clause.args[side].name
    found = next((s for s in streams if s.alias == name), None)
    if found is None:
        known = [s.alias for s in streams]
        hint = suggest(name, known) or "the streams of FROM are " + ", ".join(known)
        raise point(error("table_not_found", table=name, hint=hint), text, span_of(clause))
    return found


def _conditions(a: Source, b: Source, clause: WindowJoin) -> list[exp.Expr]:
    difference = typed(exp.Sub(this=_time(b), expression=_time(a)), DURATION)
    low = constant(int(clause.args["low"]), DURATION)
    high = constant(int(clause.args["high"]), DURATION)
    return [
        typed(exp.GTE(this=difference, expression=low), BOOLEAN),
        typed(exp.LTE(this=difference.copy(), expression=high), BOOLEAN),
    ]


def _time(source: Source) -> exp.Expr:
    node = exp.Column(
        this=exp.Identifier(this=TIME_COLUMN, quoted=True), table=exp.Identifier(this=source.alias, quoted=True)
    )
    node.meta["source"] = source
    node.meta["origin"] = "time"
    return typed(node, TIMESTAMP)


def _check_connected(
    streams: list[Source], pairs: list[tuple[Source, Source, WindowJoin]], clauses: exp.Expr, text: str
) -> None:
    if not streams:
        return
    reached, waiting = {streams[0].alias}, [streams[0].alias]
    while waiting:
        at = waiting.pop()
        for a, b, _ in pairs:
            for here, there in ((a.alias, b.alias), (b.alias, a.alias)):
                if here == at and there not in reached:
                    reached.add(there)
                    waiting.append(there)
    loose = [s.alias for s in streams if s.alias not in reached]
    if loose:
        names = ", ".join(f'"{name}"' for name in loose)
        detail = f'no window connects {names} with "{streams[0].alias}"'
        hint = f"add WINDOW({streams[0].alias}, {loose[0]}) = d, or bound the query with BEGIN .. END"
        raise point(error("invalid_window", detail=detail, hint=hint), text, span_of(clauses))


def _check_satisfiable(
    streams: list[Source], pairs: list[tuple[Source, Source, WindowJoin]], clauses: exp.Expr, text: str
) -> None:
    """All-pairs shortest paths over the upper bounds of time differences; a negative cycle can never hold."""
    names = [s.alias for s in streams]
    far = float("inf")
    bound = {(i, j): 0.0 if i == j else far for i in names for j in names}
    for a, b, clause in pairs:
        bound[a.alias, b.alias] = min(bound[a.alias, b.alias], int(clause.args["high"]))
        bound[b.alias, a.alias] = min(bound[b.alias, a.alias], -int(clause.args["low"]))
    for k in names:
        for i in names:
            for j in names:
                bound[i, j] = min(bound[i, j], bound[i, k] + bound[k, j])
    if any(bound[i, i] < 0 for i in names):
        detail = "no combination of times can satisfy all these windows"
        raise point(error("invalid_window", detail=detail), text, span_of(clauses))
