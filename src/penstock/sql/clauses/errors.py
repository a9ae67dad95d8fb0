"""`WITH ERROR` and `WITHIN n PERCENT [WITH BOUNDS]` behind a question: how wrong it may be, and how wrong it is as columns."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from penstock.errors import error
from penstock.sql.cursor import Cursor
from penstock.sql.nodes import WithinPercent
from penstock.sql.positions import mark

LEAST_PERCENT, MOST_PERCENT = 0.1, 50.0


class ErrorParser(Cursor):
    def _parse_query_modifiers(self, this: Any) -> Any:
        found = super()._parse_query_modifiers(this)
        if isinstance(found, exp.Select) and self.take("WITH", "ERROR"):
            found.set("with_error", True)
            return super()._parse_query_modifiers(found)
        if isinstance(found, exp.Select) and self.peek("WITHIN"):
            first = self._curr
            self.skip()
            within = WithinPercent(percent=self._percent(), bounds=self.take("WITH", "BOUNDS"))
            mark(within, first, self._prev)
            found.set("within", within)
            return super()._parse_query_modifiers(found)
        return found

    def _parse_table_alias(self, alias_tokens: Collection[TokenType] | None = None) -> exp.TableAlias | None:
        # Else WITHIN would be another name for the table before it.
        if self.peek("WITHIN") and self._next.token_type == TokenType.NUMBER:
            return None
        return super()._parse_table_alias(alias_tokens)

    def _percent(self) -> float:
        token = self.here
        if token.token_type != TokenType.NUMBER:
            raise self.expected("a number of percent")
        self.skip()
        self.need("PERCENT")
        percent = float(token.text)
        if not LEAST_PERCENT <= percent <= MOST_PERCENT:
            detail = f"WITHIN takes {LEAST_PERCENT:g} to {MOST_PERCENT:g} percent"
            raise self.fail(error("invalid_parameter", detail=detail), token)
        return percent
