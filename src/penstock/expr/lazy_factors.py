"""Factors that cost much: they are evaluated on rows that cheaper factors left undecided, those that save most for their cost first.

What is learned here is soft: it changes how often a function is called, never an answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from penstock.expr.attribute_index import Attribute
from penstock.expr.expression import Call, Expr, UserCall, columns_of, walk
from penstock.expr.normal_form import Both, Comparison, Either, normal_form
from penstock.functions import OPERATIONS

# Until they were measured.
_CALL_NS, _BUILT_IN_NS, _SHARE = 2_000.0, 50.0, 0.5
# The newest look counts for so much, and less if it was at few rows.
_NEWEST, _FEW_ROWS = 0.3, 32
# A factor moves forward if it is so much better than the one before it.
_BETTER = 1.2
# Every so many blocks two neighbours change places: what a factor keeps of other rows is seen only so.
_EXPLORE_EVERY = 64


def is_costly(expr: Expr) -> bool:
    """Whether it calls a user's function, or an operation that takes more than some 20 ns a row."""
    return any(
        isinstance(node, UserCall) or (isinstance(node, Call) and OPERATIONS[node.operation].is_costly)
        for node in walk(expr)
    )


def costly_factors(predicate: Expr) -> set[Expr]:
    """The expressions of a predicate that wait for the others: factors, and what is compared with constants."""
    found: set[Expr] = set()
    waiting = [normal_form(predicate)]
    while waiting:
        match waiting.pop():
            case Both(parts) | Either(parts):
                waiting += parts
            case Comparison(attribute):
                found.add(attribute)
            case factor:
                found.add(factor)
    return {expr for expr in found if is_costly(expr)}


@dataclass(slots=True)
class FactorFigures:
    """What became of a factor: rows that it was evaluated on, rows that it was spared, those that it kept."""

    calls: int = 0
    saved: int = 0
    kept: int = 0
    ms: float = 0.0
    switches: int = 0  # how often it moved forward in the order

    @property
    def ns(self) -> float:
        """Per row that it was evaluated on."""
        return self.ms * 1e6 / max(1, self.calls)

    @property
    def share(self) -> float:
        """Of these rows, those that it kept."""
        return self.kept / max(1, self.calls)

    @property
    def rank(self) -> float:
        """Rows that it decided per nanosecond."""
        return (1 - self.share) / max(self.ns, 1e-3)

    def plus(self, other: FactorFigures) -> FactorFigures:
        return FactorFigures(*(getattr(self, each.name) + getattr(other, each.name) for each in fields(self)))

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "ms": round(self.ms, 3)}


@dataclass(slots=True, eq=False)
class LazyFactor:
    """An expression that costs much: compared with constants (`attribute`), or true by itself (`slot`)."""

    expr: Expr
    attribute: Attribute | None = None
    slot: int = -1
    columns: frozenset[str] = field(init=False)
    calls: tuple[UserCall, ...] = field(init=False)
    ns: float = field(init=False)  # per row
    share: float = field(init=False, default=_SHARE)  # of the rows that reach it, those that it keeps
    figures: FactorFigures = field(init=False, default_factory=FactorFigures)

    def __post_init__(self) -> None:
        self.columns = frozenset(columns_of(self.expr))
        self.calls = tuple(node for node in walk(self.expr) if isinstance(node, UserCall))
        self.ns = _CALL_NS if self.calls else _BUILT_IN_NS

    @property
    def slots(self) -> Iterable[int]:
        return (self.slot,) if self.attribute is None else self.attribute.members.values()

    @property
    def rank(self) -> float:
        """Rows that it decides per nanosecond."""
        return (1 - self.share) / max(self.ns, 1e-3)

    def note(self, rows: int, called: int, kept: int, seconds: float) -> None:
        """It was evaluated on `called` of `rows` rows."""
        figures = self.figures
        figures.calls += called
        figures.saved += rows - called
        figures.kept += kept
        figures.ms += seconds * 1000
        if called:
            weight = _NEWEST * called / (called + _FEW_ROWS)
            self.ns += weight * (seconds * 1e9 / called - self.ns)
            self.share += weight * (kept / called - self.share)


Ordering = Callable[[list[LazyFactor]], list[LazyFactor]]
"""Which factor goes first in the next block. It may change the order of its argument, which it gets again."""


class LearnedOrder:
    """By what a factor decides per nanosecond, as far as that is known."""

    def __init__(self) -> None:
        self._blocks = 0

    def __call__(self, factors: list[LazyFactor]) -> list[LazyFactor]:
        for at in range(len(factors) - 1, 0, -1):
            if factors[at].rank > _BETTER * factors[at - 1].rank:
                factors[at].figures.switches += 1
                factors[at - 1 : at + 1] = factors[at], factors[at - 1]
        self._blocks += 1
        turn, left = divmod(self._blocks, _EXPLORE_EVERY)
        if left or len(factors) < 2:
            return factors
        tried, at = list(factors), turn % (len(factors) - 1)
        tried[at : at + 2] = tried[at + 1], tried[at]
        return tried
