"""`condition FOR 30 SECONDS`: what it may say, and which part of it has to hold."""

from __future__ import annotations

from sqlglot import exp

from penstock.errors import error
from penstock.sql.binding.coercion import Coercion
from penstock.sql.nodes import Hold
from penstock.sql.scope import BoundSource, Scope
from penstock.sql.values import typed
from penstock.types import BOOLEAN

_EXAMPLE = "WHERE ppm > 35 FOR 30 SECONDS, or AND (a.ppm > 35 FOR 30 SECONDS) among others"


def bind_held(binder: Coercion, node: Hold, scope: Scope) -> exp.Expr:
    """The bound condition. Its static part chooses the sensors and stands beside it: only the rest has to hold."""
    if not isinstance(node.find_ancestor(exp.Where, exp.Select, exp.Join, exp.Having), exp.Where):
        binder.fail(node, error("not_supported", feature="FOR outside of WHERE", hint=_EXAMPLE))
    if node.us <= 0:
        binder.fail(node, error("invalid_duration", text="0 SECONDS", hint="a condition holds for some time"))
    inner = node.this.unnest() if isinstance(node.this, exp.Paren) else node.this
    bound = binder.predicate(inner, scope, "FOR")
    inside = bound.find(exp.Query, Hold)
    if inside is not None:
        what = "FOR inside FOR" if isinstance(inside, Hold) else "a subquery in a condition that has to hold"
        binder.fail(node, error("not_supported", feature=what))
    source = _stream_of(binder, node, bound, scope)
    parts = _conjuncts(bound)
    static = [part for part in parts if _is_static(part)]
    holding = [part for part in parts if not _is_static(part)]
    if not holding:
        hint = "name a field of the stream: static columns change with the row, not with readings"
        binder.fail(node, error("invalid_window", detail="FOR wants a condition on readings", hint=hint))
    source.needs_stream = True
    held = typed(Hold(this=_all(holding), us=str(node.us)), BOOLEAN)
    held.meta["source"] = source
    return _all([*static, held])


def _stream_of(binder: Coercion, node: Hold, bound: exp.Expr, scope: Scope) -> BoundSource:
    """The one stream that the condition is about."""
    sources = {column.meta.get("source") for column in bound.find_all(exp.Column)}
    found = next(iter(sources), None)
    if len(sources) != 1 or not isinstance(found, BoundSource) or found.kind != "sensors" or found not in scope.sources:
        hint = f"readings of one sensor are looked at in their order; write {_EXAMPLE}"
        failure = error("invalid_window", detail="FOR wants a condition on the readings of one stream", hint=hint)
        binder.fail(node, failure)
    return found


def _is_static(part: exp.Expr) -> bool:
    return all(column.meta.get("origin") == "static" for column in part.find_all(exp.Column))


def _conjuncts(node: exp.Expr) -> list[exp.Expr]:
    if isinstance(node, exp.Paren):
        return _conjuncts(node.this)
    if isinstance(node, exp.And):
        return [*_conjuncts(node.this), *_conjuncts(node.expression)]
    return [node]


def _all(parts: list[exp.Expr]) -> exp.Expr:
    whole = _grouped(parts[0])
    for part in parts[1:]:
        whole = typed(exp.And(this=whole, expression=_grouped(part)), BOOLEAN)
    return whole


def _grouped(part: exp.Expr) -> exp.Expr:
    return typed(exp.Paren(this=part), BOOLEAN) if isinstance(part, exp.Or) else part
