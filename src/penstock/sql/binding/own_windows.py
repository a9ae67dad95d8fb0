"""Windows of single aggregates: a duration behind the other arguments, as in PERCENTILE(x, 0.9, 5 MINUTES)."""

from __future__ import annotations

from sqlglot import exp

from penstock.errors import error
from penstock.sql.binding.approximate import APPROXIMATE
from penstock.sql.binding.functions import SPARK_AGGREGATES
from penstock.sql.nodes import Duration, OwnWindow
from penstock.sql.positions import point, span_of
from penstock.sql.values import type_of, typed


def written_inside(call: exp.Anonymous, text: str) -> OwnWindow | None:
    """The window of an aggregate that sqlglot does not know as one; None where it has none.

    No argument of an aggregate is a duration, so the last one can mean nothing else.
    """
    name = call.name.lower()
    given = call.expressions[-1] if len(call.expressions) > 1 else None
    if not isinstance(given, Duration) or not (name in SPARK_AGGREGATES or name in APPROXIMATE):
        return None
    if given.us <= 0:
        detail = "an aggregate's window is longer than nothing"
        raise point(error("invalid_window", detail=detail), text, span_of(given))
    plain = call.copy()
    plain.set("expressions", plain.expressions[:-1])
    return OwnWindow(this=plain, us=given.us)


def windowed(aggregate: exp.Expr, us: int, at: exp.Expr) -> exp.Expr:
    """A bound aggregate over a window of its own; errors point at where it was written."""
    bound = OwnWindow(this=aggregate, us=us)
    where = span_of(at)
    if where is not None:
        bound.meta.update(start=where.start, end=where.end - 1)
    return typed(bound, type_of(aggregate))
