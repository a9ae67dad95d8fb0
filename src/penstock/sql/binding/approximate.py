"""Approximate aggregates (APPROX_COUNT ..): their arguments, their error bounds, and APPROX_ERROR beside them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sqlglot import exp

from penstock.errors import error
from penstock.operators.aggregate.approximate.histogram import BARS_MAX, edges_of
from penstock.sql.binding.coercion import Coercion
from penstock.sql.binding.context import BoundQuery
from penstock.sql.binding.names import output_name
from penstock.sql.nodes import Const, OwnWindow, WithinPercent
from penstock.sql.positions import placed
from penstock.sql.scope import Scope, fold
from penstock.sql.values import constant, external, show, type_of, typed
from penstock.types import BIGINT, DOUBLE, Field, Type

ERROR_OF = "approx_error"
ERROR = "_error"


@dataclass(frozen=True, slots=True)
class Signature:
    """What an approximate aggregate takes beside its value: something special, and the error.

    `special` and `epsilon` are (least, most, what is taken if it is not said; None: it has to be).
    """

    example: str
    result: Callable[[Type], Type]
    epsilon: tuple[float, float, float]
    special: tuple[str, float, float, float | None] | None = None
    numbers: bool = False
    rows: bool = False
    said: bool = True  # whether the error can be said
    edges: bool = False  # whether a least and a largest value stand in front of what is special


def _top(item: Type) -> Type:
    return Type("ARRAY", element=Type("STRUCT", fields=(Field("item", item), Field("count", BIGINT))))


_BAR = Type("STRUCT", fields=(Field("low", DOUBLE), Field("high", DOUBLE), Field("count", BIGINT)))
APPROXIMATE: dict[str, Signature] = {
    "approx_count": Signature("APPROX_COUNT(*, 0.01)", lambda t: BIGINT, (0.0001, 0.5, 0.01), rows=True),
    "approx_sum": Signature("APPROX_SUM(x, 0.01)", lambda t: DOUBLE, (0.0001, 0.5, 0.01), numbers=True),
    "approx_avg": Signature("APPROX_AVG(x, 0.01)", lambda t: DOUBLE, (0.0001, 0.5, 0.01), numbers=True),
    "approx_distinct": Signature("APPROX_DISTINCT(x, 0.05)", lambda t: BIGINT, (0.01, 0.5, 0.05)),
    "approx_percentile": Signature(
        "APPROX_PERCENTILE(x, 0.95, 0.01)",
        lambda t: DOUBLE,
        (0.002, 0.5, 0.01),
        ("a fraction", 0.0, 1.0, None),
        numbers=True,
    ),
    "approx_top_k": Signature(
        "APPROX_TOP_K(x, 5)", _top, (0.0, 0.0, 0.0), ("a number of values", 1.0, 100.0, None), said=False
    ),
    "approx_histogram": Signature(
        "APPROX_HISTOGRAM(x, 0, 100, 20, 0.01)",
        lambda t: Type("ARRAY", element=_BAR),
        (0.0001, 0.5, 0.01),
        ("a number of bars", 1.0, BARS_MAX, None),
        numbers=True,
        edges=True,
    ),
    "approx_norm": Signature("APPROX_NORM(x, 2, 0.25)", lambda t: DOUBLE, (0.1, 0.9, 0.25), ("p", 1.0, 2.0, 2.0)),
}
_WHOLE = {"approx_top_k": "values", "approx_histogram": "bars"}
_TOP_KINDS = ("INT", "BIGINT", "DOUBLE", "TEXT")


def is_approximate_call(node: exp.Expr) -> bool:
    return isinstance(node, exp.Anonymous) and node.name.removesuffix(ERROR) in APPROXIMATE


def bind_approximate(binder: Coercion, node: exp.Anonymous, scope: Scope) -> exp.Expr:
    """The call with its value first (or `*`), then what is special (0 where nothing is) and the error, both constant."""
    name = node.name.lower()
    if name == ERROR_OF:
        return _bind_error(binder, node, scope)
    signature = APPROXIMATE[name]
    least = 1 + (signature.special is not None and signature.special[3] is None) + 2 * signature.edges
    most = 1 + (signature.special is not None) + signature.said + 2 * signature.edges
    if not least <= len(node.expressions) <= most or any(isinstance(e, exp.Distinct) for e in node.expressions):
        detail = f"{name.upper()} takes {least} to {most} arguments"
        binder.fail(node, error("syntax_error", detail=detail, hint=f"write {signature.example}"))
    first, *others = node.expressions
    value = _value(binder, signature, name, first, scope)
    edges = _edges(binder, others, scope, signature) if signature.edges else ()
    special = 0.0
    if signature.special is not None:
        words, low, high, usual = signature.special
        if others or usual is None:
            special = _number(binder, others.pop(0), scope, (low, high), f"{name.upper()} takes {words}")
            if name in _WHOLE and special != int(special):
                binder.fail(
                    node, error("type_mismatch", detail=f"{name.upper()} takes a whole number of {_WHOLE[name]}")
                )
        else:
            special = usual
    low, high, epsilon = signature.epsilon
    if others:
        epsilon = _number(binder, others[0], scope, (low, high), f"the error of {name.upper()} is")
    if edges and (np.diff(edges_of(*edges, int(special))) <= 0).any():
        detail = f"{special:g} bars between {edges[0]:g} and {edges[1]:g} have no width"
        binder.fail(node, error("type_mismatch", detail=detail, hint=f"write {signature.example}"))
    if name == "approx_top_k":
        epsilon = 1 / (8 * special)
    item = DOUBLE if isinstance(value, exp.Star) else external(type_of(value))
    numbers = [constant(number, DOUBLE) for number in (special, epsilon, *edges)]
    bound = exp.Anonymous(this=name, expressions=[value, *numbers])
    bound.meta["aggregate"] = True
    return typed(placed(bound, node), signature.result(item))


def _value(binder: Coercion, signature: Signature, name: str, node: exp.Expr, scope: Scope) -> exp.Expr:
    if isinstance(node, exp.Star):
        if not signature.rows:
            binder.fail(node, error("type_mismatch", detail=f"{name.upper()} takes a value, not *"))
        return exp.Star()
    value = binder.bind(node, scope)
    kind = external(type_of(value)).kind
    good = kind in ("INT", "BIGINT", "DOUBLE") if signature.numbers else kind not in ("ARRAY", "STRUCT")
    if name == "approx_top_k":
        good = kind in _TOP_KINDS
    if signature.numbers and kind == "DECIMAL":
        return binder.coerce(value, DOUBLE)
    if not good and not signature.rows:
        detail = f"{name.upper()} does not work on {show(type_of(value))}"
        binder.fail(node, error("type_mismatch", detail=detail))
    return value


def _edges(binder: Coercion, others: list[exp.Expr], scope: Scope, signature: Signature) -> tuple[float, float]:
    """The least and the largest value, taken from the front of the other arguments."""
    limits, words = (-sys.float_info.max / 4, sys.float_info.max / 4), "the ends of a histogram are"
    nodes = [others.pop(0), others.pop(0)]
    low, high = (_number(binder, node, scope, limits, words) for node in nodes)
    if low >= high:
        detail = f"a histogram begins below its end; {low:g} is not below {high:g}"
        binder.fail(nodes[1], error("type_mismatch", detail=detail, hint=f"write {signature.example}"))
    return low, high


def _number(binder: Coercion, node: exp.Expr, scope: Scope, limits: tuple[float, float], words: str) -> float:
    bound: Any = binder.bind(node, scope)
    low, high = limits
    value = bound.value if isinstance(bound, Const) else None
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        detail = f"{words} between {low:g} and {high:g}, and constant"
        binder.fail(node, error("type_mismatch", detail=detail))
    return float(value)


def _bind_error(binder: Coercion, node: exp.Anonymous, scope: Scope) -> exp.Expr:
    inner = node.expressions[0] if len(node.expressions) == 1 else None
    if not _is_call(inner):
        detail = "APPROX_ERROR takes an approximate aggregate, or the name of a column that is one"
        hint = "write SELECT APPROX_COUNT(*, 0.01) AS n, APPROX_ERROR(n)"
        binder.fail(node, error("syntax_error", detail=detail, hint=hint))
    whole = binder.bind(inner, scope)  # type: ignore[arg-type]
    bound = whole.this if isinstance(whole, OwnWindow) else whole
    bound.set("this", bound.name + ERROR)
    typed(bound, DOUBLE)
    return typed(whole, DOUBLE)


def _is_call(node: exp.Expr | None) -> bool:
    return isinstance(node, exp.Anonymous) and node.name.lower() in APPROXIMATE


def write_out_errors(select: exp.Select) -> None:
    """APPROX_ERROR(name) with what the name stands for, and WITH ERROR as columns of their own."""
    called = {output_name(item): item.unalias() for item in select.expressions if _is_call(item.unalias())}
    having = select.args.get("having")
    for item in [*select.expressions, *([having] if having is not None else [])]:
        for node in list(item.find_all(exp.Anonymous)):
            if node.name.lower() != ERROR_OF or len(node.expressions) != 1:
                continue
            (given,) = node.expressions
            named = fold(given.this) if isinstance(given, exp.Column) and len(given.parts) == 1 else output_name(given)
            if isinstance(given, exp.Column) and named in called:
                node.set("expressions", [called[named].copy()])
            if node is item:
                items = list(select.expressions)
                items[[id(i) for i in items].index(id(item))] = exp.alias_(node.copy(), named + ERROR, quoted=True)
                select.set("expressions", items)
    if select.args.get("with_error"):
        for name, call in called.items():
            extra = exp.Anonymous(this=ERROR_OF.upper(), expressions=[call.copy()])
            select.append("expressions", exp.alias_(extra, name + ERROR, quoted=True))
        select.set("with_error", None)


_BOUNDS = "penstock.bounds"


def write_out_bounds(select: exp.Select) -> None:
    """WITH BOUNDS: two more columns for each that is an aggregate, so far the same as it. Exact answers are their own bounds."""
    within = select.args.get("within")
    if not isinstance(within, WithinPercent) or not within.args.get("bounds"):
        return
    said = {}
    for item in list(select.expressions):
        if not isinstance(item.unalias(), exp.AggFunc):
            continue
        for which in ("lower", "upper"):
            said[len(select.expressions)] = which
            extra = exp.alias_(item.unalias().copy(), f"{output_name(item)}_{which}", quoted=True)
            select.append("expressions", extra)
    select.meta[_BOUNDS] = said


def says(select: exp.Query, place: int) -> str:
    """What a column of the answer says of its aggregate: the value, or one of its bounds."""
    found: str = select.meta.get(_BOUNDS, {}).get(place, "value")
    return found


def check_within(bound: BoundQuery) -> None:
    """Refuse WITHIN where there is no correlated aggregate; exact answers keep it, too."""
    contexts = bound.collected.contexts
    for context in contexts:
        within = context.select.args.get("within")
        if not isinstance(within, WithinPercent) or context.inlined:
            continue
        correlated = context.aggregated and any(c.role == "scalar" and c.aggregated for c in contexts)
        if context.role != "top" or not correlated:
            hint = (
                "it stands behind aggregates of the rows that a subquery picks; APPROX_COUNT, APPROX_SUM have an error"
            )
            context.fail(within, error("not_supported", feature="WITHIN n PERCENT here", hint=hint))
