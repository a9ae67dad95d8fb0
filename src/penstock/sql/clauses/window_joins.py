"""Windows between streams: `WINDOW(a, b) = 5 SECONDS`, `DWINDOW`, and the hint that chooses a join's algorithm."""

from __future__ import annotations

from typing import Any

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from penstock.errors import error
from penstock.sql.clauses.durations import DurationParser
from penstock.sql.join_hints import read_hint
from penstock.sql.nodes import WindowJoin, WindowJoins
from penstock.sql.positions import mark


class WindowJoinParser(DurationParser):
    def _parse_hint(self) -> exp.Hint | None:
        return read_hint(self.sql, self._prev) if self._match(TokenType.HINT) else None

    def _parse_window_or_join(self) -> tuple[str, Any]:
        directed = self._curr.text.upper() == "DWINDOW"
        if not directed and self._next.token_type not in (TokenType.EQ, TokenType.L_PAREN):
            return "windows", self._parse_window_clause()
        pairs = [self._parse_window_join()]
        while self._curr.token_type == TokenType.AND and self._next.token_type == TokenType.WINDOW:
            self._advance()
            pairs.append(self._parse_window_join())
        return "window_joins", WindowJoins(expressions=pairs)

    def _parse_window_join(self) -> WindowJoin:
        first = self._curr
        directed = first.text.upper() == "DWINDOW"
        self._advance()
        names: list[exp.Identifier] = []
        if self._curr.token_type == TokenType.L_PAREN:
            for name, _ in self.listed(lambda: self.name("the name of a stream")):
                names.append(exp.Identifier(this=name, quoted=True))
            if len(names) != 2:
                raise self.fail(error("syntax_error", detail="a window joins two streams: WINDOW(a, b)"), first)
        if names and self._match(TokenType.BETWEEN):
            low = self.duration()
            self.need("AND")
            high = self.duration()
        else:
            self.need("=")
            high = self.duration()
            low = 0 if directed else -high
        if low > high:
            detail, hint = "the window is empty: its low end lies past the high", "write the smaller end first"
            if high < 0 and low in (0, -high):
                detail, hint = (
                    "a window cannot be negative",
                    "b before a is WINDOW(a, b) BETWEEN -5 SECONDS AND 0 SECONDS",
                )
            raise self.fail(error("invalid_window", detail=detail, hint=hint), first)
        join = WindowJoin(
            left=names[0] if names else None, right=names[1] if names else None, low=str(low), high=str(high)
        )
        mark(join, first, self._prev)
        return join
