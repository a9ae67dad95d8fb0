"""Rules of the listed functions: how arguments are brought to types and which type comes out.

`penstock.sql.functions` is the list. A function that is neither there nor the user's own is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from sqlglot import exp

from penstock.errors import suggest
from penstock.sql.functions import CALLS, FUNCTIONS, FunctionSpec
from penstock.sql.values import DURATION, NULL
from penstock.types import BIGINT, BOOLEAN, DOUBLE, TEXT, Type, parse_type

Result = Callable[[list[Type]], Type]


@dataclass(frozen=True, slots=True)
class Rule:
    """`arguments`: a type for each (the last repeats), a word of `FunctionSpec.arguments`, or None for any type.

    `least` and `most` count the arguments of a call by name; sqlglot counts those of its own nodes.
    """

    arguments: tuple[Type | str | None, ...]
    result: Type | Result
    least: int = 0
    most: int | None = None


def _sum(types: list[Type]) -> Type:
    if types[0].kind == "DECIMAL":
        return Type("DECIMAL", precision=min(38, types[0].precision + 10), scale=types[0].scale)
    return types[0] if types[0] in (DOUBLE, DURATION) else BIGINT


_RESULTS: dict[str, Result] = {
    "same": lambda types: types[0],
    "common": lambda types: types[-1],
    "array": lambda types: Type("ARRAY", element=types[0]),
    "element": lambda types: types[0].element or NULL,
    "sum": _sum,
    "average": lambda types: DURATION if types[0] == DURATION else DOUBLE,
}


def _rule(function: FunctionSpec) -> Rule:
    words = [word for word in re.split(r"[\s,\[\]]+", function.arguments) if word and word != "unit"]
    repeats = "..." in words
    arguments = tuple(_argument(word) for word in words if word != "...")
    optional = len(
        [word for word in function.arguments.partition("[")[2].replace("[", "").split(",") if word.strip("] ")]
    )
    result = _RESULTS.get(function.result) or parse_type(function.result)
    return Rule(arguments, result, len(arguments) - optional, None if repeats else len(arguments))


def _argument(word: str) -> Type | str | None:
    if word == "any":
        return None
    return parse_type(word) if word.isupper() else word


def _rules(functions: Iterable[FunctionSpec]) -> dict[type[exp.Expr], Rule]:
    return {function.node: _rule(function) for function in functions if function.node is not None}


SCALARS: dict[type[exp.Expr], Rule] = {
    **_rules(f for f in FUNCTIONS if f.kind == "scalar"),
    # The operator ~*.
    exp.RegexpILike: Rule((TEXT,), BOOLEAN),
}
AGGREGATES: dict[type[exp.Expr], Rule] = _rules(f for f in FUNCTIONS if f.kind == "aggregate")
# Only with OVER (...).
RANKING = _rules(f for f in FUNCTIONS if f.kind == "ranking")
RULES: dict[type[exp.Expr], Rule] = {**SCALARS, **AGGREGATES, **RANKING}

# Functions that are called by name, because sqlglot's node would lose arguments or their meaning.
SPARK_FUNCTIONS = {name: _rule(function) for name, function in CALLS.items()}
SPARK_AGGREGATES = frozenset(name for name, function in CALLS.items() if function.kind == "aggregate")


def known_functions(own: Iterable[str]) -> list[str]:
    """Names that a question may call, for suggestions."""
    return [*own, *(name for function in FUNCTIONS for name in function.names)]


def missing_hint(name: str, own: Iterable[str]) -> str:
    """What to do about a function that is not there."""
    return (
        suggest(name, known_functions(own))
        or "docs/reference/functions.md lists all functions; CREATE FUNCTION adds one"
    )
