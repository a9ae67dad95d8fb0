"""Bind one expression: resolve its names, give it a type, bring operands to equal types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlglot import exp

from penstock.errors import PenstockError, error, suggest
from penstock.sql import values
from penstock.sql.binding.calls import Calls, windowed
from penstock.sql.binding.coercion import Bound
from penstock.sql.binding.conditions import (
    bind_between,
    bind_comparison,
    bind_connector,
    bind_escape,
    bind_exists,
    bind_held,
    bind_in,
    bind_is,
    bind_like,
    bind_not,
    bind_scalar_subquery,
    bind_similar,
)
from penstock.sql.bound_trees import named_column, quoted
from penstock.sql.dialect import sql_of
from penstock.sql.nodes import Const, Duration, Hold, OwnWindow
from penstock.sql.positions import placed
from penstock.sql.scope import Scope, fold
from penstock.sql.values import DURATION, NULL, constant, duration_us, show, type_of, typed
from penstock.types import BIGINT, BOOLEAN, DOUBLE, INT, TEXT, TIMESTAMP, Type

_COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.NullSafeNEQ)
_ARITHMETIC = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod, exp.IntDiv)


class ExpressionBinder(Calls):
    """Binds the expressions of one text."""

    def bind(self, node: exp.Expr, scope: Scope) -> Bound:
        """The expression, bound. Raises errors that point at the offending part."""
        for kind in type(node).__mro__:
            method = _METHODS.get(kind)
            if method is not None:
                bound: Bound = method(self, node, scope)
                return bound
        if isinstance(node, exp.Func):
            return self._function(node, scope)
        self.fail(node, error("not_supported", feature=type(node).__name__))

    def predicate(self, node: exp.Expr, scope: Scope, where: str) -> Bound:
        bound = self.bind(node, scope)
        if type_of(bound) not in (BOOLEAN, NULL):
            detail = f"{where} needs a condition, this is {show(type_of(bound))}"
            self.fail(node, error("type_mismatch", detail=detail))
        return self.coerce(bound, BOOLEAN)

    def _dot(self, node: exp.Dot, scope: Scope) -> Bound:
        parts: list[Any] = []
        inner: Any = node
        while isinstance(inner, exp.Dot) and isinstance(inner.expression, exp.Identifier):
            parts.insert(0, inner.expression)
            inner = inner.this
        if isinstance(inner, exp.Column):
            return self._name(node, [*inner.parts, *parts], scope)
        if inner is node:
            if isinstance(node.expression, exp.Func):
                # builtin.f(x), system.builtin.f(x): a function's name has one part.
                self.refuse_function(node, sql_of(node).partition("(")[0].lower())
            self.fail(node, error("syntax_error", detail="a field's name has to follow the dot"))
        return self._fields_of(self.bind(inner, scope), parts)

    def _name(self, node: exp.Expr, parts: list[Any], scope: Scope) -> Bound:
        path = [fold(part) for part in parts]
        if len(path) == 1 and path[0] in scope.combination:
            return _standing_at(scope.combination[path[0]].copy(), node)
        with self.pointing(node):
            found = scope.find(path)
        if found is None:
            if len(path) == 1 and path[0] in scope.named:
                return scope.named[path[0]].copy()
            if path == ["now"]:
                return typed(exp.CurrentTimestamp(), TIMESTAMP)
            if path == ["start"]:
                hint = "START stands in BEGIN (...) of a standing query"
                self.fail(node, error("not_supported", feature="START in an expression", hint=hint))
            missing = scope.missing(path)
            self.fail(parts[0] if missing.condition == "table_not_found" else parts[-1], missing)
        source, column, rest = found
        bound = _standing_at(named_column(source, column), node)
        return self._fields_of(bound, parts[len(parts) - len(rest) :] if rest else [])

    def _fields_of(self, node: Bound, parts: list[Any]) -> Bound:
        for part in parts:
            name = fold(part)
            outer = type_of(node)
            field = next((f for f in outer.fields if f.name == name), None)
            if field is None:
                hint = suggest(name, [f.name for f in outer.fields])
                detail = f'{show(outer)} has no field "{name}"'
                self.fail(part, PenstockError("column_not_found", detail, hint=hint))
            node = typed(exp.Dot(this=node, expression=quoted(name)), field.type)
        return node

    def _literal(self, node: exp.Literal, scope: Scope) -> Bound:
        if node.is_string:
            return constant(node.name, TEXT, node, loose=True)
        with self.pointing(node):
            value, type_ = values.number(node.name)
        return constant(value, type_, node)

    def _bytes(self, node: exp.Expr, scope: Scope) -> Bound:
        if isinstance(node, exp.HexString):
            return constant(node.name.lower(), Type("BINARY"), node)
        return constant(node.name, TEXT, node, loose=True)

    def _interval(self, node: exp.Interval, scope: Scope) -> Bound:
        hint = "durations have weeks, days, hours, minutes, seconds, MS and US; months and years differ in length"
        self.fail(node, error("invalid_duration", text=sql_of(node), hint=hint))

    def _paren(self, node: exp.Paren, scope: Scope) -> Bound:
        inner = self.bind(node.this, scope)
        return inner if isinstance(inner, Const) else typed(exp.Paren(this=inner), type_of(inner))

    def _case(self, node: exp.Case, scope: Scope) -> Bound:
        conditions, results = [], []
        for branch in node.args["ifs"]:
            test = branch.this
            if node.this is not None:
                test = exp.EQ(this=node.this.copy(), expression=test)
            conditions.append(self.predicate(test, scope, "WHEN"))
            results.append(self.bind(branch.args["true"], scope))
        default = node.args.get("default")
        results.append(self.bind(default, scope) if default is not None else constant(None, NULL, node))
        results = self.unify(results, node, "mix")
        ifs = [exp.If(this=c, true=r) for c, r in zip(conditions, results[:-1], strict=True)]
        return typed(exp.Case(ifs=ifs, default=results[-1]), type_of(results[-1]))

    def _if(self, node: exp.If, scope: Scope) -> Bound:
        default = node.args.get("false") or exp.Null()
        return self._case(exp.Case(ifs=[exp.If(this=node.this, true=node.args["true"])], default=default), scope)

    def _bracket(self, node: exp.Bracket, scope: Scope) -> Bound:
        value = self.bind(node.this, scope)
        if type_of(value).kind != "ARRAY" or len(node.expressions) != 1 or type_of(value).element is None:
            self.fail(node, error("type_mismatch", detail=f"{show(type_of(value))} has no elements"))
        index = self.coerce(self.bind(node.expressions[0], scope), INT)
        # sqlglot shifted the index to count from 0, as Spark's [] does.
        return typed(exp.Bracket(this=value, expressions=[index]), type_of(value).element or NULL)

    # -- arithmetic: numbers, times and durations, and texts put together

    def _neg(self, node: exp.Neg, scope: Scope) -> Bound:
        value = self.bind(node.this, scope)
        if isinstance(value, Const) and value.value is not None and type_of(value) != TEXT:
            type_ = BIGINT if type_of(value) == BIGINT and value.value != 2**31 else type_of(value)
            return constant(-value.value, INT if value.value == 2**31 else type_, node.this, loose=value.meta["loose"])
        self._numeric(value, node)
        return typed(exp.Neg(this=value), type_of(value))

    def _numeric(self, node: Bound, at: exp.Expr) -> None:
        if not type_of(node).is_numeric and type_of(node) not in (DURATION, NULL):
            self.fail(at, error("type_mismatch", detail=f"cannot calculate with {show(type_of(node))}"))

    def _arithmetic(self, node: exp.Binary, scope: Scope) -> Bound:
        left, right = self.bind(node.this, scope), self.bind(node.expression, scope)
        kinds = (type_of(left), type_of(right))
        if TIMESTAMP in kinds or DURATION in kinds:
            return self._time_arithmetic(node, left, right)
        left, right = self.unify([left, right], node, "calculate")
        if type_of(left) == TEXT and isinstance(left, Const) and isinstance(right, Const):
            left, right = self.coerce(left, DOUBLE), self.coerce(right, DOUBLE)
        if type_of(left) == NULL:
            left, right = self.coerce(left, INT), self.coerce(right, INT)
        self._numeric(left, node)
        result = type_of(left)
        if result.kind == "DECIMAL":
            result = Type("DECIMAL", precision=38, scale=min(12, max(result.scale, 6)))
        return typed(type(node)(this=left, expression=right), result)

    def _time_arithmetic(self, node: exp.Binary, left: Bound, right: Bound) -> Bound:
        """Times and durations: time - time, time +- duration, duration +- duration, duration times a number."""
        adding, subtracting = isinstance(node, exp.Add), isinstance(node, exp.Sub)
        if adding and type_of(right) == TIMESTAMP and type_of(left) != TIMESTAMP:
            left, right = right, left
        a = type_of(left)
        if adding or subtracting:
            if isinstance(right, Const) and type_of(right) == TEXT:
                as_time = subtracting and a == TIMESTAMP and not _reads_as_duration(right.value)
                right = self.coerce(right, TIMESTAMP if as_time else DURATION)
            if isinstance(left, Const) and a == TEXT:
                left = self.coerce(left, TIMESTAMP if subtracting else DURATION)
            match (type_of(left), type_of(right)):
                case (Type("TIMESTAMP" | "DURATION"), Type("DURATION")):
                    return typed(type(node)(this=left, expression=right), type_of(left))
                case (Type("TIMESTAMP"), Type("TIMESTAMP")) if subtracting:
                    return typed(type(node)(this=left, expression=right), DURATION)
                case _:
                    pass
        elif isinstance(node, exp.Mul | exp.Div | exp.IntDiv):
            if isinstance(node, exp.Mul) and type_of(right) == DURATION:
                left, right = right, left
            if type_of(left) == DURATION and type_of(right).is_numeric:
                return typed(type(node)(this=left, expression=right), DURATION)
            if type_of(left) == type_of(right) == DURATION and isinstance(node, exp.Div):
                left, right = self.coerce(left, DOUBLE), self.coerce(right, DOUBLE)
                return typed(exp.Div(this=left, expression=right), DOUBLE)
        detail = f"cannot calculate {show(type_of(left))} with {show(type_of(right))}"
        hint = "write a duration with its unit, such as 10 SECONDS" if type_of(right).is_numeric else None
        self.fail(node, error("type_mismatch", detail=detail, hint=hint))

    def _concat(self, node: exp.Expr, scope: Scope) -> Bound:
        parts = [node.this, node.expression] if isinstance(node, exp.DPipe) else node.expressions
        bound = [self.coerce(self.bind(part, scope), TEXT) for part in parts]
        if isinstance(node, exp.Concat):
            # PostgreSQL's CONCAT skips NULL, || does not.
            empty = constant("", TEXT)
            bound = [typed(exp.Coalesce(this=b, expressions=[empty.copy()]), TEXT) for b in bound]
        return typed(exp.Concat(expressions=bound, safe=False, coalesce=False), TEXT)


def _reads_as_duration(text: str) -> bool:
    try:
        duration_us(text)
    except PenstockError:
        return False
    return True


def _standing_at(bound: Bound, node: exp.Expr) -> Bound:
    """What a name means, with carets at the name."""
    for column in bound.find_all(exp.Column):
        placed(column, node)
    return bound


_METHODS: dict[type, Callable[..., Bound]] = {
    Const: lambda binder, node, scope: node,
    exp.Column: lambda binder, node, scope: binder._name(node, list(node.parts), scope),
    exp.Dot: ExpressionBinder._dot,
    exp.Literal: ExpressionBinder._literal,
    exp.Null: lambda binder, node, scope: constant(None, NULL, node),
    exp.Boolean: lambda binder, node, scope: constant(bool(node.this), BOOLEAN, node),
    exp.ByteString: ExpressionBinder._bytes,
    exp.HexString: ExpressionBinder._bytes,
    exp.RawString: ExpressionBinder._bytes,
    Duration: lambda binder, node, scope: constant(node.us, DURATION, node),
    exp.Interval: ExpressionBinder._interval,
    exp.CurrentTimestamp: lambda binder, node, scope: typed(exp.CurrentTimestamp(), TIMESTAMP),
    exp.Localtimestamp: lambda binder, node, scope: typed(exp.CurrentTimestamp(), TIMESTAMP),
    Hold: bind_held,
    OwnWindow: lambda binder, node, scope: windowed(binder.bind(node.this, scope), node.us, node.this),
    exp.Paren: ExpressionBinder._paren,
    exp.And: bind_connector,
    exp.Or: bind_connector,
    exp.Not: bind_not,
    **dict.fromkeys(_COMPARISONS, bind_comparison),
    **dict.fromkeys(_ARITHMETIC, ExpressionBinder._arithmetic),
    exp.Between: bind_between,
    exp.In: bind_in,
    exp.Is: bind_is,
    exp.Like: bind_like,
    exp.ILike: bind_like,
    exp.SimilarTo: bind_similar,
    exp.Escape: bind_escape,
    exp.Exists: bind_exists,
    exp.Subquery: bind_scalar_subquery,
    exp.Select: bind_scalar_subquery,
    exp.Neg: ExpressionBinder._neg,
    exp.DPipe: ExpressionBinder._concat,
    exp.Concat: ExpressionBinder._concat,
    exp.Case: ExpressionBinder._case,
    exp.If: ExpressionBinder._if,
    exp.Cast: ExpressionBinder._cast,
    exp.Extract: ExpressionBinder._extract,
    exp.Bracket: ExpressionBinder._bracket,
    exp.Window: ExpressionBinder._window,
    exp.Filter: ExpressionBinder._filter,
    exp.WithinGroup: ExpressionBinder._within_group,
    exp.Count: ExpressionBinder._count,
    exp.Anonymous: ExpressionBinder._anonymous,
}
