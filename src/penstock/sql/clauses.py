"""What our SQL adds to PostgreSQL's SELECT: durations, parameters, windows over time and between streams, errors of answers.

Tokens come in, the trees of `nodes` go out.
"""

from __future__ import annotations

from collections.abc import Collection
from itertools import pairwise
from typing import Any

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from penstock.clock import parse_timestamp
from penstock.errors import PenstockError, error, suggest
from penstock.sql.cursor import Cursor
from penstock.sql.join_hints import read_hint
from penstock.sql.nodes import (
    BeginEnd,
    BeginEnds,
    Duration,
    Hold,
    PerWindow,
    WindowEdge,
    WindowJoin,
    WindowJoins,
    WithinPercent,
)
from penstock.sql.parameters import Parameters
from penstock.sql.positions import Span, mark, point
from penstock.sql.values import LONG_UNITS, UNITS, duration_us

LEAST_PERCENT, MOST_PERCENT = 0.1, 50.0
_AFTER_NUMBER = (TokenType.VAR, TokenType.SEMICOLON, TokenType.BEGIN)


class ClauseParser(Cursor):
    """The clauses that `dialect.PenstockParser` hooks into sqlglot's grammar."""

    parameters: Parameters
    # AS OF edges (a number: a cycle) by the place of their first token: sqlglot may read a table twice.
    moments: dict[int, tuple[Token, WindowEdge | int]]
    finals: dict[int, Token]  # FINAL behind a table, in the same way

    # -- durations: `10 SECONDS`, `1 HOUR 30 MINUTES`, `INTERVAL '5 minutes'`, and `'1h30m'` where nothing else may stand

    def _parse_unary(self) -> exp.Expr | None:
        if self._starts_duration():
            first = self._curr
            return mark(Duration(this=str(self._count_and_unit())), first, self._prev)
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
            with self.pointing(first):
                total += duration_us(f"{self._curr.text} {self._next.text}")
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
                return months if months is None else mark(months, first, self._prev)
            self._advance(3 if has_unit else 2)
            return mark(node, first, self._prev)
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
            text, hint, at = first.text, "write 10 SECONDS, 500 MS or '1h30m'", first
            if self._curr.token_type == TokenType.VAR:
                at = self._curr
                text, hint = f"{text} {at.text}", suggest(at.text, sorted(map(str.lower, LONG_UNITS))) or hint
            raise self.fail(error("invalid_duration", text=text, hint=hint), at)
        literal = self._parse_string()
        # A parameter may be a whole duration, or its number alone: $1 SECONDS.
        counted = isinstance(literal, exp.Literal) and not literal.is_string and self._curr.text.upper() in UNITS
        if isinstance(literal, exp.Literal) and (literal.is_string or counted):
            unit = ""
            if counted:
                unit = f" {self._curr.text}"
                self._advance()
            with self.pointing(first):
                return sign * duration_us(literal.name + unit)
        raise self.expected("a duration such as 10 SECONDS")

    # -- parameters: the value that was given stands in the place of `$1` or `:name`

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
        return mark(node, first, last)

    # -- windows over time: BEGIN .. END, AS OF, and a condition that holds FOR a while

    def _parse_disjunction(self) -> exp.Expr | None:
        """A condition, perhaps with `FOR 30 SECONDS` behind it; of other FORs none is followed by a number and a word."""
        first = self._curr
        found = super()._parse_disjunction()
        if found is None or self._curr.token_type != TokenType.FOR or not self._duration_follows():
            return found
        self._advance()
        return mark(Hold(this=found, us=str(self.duration())), first, self._prev)

    def _duration_follows(self) -> bool:
        place = self._index + 2
        unit = self._tokens[place] if place < self._tokens_size else None
        if self._next.token_type == TokenType.NUMBER:
            # A word that is no unit is mistyped, and without one the unit is missing.
            return unit is None or unit.token_type in _AFTER_NUMBER or unit.text.upper() in UNITS
        given = (TokenType.PARAMETER, TokenType.COLON)
        return self._next.token_type in (TokenType.INTERVAL, TokenType.STRING, *given)

    def _parse_table_alias(self, alias_tokens: Collection[TokenType] | None = None) -> exp.TableAlias | None:
        # Else WITHIN would be another name for the table before it.
        if self.peek("WITHIN") and self._next.token_type == TokenType.NUMBER:
            return None
        if self._curr.token_type == TokenType.VAR and self.peek("FINAL") and self._ends_or_as_of(self._index + 1):
            self.finals[self._index] = self._curr
            self.skip()
        if self.peek("PER", "WINDOW"):
            return None
        if not self.peek("AS", "OF") or self._index + 2 >= self._tokens_size:
            return super()._parse_table_alias(alias_tokens)
        place, first = self._index, self._curr
        self.take("AS", "OF")
        self.moments[place] = (first, self.moment())
        return None

    def _ends_or_as_of(self, place: int) -> bool:
        """Whether the statement ends at a token, or AS OF stands there: elsewhere FINAL is a name."""
        following = [token.text.upper() for token in self._tokens[place : place + 2]]
        return not following or following[0] == ";" or following == ["AS", "OF"]

    def moment(self) -> WindowEdge | int:
        """What stands behind AS OF: a time, NOW - d, or the number of a cycle."""
        if self.take("CYCLE"):
            return self.integer("a cycle's number")
        return self.edge()

    def _parse_begin_ends(self) -> BeginEnds:
        clauses = []
        while self._curr.token_type == TokenType.BEGIN:
            first = self._curr
            clauses.append(mark(self._parse_begin_end(), first, self._prev))
        return BeginEnds(expressions=clauses)

    def _parse_begin_end(self) -> BeginEnd:
        self._match(TokenType.BEGIN)
        newest = self.newest_rows()
        clause = BeginEnd(rows=newest[0], per_sensor=newest[1]) if newest is not None else BeginEnd(begin=self.edge())
        if self._match(TokenType.END):
            clause.set("end", self.edge())
        if self._match(TokenType.FOR):
            name, _ = self.name("the name of a stream")
            identifier = exp.Identifier(this=name, quoted=True)
            identifier.update_positions(self._prev)
            clause.set("alias", identifier)
        return clause

    def newest_rows(self) -> tuple[int, bool] | None:
        """`LAST n ROWS [PER SENSOR]`, perhaps in parentheses: how many, and whether of each sensor; None for anything else."""
        if not self.peek("LAST") and not self.peek("(", "LAST"):
            return None
        opened = self.take("(")
        self.need("LAST")
        count = self.integer("a number of rows")
        if not self.take("ROWS"):
            self.need("ROW")
        per_sensor = self.take("PER", "SENSOR")
        if opened:
            self.need(")")
        return count, per_sensor

    def edge(self) -> WindowEdge:
        first = self.here
        return mark(self._parse_edge(), first, self._prev)

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
                hint = "write a time such as '2026-01-31 12:00:00', or NOW - 10 MINUTES"
                failure = error("invalid_window", detail=f'"{constant.name}" is not a time', hint=hint)
                raise self.fail(failure, first) from None
        raise self.expected("NOW, START or a time")

    # -- windows between streams, and the hint that chooses a join's algorithm

    def _parse_hint(self) -> exp.Hint | None:
        return read_hint(self.sql, self._prev) if self._match(TokenType.HINT) else None

    def _parse_window_or_join(self) -> tuple[str, Any]:
        directed = self._curr.text.upper() == "DWINDOW"
        named = self._next.token_type not in (TokenType.EQ, TokenType.L_PAREN) and not self._stands_path(1)
        if not directed and named:
            return "windows", self._parse_window_clause()
        pairs = self._parse_window_join()
        while self._curr.token_type == TokenType.AND and self._next.token_type == TokenType.WINDOW:
            self._advance()
            pairs += self._parse_window_join()
        return "window_joins", WindowJoins(expressions=pairs)

    def _stands_path(self, ahead: int) -> bool:
        """Whether PATH ( stands so many tokens ahead; a stream may have that name, too."""
        tokens = self._tokens[self._index + ahead : self._index + ahead + 2]
        return [token.text.upper() for token in tokens] == ["PATH", "("]

    def _parse_path(self, first: Token, directed: bool) -> list[WindowJoin]:
        """`PATH(a, b, c) = w [BOTH WAYS]`: a window between each stream and the next."""
        self._advance()
        names = [name for name, _ in self.listed(lambda: self.name("the name of a stream"))]
        if len(names) < 2:
            raise self.fail(error("syntax_error", detail="a path has at least two streams: PATH(a, b, c)"), first)
        self.need("=")
        high = self.duration()
        if high < 0:
            raise self.fail(error("invalid_window", detail="a window cannot be negative"), first)
        both_ways = self.take("BOTH", "WAYS")
        if both_ways and not directed:
            hint = "WINDOW PATH(a, b) is the same in both directions; leave BOTH WAYS out, or write DWINDOW"
            raise self.fail(error("invalid_window", detail="BOTH WAYS needs a direction", hint=hint), first)
        both_ways = both_ways and high > 0  # all at the same time is in order both ways
        low = 0 if directed and not both_ways else -high
        pairs = []
        for names_of_pair in pairwise(names):
            left, right = (exp.Identifier(this=name, quoted=True) for name in names_of_pair)
            join = WindowJoin(left=left, right=right, low=str(low), high=str(high), both_ways=both_ways)
            pairs.append(mark(join, first, self._prev))
        return pairs

    def _parse_window_join(self) -> list[WindowJoin]:
        first = self._curr
        directed = first.text.upper() == "DWINDOW"
        self._advance()
        if self._stands_path(0):
            return self._parse_path(first, directed)
        names: list[exp.Identifier] = []
        if self._curr.token_type == TokenType.L_PAREN:
            listed = self.listed(lambda: self.name("the name of a stream"))
            names = [exp.Identifier(this=name, quoted=True) for name, _ in listed]
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
                detail = "a window cannot be negative"
                hint = "b before a is WINDOW(a, b) BETWEEN -5 SECONDS AND 0 SECONDS"
            raise self.fail(error("invalid_window", detail=detail, hint=hint), first)
        left, right = names or (None, None)
        join = WindowJoin(left=left, right=right, low=str(low), high=str(high))
        return [mark(join, first, self._prev)]

    # -- WITH ERROR and WITHIN n PERCENT [WITH BOUNDS] behind a question, PER WINDOW behind a subquery

    def _parse_query_modifiers(self, this: Any) -> Any:
        found = super()._parse_query_modifiers(this)
        if isinstance(found, exp.Select) and self.take("WITH", "ERROR"):
            found.set("with_error", True)
        elif isinstance(found, exp.Select) and self.peek("PER", "WINDOW"):
            first = self._curr
            self.take("PER", "WINDOW")
            found.set("per_window", mark(PerWindow(), first, self._prev))
        elif isinstance(found, exp.Select) and self.peek("WITHIN"):
            first = self._curr
            self.skip()
            within = WithinPercent(percent=self._percent(), bounds=self.take("WITH", "BOUNDS"))
            found.set("within", mark(within, first, self._prev))
        else:
            return found
        return super()._parse_query_modifiers(found)

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
