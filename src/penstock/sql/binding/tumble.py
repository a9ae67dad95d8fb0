"""GROUP BY TUMBLE(d): half-open windows aligned to the epoch, with the columns window_start and window_end."""

from __future__ import annotations

from sqlglot import exp

from penstock.errors import PenstockError, error
from penstock.sql.binding.expressions import ExpressionBinder
from penstock.sql.nodes import Const
from penstock.sql.scope import PaneEdges, Scope
from penstock.sql.values import DURATION, constant, type_of, typed
from penstock.types import BIGINT, TIMESTAMP, Type


def bind_tumble(select: exp.Select, scope: Scope, binder: ExpressionBinder) -> None:
    """Replace TUMBLE in GROUP BY by the start of the row's window, and name both ends."""
    group = select.args.get("group")
    for node in list(group.expressions) if group is not None else []:
        if not isinstance(node, exp.Anonymous) or node.name.upper() not in ("TUMBLE", "SLIDE", "LATCH"):
            continue
        name = node.name.upper()
        if name != "TUMBLE":
            hint = "use TUMBLE(d), or a sliding window BEGIN (NOW - d) END (NOW)"
            binder.fail(node, error("not_supported", feature=name, hint=hint))
        width = binder.coerce(binder.bind(node.expressions[0], scope), DURATION) if node.expressions else None
        if len(node.expressions) != 1 or not isinstance(width, Const) or width.value <= 0:
            binder.fail(node, error("syntax_error", detail="TUMBLE takes one duration", hint="write TUMBLE(1 MINUTE)"))
        try:
            time = binder.bind(exp.column("ts"), scope)
        except PenstockError as failure:
            failure.line = None
            binder.fail(node, failure)
        if type_of(time) != TIMESTAMP:
            binder.fail(node, error("type_mismatch", detail="TUMBLE needs a stream with a time"))
        start = _start(time, width.value)
        end = _call(
            "timestamp_micros",
            typed(
                exp.Add(this=_call("unix_micros", start.copy(), BIGINT), expression=constant(width.value, BIGINT)),
                BIGINT,
            ),
            TIMESTAMP,
        )
        scope.panes = PaneEdges(start, end, width.value, width.value)
        scope.named["window_start"] = start
        scope.named["window_end"] = end
        node.replace(start.copy())


def _start(time: exp.Expr, width_us: int) -> exp.Expr:
    micros = _call("unix_micros", time, BIGINT)
    rest = typed(exp.Anonymous(this="pmod", expressions=[micros.copy(), constant(width_us, BIGINT)]), BIGINT)
    return _call("timestamp_micros", typed(exp.Sub(this=micros, expression=rest), BIGINT), TIMESTAMP)


def _call(name: str, argument: exp.Expr, result: Type) -> exp.Expr:
    return typed(exp.Anonymous(this=name, expressions=[argument]), result)
