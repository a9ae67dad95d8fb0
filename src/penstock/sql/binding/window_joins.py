"""W-joins: windows between the streams of one FROM, as plain conditions on their times.

That is how Spark runs them; `planning.join` reads the same windows from the context's graph. LEFT JOIN and NOT EXISTS within a window
answer once the window has passed: until then a partner may still come.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from itertools import combinations
from typing import NoReturn

from sqlglot import exp

from penstock.catalog.model import TIME_COLUMN
from penstock.errors import error, suggest
from penstock.expr.expression import Call, Column, Expr
from penstock.expr.windows import FOREVER, Bound, RowsWindow, Window
from penstock.operators.join.kernels.bounds import Bounds, ContradictoryWindows, close
from penstock.sql.binding.context import SelectContext, WindowGraph
from penstock.sql.bound_trees import both, branches, time_of
from penstock.sql.nodes import WindowJoin, WindowJoins, between_streams, either_way
from penstock.sql.plan import JoinPlan, Output
from penstock.sql.scope import BoundSource
from penstock.sql.values import DURATION, constant, typed
from penstock.types import BOOLEAN, TIMESTAMP, format_duration

# The earliest time of a combination; the latest is its `ts`.
EARLIEST_COLUMN = "ts_min"
_PASSED = "windows_passed"  # in the meta of a SELECT: what NOT EXISTS of it has to wait for


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
    if graph.ways:
        conditions.append(_either_way([pair for pair in pairs if pair[2].args.get("both_ways")]))
    if any(stream.nullable for stream in own):
        return _outer_join(context, graph, pairs, conditions)
    around = [stream for stream in graph.streams if stream not in own]
    if around:
        context.select.meta[_PASSED] = [_passed(graph, stream, own) for stream in around]
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
    """LEFT or FULL JOIN of two streams: the windows belong to ON, and a row without partner waits for its window."""
    if len(graph.streams) != 2:
        _refuse_outer_join(context, pairs)
    kept, partner = graph.streams
    join = partner.node.parent
    side = (join.args.get("side") or "").upper() if isinstance(join, exp.Join) else ""
    alone = not kept.nullable if side == "LEFT" else side == "FULL" and len(context.sources) == 2
    if not isinstance(join, exp.Join) or not alone:
        _refuse_outer_join(context, pairs)
    on = join.args.get("on")
    for condition in conditions:
        on = both(on, condition)
    join.set("on", on)
    waits = [unmatched_or(time_of(partner), _passed(graph, kept, [partner]))]
    if side == "FULL":
        waits.append(unmatched_or(time_of(kept), _passed(graph, partner, [kept])))
    return waits


def _refuse_outer_join(context: SelectContext, pairs: list[StatedPair]) -> NoReturn:
    failure = error(
        "not_supported",
        feature="this outer join within a window",
        hint="two streams can be joined so: FROM a LEFT JOIN b ON ... WINDOW(a, b) = d, or with FULL JOIN",
    )
    context.fail(pairs[0][2], failure)


def _passed(graph: WindowGraph, stream: BoundSource, partners: list[BoundSource]) -> exp.Expr:
    """NOW > time + the longest a partner may be later."""
    number = graph.streams.index(stream)
    latest = [graph.bounds.upper[number][graph.streams.index(partner)] for partner in partners]
    longest = constant(max(upper for upper in latest if upper is not None), DURATION)
    last = typed(exp.Add(this=time_of(stream), expression=longest), TIMESTAMP)
    now = typed(exp.CurrentTimestamp(), TIMESTAMP)
    return between_streams(typed(exp.GT(this=now, expression=last), BOOLEAN))


def _conditions(a: BoundSource, b: BoundSource, clause: WindowJoin) -> list[exp.Expr]:
    difference = typed(exp.Sub(this=time_of(b), expression=time_of(a)), DURATION)
    low = constant(int(clause.args["low"]), DURATION)
    high = constant(int(clause.args["high"]), DURATION)
    return [
        between_streams(typed(exp.GTE(this=difference, expression=low), BOOLEAN)),
        between_streams(typed(exp.LTE(this=difference.copy(), expression=high), BOOLEAN)),
    ]


# Two streams and the clause that says how far apart they may be.
StatedPair = tuple[BoundSource, BoundSource, WindowJoin]


def state_pairs(clauses: Sequence[WindowJoin], context: SelectContext) -> list[StatedPair]:
    """Every pair that a clause names; `WINDOW = w` names all pairs of FROM."""
    own = own_streams(context)
    pairs: list[StatedPair] = []
    for clause in clauses:
        if clause.args.get("left") is not None:
            left, right = (_named(clause, side, context) for side in ("left", "right"))
            if left is right:
                detail = f'"{left.alias}" has no window with itself'
                hint = f"name the table twice: {left.name} a, {left.name} b"
                context.fail(clause, error("invalid_window", detail=detail, hint=hint))
            pairs.append((left, right, clause))
        elif len(own) < 2:
            detail = "a window needs two streams"
            hint = "name them: WINDOW(a, b) = d" if context.role == "exists" else "BEGIN .. END bounds one stream"
            context.fail(clause, error("invalid_window", detail=detail, hint=hint))
        else:
            pairs.extend((a, b, clause) for a, b in combinations(own, 2))
    return pairs


def graph_of(pairs: list[StatedPair], context: SelectContext, standing: bool) -> WindowGraph:
    """What the pairs say about all streams. Raises where they contradict each other or leave a stream out."""
    own = own_streams(context)
    around = [s for pair in pairs for s in pair[:2] if s not in own]
    streams = (*dict.fromkeys(around), *own)
    number = {stream: place for place, stream in enumerate(streams)}
    stated = [(number[a], number[b], int(c.args["low"]), int(c.args["high"])) for a, b, c in pairs]
    try:
        bounds = close(len(streams), stated)
    except ContradictoryWindows as failure:
        _refuse_contradiction(failure, streams, pairs, context)
    _check_connected(streams, bounds, pairs, context, standing)
    return WindowGraph(streams, bounds, _ways_of(pairs, number, context))


def _ways_of(pairs: list[StatedPair], number: Mapping[BoundSource, int], context: SelectContext) -> tuple[Bounds, ...]:
    """The bounds of each direction of a path with BOTH WAYS. All times equal is the only case that both have: one way leaves it out."""
    path = [pair for pair in pairs if pair[2].args.get("both_ways")]
    if not path:
        return ()
    _check_path(path, context)
    steps = [(number[a], number[b], int(clause.args["high"])) for a, b, clause in path]
    forward = [(a, b, 0, high) for a, b, high in steps]
    backward = [(a, b, -high, 0) for a, b, high in steps]
    strict = (steps[0][0], steps[-1][1], -sum(high for _, _, high in steps), -1)
    stated = [(number[a], number[b], int(c.args["low"]), int(c.args["high"])) for a, b, c in pairs]
    try:
        return tuple(close(len(number), [*stated, *way]) for way in (forward, [*backward, strict]))
    except ContradictoryWindows:
        hint = "write the direction that is possible, without BOTH WAYS"
        failure = error("invalid_window", detail="the other windows leave the path one direction", hint=hint)
        context.fail(path[0][2], failure)


def _check_path(path: list[StatedPair], context: SelectContext) -> None:
    follows = all(path[place][1] is path[place + 1][0] for place in range(len(path) - 1))
    repeated = len({path[0][0], *(b for _, b, _ in path)}) <= len(path)
    if not follows or repeated or context.role == "exists" or any(s.nullable for s in own_streams(context)):
        what = "PATH(..) BOTH WAYS twice, in EXISTS or in an outer join"
        hint = "one path of different streams can go both ways in a SELECT"
        context.fail(path[0][2], error("not_supported", feature=what, hint=hint))


def _either_way(path: list[StatedPair]) -> exp.Expr:
    """That the times of a path rise, or that they fall."""
    ways = []
    for compare in (exp.LTE, exp.GTE):
        steps = [typed(compare(this=time_of(a), expression=time_of(b)), BOOLEAN) for a, b, _ in path]
        ways.append(typed(exp.Paren(this=reduce(both, steps)), BOOLEAN))
    either = either_way(typed(exp.Or(this=ways[0], expression=ways[1]), BOOLEAN))
    return typed(exp.Paren(this=either), BOOLEAN)


def own_streams(context: SelectContext) -> list[BoundSource]:
    return [source for source in context.sources if source.kind in ("sensors", "query")]


def _named(clause: WindowJoin, side: str, context: SelectContext) -> BoundSource:
    name = clause.args[side].name
    known = own_streams(context)
    # EXISTS may tie its streams to those of the SELECT around it; there is nothing else a window could wait for.
    if context.role == "exists" and context.parent is not None:
        known += own_streams(context.parent)
    found = next((s for s in known if s.alias == name), None)
    if found is None:
        names = [s.alias for s in known]
        hint = suggest(name, names) or "the streams of FROM are " + ", ".join(names)
        if any(s.alias == name for s in context.sources):
            detail = f'"{name}" has no stream, and so no times to be near'
            context.fail(clause, error("invalid_window", detail=detail, hint=hint))
        context.fail(clause, error("table_not_found", table=name, hint=hint))
    return found


def _refuse_contradiction(
    failure: ContradictoryWindows, streams: Sequence[BoundSource], pairs: list[StatedPair], context: SelectContext
) -> NoReturn:
    cycle = [streams[i] for i in failure.streams]
    steps = {frozenset(step) for step in zip(cycle, cycle[1:] + cycle[:1], strict=True)}
    clause = [c for a, b, c in pairs if frozenset((a, b)) in steps][-1]
    detail = f"no times can satisfy the windows between {_listed([streams[i] for i in sorted(failure.streams)])}"
    hint = f"taken together they miss each other by {format_duration(failure.excess)}"
    context.fail(clause, error("invalid_window", detail=detail, hint=hint))


def _check_connected(
    streams: Sequence[BoundSource], bounds: Bounds, pairs: list[StatedPair], context: SelectContext, standing: bool
) -> None:
    """Every stream has to be near every other in time, or BEGIN .. END has to say how far back it goes."""
    groups = [[streams[i] for i in group] for group in bounds.components()]
    if len(groups) == 1:
        return
    waits = any(stream not in context.sources for stream in streams)
    if not waits and all(any(_is_bounded(context.windows.of(s.alias), standing) for s in group) for group in groups):
        return
    first, loose = streams[0].alias, [s for group in groups[1:] for s in group]
    detail = f'no window connects {_listed(loose)} with "{first}"'
    hint = f"add WINDOW({first}, {loose[0].alias}) = d"
    hint += "" if waits else ", or bound the query with BEGIN (NOW - d) END (NOW)"
    clauses = pairs[0][2].parent
    assert clauses is not None
    context.fail(clauses, error("invalid_window", detail=detail, hint=hint))


def _is_bounded(window: Window, standing: bool) -> bool:
    """Whether a window of BEGIN .. END stays small: a landmark of a standing query grows for ever."""
    if isinstance(window, RowsWindow) or window.slides:
        return True
    if window.begin.anchor == "constant" and window.begin.offset_us <= -FOREVER:
        return False
    return window.ends or not standing


def _listed(streams: Sequence[BoundSource]) -> str:
    names = [f'"{stream.alias}"' for stream in streams]
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def unmatched_or(partner_time: exp.Expr, passed: exp.Expr) -> exp.Expr:
    """For LEFT JOIN: the row has a partner, or its window has passed."""
    absent = typed(exp.Is(this=partner_time, expression=exp.Null()), BOOLEAN)
    found = typed(exp.Not(this=absent), BOOLEAN)
    either = between_streams(typed(exp.Or(this=found, expression=passed), BOOLEAN))
    return typed(exp.Paren(this=either), BOOLEAN)


def windows_passed(negated: exp.Expr) -> list[exp.Expr]:
    """The conditions that go with the negation of a bound expression: none unless it is an EXISTS within a window."""
    inner = negated.unnest()
    if not isinstance(inner, exp.Exists):
        return []
    return [condition.copy() for select in branches(inner.this) for condition in select.meta.get(_PASSED, [])]


# -- a W-join read like a stream: its columns and, for each row, the latest and the earliest time of its tuples


def read_outputs(plan: JoinPlan) -> tuple[Output, ...]:
    """What a reader of the query can name: its own columns, `ts`, and `ts_min` unless one of its own is called so."""
    latest, earliest = (Output(n, TIMESTAMP, _time(plan, how)) for n, how in _TIMES.items())
    own = tuple(o for o in plan.outputs if o.name != TIME_COLUMN)
    named = {o.name for o in own}
    # One stream's rows have one time.
    return (*own, latest) if EARLIEST_COLUMN in named or len(plan.inputs) == 1 else (*own, latest, earliest)


def tells_its_time(plan: JoinPlan) -> bool:
    """Whether `ts`, if the query has a column of that name, is the time of its rows."""
    return all(_same(o.expr, _time(plan, "greatest")) for o in plan.outputs if o.name == TIME_COLUMN)


_TIMES = {TIME_COLUMN: "greatest", EARLIEST_COLUMN: "least"}


def _time(plan: JoinPlan, how: str) -> Expr:
    # Of NOT EXISTS only the first stream's rows are answers.
    inputs = plan.inputs[:1] if plan.missing == "anti" else plan.inputs
    times = tuple(Column(f"{i.alias}.{TIME_COLUMN}", TIMESTAMP) for i in inputs)
    return times[0] if len(times) == 1 else Call(how, times, TIMESTAMP)


def _same(one: Expr, other: Expr) -> bool:
    match one, other:
        case Call(a, these), Call(b, those):
            return a == b and set(these) == set(those)
    return one == other


def cut_to_reader(inner: SelectContext, plan: JoinPlan, reader: SelectContext, window: Window) -> None:
    """Let the inlined join keep rows of the reader's window only.

    Asked once, the join is written out with a window of its own, which a reader cannot see into.
    """
    if isinstance(window, RowsWindow):
        failure = error(
            "not_supported", feature="a window of rows over another query", hint="use BEGIN (NOW - d) END (NOW)"
        )
        reader.fail(reader.select.args.get("begin_end") or reader.select, failure)
    named = plan.inputs[:1] if plan.missing == "anti" else plan.inputs
    times = [time_of(s) for i in named for s in inner.sources if s.alias == i.alias]
    for bound, compare in ((window.begin, exp.GTE), (window.end, exp.LTE)):
        if bound.anchor == "constant" and abs(bound.offset_us) >= FOREVER:
            continue
        first, *others = [time.copy() for time in times]
        latest = typed(exp.Greatest(this=first, expressions=others), TIMESTAMP) if others else first
        where = inner.select.args.get("where")
        kept = None if where is None else typed(exp.Paren(this=where.this), BOOLEAN)
        inside = typed(compare(this=latest, expression=_moment(bound)), BOOLEAN)
        inner.select.set("where", exp.Where(this=both(kept, inside)))


def _moment(bound: Bound) -> exp.Expr:
    if bound.anchor == "constant":
        return constant(bound.offset_us, TIMESTAMP)
    now = typed(exp.CurrentTimestamp(), TIMESTAMP)
    if not bound.offset_us:
        return now
    return typed(exp.Sub(this=now, expression=constant(-bound.offset_us, DURATION)), TIMESTAMP)
