"""Functions whose meaning in PostgreSQL differs from Spark's function of that name, written in Spark's words.

In: the name, translated arguments and the type of a call. Out: a tree of Spark SQL. `spark_text` asks here first.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.parsers.spark import SparkParser

from penstock.types import Type

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
    once = all(_is_short(value) or places.count(name) < 2 for name, value in arguments.items())
    if not once:
        names = [name for name in arguments if name in places]
        fields = ", ".join(f"'{name}', {name}" for name in names)
        inner = re.sub(rf"\b({'|'.join(names)})\b(?!')", r"a.\1", text)
        form = _parsed(f"transform(array(named_struct({fields})), a -> {inner})[0]")
    found = form.copy()
    root = exp.Paren(this=found)
    for column in list(root.find_all(exp.Column)):
        if column.name in arguments and not column.table:
            value = arguments[column.name].copy()
            column.replace(exp.Paren(this=value) if isinstance(value, exp.Binary | exp.Not) else value)
    return root


def _is_short(value: exp.Expr) -> bool:
    return isinstance(value, exp.Column | exp.Literal) or (isinstance(value, exp.Cast) and _is_short(value.this))


@lru_cache(maxsize=512)
def _parsed(text: str) -> exp.Expr:
    found = _Forms().parse(text)[0]
    assert found is not None
    return found


def form_functions() -> frozenset[str]:
    """Names of the functions that forms call."""
    words = re.findall(r"\b(\w+)\(", " ".join(FORMS.values()))
    return frozenset(word.lower() for word in (*words, "transform", "array", "named_struct"))
