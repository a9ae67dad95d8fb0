"""Bind what is true or false: comparisons, IN, IS, LIKE, and how AND, OR and NOT join them."""

from __future__ import annotations

from sqlglot import exp

from penstock.errors import error
from penstock.functions.regular_expressions import backslash_pattern, check_like
from penstock.sql.binding.coercion import Bound, Coercion
from penstock.sql.binding.context import Role
from penstock.sql.binding.window_joins import windows_passed
from penstock.sql.bound_trees import conjunction, conjuncts
from penstock.sql.nodes import SIMILAR, Const, Hold
from penstock.sql.patterns import similar_pattern
from penstock.sql.scope import BoundSource, Scope
from penstock.sql.values import NULL, constant, show, type_of, typed
from penstock.types import BOOLEAN, TEXT, Field


def bind_connector(binder: Coercion, node: exp.Connector, scope: Scope) -> Bound:
    """AND and OR."""
    # A long chain leans to the left; walk it in a loop, not in recursion.
    terms: list[exp.Expr] = []
    inner: exp.Expr = node
    while type(inner) is type(node):
        terms.append(inner.expression)
        inner = inner.this
    word = "AND" if isinstance(node, exp.And) else "OR"
    bound = binder.predicate(inner, scope, word)
    for term in reversed(terms):
        bound = typed(type(node)(this=bound, expression=binder.predicate(term, scope, word)), BOOLEAN)
    return bound


def bind_not(binder: Coercion, node: exp.Not, scope: Scope) -> Bound:
    bound = binder.predicate(node.this, scope, "NOT")
    negated = typed(exp.Not(this=bound), BOOLEAN)
    passed = windows_passed(bound)
    for condition in passed:
        negated = typed(exp.And(this=negated, expression=condition), BOOLEAN)
    return typed(exp.Paren(this=negated), BOOLEAN) if passed else negated


def bind_comparison(binder: Coercion, node: exp.Binary, scope: Scope) -> Bound:
    if isinstance(node.expression, exp.Any | exp.All):
        binder.fail(node.expression, error("not_supported", feature="ANY or ALL", hint="use IN or EXISTS"))
    left, right = binder.unify([binder.bind(node.this, scope), binder.bind(node.expression, scope)], node, "compare")
    return typed(type(node)(this=left, expression=right), BOOLEAN)


def bind_between(binder: Coercion, node: exp.Between, scope: Scope) -> Bound:
    parts = [binder.bind(part, scope) for part in (node.this, node.args["low"], node.args["high"])]
    value, low, high = binder.unify(parts, node, "compare")
    if node.args.get("symmetric"):
        low, high = (
            typed(exp.Least(this=low.copy(), expressions=[high.copy()]), type_of(low)),
            typed(exp.Greatest(this=low.copy(), expressions=[high.copy()]), type_of(low)),
        )
    above = typed(exp.GTE(this=value, expression=low), BOOLEAN)
    below = typed(exp.LTE(this=value.copy(), expression=high), BOOLEAN)
    return typed(exp.Paren(this=typed(exp.And(this=above, expression=below), BOOLEAN)), BOOLEAN)


def bind_in(binder: Coercion, node: exp.In, scope: Scope) -> Bound:
    value = binder.bind(node.this, scope)
    query = node.args.get("query")
    if query is not None:
        inner = query.unnest() if isinstance(query, exp.Subquery) else query
        columns = subquery_columns(binder, inner, scope, "in")
        if len(columns) != 1:
            detail = f"the subquery of IN has {len(columns)} columns instead of one"
            binder.fail(inner, error("type_mismatch", detail=detail))
        target = binder.common_type(type_of(value), columns[0].type, node, "compare")
        return typed(exp.In(this=binder.coerce(value, target), query=exp.Subquery(this=inner)), BOOLEAN)
    if node.args.get("unnest") or node.args.get("field"):
        binder.fail(node, error("not_supported", feature="IN without a list", hint="write IN (1, 2, 3)"))
    items = [binder.bind(item, scope) for item in node.expressions]
    value, *items = binder.unify([value, *items], node, "compare")
    return typed(exp.In(this=value, expressions=items), BOOLEAN)


def bind_is(binder: Coercion, node: exp.Is, scope: Scope) -> Bound:
    value = binder.bind(node.this, scope)
    if isinstance(node.expression, exp.Boolean):
        value = binder.coerce(value, BOOLEAN)
        bound = typed(exp.Is(this=value, expression=exp.Boolean(this=node.expression.this)), BOOLEAN)
    elif isinstance(node.expression, exp.Null):
        bound = typed(exp.Is(this=value, expression=exp.Null()), BOOLEAN)
    else:
        binder.fail(node, error("not_supported", feature=type(node).__name__))
    return typed(exp.Not(this=bound), BOOLEAN) if node.args.get("negate") else bound


def bind_like(binder: Coercion, node: exp.Binary, scope: Scope, escape: str = "\\") -> Bound:
    """LIKE and ILIKE. A constant pattern has backslashes instead of another escape character."""
    value, pattern = (binder.coerce(side, TEXT) for side in _texts(binder, node, scope, type(node).__name__.upper()))
    if isinstance(pattern, Const) and pattern.value is not None:
        pattern = constant(backslash_pattern(pattern.value, escape), TEXT, pattern)
        with binder.pointing(node.expression):
            check_like(pattern.value)
    bound = typed(type(node)(this=value, expression=pattern), BOOLEAN)
    if escape != "\\" and not isinstance(pattern, Const):
        bound = typed(exp.Escape(this=bound, expression=constant(escape, TEXT)), BOOLEAN)
    return typed(exp.Not(this=bound), BOOLEAN) if node.args.get("negate") else bound


def _texts(binder: Coercion, node: exp.Binary, scope: Scope, words: str) -> list[Bound]:
    """Both sides, bound, of what works on texts alone."""
    sides = [binder.bind(side, scope) for side in (node.this, node.expression)]
    for side, original in zip(sides, (node.this, node.expression), strict=True):
        if type_of(side) not in (TEXT, NULL):
            detail = f"{words} works on TEXT, this is {show(type_of(side))}"
            binder.fail(original, error("type_mismatch", detail=detail))
    return sides


def bind_similar(binder: Coercion, node: exp.Binary, scope: Scope, escape: str = "\\") -> Bound:
    """SIMILAR TO as the regular expression that a whole text matches."""
    value, pattern = _texts(binder, node, scope, "SIMILAR TO")
    if not isinstance(pattern, Const):
        hint = "write the pattern as a text, or use a regular expression: a ~ b"
        binder.fail(node, error("not_supported", feature="SIMILAR TO with a pattern that is no constant", hint=hint))
    regular = None
    if pattern.value is not None:
        with binder.pointing(node.expression):
            regular = similar_pattern(pattern.value, escape)
    call = exp.Anonymous(this=SIMILAR, expressions=[binder.coerce(value, TEXT), constant(regular, TEXT)])
    return typed(call, BOOLEAN)


def bind_escape(binder: Coercion, node: exp.Escape, scope: Scope) -> Bound:
    escape = binder.bind(node.expression, scope)
    if not isinstance(escape, Const) or not isinstance(escape.value, str) or len(escape.value) > 1:
        binder.fail(node.expression, error("syntax_error", detail="ESCAPE takes one character, or none"))
    if isinstance(node.this, exp.SimilarTo):
        return bind_similar(binder, node.this, scope, escape.value)
    if not isinstance(node.this, exp.Like | exp.ILike):
        binder.fail(node, error("syntax_error", detail="ESCAPE belongs to LIKE, ILIKE or SIMILAR TO"))
    return bind_like(binder, node.this, scope, escape.value)


def bind_exists(binder: Coercion, node: exp.Exists, scope: Scope) -> Bound:
    inner = node.this.unnest() if isinstance(node.this, exp.Subquery) else node.this
    subquery_columns(binder, inner, scope, "exists")
    return typed(exp.Exists(this=inner), BOOLEAN)


def bind_scalar_subquery(binder: Coercion, node: exp.Expr, scope: Scope) -> Bound:
    inner = node.unnest() if isinstance(node, exp.Subquery) else node
    columns = subquery_columns(binder, inner, scope, "scalar")
    if len(columns) != 1:
        detail = f"a subquery used as a value has {len(columns)} columns instead of one"
        binder.fail(inner, error("type_mismatch", detail=detail))
    return typed(exp.Subquery(this=inner), columns[0].type)


def subquery_columns(binder: Coercion, query: exp.Expr, scope: Scope, role: Role) -> list[Field]:
    if binder.subquery is None or not isinstance(query, exp.Query):
        binder.fail(query, error("not_supported", feature="a subquery here"))
    return binder.subquery(query, scope, role)


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
    parts = conjuncts(bound)
    static = [part for part in parts if _is_static(part)]
    holding = [part for part in parts if not _is_static(part)]
    if not holding:
        hint = "name a field of the stream: static columns change with the row, not with readings"
        binder.fail(node, error("invalid_window", detail="FOR wants a condition on readings", hint=hint))
    source.needs_stream = True
    held = typed(Hold(this=conjunction(holding), us=str(node.us)), BOOLEAN)
    held.meta["source"] = source
    return conjunction([*static, held])


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
