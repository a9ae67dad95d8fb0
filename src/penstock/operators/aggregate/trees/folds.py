"""Compiled loops of the aggregate tree: fold rows into nodes, nodes into nodes, and a short range of either into one.

All give (count, upper, lower, least, greatest) as `totals.Totals` has them. For doubles NaN is the largest value, so it
is where the smallest begins.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.expr.kernel import kernel

FANOUT = 32
_SMALLEST, _LARGEST = np.iinfo(np.int64).min, np.iinfo(np.int64).max
_LOWER_HALF = 2**32 - 1


@kernel
def fold_doubles(values: Any, valid: Any, first: int, end: int) -> Any:
    count, total, rest, least, greatest = 0, 0.0, 0.0, np.nan, -np.inf
    for i in range(first, end):
        if not valid[i]:
            continue
        v = values[i]
        count += 1
        new = total + v
        part = new - total
        rest += (total - (new - part)) + (v - part)
        total = new
        if least != least or v < least:
            least = v
        if v != v or v > greatest:
            greatest = v
    return count, total, rest, least, greatest


@kernel
def fold_integers(values: Any, valid: Any, first: int, end: int) -> Any:
    count, upper, lower, least, greatest = 0, 0, 0, _LARGEST, _SMALLEST
    for i in range(first, end):
        if not valid[i]:
            continue
        v = values[i]
        count += 1
        upper += v >> 32
        lower += v & _LOWER_HALF
        least = min(least, v)
        greatest = max(greatest, v)
    return count, upper, lower, least, greatest


@kernel
def merge_doubles(nodes: Any, first: int, end: int) -> Any:
    counts, uppers, lowers, leasts, greatests = nodes
    count, total, rest, least, greatest = 0, 0.0, 0.0, np.nan, -np.inf
    for i in range(first, end):
        v = uppers[i]
        count += counts[i]
        new = total + v
        part = new - total
        rest += ((total - (new - part)) + (v - part)) + lowers[i]
        total = new
        if counts[i]:
            if least != least or leasts[i] < least:
                least = leasts[i]
            if greatests[i] != greatests[i] or greatests[i] > greatest:
                greatest = greatests[i]
    return count, total, rest, least, greatest


@kernel
def merge_integers(nodes: Any, first: int, end: int) -> Any:
    counts, uppers, lowers, leasts, greatests = nodes
    count, upper, lower, least, greatest = 0, 0, 0, _LARGEST, _SMALLEST
    for i in range(first, end):
        count += counts[i]
        upper += uppers[i]
        lower += lowers[i]
        least = min(least, leasts[i])
        greatest = max(greatest, greatests[i])
    return count, upper, lower, least, greatest


@kernel
def leaf_doubles(values: Any, valid: Any, rows: int, first: int, end: int, into: Any) -> None:
    """Nodes first .. end over `rows` rows."""
    counts, uppers, lowers, leasts, greatests = into
    for n in range(first, end):
        counts[n], uppers[n], lowers[n], leasts[n], greatests[n] = fold_doubles(
            values, valid, n * FANOUT, min(rows, (n + 1) * FANOUT)
        )


@kernel
def leaf_integers(values: Any, valid: Any, rows: int, first: int, end: int, into: Any) -> None:
    counts, uppers, lowers, leasts, greatests = into
    for n in range(first, end):
        counts[n], uppers[n], lowers[n], leasts[n], greatests[n] = fold_integers(
            values, valid, n * FANOUT, min(rows, (n + 1) * FANOUT)
        )


@kernel
def inner_doubles(below: Any, nodes: int, first: int, end: int, into: Any) -> None:
    """Nodes first .. end over `nodes` nodes of the level below."""
    counts, uppers, lowers, leasts, greatests = into
    for n in range(first, end):
        counts[n], uppers[n], lowers[n], leasts[n], greatests[n] = merge_doubles(
            below, n * FANOUT, min(nodes, (n + 1) * FANOUT)
        )


@kernel
def inner_integers(below: Any, nodes: int, first: int, end: int, into: Any) -> None:
    counts, uppers, lowers, leasts, greatests = into
    for n in range(first, end):
        counts[n], uppers[n], lowers[n], leasts[n], greatests[n] = merge_integers(
            below, n * FANOUT, min(nodes, (n + 1) * FANOUT)
        )
