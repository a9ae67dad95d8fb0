"""CLUSTERS: groups of rows that are near to each other.

Lloyd's k-means without chance: clusters come from splits at means instead of random rows, and a merge of two with a split of another leads
out of most local optima. So the same rows have the same clusters, on every machine and in every order.
"""

from __future__ import annotations

import numpy as np

from penstock.errors import error
from penstock.expr.kernel import kernel
from penstock.operators.mining.order_statistics import percentile_of
from penstock.operators.mining.sample import Sample
from penstock.operators.mining.series import Columns, Floats, Ints, Options

MOST_DIMENSIONS = 1024
MOST_WORK = 20_000_000
"""Rows times numbers of a row times clusters, at most: each round takes as many steps, and there may be hundreds."""
_ROUNDS, _IMPROVEMENTS = 100, 20
_TIE = 1e-9
"""Sums of squares that are so near to each other are equal: then the first cluster or dimension counts."""
_QUARTILES = 1.349


def clusters(sample: Sample, options: Options) -> Columns:
    """The clusters by size: rows, share, centre, and the root of the mean squared distance from it. Sizes are those of all rows."""
    count, wide = sample.points.shape
    most = int(options["k"])
    if wide > MOST_DIMENSIONS or count * wide * most > MOST_WORK:
        detail = f"CLUSTERS would find {most} clusters of {count} rows of {wide} numbers"
        hint = f"make sample or k smaller; a row has at most {MOST_DIMENSIONS} numbers"
        raise error("over_budget", detail=detail, hint=hint)
    points = _scaled(sample.points) if options["scale"] else sample.points
    labels = partition(points, most) if count else np.empty(0, np.int64)
    known = [labels == label for label in np.unique(labels).tolist()]
    centers = [sample.points[own].mean(axis=0) for own in known]
    squares = [float(np.square(points[own] - points[own].mean(axis=0)).sum()) for own in known]
    sizes = [int(own.sum()) for own in known]
    order = sorted(range(len(known)), key=lambda c: (-sizes[c], np.round(centers[c], 9).tolist()))
    shares = np.array([sizes[c] / count for c in order], np.float64)
    shown = np.empty(len(order), object)
    shown[:] = [centers[c].tolist() for c in order]
    radii = np.sqrt([squares[c] / sizes[c] for c in order])
    return np.round(shares * sample.total).astype(np.int64), shares, shown, radii


def _scaled(points: Floats) -> Floats:
    """Dimensions about their median, in units of their deviation as quartiles tell it; those that are constant are left out."""
    columns = []
    for column in points.T:
        ordered = np.sort(column)
        if not len(ordered) or ordered[0] == ordered[-1]:
            continue
        low, middle, high = (percentile_of(ordered, len(ordered), fraction) for fraction in (0.25, 0.5, 0.75))
        spread = (high - low) / _QUARTILES if high > low else float(np.std(column, ddof=1))
        columns.append((column - middle) / spread)
    return np.column_stack(columns) if columns else np.empty((len(points), 0))


def partition(points: Floats, most: int) -> Ints:
    """The cluster of each row, `most` of them or fewer."""
    return _partition(np.ascontiguousarray(points), most)


@kernel
def _partition(points: Floats, most: int) -> Ints:
    count, wide = points.shape
    labels = np.zeros(count, np.int64)
    centers, sizes = np.zeros((most, wide)), np.zeros(most, np.int64)
    _find_centers(points, labels, centers, sizes)
    for number in range(1, most):
        squares, dimensions, edges, savings = _splits(points, labels, centers, sizes)
        widest = -1
        for c in range(number):
            if savings[c] > 0 and (widest < 0 or squares[c] > squares[widest] * (1 + _TIE)):
                widest = c
        if widest < 0:
            break  # every row of a cluster is like the others
        _move(points, labels, widest, dimensions[widest], edges[widest], number)
        _find_centers(points, labels, centers, sizes)
    total = _settle(points, labels, centers, sizes)
    for _ in range(_IMPROVEMENTS):
        one, two, cost = _nearest_pair(centers, sizes)
        _, dimensions, edges, savings = _splits(points, labels, centers, sizes)
        best = -1
        for c in range(most):
            if c != one and c != two and savings[c] > (0.0 if best < 0 else savings[best] * (1 + _TIE)):
                best = c
        if one < 0 or best < 0 or savings[best] <= cost * (1 + _TIE):
            break
        before = labels.copy()
        for i in range(count):
            if labels[i] == two:
                labels[i] = one
        _move(points, labels, best, dimensions[best], edges[best], two)
        _find_centers(points, labels, centers, sizes)
        better = _settle(points, labels, centers, sizes)
        if better >= total * (1 - _TIE):
            return before
        total = better
    return labels


@kernel
def _settle(points: Floats, labels: Ints, centers: Floats, sizes: Ints) -> float:
    """Lloyd's rounds: each row goes to the nearest centre, until none moves. Returns the sum of squared distances."""
    for _ in range(_ROUNDS):
        if not _assign(points, labels, centers, sizes):
            break
        _find_centers(points, labels, centers, sizes)
    total = 0.0
    for i in range(len(points)):
        total += _squared(points[i], centers[labels[i]])
    return total


@kernel
def _assign(points: Floats, labels: Ints, centers: Floats, sizes: Ints) -> bool:
    """Give each row to the nearest centre of a cluster that has rows; whether any row has moved."""
    moved = False
    for i in range(len(points)):
        nearest, least = -1, np.inf
        for c in range(len(centers)):
            if sizes[c] > 0:
                distance = _squared(points[i], centers[c])
                if nearest < 0 or distance < least * (1 - _TIE):
                    nearest, least = c, distance
        if nearest != labels[i]:
            labels[i] = nearest
            moved = True
    return moved


@kernel
def _squared(one: Floats, two: Floats) -> float:
    total = 0.0
    for j in range(len(one)):
        total += (one[j] - two[j]) ** 2
    return total


@kernel
def _find_centers(points: Floats, labels: Ints, centers: Floats, sizes: Ints) -> None:
    """The mean and the number of rows of each cluster."""
    centers[:] = 0
    sizes[:] = 0
    for i in range(len(points)):
        sizes[labels[i]] += 1
        for j in range(points.shape[1]):
            centers[labels[i], j] += points[i, j]
    for c in range(len(centers)):
        if sizes[c] > 0:
            centers[c] /= sizes[c]


@kernel
def _splits(points: Floats, labels: Ints, centers: Floats, sizes: Ints) -> tuple[Floats, Ints, Floats, Floats]:
    """How each cluster would be split in two: its sum of squares, the widest dimension, the mean there, and what that would save."""
    most, wide = centers.shape
    spreads = np.zeros((most, wide))
    for i in range(len(points)):
        for j in range(wide):
            spreads[labels[i], j] += (points[i, j] - centers[labels[i], j]) ** 2
    dimensions, edges, savings = np.zeros(most, np.int64), np.zeros(most), np.zeros(most)
    for c in range(most):
        for j in range(wide):
            if spreads[c, j] > spreads[c, dimensions[c]] * (1 + _TIE):
                dimensions[c] = j
        if wide > 0 and sizes[c] > 0:
            # A little above the mean: the order of additions does not decide about a row that lies on it.
            edges[c] = centers[c, dimensions[c]] + _TIE * np.sqrt(spreads[c, dimensions[c]] / sizes[c])
    above, sums = np.zeros(most, np.int64), np.zeros((most, wide))
    for i in range(len(points)):
        c = labels[i]
        if wide > 0 and points[i, dimensions[c]] > edges[c]:
            above[c] += 1
            for j in range(wide):
                sums[c, j] += points[i, j] - centers[c, j]
    for c in range(most):
        below = sizes[c] - above[c]
        if above[c] > 0 and below > 0:
            # The other part is as far on the other side: the sums about the mean are opposite.
            savings[c] = (sums[c] ** 2).sum() * (1 / above[c] + 1 / below)
    return spreads.sum(axis=1), dimensions, edges, savings


@kernel
def _move(points: Floats, labels: Ints, of: int, dimension: int, edge: float, to: int) -> None:
    """Make the rows of a cluster above an edge another cluster."""
    for i in range(len(points)):
        if labels[i] == of and points[i, dimension] > edge:
            labels[i] = to


@kernel
def _nearest_pair(centers: Floats, sizes: Ints) -> tuple[int, int, float]:
    """The two clusters that cost least when they become one, and by how much the sum of squares grows; -1: there are no two."""
    one, two, least = -1, -1, np.inf
    for a in range(len(centers)):
        for b in range(a + 1, len(centers)):
            if sizes[a] + sizes[b] > 0:  # one that has lost its rows costs nothing
                cost = _squared(centers[a], centers[b]) * (sizes[a] * sizes[b] / (sizes[a] + sizes[b]))
                if one < 0 or cost < least * (1 - _TIE):
                    one, two, least = a, b, cost
    return one, two, least
