"""Values brought to types: what PostgreSQL converts silently, and the error for everything else."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import NoReturn

from sqlglot import exp

from penstock.catalog.model import Function
from penstock.errors import PenstockError, error
from penstock.sql.binding.context import Role
from penstock.sql.binding.functions import Rule
from penstock.sql.nodes import Const
from penstock.sql.positions import point, span_of
from penstock.sql.scope import Scope
from penstock.sql.values import DURATION, NULL, constant, convert, meet, show, type_of, typed
from penstock.types import DOUBLE, INT, TEXT, Field, Type

Bound = exp.Expr
SubqueryBinder = Callable[[exp.Query, Scope, Role], list[Field]]


class Coercion(ABC):
    """What every part of the binder needs: errors with carets, and values brought to types.

    `used_functions` collects the user's functions that are called.
    """

    def __init__(self, text: str, functions: Mapping[str, Function], subquery: SubqueryBinder | None = None) -> None:
        self.text = text
        self.functions = functions
        self.subquery = subquery
        self.used_functions: set[str] = set()

    def fail(self, node: exp.Expr, failure: PenstockError, around: exp.Expr | None = None) -> NoReturn:
        """Raise an error with a caret at a node or, if it stands nowhere, at the one around it."""
        at = span_of(node)
        raise point(failure, self.text, span_of(around) if at is None and around is not None else at) from None

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
    return node.sql_name().lower() if isinstance(node, exp.Func) else words_of(node)


def words_of(node: exp.Expr) -> str:
    return type(node).__name__
