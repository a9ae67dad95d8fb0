"""RESAMPLE(value, within[, PREVIOUS | LINEAR | MEAN]): what it takes."""

from __future__ import annotations

from sqlglot import exp

from penstock.errors import error, suggest
from penstock.expr.windows import FOREVER
from penstock.sql.binding.coercion import Coercion
from penstock.sql.nodes import Const, Resample
from penstock.sql.positions import span_of
from penstock.sql.scope import Scope
from penstock.sql.values import DURATION, show, type_of, typed
from penstock.types import DOUBLE

RESAMPLE = "resample"
METHODS = ("previous", "linear", "mean")
_EXAMPLE = "write RESAMPLE(p.ppm, 30 SECONDS, LINEAR)"


def bind_resample(binder: Coercion, node: exp.Anonymous, scope: Scope) -> exp.Expr:
    """The call with its value bound. Which stream gives the times is known once the whole SELECT is."""
    if len(node.expressions) not in (2, 3):
        detail = "RESAMPLE takes a value, a duration and how: PREVIOUS, LINEAR or MEAN"
        binder.fail(node, error("syntax_error", detail=detail, hint=_EXAMPLE))
    value = binder.bind(node.expressions[0], scope)
    within = binder.coerce(binder.bind(node.expressions[1], scope), DURATION)
    if not isinstance(within, Const) or within.value is None or within.value <= 0:
        binder.fail(node.expressions[1], error("syntax_error", detail="RESAMPLE needs a duration", hint=_EXAMPLE))
    if within.value >= FOREVER // 2:  # so far from a time there are none
        binder.fail(node.expressions[1], error("syntax_error", detail="this duration is too long", hint=_EXAMPLE))
    method = _method(binder, node.expressions[2]) if len(node.expressions) == 3 else METHODS[0]
    if method != "previous" and type_of(value).kind not in ("INT", "BIGINT", "DOUBLE", "DECIMAL"):
        detail = f"{method.upper()} works on numbers, this is {show(type_of(value))}"
        binder.fail(node.expressions[0], error("type_mismatch", detail=detail, hint="PREVIOUS takes any value"))
    for source in scope.sources:
        source.needs_stream = source.needs_stream or source.kind == "sensors"
    bound = Resample(this=value, us=within.value, method=method)
    where = span_of(node)
    if where is not None:
        bound.meta.update(start=where.start, end=where.end - 1)
    return typed(bound, type_of(value) if method == "previous" else DOUBLE)


def _method(binder: Coercion, node: exp.Expr) -> str:
    """A word, as it is or in quotes."""
    plain = isinstance(node, exp.Column) and len(node.parts) == 1
    word = node.name.lower() if plain or isinstance(node, exp.Literal) else ""
    if word not in METHODS:
        hint = suggest(word, METHODS) or "ways to resample are PREVIOUS, LINEAR and MEAN"
        binder.fail(node, error("syntax_error", detail=f'RESAMPLE does not know "{word}"', hint=hint))
    return word
