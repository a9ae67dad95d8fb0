"""Which rows an inner aggregate selects: rows with x on the right side of one edge, or of several.

An edge is `COMPARISON HOW CONSTANT`. `mul` and `add` compare x with the inner aggregate times or plus the constant. `off`
compares the distance of x from the inner aggregate with the constant. `mul64` and `add32` do the same for integers of that
many bits, which wrap around as everywhere in SQL.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from penstock.operators.aggregate.approximate.intervals import key_values, order_keys
from penstock.operators.aggregate.partials.base import Numbers

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Edge:
    comparison: str
    how: str
    constant: int | float

    @property
    def rises(self) -> bool:
        """Whether a greater inner aggregate never means a lower threshold. Whole numbers may wrap around."""
        if self.how.startswith("mul"):
            return self.constant > 0 if self.how == "mul" else self.constant == 1
        return self.how == "add"

    def threshold(self, inner: int | float) -> int | float:
        """What x is compared with."""
        how, bits = self.how[:3], int(self.how[3:] or 0)
        if not bits:
            inner = float(inner)
            return inner * self.constant if how == "mul" else inner + self.constant
        whole = int(inner) * int(self.constant) if how == "mul" else int(inner) + int(self.constant)
        half = 1 << (bits - 1)
        return (whole + half) % (2 * half) - half

    def __str__(self) -> str:
        return f"{self.comparison} {self.how} {self.constant!r}"


Edges = tuple[Edge, ...]


def edges_of(words: list[str]) -> Edges:
    """Three words each."""
    return tuple(_edge(*words[i : i + 3]) for i in range(0, len(words), 3))


def _edge(comparison: str, how: str, constant: str) -> Edge:
    return Edge(comparison, how, int(constant) if how[3:].isdecimal() else float(constant))


def picked(x: Numbers, inner: int | float, edges: Edges) -> Mask:
    """Which rows lie on the right side of all edges."""
    found = np.ones(len(x), np.bool_)
    for edge in edges:
        found &= _side(x, inner, edge)
    return found


def _side(x: Numbers, inner: int | float, edge: Edge) -> Mask:
    if edge.how == "off":
        with np.errstate(invalid="ignore", over="ignore"):
            return compared(np.abs(x - float(inner)), edge.constant, edge.comparison)
    return compared(x, edge.threshold(inner), edge.comparison)


def compared(x: Numbers, threshold: int | float, comparison: str) -> Mask:
    """Comparisons as SQL makes them: NaN is greater than everything and equal to itself."""
    nan, limit = np.isnan(x), bool(np.isnan(threshold))
    above = ~nan & False if limit else (x > threshold) | nan
    same = nan if limit else x == threshold
    found: Mask = {
        "gt": above,
        "ge": above | same,
        "lt": ~(above | same),
        "le": ~above,
    }[comparison]
    return found


def cuts_of(inner: int | float, edges: Edges, whole: bool = False) -> list[tuple[int, str]]:
    """The same edges on the line of order keys, each with the side that is meant. `whole`: x are whole numbers."""
    cuts: list[tuple[int, str]] = []
    for edge in edges:
        if edge.how == "off":
            cuts += _around(float(inner), edge)
        else:
            cuts.append((_key(edge.threshold(inner), whole), edge.comparison))
    return cuts


def _around(inner: float, edge: Edge) -> list[tuple[int, str]]:
    """From the first to the last x that is near enough. Rounded differences decide, so the ends are searched for."""
    if not np.isfinite(inner) or not _near(_key(inner), inner, edge):
        return [(_key(np.nan), "gt")]  # nothing is
    low, high = _key(-np.inf), _key(np.inf)
    return [(_last(_key(inner), low, inner, edge), "ge"), (_last(_key(inner), high, inner, edge), "le")]


def _last(near: int, far: int, inner: float, edge: Edge) -> int:
    """The last key on the way from one that is near enough that is so, too."""
    if _near(far, inner, edge):
        return far
    while abs(far - near) > 1:
        middle = near + (far - near) // 2 if far > near else near - (near - far) // 2
        near, far = (middle, far) if _near(middle, inner, edge) else (near, middle)
    return near


def _near(key: int, inner: float, edge: Edge) -> bool:
    return bool(_side(key_values(np.array([key])), inner, edge)[0])


def _key(value: int | float, whole: bool = False) -> int:
    return int(order_keys(np.array([value], np.int64 if whole else np.float64))[0])
