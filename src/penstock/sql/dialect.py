"""The dialect of questions: PostgreSQL's as sqlglot reads and writes it, with our clauses for time.

`PenstockParser` adds to SELECT what `clauses` reads: windows, the W-join's `WINDOW`, durations and parameters.
Statements of our own are in `grammar/`, which drives this parser token by token. `PenstockGenerator` writes trees back to text, for
people: names of columns, printed statements and bound trees.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.dialects.postgres import Postgres
from sqlglot.errors import ErrorLevel, TokenError
from sqlglot.generators.postgres import PostgresGenerator
from sqlglot.parsers.postgres import PostgresParser
from sqlglot.tokenizer_core import Token, TokenType

from penstock.clock import format_timestamp
from penstock.errors import error
from penstock.sql.clauses import ClauseParser
from penstock.sql.functions import NODE_NAMES
from penstock.sql.nodes import BeginEnd, Const, Duration, Hold, OwnWindow, WindowJoin
from penstock.sql.parameters import Parameters
from penstock.sql.positions import mark, point, span_of
from penstock.types import format_duration

_NOT_NAMES = {TokenType.BEGIN, TokenType.END}
# The $ of a parameter, and the sign that stands for it while sqlglot reads: half of a surrogate pair, which is
# no character. A text that has one is refused, so no text can imitate the sign.
_PARAMETER, _SIGN = re.compile(r"(?<![\w$])\$(?=\d)"), "\udfff"
_SURROGATE = re.compile("[\ud800-\udfff]")


class PenstockParser(ClauseParser):
    # A word of another statement in PostgreSQL; here SESSION(..) is a call, which the binder refuses with a hint.
    FUNC_TOKENS = PostgresParser.FUNC_TOKENS | {TokenType.SESSION}
    ID_VAR_TOKENS = PostgresParser.ID_VAR_TOKENS - _NOT_NAMES
    TABLE_ALIAS_TOKENS = PostgresParser.TABLE_ALIAS_TOKENS - _NOT_NAMES
    ALIAS_TOKENS = PostgresParser.ALIAS_TOKENS - _NOT_NAMES
    UPDATE_ALIAS_TOKENS = PostgresParser.UPDATE_ALIAS_TOKENS - _NOT_NAMES
    COMMENT_TABLE_ALIAS_TOKENS = PostgresParser.COMMENT_TABLE_ALIAS_TOKENS - _NOT_NAMES

    # sqlglot reads the listed functions that have nodes; every other name is a plain call, which the binder looks up.
    FUNCTIONS = {
        **{name: read for name, read in PostgresParser.FUNCTIONS.items() if name.lower() in NODE_NAMES},
        "EVERY": exp.LogicalAnd.from_arg_list,
        # sqlglot would read the template itself, and some parts of it wrong.
        "TO_TIMESTAMP": lambda args: (
            exp.UnixToTime.from_arg_list(args) if len(args) < 2 else exp.StrToTime.from_arg_list(args)
        ),
    }
    FUNCTION_PARSERS = {
        name: read
        for name, read in PostgresParser.FUNCTION_PARSERS.items()
        if name.lower() in NODE_NAMES or name in ("CAST", "TRY_CAST")
    }
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
        self.moments = {}
        self.finals = {}

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
        self.finals.clear()
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

    def _parse_function(
        self,
        functions: dict[str, Callable[..., Any]] | None = None,
        anonymous: bool = False,
        optional_parens: bool = True,
        any_token: bool = False,
    ) -> exp.Expr | None:
        first = self._curr
        found = super()._parse_function(functions, anonymous, optional_parens, any_token)
        return None if found is None else mark(found, first, self._prev)

    def validate_expression(self, expression: Any, args: list[Any] | None = None) -> Any:
        if args and isinstance(expression, exp.AggFunc):
            of = args[0].expressions if isinstance(args[0], exp.Distinct) else args
            if len(of) > 1 and isinstance(of[-1], Duration):
                return self._own_window(expression, args, of)
        return super().validate_expression(expression, args)

    def _own_window(self, expression: exp.Expr, args: list[Any], of: list[Any]) -> exp.Expr:
        """AVG(x, 5 MINUTES), COUNT(DISTINCT x, 5 MINUTES)."""
        duration = of[-1]
        if duration.us <= 0:
            detail = "an aggregate's window is longer than nothing"
            raise point(error("invalid_window", detail=detail), self.sql, span_of(duration))
        for key, value in list(expression.args.items()):
            if value is duration:
                expression.set(key, None)
            elif isinstance(value, list):
                expression.set(key, [item for item in value if item is not duration])
        if of is not args:
            args[0].set("expressions", of[:-1])
        rest = args[:-1] if of is args else args
        return OwnWindow(this=super().validate_expression(expression, rest), us=duration.us)

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


def _edge(node: exp.Expr) -> str:
    anchor, offset = node.args["anchor"], int(node.args["offset"])
    if anchor == "constant":
        return f"'{format_timestamp(offset)}'"
    if offset == 0:
        return str(anchor).upper()
    return f"{str(anchor).upper()} {'-' if offset < 0 else '+'} '{format_duration(abs(offset))}'"


class PenstockGenerator(PostgresGenerator):
    QUERY_HINTS = True
    TRANSFORMS = {
        **PostgresGenerator.TRANSFORMS,
        Duration: lambda self, node: self._duration(node),
        OwnWindow: lambda self, node: f"{self.sql(node.this)[:-1]}, {self._duration(Duration(this=str(node.us)))})",
        BeginEnd: lambda self, node: self._begin_end(node),
        WindowJoin: lambda self, node: self._window_join(node),
        Const: lambda self, node: self._const(node),
        Hold: lambda self, node: f"{self.sql(node, 'this')} FOR '{format_duration(node.us)}'",
    }
    AFTER_HAVING_MODIFIER_TRANSFORMS = {
        "window_joins": lambda self, node: self._clause(node, "window_joins", " AND "),
        **PostgresGenerator.AFTER_HAVING_MODIFIER_TRANSFORMS,
        "begin_end": lambda self, node: self._clause(node, "begin_end", " "),
    }

    def _clause(self, node: exp.Expr, key: str, separator: str) -> str:
        found = node.args.get(key)
        return "" if found is None else self.sep() + separator.join(self.sql(part) for part in found.expressions)

    def _duration(self, node: Duration) -> str:
        return f"INTERVAL '{format_duration(node.us)}'"

    def _begin_end(self, node: exp.Expr) -> str:
        if node.args.get("rows") is not None:
            text = f"BEGIN (LAST {node.args['rows']} ROWS{' PER SENSOR' if node.args.get('per_sensor') else ''})"
        else:
            text = f"BEGIN ({_edge(node.args['begin'])})"
        if node.args.get("end") is not None:
            text += f" END ({_edge(node.args['end'])})"
        alias = node.args.get("alias")
        return text if alias is None else f"{text} FOR {alias.name}"

    def _window_join(self, node: exp.Expr) -> str:
        low, high = int(node.args["low"]), int(node.args["high"])
        left, right = node.args.get("left"), node.args.get("right")
        pair = "" if left is None or right is None else f"({left.name}, {right.name})"
        if low == -high:
            return f"WINDOW{pair} = '{format_duration(high)}'"
        if low == 0:
            return f"DWINDOW{pair} = '{format_duration(high)}'"
        return f"WINDOW{pair} BETWEEN '{format_duration(low)}' AND '{format_duration(high)}'"

    def _const(self, node: Const) -> str:
        """A bound constant with its type."""
        type_, value = node.meta["penstock"], node.value
        if value is None:
            return f"NULL::{type_}"
        if type_.kind == "TIMESTAMP":
            return f"'{format_timestamp(value)}'::TIMESTAMP"
        if type_.kind == "DURATION":
            return f"'{format_duration(value)}'::INTERVAL"
        if type_.kind == "TEXT":
            return "'" + str(value).replace("'", "''") + "'"
        if type_.kind in ("INT", "BOOLEAN"):
            return str(value).upper()
        return f"{value}::{type_}"

    def cast_sql(self, node: exp.Cast, safe_prefix: str | None = None) -> str:
        if "penstock" in node.meta:
            return f"CAST({self.sql(node, 'this')} AS {node.meta['penstock']})"
        return super().cast_sql(node, safe_prefix)


class Penstock(Postgres):
    """sqlglot's entry point to our dialect."""

    class Tokenizer(Postgres.Tokenizer):
        # sqlglot would take these statements whole, as text for another database.
        COMMANDS: ClassVar[set[TokenType]] = set()
        TOKENS_PRECEDING_HINT = {TokenType.SELECT}
        KEYWORDS = {**Postgres.Tokenizer.KEYWORDS, "DWINDOW": TokenType.WINDOW, "/*+": TokenType.HINT}
        SINGLE_TOKENS = {**Postgres.Tokenizer.SINGLE_TOKENS, _SIGN: TokenType.PARAMETER}

        def tokenize(self, sql: str) -> list[Token]:
            """sqlglot takes `$1,$` for the beginning of a text between dollars; behind a $ and a digit is a parameter."""
            half = _SURROGATE.search(sql)
            if half is not None:
                detail = f"character {half.start() + 1} is half of a surrogate pair, which is no character"
                raise error("syntax_error", detail=detail)
            signed, parameters = _PARAMETER.subn(_SIGN, sql)
            try:
                tokens = super().tokenize(signed)
            except TokenError as failure:
                raise TokenError(str(failure).replace(_SIGN, "$")) from None
            for token in tokens if parameters else ():
                if _SIGN in token.text:  # also in a text that has a price in it
                    token.text = token.text.replace(_SIGN, "$")
                for place, comment in enumerate(token.comments):
                    token.comments[place] = comment.replace(_SIGN, "$")
            return tokens

    Parser: type[PostgresParser] = PenstockParser
    Generator: type[PostgresGenerator] = PenstockGenerator


def sql_of(node: exp.Expr) -> str:
    """A tree as one line of our SQL."""
    return node.sql(dialect=Penstock, comments=False, normalize_functions=False)
