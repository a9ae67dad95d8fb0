"""The oracle's own expressions: a tree that can be evaluated on a row and written as SQL for Penstock or for Spark."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

Row = Mapping[str, Any]
Dialect = Literal["penstock", "spark"]
BITS = {"INT": 32, "BIGINT": 64}


@dataclass(frozen=True)
class Const:
    """A constant; timestamps are microseconds."""

    value: Any
    type: str


@dataclass(frozen=True)
class Col:
    """A column. `origin` is static, stream or time."""

    name: str
    type: str
    origin: str


@dataclass(frozen=True)
class Op:
    """An operation of RULES on arguments of one type."""

    name: str
    arguments: tuple[Ex, ...]
    type: str


Ex = Const | Col | Op


def columns(ex: Ex) -> set[Col]:
    if isinstance(ex, Col):
        return {ex}
    return set().union(*(columns(a) for a in ex.arguments)) if isinstance(ex, Op) else set()


def conjuncts(ex: Ex | None) -> list[Ex]:
    """Factors of a predicate."""
    if ex is None:
        return []
    if isinstance(ex, Op) and ex.name == "and":
        return [factor for argument in ex.arguments for factor in conjuncts(argument)]
    return [ex]


def is_static(ex: Ex) -> bool:
    return all(column.origin == "static" for column in columns(ex))


# -- evaluating


def value(ex: Ex, row: Row) -> Any:
    """The value on a row of flat columns; None is NULL."""
    if isinstance(ex, Const):
        return ex.value
    if isinstance(ex, Col):
        return row[ex.name]
    arguments = [value(a, row) for a in ex.arguments]
    if ex.name in LENIENT:
        return LENIENT[ex.name](arguments)
    if None in arguments:
        return None
    found = STRICT[ex.name](arguments)
    return wrap(found, ex.type) if ex.type in BITS and found is not None else found


def wrap(number: int, kind: str) -> int:
    half = 1 << (BITS[kind] - 1)
    return (number + half) % (2 * half) - half


def order(left: Any, right: Any) -> int:
    """-1, 0 or 1; NaN equals NaN and is above every number; text by its bytes."""
    if isinstance(left, str):
        left, right = left.encode(), right.encode()
    if isinstance(left, float) or isinstance(right, float):
        left_nan, right_nan = math.isnan(left), math.isnan(right)
        if left_nan or right_nan:
            return int(left_nan) - int(right_nan)
    return int(left > right) - int(left < right)


def _and(a: list[Any]) -> Any:
    return False if False in a else None if None in a else True


def _or(a: list[Any]) -> Any:
    return True if True in a else None if None in a else False


def _in(a: list[Any]) -> Any:
    if a[0] is None:
        return None
    if any(option is not None and order(a[0], option) == 0 for option in a[1:]):
        return True
    return None if None in a[1:] else False


def _negate(truth: Any) -> Any:
    return None if truth is None else not truth


def _case(a: list[Any]) -> Any:
    for condition, chosen in zip(a[:-1:2], a[1::2], strict=True):
        if condition is True:
            return chosen
    return a[-1]


def _between(a: list[Any]) -> Any:
    low = None if a[0] is None or a[1] is None else order(a[0], a[1]) >= 0
    high = None if a[0] is None or a[2] is None else order(a[0], a[2]) <= 0
    return _and([low, high])


def _best(sign: int) -> Callable[[list[Any]], Any]:
    def run(a: list[Any]) -> Any:
        best = None
        for item in a:
            if item is not None and (best is None or sign * order(item, best) > 0):
                best = item
        return best

    return run


LENIENT: dict[str, Callable[[list[Any]], Any]] = {
    "and": _and,
    "or": _or,
    "is_null": lambda a: a[0] is None,
    "is_not_null": lambda a: a[0] is not None,
    "in": _in,
    "not_in": lambda a: _negate(_in(a)),
    "between": _between,
    "case": _case,
    "coalesce": lambda a: next((x for x in a if x is not None), None),
    "nullif": lambda a: None if None not in a and order(a[0], a[1]) == 0 else a[0],
    "greatest": _best(1),
    "least": _best(-1),
}


def _div(a: list[Any]) -> Any:
    left, right = a
    if right == 0:
        return None
    if isinstance(left, float):
        return left / right
    whole = abs(left) // abs(right)
    return whole if (left < 0) == (right < 0) else -whole


def _mod(a: list[Any]) -> Any:
    left, right = a
    if right == 0:
        return None
    if isinstance(left, float):
        return math.nan if math.isinf(left) or math.isnan(left) or math.isnan(right) else math.fmod(left, right)
    return abs(left) % abs(right) * (-1 if left < 0 else 1)


def like(text: str, pattern: str) -> bool:
    if not pattern:
        return not text
    if pattern[0] == "%":
        return any(like(text[i:], pattern[1:]) for i in range(len(text) + 1))
    if pattern[0] == "\\" and len(pattern) > 1:
        return text[:1] == pattern[1] and like(text[1:], pattern[2:])
    return bool(text) and pattern[0] in ("_", text[0]) and like(text[1:], pattern[1:])


STRICT: dict[str, Callable[[list[Any]], Any]] = {
    "not": lambda a: not a[0],
    "eq": lambda a: order(*a) == 0,
    "ne": lambda a: order(*a) != 0,
    "lt": lambda a: order(*a) < 0,
    "le": lambda a: order(*a) <= 0,
    "gt": lambda a: order(*a) > 0,
    "ge": lambda a: order(*a) >= 0,
    "like": lambda a: like(*a),
    "not_like": lambda a: not like(*a),
    "ilike": lambda a: like(a[0].lower(), a[1].lower()),
    "add": lambda a: a[0] + a[1],
    "sub": lambda a: a[0] - a[1],
    "mul": lambda a: a[0] * a[1],
    "div": _div,
    "mod": _mod,
    "neg": lambda a: -a[0],
    "abs": lambda a: abs(a[0]),
    "lower": lambda a: a[0].lower(),
    "upper": lambda a: a[0].upper(),
    "length": lambda a: len(a[0]),
    "concat": lambda a: "".join(a),
    "substring": lambda a: a[0][a[1] - 1 : a[1] - 1 + a[2]],
    "to_double": lambda a: float(a[0]),
}

# -- writing

_INFIX = {
    "eq": "=",
    "ne": "<>",
    "lt": "<",
    "le": "<=",
    "gt": ">",
    "ge": ">=",
    "and": "AND",
    "or": "OR",
    "add": "+",
    "sub": "-",
    "mul": "*",
    "div": "/",
    "mod": "%",
    "like": "LIKE",
    "not_like": "NOT LIKE",
    "ilike": "ILIKE",
    "concat": "||",
}


def write(ex: Ex, name: Callable[[Col], str], dialect: Dialect) -> str:
    """SQL text; `name` spells a column."""
    if isinstance(ex, Const):
        return constant_text(ex, dialect)
    if isinstance(ex, Col):
        return name(ex)
    parts = [write(a, name, dialect) for a in ex.arguments]
    if ex.name == "div" and dialect == "spark" and ex.type in BITS:
        # Spark's / on integers divides as doubles; its `div` gives BIGINT.
        return f"CAST(({parts[0]} DIV {parts[1]}) AS {ex.type})"
    if ex.name in _INFIX:
        return "(" + f" {_INFIX[ex.name]} ".join(parts) + ")"
    match ex.name:
        case "not":
            return f"(NOT {parts[0]})"
        case "neg":
            return f"(- {parts[0]})"
        case "is_null":
            return f"({parts[0]} IS NULL)"
        case "is_not_null":
            return f"({parts[0]} IS NOT NULL)"
        case "between":
            return f"({parts[0]} BETWEEN {parts[1]} AND {parts[2]})"
        case "in" | "not_in":
            return f"({parts[0]} {'NOT IN' if ex.name == 'not_in' else 'IN'} ({', '.join(parts[1:])}))"
        case "case":
            pairs = zip(parts[:-1:2], parts[1::2], strict=True)
            return "CASE " + " ".join(f"WHEN {c} THEN {v}" for c, v in pairs) + f" ELSE {parts[-1]} END"
        case "to_double":
            return f"CAST({parts[0]} AS DOUBLE)"
    return f"{ex.name}({', '.join(parts)})"


def constant_text(constant: Const, dialect: Dialect) -> str:
    held = constant.value
    if held is None:
        return "NULL"
    match constant.type:
        case "BOOLEAN":
            return "TRUE" if held else "FALSE"
        case "TEXT":
            return text_literal(held, dialect)
        case "TIMESTAMP":
            return f"TIMESTAMP '{timestamp_text(held)}{'Z' if dialect == 'spark' else ''}'"
        case "DOUBLE":
            return f"CAST({held!r} AS DOUBLE)" if dialect == "spark" else f"({held!r})" if held < 0 else repr(held)
        case "BIGINT" if dialect == "spark":
            return f"CAST({held} AS BIGINT)"
    return f"({held})" if held < 0 else str(held)


def text_literal(text: str, dialect: Dialect) -> str:
    if dialect == "spark":
        # Spark reads backslashes inside quotes as escapes; PostgreSQL, and so Penstock, does not.
        return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
    return "'" + text.replace("'", "''") + "'"


def timestamp_text(us: int) -> str:
    """2026-11-15 08:30:00.000001, by calendar arithmetic of the standard library."""
    from datetime import datetime, timedelta

    return (datetime(1970, 1, 1) + timedelta(microseconds=us)).isoformat(" ", "microseconds")
