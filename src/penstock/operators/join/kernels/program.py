"""Conditions without equality, as a tiny postfix program over the columns of the bound streams.

In: a bound expression and where its columns are. Out: a `Program`, or None where doubles and strict NULLs cannot give the
same as `expr.evaluate`: text, decimals, BIGINT columns, user functions, IS NULL, COALESCE, CASE, and OR or NOT over
what may be NULL. A program is true or not; NULL anywhere in what it loads, or a division by zero, makes it not true.
`papers.conditions` evaluates it row by row, `scan` one combination against a range of rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from penstock.expr.expression import Call, Column, Expr, Literal
from penstock.operators.join.papers.sides import Float64s, Int64s
from penstock.types import Type

# fmt: off
(LOAD, CONSTANT, ADD, SUB, MUL, DIV, NEG, ABS, SQRT, SQUARE, MIN, MAX,
 INT_ADD, INT_SUB, INT_MUL, INT_DIV, INT_NEG, INT_ABS, LT, LE, EQ, NE, AND, OR, NOT) = range(25)
# fmt: on
DEEPEST = 16
_EXACT = 2**53
_BINARY = {"add": (ADD, INT_ADD), "sub": (SUB, INT_SUB), "mul": (MUL, INT_MUL), "div": (DIV, INT_DIV)}
_UNARY = {"neg": (NEG, INT_NEG), "abs": (ABS, INT_ABS)}
# Comparison and whether its operands change places: a > b is b < a, also for NaN.
_COMPARISONS = {
    "lt": (LT, False),
    "le": (LE, False),
    "gt": (LT, True),
    "ge": (LE, True),
    "eq": (EQ, False),
    "ne": (NE, False),
}
_OPPOSITE = {"lt": "ge", "le": "gt", "gt": "le", "ge": "lt", "eq": "ne", "ne": "eq"}


@dataclass(frozen=True, slots=True)
class Slot:
    """Where a column is: a stream, and the row of its `Side.columns`. `nullable` False promises that no value is NULL."""

    stream: int
    column: int
    nullable: bool = True


@dataclass(frozen=True, slots=True)
class Program:
    """`code` has a line (operation, a, b) per step: LOAD stream column, CONSTANT index 0, or an operation on the stack."""

    code: Int64s
    constants: Float64s

    @property
    def loads(self) -> tuple[tuple[int, int], ...]:
        """The (stream, column) pairs that it reads, each once."""
        return tuple(dict.fromkeys((int(a), int(b)) for op, a, b in self.code if op == LOAD))

    @property
    def streams(self) -> frozenset[int]:
        """It can be tested as soon as these are bound."""
        return frozenset(stream for stream, _ in self.loads)


def compile_condition(expr: Expr, layout: Mapping[str, Slot]) -> Program | None:
    """The program of a condition, or None where `expr.evaluate` has to do it. `layout` is by flat column name."""
    compiler = _Compiler(layout)
    try:
        compiler.truth(expr)
    except _NotCovered:
        return None
    if compiler.deepest > DEEPEST:
        return None
    return Program(np.array(compiler.code, np.int64).reshape(-1, 3), np.array(compiler.constants, np.float64))


def all_of(programs: Sequence[Program]) -> Program:
    """One program that is true where all are."""
    code: list[tuple[int, int, int]] = []
    constants: list[float] = []
    for number, program in enumerate(programs):
        code += [(int(op), int(a) + len(constants) * (op == CONSTANT), int(b)) for op, a, b in program.code]
        code += [(AND, 0, 0)] if number else []
        constants += program.constants.tolist()
    return Program(np.array(code, np.int64).reshape(-1, 3), np.array(constants, np.float64))


class _NotCovered(Exception):
    pass


class _Compiler:
    def __init__(self, layout: Mapping[str, Slot]) -> None:
        self.layout = layout
        self.code: list[tuple[int, int, int]] = []
        self.constants: list[float] = []
        self.depth = self.deepest = 0

    def emit(self, operation: int, a: int = 0, b: int = 0, *, takes: int = 0) -> None:
        self.code.append((operation, a, b))
        self.depth += 1 - takes
        self.deepest = max(self.deepest, self.depth)

    def truth(self, expr: Expr) -> None:
        if not isinstance(expr, Call):
            raise _NotCovered
        operation, arguments = expr.operation, expr.arguments
        if operation in _COMPARISONS:
            self.comparison(operation, *arguments)
        elif operation == "and" or (operation == "or" and not self.may_be_null(expr)):
            self.truth(arguments[0])
            for argument in arguments[1:]:
                self.truth(argument)
                self.emit(AND if operation == "and" else OR, takes=2)
        elif operation == "not":
            self.negation(arguments[0])
        else:
            raise _NotCovered

    def negation(self, expr: Expr) -> None:
        if isinstance(expr, Call) and expr.operation in _OPPOSITE:
            self.comparison(_OPPOSITE[expr.operation], *expr.arguments)
        elif isinstance(expr, Call) and expr.operation == "not":
            self.truth(expr.arguments[0])
        elif not self.may_be_null(expr):
            # NULL AND FALSE is FALSE, so that its NOT is TRUE: only without NULLs is a whole conjunction turned round.
            self.truth(expr)
            self.emit(NOT, takes=1)
        else:
            raise _NotCovered

    def comparison(self, operation: str, left: Expr, right: Expr) -> None:
        code, swapped = _COMPARISONS[operation]
        first = self.value(right if swapped else left)
        second = self.value(left if swapped else right)
        if (first == "TIMESTAMP") != (second == "TIMESTAMP"):
            raise _NotCovered
        self.emit(code, takes=2)

    def value(self, expr: Expr) -> str:
        """Emit an expression; INT where the double holds a 32-bit integer, BIGINT where an exact time difference."""
        match expr:
            case Literal(value, type_):
                return self.literal(value, type_)
            case Column(name, type_):
                if name not in self.layout or type_.kind not in ("INT", "DOUBLE", "TIMESTAMP"):
                    raise _NotCovered
                slot = self.layout[name]
                self.emit(LOAD, slot.stream, slot.column)
                return type_.kind
            case Call():
                return self.call(expr)
        raise _NotCovered

    def literal(self, value: object, type_: Type) -> str:
        if type_.kind not in ("INT", "BIGINT", "DOUBLE") or not isinstance(value, int | float):
            raise _NotCovered
        if type_.kind == "BIGINT" and abs(value) > _EXACT:
            raise _NotCovered
        self.emit(CONSTANT, len(self.constants))
        self.constants.append(float(value))
        return type_.kind

    def call(self, expr: Call) -> str:
        operation, arguments, to = expr.operation, expr.arguments, expr.type.kind
        if operation in _BINARY:
            return self.arithmetic(expr)
        if operation in _UNARY:
            kind = self.number(arguments[0])
            self.emit(_UNARY[operation][kind == "INT"], takes=1)
            return _result(kind, to)
        if operation == "sqrt":
            self.number(arguments[0])
            self.emit(SQRT, takes=1)
            return _result("DOUBLE", to)
        if operation == "power" and isinstance(arguments[1], Literal) and arguments[1].value == 2:
            self.number(arguments[0])
            self.emit(SQUARE, takes=1)
            return _result("DOUBLE", to)
        if operation in ("greatest", "least") and not self.may_be_null(expr):
            return self.extreme(expr)
        if operation == "cast":
            return _result(self.number(arguments[0]), to)
        if operation == "diff_us" and all(self.value(a) == "TIMESTAMP" for a in arguments):
            self.emit(SUB, takes=2)
            return _result("BIGINT", to)
        raise _NotCovered

    def arithmetic(self, expr: Call) -> str:
        left, right = expr.arguments
        squared = expr.operation == "mul" and left == right
        kinds = [self.number(left)]
        if squared and kinds[0] == "DOUBLE":
            self.emit(SQUARE, takes=1)
            return _result("DOUBLE", expr.type.kind)
        kinds.append(self.number(right))
        if "DOUBLE" not in kinds and kinds != ["INT", "INT"]:
            raise _NotCovered
        kind = "DOUBLE" if "DOUBLE" in kinds else "INT"
        self.emit(_BINARY[expr.operation][kind == "INT"], takes=2)
        return _result(kind, expr.type.kind)

    def extreme(self, expr: Call) -> str:
        kinds = [self.number(expr.arguments[0])]
        for argument in expr.arguments[1:]:
            kinds.append(self.number(argument))
            self.emit(MAX if expr.operation == "greatest" else MIN, takes=2)
        if "BIGINT" in kinds:
            raise _NotCovered
        return _result("DOUBLE" if "DOUBLE" in kinds else "INT", expr.type.kind)

    def number(self, expr: Expr) -> str:
        kind = self.value(expr)
        if kind == "TIMESTAMP":
            raise _NotCovered
        return kind

    def may_be_null(self, expr: Expr) -> bool:
        match expr:
            case Literal(value):
                return value is None
            case Column(name):
                return name not in self.layout or self.layout[name].nullable
            case Call(operation, arguments):
                if operation == "div" and not (
                    isinstance(arguments[1], Literal) and arguments[1].value not in (None, 0)
                ):
                    return True
                return any(map(self.may_be_null, arguments))
        return True


def _result(kind: str, to: str) -> str:
    """What a value of `kind` is once it has the type of its call; only widening leaves every value as it is."""
    if to in {"INT": ("INT", "BIGINT", "DOUBLE"), "BIGINT": ("BIGINT", "DOUBLE"), "DOUBLE": ("DOUBLE",)}[kind]:
        return to
    raise _NotCovered
