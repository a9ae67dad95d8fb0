"""Bound expressions: what a kernel can evaluate over Arrow columns, as plain data.

The binder in `sql` builds them, `expr.evaluate` evaluates them, and plans hold them as JSON. NULL follows SQL's
three-valued logic. The binder leaves queries with an operation outside `functions.OPERATIONS` to Spark SQL.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from sys import intern
from typing import Any

from penstock.types import Type, parse_type


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant. Timestamps are integers (microseconds), decimals and binaries text (hex for binaries)."""

    value: Any
    type: Type

    def __eq__(self, other: object) -> bool:
        """NaN equals NaN here: equal expressions are evaluated once, and one that differs from itself would be two."""
        if not isinstance(other, Literal):
            return NotImplemented
        same = self.value == other.value or (self.value != self.value and other.value != other.value)
        return bool(same) and self.type == other.type

    def __hash__(self) -> int:
        # The hash of NaN is that of its object.
        return hash((self.value if self.value == self.value else None, self.type))

    def __str__(self) -> str:
        return repr(self.value)


@dataclass(frozen=True, slots=True)
class Column:
    """A column by its flat name (catalog.model.FlatColumn). `static` ones are known before any reading."""

    name: str
    type: Type
    static: bool = False

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Call:
    """An operation on arguments, e.g. `gt`, `and`, `add`, `like`, `in`, `case`, `lower`."""

    operation: str
    arguments: tuple[Expr, ...]
    type: Type

    def __str__(self) -> str:
        return f"{self.operation}({', '.join(map(str, self.arguments))})"


@dataclass(frozen=True, slots=True)
class UserCall:
    """A call of a user's function. Runs in the pipeline's workers only."""

    function: str
    arguments: tuple[Expr, ...]
    type: Type

    def __str__(self) -> str:
        return f"{self.function}({', '.join(map(str, self.arguments))})"


Expr = Literal | Column | Call | UserCall


def walk(expr: Expr) -> Iterator[Expr]:
    """The expression and everything below it, outermost first."""
    yield expr
    if isinstance(expr, Call | UserCall):
        for argument in expr.arguments:
            yield from walk(argument)


def columns_of(expr: Expr) -> set[str]:
    return {node.name for node in walk(expr) if isinstance(node, Column)}


def conjuncts(expr: Expr | None) -> list[Expr]:
    """The arguments of nested ANDs."""
    if expr is None:
        return []
    if isinstance(expr, Call) and expr.operation == "and":
        return [part for argument in expr.arguments for part in conjuncts(argument)]
    return [expr]


def with_columns(expr: Expr, change: Callable[[Column], Expr]) -> Expr:
    """The expression with what `change` gives in place of each column."""
    if isinstance(expr, Call | UserCall):
        return replace(expr, arguments=tuple(with_columns(argument, change) for argument in expr.arguments))
    return change(expr) if isinstance(expr, Column) else expr


def substituted(expr: Expr, columns: Mapping[str, Expr]) -> Expr:
    """The expression with other expressions in place of columns, by name."""
    return with_columns(expr, lambda column: columns[column.name])


def calls_user(expr: Expr) -> bool:
    """Whether it calls a user's function: such code runs in workers only, and may fail."""
    return not isinstance(expr, Column | Literal) and any(isinstance(node, UserCall) for node in walk(expr))


def is_static(expr: Expr) -> bool:
    """Whether static columns alone decide it, so that the initial scan may use it."""
    return all(not isinstance(node, UserCall) and (not isinstance(node, Column) or node.static) for node in walk(expr))


def to_json(expr: Expr) -> dict[str, Any]:
    match expr:
        case Literal(value, type_):
            # JSON has no NaN and no infinity; as text they read back as themselves.
            plain = isinstance(value, float) and not math.isfinite(value)
            return {"literal": str(value) if plain else value, "type": str(type_)}
        case Column(name, type_, static):
            return {"column": name, "type": str(type_), "static": static}
        case Call(operation, arguments, type_):
            return {"call": operation, "arguments": [to_json(a) for a in arguments], "type": str(type_)}
        case UserCall(function, arguments, type_):
            return {"function": function, "arguments": [to_json(a) for a in arguments], "type": str(type_)}


# Plans of ten thousand queries name the same columns and operations: they are kept once.
_column = lru_cache(maxsize=1024)(Column)
_comparison = lru_cache(maxsize=1 << 14)(Call)


def from_json(data: dict[str, Any]) -> Expr:
    type_ = parse_type(data["type"])
    if "literal" in data:
        value = data["literal"]
        return Literal(float(value) if type_.kind == "DOUBLE" and isinstance(value, str) else value, type_)
    if "column" in data:
        return _column(data["column"], type_, data["static"])
    arguments = tuple(from_json(a) for a in data["arguments"])
    if "call" in data:
        make = _comparison if _is_shared(arguments) else Call
        return make(intern(data["call"]), arguments, type_)
    return UserCall(data["function"], arguments, type_)


def _is_shared(arguments: tuple[Expr, ...]) -> bool:
    """Whether a call compares a column with a whole number or a text; of other numbers, 0.0 and -0.0 are equal and not the same."""
    match arguments:
        case (Column(), Literal(value)):
            return type(value) in (int, str)
    return False
