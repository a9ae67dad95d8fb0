"""Values brought to types: what PostgreSQL converts silently, what functions take and give, and the error for everything else.

`penstock.sql.functions` is the list of functions. One that is neither there nor the user's own is refused.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NoReturn

from sqlglot import exp

from penstock.catalog.model import Function
from penstock.errors import PenstockError, error, suggest
from penstock.sql.binding.context import Role
from penstock.sql.functions import CALLS, FUNCTIONS, FunctionSpec
from penstock.sql.nodes import Const
from penstock.sql.positions import point, span_of
from penstock.sql.scope import Scope
from penstock.sql.values import DURATION, NULL, constant, convert, meet, show, type_of, typed
from penstock.types import BIGINT, BOOLEAN, DOUBLE, INT, TEXT, Field, Type, parse_type

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


AGGREGATES = _rules(f for f in FUNCTIONS if f.kind == "aggregate")
RANKING = _rules(f for f in FUNCTIONS if f.kind == "ranking")  # only with OVER (...)
RULES: dict[type[exp.Expr], Rule] = {**_rules(FUNCTIONS), exp.RegexpILike: Rule((TEXT,), BOOLEAN)}  # the operator ~*

# Functions that are called by name, because sqlglot's node would lose arguments or their meaning.
SPARK_FUNCTIONS = {name: _rule(function) for name, function in CALLS.items()}
SPARK_AGGREGATES = frozenset(name for name, function in CALLS.items() if function.kind == "aggregate")


def missing_hint(name: str, own: Iterable[str]) -> str:
    """What to do about a function that is not there."""
    known = [*own, *(name for function in FUNCTIONS for name in function.names)]
    return suggest(name, known) or "docs/reference/functions.md lists all functions; CREATE FUNCTION adds one"


Bound = exp.Expr
SubqueryBinder = Callable[[exp.Query, Scope, Role], list[Field]]


class Coercion(ABC):
    """What every part of the binder needs: errors with carets, and values brought to types.

    `used_functions` collects the user's functions that are called; `mines` says whether a mining function is.
    """

    def __init__(self, text: str, functions: Mapping[str, Function], subquery: SubqueryBinder | None = None) -> None:
        self.text = text
        self.functions = functions
        self.subquery = subquery
        self.used_functions: set[str] = set()
        self.mines = False

    def fail(self, node: exp.Expr, failure: PenstockError, around: exp.Expr | None = None) -> NoReturn:
        """Raise an error with a caret at a node or, if it stands nowhere, at the one around it."""
        at = span_of(node)
        raise point(failure, self.text, span_of(around) if at is None and around is not None else at) from None

    @contextmanager
    def pointing(self, node: exp.Expr, around: exp.Expr | None = None) -> Iterator[None]:
        """Errors inside get a caret as in `fail`, unless they have one."""
        try:
            yield
        except PenstockError as failure:
            self.fail(node, failure, around)

    def coerce(self, node: Bound, target: Type) -> Bound:
        """The node with the target type; a constant is converted, anything else is cast."""
        source = type_of(node)
        if source == target:
            return node
        if isinstance(node, Const):
            if source == NULL:
                return constant(None, target, node)
            try:
                return constant(convert(node.value, source, target), target, node)
            except PenstockError as failure:
                self.fail(node, failure)
        return typed(exp.Cast(this=node, to=exp.DataType(this=exp.DType.UNKNOWN)), target)

    def unify(self, nodes: list[Bound], at: exp.Expr, doing: str) -> list[Bound]:
        """All nodes with the one type they meet in. Quoted texts take the type of the others."""
        firm = [n for n in nodes if not (isinstance(n, Const) and n.meta.get("loose"))]
        target: Type | None = type_of(firm[0]) if firm else None
        for node in firm[1:]:
            target = self.common_type(target or NULL, type_of(node), at, doing)
        settled = {id(node) for node in firm}
        for node in nodes:
            if id(node) in settled:
                continue
            if target is None or target == NULL:
                target = type_of(node)
            elif not (type_of(node) == TEXT and isinstance(node, Const)):
                target = self.common_type(target, type_of(node), at, doing)
        return [self.coerce(node, target or TEXT) for node in nodes]

    def common_type(self, left: Type, right: Type, at: exp.Expr, doing: str) -> Type:
        found = meet(left, right)
        if found is None:
            hint = None
            if DURATION in (left, right) and (left.is_numeric or right.is_numeric):
                hint = "write a duration with its unit, such as 10 SECONDS"
            elif TEXT in (left, right):
                hint = "use CAST(... AS ...) if that is meant"
            self.fail(at, error("type_mismatch", detail=f"cannot {doing} {show(left)} with {show(right)}", hint=hint))
        return found

    def _apply(self, rule: Rule, nodes: list[Bound], at: exp.Expr) -> tuple[list[Bound], Type]:
        if "common" in rule.arguments:
            nodes = self.unify(nodes, at, "mix")
        else:
            for index, node in enumerate(nodes):
                wanted = rule.arguments[min(index, len(rule.arguments) - 1)] if rule.arguments else None
                if wanted == "element":
                    wanted = type_of(nodes[0]).element
                nodes[index] = self._argument(node, wanted, at)
        types = [type_of(node) for node in nodes]
        return nodes, rule.result if isinstance(rule.result, Type) else rule.result(types or [NULL])

    def _argument(self, node: Bound, wanted: Type | str | None, at: exp.Expr) -> Bound:
        found = type_of(node)
        if wanted is None or found == wanted:
            return self.coerce(node, INT) if found == NULL else node
        if wanted in ("number", "real"):
            if found == NULL or (wanted == "real" and found.kind == "DECIMAL"):
                return self.coerce(node, DOUBLE)
            if not found.is_numeric and found != DURATION:
                detail = f"{name_of(at)} needs a number, this is {show(found)}"
                self.fail(node, error("type_mismatch", detail=detail), at)
            return node
        if wanted == "array":
            if found.kind != "ARRAY":
                detail = f"{name_of(at)} needs an array, this is {show(found)}"
                self.fail(node, error("type_mismatch", detail=detail), at)
            return node
        assert isinstance(wanted, Type)
        if not (isinstance(node, Const) and (node.meta.get("loose") or found == NULL)) and meet(found, wanted) is None:
            self.fail(node, error("type_mismatch", detail=f"{name_of(at)} needs {wanted}, this is {show(found)}"), at)
        return self.coerce(node, wanted)

    @abstractmethod
    def bind(self, node: exp.Expr, scope: Scope) -> Bound:
        """The expression, bound."""

    @abstractmethod
    def predicate(self, node: exp.Expr, scope: Scope, where: str) -> Bound:
        """A condition, bound."""


def name_of(node: exp.Expr) -> str:
    if isinstance(node, exp.Anonymous):
        return node.name.lower()
    return node.sql_name().lower() if isinstance(node, exp.Func) else type(node).__name__
