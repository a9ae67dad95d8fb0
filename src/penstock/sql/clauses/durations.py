"""Durations: `10 SECONDS`, `1 HOUR 30 MINUTES`, `INTERVAL '5 minutes'`, and `'1h30m'` where nothing else may stand."""

from __future__ import annotations

from typing import Any

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from penstock.errors import PenstockError, error, suggest
from penstock.sql.cursor import Cursor
from penstock.sql.durations import LONG_UNITS, UNITS, duration_us
from penstock.sql.nodes import Duration
from penstock.sql.positions import mark


class DurationParser(Cursor):
    def _parse_unary(self) -> exp.Expr | None:
        if self._starts_duration():
            first = self._curr
            node = Duration(this=str(self._count_and_unit()))
            mark(node, first, self._prev)
            return node
        return super()._parse_unary()

    def _starts_duration(self) -> bool:
        return (
            self._curr.token_type == TokenType.NUMBER
            and self._next.token_type != TokenType.IDENTIFIER
            and self._next.text.upper() in LONG_UNITS
        )

    def _count_and_unit(self) -> int:
        """`1 HOUR 30 MINUTES`, standing at the first number."""
        first = self._curr
        total = 0
        while self._curr.token_type == TokenType.NUMBER and self._next.text.upper() in UNITS:
            try:
                total += duration_us(f"{self._curr.text} {self._next.text}")
            except PenstockError as failure:
                raise self.fail(failure, first) from None
            self._advance(2)
        return total

    def _parse_interval(self, require_interval: bool = True, parse_function_unit: bool = True) -> Any:
        if self._curr.token_type == TokenType.INTERVAL and self._next.token_type == TokenType.STRING:
            first = self._curr
            unit = self._tokens[self._index + 2] if self._index + 2 < self._tokens_size else None
            has_unit = unit is not None and unit.text.upper() in UNITS and unit.token_type != TokenType.IDENTIFIER
            text = self._next.text + (f" {unit.text}" if has_unit and unit is not None else "")
            try:
                node = Duration(this=str(duration_us(text)))
            except PenstockError:
                months = super()._parse_interval(require_interval, parse_function_unit)
                if months is not None:
                    mark(months, first, self._prev)
                return months
            self._advance(3 if has_unit else 2)
            mark(node, first, self._prev)
            return node
        return super()._parse_interval(require_interval, parse_function_unit)

    def duration(self) -> int:
        """A duration in microseconds, in any spelling, where nothing else may stand."""
        sign = -1 if self._match(TokenType.DASH) else 1
        first = self._curr
        if self._match(TokenType.L_PAREN):
            inner = self.duration()
            self.need(")")
            return sign * inner
        if first.token_type == TokenType.INTERVAL:
            found = self._parse_interval()
            if isinstance(found, Duration):
                return sign * found.us
            raise self.fail(error("invalid_duration", text=self.sql[first.start : self._prev.end + 1]), first)
        if first.token_type == TokenType.NUMBER:
            if self._next.text.upper() in UNITS:
                return sign * self._count_and_unit()
            self._advance()
            named = self._curr.token_type == TokenType.VAR
            text, hint = first.text, "write 10 SECONDS, 500 MS or '1h30m'"
            if named:
                text, hint = (
                    f"{text} {self._curr.text}",
                    suggest(self._curr.text, sorted(map(str.lower, LONG_UNITS))) or hint,
                )
            raise self.fail(error("invalid_duration", text=text, hint=hint), self._curr if named else first)
        literal = self._parse_string()
        # A parameter may be a whole duration, or its number alone: $1 SECONDS.
        counted = isinstance(literal, exp.Literal) and not literal.is_string and self._curr.text.upper() in UNITS
        if isinstance(literal, exp.Literal) and (literal.is_string or counted):
            unit = ""
            if counted:
                unit = f" {self._curr.text}"
                self._advance()
            try:
                return sign * duration_us(literal.name + unit)
            except PenstockError as failure:
                raise self.fail(failure, first) from None
        raise self.expected("a duration such as 10 SECONDS")
