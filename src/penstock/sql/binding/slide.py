"""GROUP BY SLIDE(d) without a step: one window per group, the last d up to NOW, that moves with every cycle."""

from __future__ import annotations

from sqlglot import exp

from penstock.errors import error
from penstock.sql.binding.expressions import ExpressionBinder
from penstock.sql.nodes import BeginEnd, BeginEnds, Const, WindowEdge
from penstock.sql.scope import Scope
from penstock.sql.values import DURATION, constant, typed
from penstock.types import TIMESTAMP

_EXAMPLE = "write SLIDE(1 MINUTE, 10 SECONDS)"


def take_slide(select: exp.Select, binder: ExpressionBinder) -> int | None:
    """Write SLIDE(d) as BEGIN (NOW - d) END (NOW), which it means; how long it is, or None where there is none."""
    group = select.args.get("group")
    if group is None:
        return None
    for node in list(group.expressions):
        if not isinstance(node, exp.Anonymous) or node.name.upper() != "SLIDE" or len(node.expressions) != 1:
            continue
        given = binder.coerce(binder.bind(node.expressions[0], Scope()), DURATION)
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
