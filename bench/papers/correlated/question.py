"""Which rows an outer aggregate sees, as plain data: a band of x whose edges move with an inner aggregate of x."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from penstock.errors import error

Inner: TypeAlias = Literal["min", "max", "avg"]
Outer: TypeAlias = Literal["count", "sum", "avg", "min", "max"]


@dataclass(frozen=True, slots=True)
class Edge:
    """The value `factor * inner + offset`; whether a row exactly there is seen."""

    factor: float = 1.0
    offset: float = 0.0
    inclusive: bool = True


@dataclass(frozen=True, slots=True)
class Question:
    """Outer aggregate of y over the rows whose x lies between two edges; without an edge the band is open there."""

    inner: Inner
    outer: Outer = "count"
    low: Edge | None = None
    high: Edge | None = None

    def __post_init__(self) -> None:
        edges = [edge for edge in (self.low, self.high) if edge is not None]
        if not edges or any(edge.factor < 0 for edge in edges):
            raise error("invalid_parameter", detail="a correlated aggregate compares with a factor of 0 or more")

    def mirrored(self) -> Question:
        """The same question about -x: MAX becomes MIN."""
        return Question(_MIRRORED[self.inner], self.outer, _negated(self.high), _negated(self.low))


_MIRRORED: dict[Inner, Inner] = {"min": "max", "max": "min", "avg": "avg"}


def _negated(edge: Edge | None) -> Edge | None:
    return None if edge is None else replace(edge, offset=-edge.offset)


def near_min(share: float, outer: Outer = "count") -> Question:
    """x <= (1 + share) * MIN(x)."""
    return Question("min", outer, high=Edge(1 + share))


def near_max(share: float, outer: Outer = "count") -> Question:
    """x >= (1 - share) * MAX(x)."""
    return Question("max", outer, low=Edge(1 - share))


def above_avg(factor: float = 1.0, outer: Outer = "count") -> Question:
    """x > factor * AVG(x)."""
    return Question("avg", outer, low=Edge(factor, inclusive=False))


def below_avg(factor: float = 1.0, outer: Outer = "count") -> Question:
    """x < factor * AVG(x)."""
    return Question("avg", outer, high=Edge(factor, inclusive=False))


def around_avg(distance: float, outer: Outer = "count") -> Question:
    """x within `distance` of AVG(x)."""
    return Question("avg", outer, Edge(offset=-distance), Edge(offset=distance))
