"""GROUP BY: windows of time in it (TUMBLE, SLIDE, SESSION, LATCH), and the columns that have to stand there."""

from __future__ import annotations

from typing import NoReturn

from sqlglot import exp

from penstock.errors import PenstockError, error
from penstock.operators.aggregate.partials.sessions import LEAST_GAP_US, MOST_GAP_US, piece_width
from penstock.sql.binding.calls import is_aggregate
from penstock.sql.binding.expressions import ExpressionBinder
from penstock.sql.bound_trees import call_of, micros_of
from penstock.sql.nodes import BeginEnd, BeginEnds, Const, OwnWindow, WindowEdge
from penstock.sql.positions import placed, point, span_of
from penstock.sql.scope import PaneEdges, Scope, fold
from penstock.sql.values import DURATION, constant, type_of, typed
from penstock.types import BIGINT, TEXT, TIMESTAMP, Field, Type


def check_grouping(select: exp.Select, scope: Scope, text: str) -> bool:
    """Whether the SELECT aggregates. Raises grouping_error for a column that is neither grouped nor aggregated."""
    group = select.args.get("group")
    having = select.args.get("having")
    order = select.args.get("order")
    parts: list[exp.Expr] = [item.this for item in select.expressions]
    qualify = select.args.get("qualify")
    parts += [clause.this for clause in (having, qualify) if clause is not None]
    parts += [item.this for item in order.expressions] if order is not None else []
    if group is None and having is None and not any(_aggregates(part) for part in parts):
        return False
    keys = list(group.expressions) if group is not None else []
    if group is not None and group.find(exp.Rollup, exp.Cube, exp.GroupingSets) is not None:
        return True
    for part in parts:
        _check(part, keys, scope, text)
    return True


def _aggregates(node: exp.Expr) -> bool:
    if isinstance(node, exp.Query):
        return False
    if is_aggregate(node) and not isinstance(node.parent, exp.Window):
        return True
    return any(_aggregates(child) for child in node.iter_expressions())


def _check(node: exp.Expr, keys: list[exp.Expr], scope: Scope, text: str) -> None:
    if node in keys or isinstance(node, Const | exp.Query):
        return
    inner = node
    while isinstance(inner, exp.Filter | exp.WithinGroup | OwnWindow):
        inner = inner.this
    if is_aggregate(inner) and not isinstance(node.parent, exp.Window):
        return
    for name, meaning in scope.combination.items():
        if node == meaning:
            _refuse(name, node, text)
    if isinstance(node, exp.Column):
        source = node.meta.get("source")
        if source is not None and source in scope.sources:
            _refuse(f"{node.table}.{node.name}", node, text)
        return
    for child in node.iter_expressions():
        _check(child, keys, scope, text)


def _refuse(name: str, node: exp.Expr, text: str) -> NoReturn:
    hint = f"add {name} to GROUP BY, or take MAX({name})"
    failure = error("grouping_error", detail=f"{name} is neither grouped nor aggregated", hint=hint)
    raise point(failure, text, span_of(node))


# -- LATCH: the state of each group has no end


def bind_latch(select: exp.Select, scope: Scope, binder: ExpressionBinder) -> None:
    """Take LATCH out of GROUP BY and remember where it stood. A column of that name is a column."""
    group = select.args.get("group")
    if group is None:
        return
    for node in list(group.expressions):
        if isinstance(node, exp.Anonymous) and node.name.upper() == "LATCH":
            if node.expressions:
                hint = "write GROUP BY key, LATCH; where it begins is said with BEGIN"
                binder.fail(node, error("syntax_error", detail="LATCH takes no duration: it has no end", hint=hint))
        elif not _is_the_word(node, scope):
            continue
        if scope.latch is not None:
            binder.fail(node, error("syntax_error", detail="GROUP BY has LATCH twice"))
        scope.latch = node
        node.pop()
        for source in scope.sources:  # it is about readings, whatever is counted
            source.needs_stream = source.needs_stream or source.kind == "sensors"
    if scope.latch is not None and not group.expressions:
        select.set("group", None)


def _is_the_word(node: exp.Expr, scope: Scope) -> bool:
    if not isinstance(node, exp.Column) or len(node.parts) != 1 or fold(node.this) != "latch":
        return False
    try:
        return scope.find(["latch"]) is None
    except PenstockError:  # several tables have such a column
        return False


# -- SLIDE(d) without a step: one window per group, the last d up to NOW, that moves with every cycle

_EXAMPLE = "write SLIDE(1 MINUTE, 10 SECONDS)"


def take_slide(select: exp.Select, binder: ExpressionBinder) -> int | None:
    """Write SLIDE(d) as BEGIN (NOW - d) END (NOW), which it means; how long it is, or None where there is none."""
    group = select.args.get("group")
    if group is None:
        return None
    for node in list(group.expressions):
        if not isinstance(node, exp.Anonymous) or node.name.upper() != "SLIDE" or len(node.expressions) != 1:
            continue
        # Windows are written before FROM is bound, so there is nothing that a subquery could read.
        asks = node.expressions[0].find(exp.Query) is not None
        given = None if asks else binder.coerce(binder.bind(node.expressions[0], Scope()), DURATION)
        if not isinstance(given, Const) or given.value <= 0:
            binder.fail(node, error("syntax_error", detail="SLIDE takes a duration, or two", hint=_EXAMPLE))
        if select.args.get("begin_end") is not None:
            detail = "SLIDE without a step is the window itself, up to NOW; here is another one"
            hint = f"leave out BEGIN .. END, or say how far windows are apart: {_EXAMPLE.removeprefix('write ')}"
            binder.fail(node, error("invalid_window", detail=detail, hint=hint))
        node.pop()
        if not group.expressions:
            select.set("group", None)
        begin, end = (WindowEdge(anchor="now", offset=str(offset)) for offset in (-given.value, 0))
        select.set("begin_end", BeginEnds(expressions=[BeginEnd(begin=begin, end=end)]))
        return int(given.value)
    return None


def name_edges(scope: Scope, width_us: int) -> None:
    """window_start and window_end, where no table has columns of these names."""
    now = typed(exp.CurrentTimestamp(), TIMESTAMP)
    scope.named["window_start"] = typed(exp.Sub(this=now.copy(), expression=constant(width_us, DURATION)), TIMESTAMP)
    scope.named["window_end"] = now


# -- TUMBLE(d) and SLIDE(d, step): half-open windows aligned to the epoch, with the columns window_start and window_end;
# SESSION(d): readings of a group that are at most d apart

# In how many windows of SLIDE a row may be.
MOST_OVERLAP = 1000


def bind_tumble(select: exp.Select, scope: Scope, binder: ExpressionBinder) -> None:
    """Replace TUMBLE or SLIDE in GROUP BY by the start of the row's window, and name both ends."""
    group = select.args.get("group")
    for node in list(group.expressions) if group is not None else []:
        if not isinstance(node, exp.Anonymous) or node.name.upper() not in ("TUMBLE", "SLIDE", "SESSION"):
            continue
        name = node.name.upper()
        if scope.panes is not None and (scope.panes.session_us or name == "SESSION"):
            hint = "leave one of them out"
            binder.fail(node, error("invalid_window", detail="SESSION stands beside no other window", hint=hint))
        width, step = _durations(node, name, scope, binder)
        try:
            time = binder.bind(exp.column("ts"), scope)
        except PenstockError as failure:
            failure.line = None
            binder.fail(node, failure)
        if type_of(time) != TIMESTAMP:
            binder.fail(node, error("type_mismatch", detail=f"{name} needs a stream with a time"))
        if name == "SESSION":
            scope.panes = _session(time, width)
        else:
            start = _start(time, width) if width == step else _sliding_start(time, width, step)
            end = _moved(exp.Add, start.copy(), constant(width, BIGINT))
            scope.panes = PaneEdges(start, end, width, step, start)
        scope.named["window_start"] = scope.panes.start
        scope.named["window_end"] = scope.panes.end
        node.replace(scope.panes.key.copy())


def bind_landmark(select: exp.Select, scope: Scope, binder: ExpressionBinder) -> None:
    """Replace LANDMARK (condition) in GROUP BY by what stands for the start of the row's window, and name both ends."""
    group = select.args.get("group")
    for node in list(group.expressions) if group is not None else []:
        if not isinstance(node, exp.Anonymous) or node.name.upper() != "LANDMARK":
            continue
        if len(node.expressions) != 1:
            hint = "write GROUP BY LANDMARK (event = 'shift')"
            binder.fail(node, error("syntax_error", detail="LANDMARK takes one condition", hint=hint))
        if scope.panes is not None:
            detail = "GROUP BY has two windows"
            binder.fail(node, error("invalid_window", detail=detail, hint="leave one of them out"))
        condition = binder.predicate(node.expressions[0], scope, "LANDMARK")
        for source in scope.sources:  # it is about readings, whatever is counted
            source.needs_stream = source.needs_stream or source.kind == "sensors"
        start = placed(typed(exp.Anonymous(this="landmark_start", expressions=[condition]), TIMESTAMP), node)
        end = typed(exp.Anonymous(this="landmark_end", expressions=[start.copy()]), TIMESTAMP)
        scope.panes = PaneEdges(start, end, 0, 0, start, landmark=condition)
        scope.named["window_start"] = start
        scope.named["window_end"] = end
        node.replace(start.copy())


def _durations(node: exp.Anonymous, name: str, scope: Scope, binder: ExpressionBinder) -> tuple[int, int]:
    """Width and step."""
    given = [binder.coerce(binder.bind(e, scope), DURATION) for e in node.expressions]
    found = [each.value for each in given if isinstance(each, Const) and each.value > 0]
    if name in ("TUMBLE", "SESSION") and len(found) == len(given) == 1:
        if name == "SESSION" and not LEAST_GAP_US <= found[0] <= MOST_GAP_US:
            detail = "readings of a session are at least a millisecond and at most 10 days apart"
            binder.fail(node, error("invalid_window", detail=detail, hint="write SESSION(30 SECONDS)"))
        return found[0], found[0]
    if name == "SLIDE" and len(found) == len(given) == 2:
        if found[1] <= found[0] and found[0] <= MOST_OVERLAP * found[1]:
            return found[0], found[1]
        detail = f"a step is between 1/{MOST_OVERLAP} of the window and all of it"
        binder.fail(node, error("invalid_window", detail=detail, hint="write SLIDE(1 MINUTE, 10 SECONDS)"))
    if name != "SLIDE":
        example = "TUMBLE(1 MINUTE)" if name == "TUMBLE" else "SESSION(30 SECONDS)"
        binder.fail(node, error("syntax_error", detail=f"{name} takes one duration", hint=f"write {example}"))
    hint = "write SLIDE(1 MINUTE, 10 SECONDS)"
    binder.fail(node, error("syntax_error", detail="SLIDE takes a window and perhaps a step", hint=hint))


def _session(time: exp.Expr, gap_us: int) -> PaneEdges:
    """A session as Spark's own function says it, which groups by the struct of both its edges."""
    edges = Type("STRUCT", fields=(Field("start", TIMESTAMP), Field("end", TIMESTAMP)))
    key = typed(call_of("session_window", time, constant(f"{gap_us} microseconds", TEXT)), edges)
    start, end = (
        typed(exp.Dot(this=key.copy(), expression=exp.Identifier(this=name)), TIMESTAMP) for name in ("start", "end")
    )
    width = piece_width(gap_us)
    return PaneEdges(start, end, width, width, key, gap_us)


def _sliding_start(time: exp.Expr, width_us: int, step_us: int) -> exp.Expr:
    """The start of each of a row's windows: Spark's own function gives one row per window."""
    lengths = [constant(f"{us} microseconds", TEXT) for us in (width_us, step_us)]
    return typed(exp.Dot(this=call_of("window", time, *lengths), expression=exp.Identifier(this="start")), TIMESTAMP)


def _start(time: exp.Expr, width_us: int) -> exp.Expr:
    rest = typed(call_of("pmod", micros_of(time.copy()), constant(width_us, BIGINT)), BIGINT)
    return _moved(exp.Sub, time, rest)


def _moved(how: type[exp.Binary], time: exp.Expr, us: exp.Expr) -> exp.Expr:
    moved = typed(how(this=micros_of(time), expression=us), BIGINT)
    return typed(call_of("timestamp_micros", moved), TIMESTAMP)
