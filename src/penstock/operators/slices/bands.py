"""Which rows an inner aggregate picks: those whose x lies on the right side of one edge, or of several.

An edge is `COMPARISON HOW CONSTANT`: x compared with the inner aggregate times (`mul`) or plus (`add`) the constant, or how far x
is from the inner aggregate compared with the constant (`off`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from penstock.operators.slices.approximate.intervals import key_values, order_keys

Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Edge:
    comparison: str
    how: str
    constant: float

    def __str__(self) -> str:
        return f"{self.comparison} {self.how} {self.constant!r}"


Edges = tuple[Edge, ...]


def edges_of(words: list[str]) -> Edges:
    """Three words each."""
    return tuple(Edge(words[i], words[i + 1], float(words[i + 2])) for i in range(0, len(words), 3))


def picked(x: Floats, inner: float, edges: Edges) -> Mask:
    """Which rows lie on the right side of all edges."""
    found = np.ones(len(x), np.bool_)
    for edge in edges:
        found &= _side(x, inner, edge)
    return found


def _side(x: Floats, inner: float, edge: Edge) -> Mask:
    if edge.how == "off":
        with np.errstate(invalid="ignore", over="ignore"):
            return compared(np.abs(x - inner), edge.constant, edge.comparison)
    threshold = inner * edge.constant if edge.how == "mul" else inner + edge.constant
    return compared(x, threshold, edge.comparison)


def compared(x: Floats, threshold: float, comparison: str) -> Mask:
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


def cuts_of(inner: float, edges: Edges) -> list[tuple[int, str]]:
    """The same edges on the line of order keys, each with the side that is meant."""
    cuts: list[tuple[int, str]] = []
    for edge in edges:
        if edge.how == "off":
            cuts += _around(inner, edge)
        else:
            threshold = inner * edge.constant if edge.how == "mul" else inner + edge.constant
            cuts.append((_key(threshold), edge.comparison))
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


def _key(value: float) -> int:
    return int(order_keys(np.array([value], np.float64))[0])
