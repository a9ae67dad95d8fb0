"""GROUP BY TUMBLE(d) and SLIDE(d, step): half-open windows aligned to the epoch, with the columns window_start and window_end."""

from __future__ import annotations

from sqlglot import exp

from penstock.errors import PenstockError, error
from penstock.sql.binding.expressions import ExpressionBinder
from penstock.sql.nodes import Const
from penstock.sql.scope import PaneEdges, Scope
from penstock.sql.values import DURATION, constant, type_of, typed
from penstock.types import BIGINT, TEXT, TIMESTAMP, Type

# In how many windows of SLIDE a row may be.
MOST_OVERLAP = 1000


def bind_tumble(select: exp.Select, scope: Scope, binder: ExpressionBinder) -> None:
    """Replace TUMBLE or SLIDE in GROUP BY by the start of the row's window, and name both ends."""
    group = select.args.get("group")
    for node in list(group.expressions) if group is not None else []:
        if not isinstance(node, exp.Anonymous) or node.name.upper() not in ("TUMBLE", "SLIDE"):
            continue
        name = node.name.upper()
        width, step = _durations(node, name, scope, binder)
        try:
            time = binder.bind(exp.column("ts"), scope)
        except PenstockError as failure:
            failure.line = None
            binder.fail(node, failure)
        if type_of(time) != TIMESTAMP:
            binder.fail(node, error("type_mismatch", detail=f"{name} needs a stream with a time"))
        start = _start(time, width) if width == step else _sliding_start(time, width, step)
        end = _call(
            "timestamp_micros",
            typed(
                exp.Add(this=_call("unix_micros", start.copy(), BIGINT), expression=constant(width, BIGINT)),
                BIGINT,
            ),
            TIMESTAMP,
        )
        scope.panes = PaneEdges(start, end, width, step)
        scope.named["window_start"] = start
        scope.named["window_end"] = end
        node.replace(start.copy())


def _durations(node: exp.Anonymous, name: str, scope: Scope, binder: ExpressionBinder) -> tuple[int, int]:
    """Width and step."""
    given = [binder.coerce(binder.bind(e, scope), DURATION) for e in node.expressions]
    found = [each.value for each in given if isinstance(each, Const) and each.value > 0]
    if name == "TUMBLE" and len(found) == len(given) == 1:
        return found[0], found[0]
    if name == "SLIDE" and len(found) == len(given) == 2:
        if found[1] <= found[0] and found[0] <= MOST_OVERLAP * found[1]:
            return found[0], found[1]
        detail = f"a step is between 1/{MOST_OVERLAP} of the window and all of it"
        binder.fail(node, error("invalid_window", detail=detail, hint="write SLIDE(1 MINUTE, 10 SECONDS)"))
    if name == "TUMBLE":
        binder.fail(node, error("syntax_error", detail="TUMBLE takes one duration", hint="write TUMBLE(1 MINUTE)"))
    hint = "write SLIDE(1 MINUTE, 10 SECONDS)"
    binder.fail(node, error("syntax_error", detail="SLIDE takes a window and perhaps a step", hint=hint))


def _sliding_start(time: exp.Expr, width_us: int, step_us: int) -> exp.Expr:
    """The start of each of a row's windows: Spark's own function gives one row per window."""
    lengths = [constant(f"{us} microseconds", TEXT) for us in (width_us, step_us)]
    window = exp.Anonymous(this="window", expressions=[time, *lengths])
    return typed(exp.Dot(this=window, expression=exp.Identifier(this="start")), TIMESTAMP)


def _start(time: exp.Expr, width_us: int) -> exp.Expr:
    micros = _call("unix_micros", time, BIGINT)
    rest = typed(exp.Anonymous(this="pmod", expressions=[micros.copy(), constant(width_us, BIGINT)]), BIGINT)
    return _call("timestamp_micros", typed(exp.Sub(this=micros, expression=rest), BIGINT), TIMESTAMP)


def _call(name: str, argument: exp.Expr, result: Type) -> exp.Expr:
    return typed(exp.Anonymous(this=name, expressions=[argument]), result)
