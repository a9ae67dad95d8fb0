"""The last look at a text of Spark SQL: one query, over the relations of its plan, with functions that are known.

The planner makes no other texts. This module does not rely on that: it reads the finished text again, as
`pipeline.spark_sql` does with Spark's own parser, and refuses whatever it does not expect.
"""

from __future__ import annotations

import re
from functools import lru_cache

import sqlglot
from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ErrorLevel, SqlglotError
from sqlglot.tokenizer_core import Token, TokenType

from penstock.errors import PenstockError, error
from penstock.functions.regular_expressions import FUNCTIONS as TEXT_FUNCTIONS
from penstock.functions.regular_expressions import SPARK_PREFIX
from penstock.sql.binding.coercion import RULES, SPARK_FUNCTIONS
from penstock.sql.functions import CALLS
from penstock.sql.spark.function_forms import form_functions
from penstock.sql.spark.text import NOW

# Words of the grammar: with the functions all that stands outside of quotes.
_GRAMMAR = frozenset(
    "all and anti as asc between both by case cross cube current cast desc distinct div else end except exists "
    "false filter first following for from full group grouping having if ilike in inner intersect is join last leading left "
    "like limit not null nulls offset on or order outer over partition placing preceding range right rollup row rows select "
    "semi sets then trailing true unbounded union values when where window within".split()
)
_TYPES = frozenset("array bigint binary boolean decimal double int string struct timestamp".split())
_TIME_PARTS = frozenset("year quarter month week day dow doy dayofweek dayofyear hour minute second".split())
_SIGNS = frozenset("( ) , . + - * / % = < > <= >= <> != <=> || -> [ ] >>".split())
# What the planner writes beside the functions of the binder's tables.
_WRITTEN = frozenset(
    "aggregate any_value approx_top_k array array_sort cast coalesce collect_list concat extract if length lpad ltrim max_by "
    "min_by mode named_struct percentile percentile_disc pmod power repeat rpad rtrim session_window struct timestamp_micros to_timestamp transform trim "
    "try_element_at unhex unix_micros window xxhash64".split()
)
# Functions of Spark that backtrack: no text has them, because ours stand for them. A pattern of INITCAP is a constant.
_BACKTRACKING = frozenset(
    "regexp regexp_count regexp_extract regexp_instr regexp_like regexp_replace regexp_substr rlike split".split()
)
_RELATION = re.compile(r"r\d+")


def refused(detail: str) -> PenstockError:
    """What becomes of a text that is not as it should be: it does not run."""
    return error("spark_text_refused", detail=detail)


@lru_cache(maxsize=1)
def known_functions() -> frozenset[str]:
    """Functions that a text may call, in lower case: those of the binder's tables in Spark's words, and the planner's."""
    names = {
        *_WRITTEN,
        *form_functions(),
        *(SPARK_PREFIX + name for name in TEXT_FUNCTIONS),
        *SPARK_FUNCTIONS,
        *(function.spark for function in CALLS.values() if function.spark),
    }
    for kind in RULES:
        required = [name for name, is_required in kind.arg_types.items() if is_required]
        for arguments in (required, list(kind.arg_types)):
            names.update(_names_called(kind(**{name: exp.column("x", quoted=True) for name in arguments})))
    return frozenset(names) - _BACKTRACKING


def _names_called(call: exp.Expr) -> list[str]:
    """The functions in what sqlglot writes for a call; none where it cannot write one with these arguments."""
    try:
        text = call.sql(dialect="spark", unsupported_level=ErrorLevel.IGNORE)
    except (SqlglotError, AttributeError, LookupError, TypeError, ValueError):
        return []
    return [name.lower() for name in re.findall(r"\b(\w+)\(", text)]


@lru_cache(maxsize=256)
def check_spark_text(text: str, relations: tuple[str, ...], functions: tuple[str, ...]) -> frozenset[str]:
    """The names that a text has between backticks. Raises `spark_text_refused` where the text is not a plan's query.

    `relations` are the plan's, all of which it has to read; `functions` are the user's that it may call.
    """
    try:
        tokens = Spark().tokenize(text)
        statements = sqlglot.parse(text, dialect="spark")
    except SqlglotError as failure:
        raise refused("it cannot be read again") from failure
    except RecursionError as failure:
        raise error("syntax_error", detail="the question is nested too deeply") from failure
    if len(statements) != 1 or not isinstance(statements[0], exp.Query):
        raise refused("it is not one query")
    read = {_relation(table) for table in statements[0].find_all(exp.Table)}
    if read != set(relations):
        raise refused(f"it reads {sorted(read)} instead of {sorted(relations)}")
    for place, token in enumerate(tokens):
        _check_token(tokens, place, token, functions)
    return frozenset(token.text for token in tokens if token.token_type == TokenType.IDENTIFIER)


def _relation(table: exp.Table) -> str:
    """The parameter that names a table: there is no other way for a text to read anything."""
    call = table.this
    beside = [key for key, value in table.args.items() if value and key not in ("this", "alias", "joins")]
    given = call.expressions if isinstance(call, exp.Anonymous) and call.name == "IDENTIFIER" else []
    if len(given) != 1 or not isinstance(given[0], exp.Placeholder) or beside:
        raise refused("it names a table by itself")
    return given[0].name


def _check_token(tokens: list[Token], place: int, token: Token, functions: tuple[str, ...]) -> None:
    """A name or a text between quotes, a number, a sign, a word of the grammar, a known function or a parameter."""
    before = tokens[place - 1] if place else None
    is_call = place + 1 < len(tokens) and tokens[place + 1].token_type == TokenType.L_PAREN
    word = token.text.lower()
    if token.comments:
        raise refused("it has a comment")
    if token.token_type in (TokenType.STRING, TokenType.NUMBER) and not is_call:
        return
    if token.token_type == TokenType.IDENTIFIER:
        # In AS `x`(`a`, `b`) the columns of a table get other names.
        is_alias = before is not None and before.token_type == TokenType.ALIAS
        if is_call and not is_alias and token.text not in functions:
            raise refused(f'it calls "{token.text}"')
    elif token.token_type == TokenType.COLON:
        _check_parameter(tokens, place)
    elif (before is not None and before.token_type == TokenType.COLON) or word == "identifier":
        return  # part of a parameter, or of the name of a table
    elif token.text in _SIGNS:
        if is_call and token.text == ")":
            raise refused("it calls what it computes")
    elif not (
        (is_call and word in known_functions())
        or (not is_call and word in _TIME_PARTS)
        or word in _TYPES
        or all(part in _GRAMMAR for part in word.split())
    ):
        raise refused(f'it has "{token.text}"')


def _check_parameter(tokens: list[Token], place: int) -> None:
    """`:now`, or `:r0` inside of IDENTIFIER(). In STRUCT<`x`: INT> a colon is none."""
    name = tokens[place + 1].text if place + 1 < len(tokens) else ""
    if place and tokens[place - 1].token_type == TokenType.IDENTIFIER and name.lower() in _TYPES:
        return
    around = [token.text for token in tokens[max(0, place - 2) : place]]
    is_relation = around == ["IDENTIFIER", "("] and _RELATION.fullmatch(name) is not None
    if name != NOW and not is_relation:
        raise refused(f'it has a parameter "{name}"')
