"""Arithmetic: numbers, times and durations, and texts put together."""

from __future__ import annotations

from sqlglot import exp

from penstock.errors import PenstockError, error
from penstock.sql.binding.coercion import Bound, Coercion
from penstock.sql.durations import duration_us
from penstock.sql.nodes import Const
from penstock.sql.scope import Scope
from penstock.sql.values import DURATION, NULL, constant, show, type_of, typed
from penstock.types import BIGINT, DOUBLE, INT, TEXT, TIMESTAMP, Type


class Arithmetic(Coercion):
    """Binds + - * / % and ||."""

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
