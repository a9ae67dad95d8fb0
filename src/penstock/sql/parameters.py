"""Parameters `$1` and `:name`: values from outside become literals where they stand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from sqlglot import exp

from penstock.errors import error, suggest
from penstock.sql.positions import Span


class Parameters:
    """Gives each parameter its literal, and remembers where, so that a query's stored text can be written."""

    def __init__(self, values: Sequence[Any] | Mapping[str, Any] | None = None) -> None:
        self._values = values
        self.keys: set[str] = set()
        self.used: list[tuple[Span, str]] = []

    def bind(self, key: str, span: Span) -> exp.Expr:
        node = literal(self._value(key))
        self.keys.add(key)
        self.used.append((span, node.sql(dialect="postgres")))
        return node

    def _value(self, key: str) -> Any:
        values = self._values
        if isinstance(values, Mapping):
            for candidate in (key, f"${key}", f":{key}"):
                if candidate in values:
                    return values[candidate]
            raise error(
                "invalid_parameter",
                detail=f'there is no value for parameter "{key}"',
                hint=suggest(key, [str(k) for k in values]),
            )
        if not key.isdigit():
            raise error("invalid_parameter", detail=f'there is no value for parameter "{key}"')
        number = int(key)
        given = 0 if values is None else len(values)
        if values is None or not 1 <= number <= given:
            raise error("invalid_parameter", detail=f"there is no value for parameter ${number}: {given} given")
        return values[number - 1]

    def substituted(self, text: str, span: Span) -> str:
        """The text of a span with the values of its parameters written out."""
        out, at = [], span.start
        for where, value in sorted(set(self.used), key=lambda used: used[0].start):
            if span.start <= where.start and where.end <= span.end:
                out.append(text[at : where.start] + _between(text[: where.start], value, text[where.end :]))
                at = where.end
        return "".join(out) + text[at : span.end]


def _between(before: str, value: str, after: str) -> str:
    """A value as it can stand there: a second minus would begin a comment, and some marks would take only the digits."""
    alone = not before.endswith("-") and not after.lstrip().startswith(("::", "[", "^"))
    return f"({value})" if value.startswith("-") and not alone else value


def refuse_unused(values: Sequence[Any] | Mapping[str, Any] | None, keys: set[str]) -> None:
    """A value that no parameter takes is a mistake in counting; of a mapping one may give more than is asked for."""
    if values is None or isinstance(values, Mapping):
        return
    unused = [str(n) for n in range(1, len(values) + 1) if str(n) not in keys]
    if unused:
        raise error("invalid_parameter", detail=f"{len(values)} values given, but nothing asks for ${unused[0]}")


def literal(value: Any) -> exp.Expr:
    """A Python value as SQL."""
    if value is None:
        return exp.Null()
    if isinstance(value, bool):
        return exp.Boolean(this=value)
    if isinstance(value, Decimal) and not value.is_finite():
        value = float(value)
    if isinstance(value, int | Decimal):
        return exp.Literal.number(str(value)) if value >= 0 else exp.Neg(this=exp.Literal.number(str(-value)))
    if isinstance(value, float):
        if value != value or value in (float("inf"), float("-inf")):
            return exp.cast(exp.Literal.string(str(value)), "DOUBLE PRECISION", dialect="postgres")
        number = exp.Literal.number(repr(abs(value)))
        return exp.Neg(this=number) if value < 0 or str(value).startswith("-") else number
    if isinstance(value, str):
        if any("\ud800" <= mark <= "\udfff" for mark in value):
            raise error("invalid_parameter", detail="a text has half of a surrogate pair, which is no character")
        return exp.Literal.string(value)
    if isinstance(value, datetime | date):
        return exp.Literal.string(value.isoformat())
    if isinstance(value, bytes):
        return exp.cast(exp.Literal.string("\\x" + value.hex()), "BYTEA", dialect="postgres")
    if isinstance(value, list | tuple):
        return exp.Array(expressions=[literal(item) for item in value])
    raise error("invalid_parameter", detail=f"a {type(value).__name__} cannot be a parameter")
