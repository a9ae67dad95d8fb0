"""Plans by the shape of a text: of many selections that differ in constants alone, only the first two are parsed and bound.

A shape is a text with a mark in place of each constant that stands alone at one side of a comparison. Its plan is learned from
the plan of one text of the shape and that of another with constants that occur nowhere else. It is used only if the second
plan, with the constants of the first text put in, equals the first plan, and only for comparisons that AND and OR connect.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import count

from penstock.cache import Cache
from penstock.catalog.model import Table
from penstock.catalog.state import CatalogState
from penstock.errors import PenstockError
from penstock.expr.expression import Call, Column, Expr, Literal, walk
from penstock.sql.plan import Plan, SelectPlan
from penstock.types import BIGINT, DOUBLE, INT

SHAPES_KEPT = 2048
TEXT_MAX = 1_000
# Texts without quotes, comments and parameters: in these a number is a number.
_PLAIN = re.compile(r"[A-Za-z0-9_.,()<>=+* \n-]+")
# Nine digits are an INT whatever they are.
_CONSTANT = re.compile(r"(\b[a-z_]\w*\s*(?:=|<>|<=|>=|<|>)\s*)(\d{1,9})(?=\s+(?:AND|OR|BEGIN)\b|\s*$)", re.IGNORECASE)
_STRANGE = 1_500_000_007  # the first of the constants that a shape is learned with: they have ten digits, and are INT
_CONNECTED = {"and", "or", "eq", "ne", "lt", "le", "gt", "ge"}


@dataclass(frozen=True, slots=True)
class _Shape:
    """What texts of a shape mean, for as long as their table is this one."""

    table: Table
    plan: SelectPlan
    places: Mapping[int, int]  # by the constant that stands in the plan: which one of the text it is


@dataclass(frozen=True, slots=True)
class ShapedText:
    """A text that was not parsed, and its plan."""

    sql: str
    plan: SelectPlan


class PlanShapes:
    """The shapes of selections that were registered last. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: Cache[str, _Shape] = Cache(most=SHAPES_KEPT)
        self._seen: Cache[str, bool] = Cache(most=SHAPES_KEPT)

    def plan(self, text: str, state: CatalogState) -> ShapedText | None:
        """A text with its plan; None where it has to be planned."""
        shape = _shape_of(text)
        with self._lock:
            known = self._known.get(shape) if shape is not None else None
        if known is None or state.tables_by_id.get(known.plan.table_id) is not known.table:
            return None
        return ShapedText(text.strip(" \n"), _with_constants(known, _constants_of(text)))

    def learn(self, text: str, plan: SelectPlan, state: CatalogState, planned: Callable[[str], Plan]) -> None:
        """Note how a text was planned. `planned` plans another; it is asked when a shape comes for the second time."""
        shape = _shape_of(text)
        if shape is None or not _is_simple(plan):
            return
        with self._lock:
            seen = self._seen.get(shape)
            self._seen.put(shape, True)
        found = _learned(text, plan, state, planned) if seen else None
        if found is not None:
            with self._lock:
                self._known.put(shape, found)


def _shape_of(text: str) -> str | None:
    """None for texts that are planned each on its own."""
    if len(text) > TEXT_MAX or "--" in text or not _PLAIN.fullmatch(text):
        return None
    shape, constants = _CONSTANT.subn(r"\1?", text.strip(" \n"))
    return shape if constants else None


def _constants_of(text: str) -> list[int]:
    return [int(found[2]) for found in _CONSTANT.finditer(text)]


def _is_simple(plan: SelectPlan) -> bool:
    """Whether the plan depends on its text and its table alone: on no function that could come to be another one."""
    parts = [part for expr in _predicates(plan) for part in walk(expr)]
    plain = all(not isinstance(part, Call) or part.operation in _CONNECTED for part in parts)
    return (
        plain and not plan.functions and plan.lasting is None and all(isinstance(o.expr, Column) for o in plan.outputs)
    )


def _predicates(plan: SelectPlan) -> list[Expr]:
    return [expr for expr in (plan.static_predicate, plan.stream_predicate) if expr is not None]


def _learned(text: str, plan: SelectPlan, state: CatalogState, planned: Callable[[str], Plan]) -> _Shape | None:
    constants = _constants_of(text)
    numbers = count(_STRANGE)
    strange = _CONSTANT.sub(lambda found: f"{found[1]}{next(numbers)}", text)
    if any(str(_STRANGE + place) in text for place in range(len(constants))):
        return None
    try:
        other = planned(strange).selection
    except PenstockError:
        return None
    if other is None:
        return None
    literals = [part for expr in _predicates(other) for part in walk(expr) if isinstance(part, Literal)]
    places = {_STRANGE + place: place for place in range(len(constants))}
    if not places.keys() <= {part.value for part in literals if _is_number(part)}:
        return None
    found = _Shape(state.tables_by_id[plan.table_id], other, places)
    return found if _with_constants(found, constants) == plan else None


def _is_number(part: Literal) -> bool:
    return part.type in (INT, BIGINT, DOUBLE) and isinstance(part.value, int | float)


def _with_constants(shape: _Shape, constants: list[int]) -> SelectPlan:
    def placed(expr: Expr) -> Expr:
        if isinstance(expr, Call):
            return Call(expr.operation, tuple(placed(argument) for argument in expr.arguments), expr.type)
        if isinstance(expr, Literal) and _is_number(expr) and expr.value in shape.places:
            return Literal(type(expr.value)(constants[shape.places[expr.value]]), expr.type)
        return expr

    plan = shape.plan
    static, stream = plan.static_predicate, plan.stream_predicate
    return replace(
        plan,
        static_predicate=placed(static) if static is not None else None,
        stream_predicate=placed(stream) if stream is not None else None,
    )
