"""Correlated aggregates from the rows of the window: a tree over the order of x, with all sums of y in its nodes.

A row that leaves the window is taken out of its leaf and the nodes above are summed again: nothing is ever subtracted.
"""

from __future__ import annotations

import numpy as np

from bench.papers.base import Floats, Ints
from bench.papers.compilation import kernel
from bench.papers.correlated.cuts import INNERS, as_numbers, cut_at
from bench.papers.correlated.question import Question

COUNT, SUM, LEAST, MOST, X_SUM = range(5)


def exact_answers(question: Question, x: Floats, y: Floats, starts: Ints, fresh: int = 0) -> Floats:
    """One answer for each row from `fresh` on; row i's window begins at row `starts[i - fresh]`. NaN is SQL's NULL."""
    order = np.argsort(x, kind="stable")
    leaves = np.empty(len(x), np.int64)
    leaves[order] = np.arange(len(x))
    sums = band_sums(x, y, leaves, x[order], starts, fresh, as_numbers(question), INNERS[question.inner])
    return outer_of(question, sums)


def outer_of(question: Question, sums: Floats) -> Floats:
    """The outer aggregate from count, sum, least and most of y."""
    counts = sums[:, COUNT]
    if question.outer == "count":
        return counts
    with np.errstate(invalid="ignore", divide="ignore"):
        found = {"sum": sums[:, SUM], "avg": sums[:, SUM] / counts, "min": sums[:, LEAST], "max": sums[:, MOST]}
    return np.where(counts > 0, found[question.outer], np.nan)


def landmark_starts(count: int) -> Ints:
    """Every window begins with the first row."""
    return np.zeros(count, np.int64)


def sliding_starts(times: Ints, window: int) -> Ints:
    """Where the window of each row begins: rows with `time > own time - window`."""
    return np.searchsorted(times, times - window, side="right").astype(np.int64)


@kernel
def band_sums(
    x: Floats, y: Floats, leaves: Ints, in_order: Floats, starts: Ints, fresh: int, edges: Floats, inner: int
) -> Floats:
    width = 1
    while width < max(1, len(x)):
        width *= 2
    tree = np.zeros((2 * width, 5))
    tree[:, LEAST], tree[:, MOST] = np.inf, -np.inf
    out = np.empty((len(x) - fresh, 4))
    gone = 0
    for i in range(len(x)):
        leaf = tree[width + leaves[i]]
        leaf[COUNT], leaf[SUM], leaf[LEAST], leaf[MOST], leaf[X_SUM] = 1.0, y[i], y[i], y[i], x[i]
        _sum_up(tree, (width + leaves[i]) // 2)
        if i < fresh:
            continue
        while gone < starts[i - fresh]:
            leaf = tree[width + leaves[gone]]
            leaf[COUNT], leaf[SUM], leaf[LEAST], leaf[MOST], leaf[X_SUM] = 0.0, 0.0, np.inf, -np.inf, 0.0
            _sum_up(tree, (width + leaves[gone]) // 2)
            gone += 1
        if inner == 2:
            middle = tree[1, X_SUM] / tree[1, COUNT]
        else:
            middle = in_order[_outermost(tree, width, inner == 0)]
        low = int(np.searchsorted(in_order, cut_at(edges[0], middle, -np.inf)))
        high = len(x) if edges[1, 0] == 0.0 else int(np.searchsorted(in_order, cut_at(edges[1], middle, np.inf)))
        _between(tree, width + low, width + max(low, high), out[i - fresh])
    return out


@kernel
def _sum_up(tree: Floats, node: int) -> None:
    while node >= 1:
        left, right = tree[2 * node], tree[2 * node + 1]
        tree[node, COUNT] = left[COUNT] + right[COUNT]
        tree[node, SUM] = left[SUM] + right[SUM]
        tree[node, LEAST] = min(left[LEAST], right[LEAST])
        tree[node, MOST] = max(left[MOST], right[MOST])
        tree[node, X_SUM] = left[X_SUM] + right[X_SUM]
        node //= 2


@kernel
def _outermost(tree: Floats, width: int, first: bool) -> int:
    """The first or last leaf that holds a row."""
    node = 1
    while node < width:
        near = 2 * node if first else 2 * node + 1
        node = near if tree[near, COUNT] > 0 else 4 * node + 1 - near
    return node - width


@kernel
def _between(tree: Floats, low: int, high: int, out: Floats) -> None:
    """Sums over the leaves from `low` to before `high`."""
    out[COUNT], out[SUM], out[LEAST], out[MOST] = 0.0, 0.0, np.inf, -np.inf
    while low < high:
        if low & 1:
            _take(tree[low], out)
            low += 1
        if high & 1:
            high -= 1
            _take(tree[high], out)
        low //= 2
        high //= 2


@kernel
def _take(node: Floats, out: Floats) -> None:
    out[COUNT] += node[COUNT]
    out[SUM] += node[SUM]
    out[LEAST] = min(out[LEAST], node[LEAST])
    out[MOST] = max(out[MOST], node[MOST])
