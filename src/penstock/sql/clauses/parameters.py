"""`$1` and `:name`: the value that was given stands in their place."""

from __future__ import annotations

from typing import Any

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from penstock.errors import PenstockError, error
from penstock.sql.cursor import Cursor
from penstock.sql.parameters import Parameters
from penstock.sql.positions import Span, mark, point


class ParameterParser(Cursor):
    parameters: Parameters

    def integer(self, what: str) -> int:
        """Also where no expression stands: `LAST $1 ROWS`, `AS OF CYCLE :cycle`."""
        if self._curr.token_type not in (TokenType.PARAMETER, TokenType.COLON):
            return super().integer(what)
        first = self._curr
        given = self._parse_parameter() if self._match(TokenType.PARAMETER) else self._parse_placeholder()
        if isinstance(given, exp.Literal) and not given.is_string and given.name.isdigit():
            return int(given.name)
        shown = given.sql(dialect="postgres") if given is not None else ":"
        raise self.fail(error("invalid_parameter", detail=f"expected {what}, got {shown}"), first)

    def _parse_parameter(self) -> Any:
        token = self._prev
        if self._curr.token_type not in (TokenType.NUMBER, TokenType.VAR) or self._curr.start != token.end + 1:
            raise self.expected("a parameter's number")
        self._advance()
        return self._bind_parameter(self._prev.text, token)

    def _parse_placeholder(self) -> Any:
        if self._curr.token_type == TokenType.COLON and self._next.start == self._curr.end + 1:
            token = self._curr
            self._advance(2)
            return self._bind_parameter(self._prev.text, token)
        if self._curr.token_type == TokenType.PLACEHOLDER:
            raise self.fail(error("syntax_error", detail='"?" is not a parameter', hint="write $1 or :name"))
        return super()._parse_placeholder()

    def _bind_parameter(self, key: str, first: Token) -> exp.Expr:
        last = self._prev
        try:
            node = self.parameters.bind(key, Span(first.start, last.end + 1))
        except PenstockError as failure:
            raise point(failure, self.sql, Span(first.start, last.end + 1)) from None
        mark(node, first, last)
        return node
