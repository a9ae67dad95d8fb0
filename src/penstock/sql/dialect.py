"""The grammar of questions: PostgreSQL's as sqlglot reads it, with our clauses for time.

`PenstockParser` adds to SELECT the windows `BEGIN .. END`, the W-join's `WINDOW`, durations and parameters.
Statements of our own are in `grammar/`, which drives this parser token by token.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.dialects.postgres import Postgres
from sqlglot.errors import ErrorLevel
from sqlglot.generators.postgres import PostgresGenerator
from sqlglot.parsers.postgres import PostgresParser
from sqlglot.tokenizer_core import Token, TokenType

from penstock.clock import parse_timestamp
from penstock.errors import PenstockError, error
from penstock.sql.cursor import Cursor
from penstock.sql.durations import LONG_UNITS, UNITS, duration_us
from penstock.sql.generator import PenstockGenerator
from penstock.sql.hints import read_hint
from penstock.sql.nodes import BeginEnd, BeginEnds, Duration, Edge, Held, WindowJoin, WindowJoins
from penstock.sql.parameters import Parameters
from penstock.sql.positions import Span, mark, point, span_of

_NOT_NAMES = {TokenType.BEGIN, TokenType.END}


class PenstockParser(Cursor):
    ID_VAR_TOKENS = PostgresParser.ID_VAR_TOKENS - _NOT_NAMES
    TABLE_ALIAS_TOKENS = PostgresParser.TABLE_ALIAS_TOKENS - _NOT_NAMES
    ALIAS_TOKENS = PostgresParser.ALIAS_TOKENS - _NOT_NAMES
    UPDATE_ALIAS_TOKENS = PostgresParser.UPDATE_ALIAS_TOKENS - _NOT_NAMES
    COMMENT_TABLE_ALIAS_TOKENS = PostgresParser.COMMENT_TABLE_ALIAS_TOKENS - _NOT_NAMES

    QUERY_MODIFIER_PARSERS = {
        **PostgresParser.QUERY_MODIFIER_PARSERS,
        TokenType.BEGIN: lambda self: ("begin_end", self._parse_begin_ends()),
        TokenType.WINDOW: lambda self: self._parse_window_or_join(),
    }
    # sqlglot gives these no position; a caret may have to point at them.
    PRIMARY_PARSERS = {
        **PostgresParser.PRIMARY_PARSERS,
        TokenType.NULL: lambda self, token: self.expression(exp.Null(), token),
        TokenType.TRUE: lambda self, token: self.expression(exp.Boolean(this=True), token),
        TokenType.FALSE: lambda self, token: self.expression(exp.Boolean(this=False), token),
    }
    QUERY_MODIFIER_TOKENS = set(QUERY_MODIFIER_PARSERS)
    SET_OP_MODIFIERS = {*PostgresParser.SET_OP_MODIFIERS, "begin_end"}

    def __init__(self, text: str = "", parameters: Parameters | None = None, **options: Any) -> None:
        super().__init__(error_level=ErrorLevel.IMMEDIATE, dialect=options.get("dialect") or Penstock)
        self.sql = text
        self.parameters = parameters or Parameters()
        # AS OF edges (None: a cycle) by the place of their first token: sqlglot may read a table twice.
        self.moments: dict[int, tuple[Token, Edge | int]] = {}

    def load(self, tokens: list[Token]) -> None:
        """Stand before the first token of one statement."""
        text = self.sql
        self.reset()
        self.sql = text
        self._chunks = [tokens]
        self._advance_chunk()

    def question(self) -> exp.Query:
        """A SELECT with everything that may belong to it."""
        first = self.here
        self.moments.clear()
        found = self._parse_query_modifiers(self._parse_set_operations(self._parse_select()))
        if isinstance(found, exp.Subquery):
            found = found.unnest() if not found.args.get("alias") else found
        if not isinstance(found, exp.Query):
            raise self.fail(error("syntax_error", detail="expected a SELECT"), first)
        return found

    def condition(self) -> exp.Expr:
        found = self._parse_disjunction()
        if found is None:
            raise self.expected("a condition")
        return found

    def value(self) -> exp.Expr:
        simple = self._simple_value()
        if simple is not None:
            return simple
        found = self._parse_disjunction()
        if found is None:
            raise self.expected("a value")
        return found

    def _simple_value(self) -> exp.Expr | None:
        """A lone literal before a comma or parenthesis, without the long way down: INSERT has thousands."""
        token, negative = self._curr, self._curr.token_type == TokenType.DASH
        if negative:
            token = self._next
        place = self._index + (2 if negative else 1)
        following = self._tokens[place].token_type if place < self._tokens_size else None
        if following not in (TokenType.COMMA, TokenType.R_PAREN):
            return None
        if token.token_type == TokenType.NUMBER:
            number = exp.Literal.number(token.text).update_positions(token)
            found: exp.Expr = exp.Neg(this=number) if negative else number
        elif token.token_type == TokenType.STRING and not negative:
            found = exp.Literal.string(token.text).update_positions(token)
        elif token.token_type == TokenType.NULL and not negative:
            found = exp.Null().update_positions(token)
        else:
            return None
        self._advance(2 if negative else 1)
        return found

    # -- parameters and durations

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

    def _parse_unary(self) -> exp.Expr | None:
        if self._starts_duration():
            first = self._curr
            node = Duration(this=str(self._count_and_unit()))
            mark(node, first, self._prev)
            return node
        return super()._parse_unary()

    def _parse_function(
        self,
        functions: dict[str, Callable[..., Any]] | None = None,
        anonymous: bool = False,
        optional_parens: bool = True,
        any_token: bool = False,
    ) -> exp.Expr | None:
        first = self._curr
        found = super()._parse_function(functions, anonymous, optional_parens, any_token)
        if found is not None:
            mark(found, first, self._prev)
        return found

    def validate_expression(self, expression: Any, args: list[Any] | None = None) -> Any:
        if args and len(args) > 1 and isinstance(expression, exp.AggFunc) and isinstance(args[1], Duration):
            failure = error(
                "not_supported",
                feature="a window inside an aggregate",
                hint="give the query a window: BEGIN (NOW - 5 MINUTES) END (NOW)",
            )
            raise point(failure, self.sql, span_of(args[1]))
        return super().validate_expression(expression, args)

    def _parse_csv(self, parse_method: Callable[[], Any], sep: TokenType = TokenType.COMMA) -> list[Any]:
        """A list; nothing behind a comma is an error here, where sqlglot lets it pass."""
        first = parse_method()
        items = [] if first is None else [first]
        while self._match(sep):
            if first is not None:
                self._add_comments(items[-1] if isinstance(items[-1], exp.Expr) else None)
            item = parse_method()
            if item is None:
                self.raise_error("Expected something behind the comma")
            items.append(item)
        return items

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
            following = f" {self._curr.text}" if self._curr.token_type == TokenType.VAR else ""
            raise self.fail(
                error("invalid_duration", text=first.text + following, hint="write 10 SECONDS, 500 MS or '1h30m'"),
                first,
            )
        literal = self._parse_string()
        if isinstance(literal, exp.Literal) and literal.is_string:
            try:
                return sign * duration_us(literal.name)
            except PenstockError as failure:
                raise self.fail(failure, first) from None
        raise self.expected("a duration such as 10 SECONDS")

    # -- windows over time

    def _parse_disjunction(self) -> exp.Expr | None:
        """A condition, perhaps with `FOR 30 SECONDS` behind it; of other FORs none is followed by a duration."""
        first = self._curr
        found = super()._parse_disjunction()
        if found is None or self._curr.token_type != TokenType.FOR or not self._duration_follows():
            return found
        self._advance()
        held = Held(this=found, us=str(self.duration()))
        mark(held, first, self._prev)
        return held

    def _duration_follows(self) -> bool:
        place = self._index + 2
        unit = self._tokens[place].text.upper() if place < self._tokens_size else ""
        if self._next.token_type == TokenType.NUMBER:
            return unit in UNITS
        return self._next.token_type in (TokenType.INTERVAL, TokenType.STRING)

    def _parse_table_alias(self, alias_tokens: Collection[TokenType] | None = None) -> exp.TableAlias | None:
        if not self.peek("AS", "OF") or self._index + 2 >= self._tokens_size:
            return super()._parse_table_alias(alias_tokens)
        place, first = self._index, self._curr
        self.take("AS", "OF")
        self.moments[place] = (first, self.moment())
        return None

    def moment(self) -> Edge | int:
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

    def edge(self) -> Edge:
        first = self.here
        edge = self._parse_edge()
        mark(edge, first, self._prev)
        return edge

    def _parse_edge(self) -> Edge:
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
                return Edge(anchor="start" if word == "START" else "now", offset=offset)
        first = self._curr
        self.take("TIMESTAMP")
        constant = self._parse_string()
        if isinstance(constant, exp.Cast):
            constant = constant.this
        if isinstance(constant, exp.Literal) and constant.is_string:
            try:
                return Edge(anchor="constant", offset=parse_timestamp(constant.name))
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

    # -- windows between streams

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


class Penstock(Postgres):
    """sqlglot's entry point to our dialect."""

    class Tokenizer(Postgres.Tokenizer):
        # sqlglot would swallow these statements whole, as text for somebody else.
        COMMANDS: ClassVar[set[TokenType]] = set()
        TOKENS_PRECEDING_HINT = {TokenType.SELECT}
        KEYWORDS = {**Postgres.Tokenizer.KEYWORDS, "DWINDOW": TokenType.WINDOW, "/*+": TokenType.HINT}

    Parser: type[PostgresParser] = PenstockParser
    Generator: type[PostgresGenerator] = PenstockGenerator


def sql_of(node: exp.Expr) -> str:
    """A tree as one line of our SQL."""
    return node.sql(dialect=Penstock, comments=False, normalize_functions=False)
