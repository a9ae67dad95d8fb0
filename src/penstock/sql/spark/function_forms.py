"""Functions that mean something else in PostgreSQL than in Spark, or that Spark lacks, written in Spark's words.

In: the name, translated arguments and the type of a call. Out: a tree of Spark SQL. `text` asks here first.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, ClassVar

import sqlglot
from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.parsers.spark import SparkParser

from penstock.functions.regular_expressions import SOUGHT_MAX_CHARS, SPARK_PREFIX
from penstock.sql.binding.approximate import ERROR
from penstock.types import Type

# What compares every part of one argument with every part of another, and cannot be interrupted: NULL beyond this length.
COMPARED_MAX = SOUGHT_MAX_CHARS


def _short_text(name: str) -> str:
    return f"CASE WHEN length({name}) <= {COMPARED_MAX} THEN {name} END"


def _short_array(name: str) -> str:
    return f"CASE WHEN array_size({name}) <= {COMPARED_MAX} THEN {name} END"


# Spark finds equal numbers and texts by their hashes, but compares arrays, structs and binaries one by one.
NESTED_ARRAYS = {
    "array_distinct": f"array_distinct({_short_array('x')})",
    **{
        name: f"{name}({_short_array('x')}, {_short_array('y')})"
        for name in ("array_union", "array_intersect", "array_except", "arrays_overlap")
    },
}
SHORT_TEXT = _short_text("x")
# `x`, `y` and `z` are the arguments. A key is the name and the number of arguments, with the result's type where forms differ by it.
FORMS: dict[tuple[str, int] | tuple[str, int, str], str] = {
    ("log", 1): "log10(x)",
    ("div", 2): "x DIV y",
    (
        "div",
        2,
        "DOUBLE",
    ): "CASE WHEN abs(x / y) < 9007199254740992 THEN CAST(CAST(x / y AS BIGINT) AS DOUBLE) ELSE x / y END",
    ("div", 2, "DECIMAL"): "CASE WHEN x / y < 0 THEN ceil(x / y) ELSE floor(x / y) END",
    ("trunc", 1): "CASE WHEN x < 0 THEN ceil(x) ELSE floor(x) END",
    ("trunc", 1, "DOUBLE"): "CASE WHEN abs(x) < 9007199254740992 THEN CAST(CAST(x AS BIGINT) AS DOUBLE) ELSE x END",
    ("trunc", 2): "CASE WHEN x < 0 THEN ceil(x, y) ELSE floor(x, y) END",
    # Positions below 1 count, but have no character.
    ("substring", 2): "CASE WHEN y IS NOT NULL THEN substring(x, greatest(y, 1)) END",
    ("substring", 3): (
        "CASE WHEN z >= 0 AND y IS NOT NULL THEN substring(x, greatest(y, 1), "
        "CAST(least(greatest(CAST(y AS BIGINT) + z - greatest(y, 1), 0), 2147483647) AS INT)) END"
    ),
    ("left", 2): "left(x, CASE WHEN y < 0 THEN greatest(length(x) + y, 0) ELSE y END)",
    ("right", 2): "right(x, CASE WHEN y < 0 THEN greatest(length(x) + y, 0) ELSE y END)",
    ("split_part", 3): "CASE WHEN z <> 0 THEN split_part(x, y, z) END",
    ("initcap", 1): (
        "array_join(transform(regexp_extract_all(x, '([\\\\p{L}\\\\p{N}]+|[^\\\\p{L}\\\\p{N}]+)', 1), "
        "`q` -> concat(upper(left(`q`, 1)), lower(substring(`q`, 2)))), '')"
    ),
    ("chr", 1): (
        "CASE WHEN x BETWEEN 1 AND 55295 OR x BETWEEN 57344 AND 1114111 "
        "THEN decode(unhex(lpad(hex(x), 8, '0')), 'UTF-32') END"
    ),
    ("levenshtein", 2): f"levenshtein({_short_text('x')}, {_short_text('y')})",
    ("jaro_winkler_similarity", 2): f"jaro_winkler_similarity({_short_text('x')}, {_short_text('y')})",
    # Spark takes a key for a regular expression of Java's.
    ("parse_url", 3): (
        f"CASE WHEN y = 'QUERY' THEN {SPARK_PREFIX}regexp_group(try_parse_url(x, 'QUERY'), "
        "concat('(?:^|&)\\\\Q', z, '\\\\E=([^&]*)'), 1) END"
    ),
    ("to_char", 2): "date_format(x, y)",
    ("cardinality", 1): "array_size(x)",
    ("array_length", 1): "nullif(array_size(x), 0)",
    ("array_length", 2): "CASE WHEN y = 1 THEN nullif(array_size(x), 0) END",
    ("array_position", 2): "nullif(array_position(x, y), 0)",
    ("array_append", 2): "CASE WHEN x IS NULL THEN array(y) ELSE array_append(x, y) END",
    # Rounding goes by the shortest decimal of a double; where it went away from zero, one unit too many is taken back.
    ("trunc", 2, "DOUBLE"): (
        "CASE WHEN abs(round(x, y)) > abs(x) THEN round(round(x, y) - sign(x) * power(10D, -y), y) ELSE round(x, y) END"
    ),
}


class _FormParser(SparkParser):
    """Reads calls by their names: sqlglot's own node of log10 would be written as log(10, x), which is not exact."""

    FUNCTIONS: ClassVar[dict[str, Any]] = {}
    FUNCTION_PARSERS = {"CAST": SparkParser.FUNCTION_PARSERS["CAST"]}


class _Forms(Spark):
    Parser = _FormParser


_ARGUMENTS = ("x", "y", "z", "u", "v", "w")


def spark_form(name: str, arguments: list[exp.Expr], type_: Type) -> exp.Expr | None:
    """The call in Spark's words; None where Spark's function of that name means the same."""
    key = (name, len(arguments), type_.kind)
    text = FORMS.get(key) or FORMS.get(key[:2])
    return None if text is None else fill(text, dict(zip(_ARGUMENTS, arguments, strict=False)))


def fill(text: str, arguments: dict[str, exp.Expr]) -> exp.Expr:
    """A form with arguments in place of their names.

    A lambda names them where a form has a long one twice, so that nested calls stay short.
    """
    form = _parsed(text)
    places = [column.name for column in form.find_all(exp.Column)]
    long = [name for name, value in arguments.items() if name in places and not _is_short(value)]
    if any(places.count(name) > 1 for name in long):
        # All of them: no lambda may have a function of Python in it, which an argument may call.
        fields = ", ".join(f"'{name}', {name}" for name in long)
        inner = re.sub(rf"(?<!')\b({'|'.join(long)})\b(?!')", r"a.\1", text)
        form = _parsed(f"transform(array(named_struct({fields})), a -> {inner})[0]")
    found = form.copy()
    root = exp.Paren(this=found)
    for column in list(root.find_all(exp.Column)):
        if column.name in arguments and not column.table:
            value = arguments[column.name].copy()
            column.replace(exp.Paren(this=value) if isinstance(value, exp.Binary | exp.Not) else value)
    for call in list(root.find_all(exp.Anonymous)):
        if call.name == "concat" and all(isinstance(part, exp.Literal) for part in call.expressions):
            call.replace(exp.Literal.string("".join(part.name for part in call.expressions)))
    return root


def _is_short(value: exp.Expr) -> bool:
    wrapped = isinstance(value, exp.Cast | exp.Paren | exp.Neg)
    return isinstance(value, exp.Column | exp.Literal) or (wrapped and _is_short(value.this))


@lru_cache(maxsize=512)
def _parsed(text: str) -> exp.Expr:
    found = _Forms().parse(text)[0]
    assert found is not None
    return found


def form_functions() -> frozenset[str]:
    """Names of the functions that forms call."""
    words = re.findall(r"\b(\w+)\(", " ".join((*FORMS.values(), *NESTED_ARRAYS.values())))
    return frozenset(word.lower() for word in (*words, "transform", "array", "named_struct"))


# -- REPEAT, LPAD and RPAD, NULL where their text would be longer: one call with a large count could take all memory

TEXT_MAX_CHARS = 1_000_000

# `s`, `n` and `p` are the arguments. A lambda names them, so that none is written twice: nested calls stay short.
_BOUNDED = {
    "repeat": ("CAST(length(a.s) AS BIGINT) * a.n", "repeat(a.s, a.n)"),
    "lpad": ("a.n", "lpad(a.s, a.n, a.p)"),
    "rpad": ("a.n", "rpad(a.s, a.n, a.p)"),
}


def bounded_text(node: exp.Repeat | exp.Pad) -> exp.Expr:
    """The call in Spark's words. Its arguments are translated already."""
    if isinstance(node, exp.Repeat):
        name, count = "repeat", node.args["times"]
    else:
        name, count = "lpad" if node.args.get("is_left") else "rpad", node.expression
    length, call = _BOUNDED[name]
    fields = "named_struct('s', s, 'n', n, 'p', p)"
    text = f"transform(array({fields}), a -> CASE WHEN {length} <= {TEXT_MAX_CHARS} THEN {call} END)[0]"
    return _with_arguments(text, s=node.this, n=count, p=node.args.get("fill_pattern") or exp.Literal.string(" "))


def _with_arguments(text: str, **arguments: exp.Expr) -> exp.Expr:
    """A text of Spark SQL with arguments in place of their names."""
    found = sqlglot.parse_one(text, dialect="spark")
    for column in list(found.find_all(exp.Column)):
        if column.name in arguments and not column.table:
            column.replace(arguments[column.name].copy())
    return found


# -- approximate aggregates, which are exact in Spark where it can say them exactly

# `x` is the value, `k` what is special.
_APPROXIMATE = {
    "approx_count": "COUNT(x)",
    "approx_sum": "CAST(SUM(x) AS DOUBLE)",
    "approx_avg": "CAST(AVG(x) AS DOUBLE)",
    "approx_distinct": "COUNT(DISTINCT x)",
    "approx_percentile": "PERCENTILE(x, k)",
    "approx_top_k": "approx_top_k(x, CAST(k AS INT)) FILTER (WHERE NOT x IS NULL)",
    # Equal values stand side by side: runs are counted.
    "approx_norm": "aggregate(array_sort(collect_list(x)), "
    "named_struct('seen', false, 'last', try_element_at(collect_list(x), 1), 'run', 0D, 'total', 0D), "
    "(a, v) -> named_struct('seen', true, 'last', v, 'run', IF(a.seen AND a.last = v, a.run + 1D, 1D), "
    "'total', IF(a.seen AND a.last = v, a.total, a.total + power(a.run, k))), "
    "a -> IF(a.seen, power(a.total + power(a.run, k), 1D / k), CAST(NULL AS DOUBLE)))",
}


def spark_aggregate(node: exp.Expr) -> exp.Expr:
    """An approximate aggregate as Spark says it; its error is none, or for the most frequent values not known."""
    name = node.name
    if name.endswith(ERROR):
        none = "CAST(NULL AS DOUBLE)" if name.startswith("approx_top_k") else "CAST(0 AS DOUBLE)"
        # An aggregate all the same: a question of it alone has one row.
        return _with_arguments(f"IF(COUNT(*) >= 0, {none}, NULL)")
    value, special, *_ = node.expressions
    return _with_arguments(_APPROXIMATE[name], x=value, k=special)
