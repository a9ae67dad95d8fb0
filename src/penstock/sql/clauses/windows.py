"""Windows over time: `BEGIN .. END`, `AS OF`, and a condition that holds `FOR` a while."""

from __future__ import annotations

from collections.abc import Collection

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from penstock.clock import parse_timestamp
from penstock.errors import error
from penstock.sql.clauses.durations import DurationParser
from penstock.sql.durations import UNITS
from penstock.sql.nodes import BeginEnd, BeginEnds, Hold, WindowEdge
from penstock.sql.positions import mark

_AFTER_NUMBER = (TokenType.VAR, TokenType.SEMICOLON, TokenType.BEGIN)


class WindowParser(DurationParser):
    # AS OF edges (a number: a cycle) by the place of their first token: sqlglot may read a table twice.
    moments: dict[int, tuple[Token, WindowEdge | int]]

    def _parse_disjunction(self) -> exp.Expr | None:
        """A condition, perhaps with `FOR 30 SECONDS` behind it; of other FORs none is followed by a number and a word."""
        first = self._curr
        found = super()._parse_disjunction()
        if found is None or self._curr.token_type != TokenType.FOR or not self._duration_follows():
            return found
        self._advance()
        held = Hold(this=found, us=str(self.duration()))
        mark(held, first, self._prev)
        return held

    def _duration_follows(self) -> bool:
        place = self._index + 2
        unit = self._tokens[place] if place < self._tokens_size else None
        if self._next.token_type == TokenType.NUMBER:
            # A word that is no unit is mistyped, and without one the unit is missing.
            return unit is None or unit.token_type in _AFTER_NUMBER or unit.text.upper() in UNITS
        given = (TokenType.PARAMETER, TokenType.COLON)
        return self._next.token_type in (TokenType.INTERVAL, TokenType.STRING, *given)

    def _parse_table_alias(self, alias_tokens: Collection[TokenType] | None = None) -> exp.TableAlias | None:
        if not self.peek("AS", "OF") or self._index + 2 >= self._tokens_size:
            return super()._parse_table_alias(alias_tokens)
        place, first = self._index, self._curr
        self.take("AS", "OF")
        self.moments[place] = (first, self.moment())
        return None

    def moment(self) -> WindowEdge | int:
        """What stands behind AS OF: a time, NOW - d, or the number of a cycle."""
        if self.take("CYCLE"):
            return self.integer("a cycle's number")
        return self.edge()

    def _parse_begin_ends(self) -> BeginEnds:
        clauses = []
        while self._curr.token_type == TokenType.BEGIN:
            first = self._curr
            clause = self._parse_begin_end()
            mark(clause, first, self._prev)
            clauses.append(clause)
        return BeginEnds(expressions=clauses)

    def _parse_begin_end(self) -> BeginEnd:
        self._match(TokenType.BEGIN)
        clause = BeginEnd()
        opened = self._match_pair(TokenType.L_PAREN, TokenType.VAR, advance=False) and self._next.text.upper() == "LAST"
        if opened:
            self._advance()
        if opened or self.peek("LAST"):
            self.need("LAST")
            clause.set("rows", self.integer("a number of rows"))
            if not self.take("ROWS"):
                self.need("ROW")
            clause.set("per_sensor", self.take("PER", "SENSOR"))
            if opened:
                self.need(")")
        else:
            clause.set("begin", self.edge())
        if self._match(TokenType.END):
            clause.set("end", self.edge())
        if self._match(TokenType.FOR):
            name, _ = self.name("the name of a stream")
            identifier = exp.Identifier(this=name, quoted=True)
            identifier.update_positions(self._prev)
            clause.set("alias", identifier)
        return clause

    def edge(self) -> WindowEdge:
        first = self.here
        edge = self._parse_edge()
        mark(edge, first, self._prev)
        return edge

    def _parse_edge(self) -> WindowEdge:
        if self._match(TokenType.L_PAREN):
            inner = self._parse_edge()
            self.need(")")
            return inner
        for word in ("NOW", "START", "CURRENT_TIMESTAMP"):
            if self.take(word):
                self.take("(", ")")
                offset = 0
                if self._curr.token_type in (TokenType.DASH, TokenType.PLUS):
                    sign = -1 if self._curr.token_type == TokenType.DASH else 1
                    self._advance()
                    offset = sign * self.duration()
                return WindowEdge(anchor="start" if word == "START" else "now", offset=offset)
        first = self._curr
        self.take("TIMESTAMP")
        constant = self._parse_string()
        if isinstance(constant, exp.Cast):
            constant = constant.this
        if isinstance(constant, exp.Literal) and constant.is_string:
            try:
                return WindowEdge(anchor="constant", offset=parse_timestamp(constant.name))
            except ValueError:
                raise self.fail(
                    error(
                        "invalid_window",
                        detail=f'"{constant.name}" is not a time',
                        hint="write a time such as '2026-01-31 12:00:00', or NOW - 10 MINUTES",
                    ),
                    first,
                ) from None
        raise self.expected("NOW, START or a time")
