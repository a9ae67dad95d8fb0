"""Rows sorted into the gaps between constants, and the vectors of all comparisons read off that order.

For constants c0 < c1 < ... gap 2i lies below c(i), gap 2i + 1 is c(i) itself, gap 2k lies above all (NaN too).
`a < c(i)` is then a prefix of the order, `a = c(i)` one gap, `a >= c(i)` the rest.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.operators.bits import Words
from penstock.operators.kernel import kernel

LT, LE, GT, GE, EQ, NE, IN, NOT_IN = range(8)

Int64s = npt.NDArray[np.int64]
Int32s = npt.NDArray[np.int32]


@kernel
def find_gaps(values: npt.NDArray[Any], constants: npt.NDArray[Any], valid: Words) -> Int32s:
    """The gap of every row; -1 where it is NULL.

    A grid of equal cells over the constants says where to look: a value's cell is a monotone function of it, so only
    the constants of its own cell can be on either side. Uneven constants cost a search by halves inside a cell.
    """
    count = len(constants)
    cells = min(4 * count + 1, 16_384)
    lowest = float(constants[0])
    span = float(constants[count - 1]) - lowest
    scale = (cells - 1) / span if 0.0 < span < np.inf else 0.0
    firsts = np.zeros(cells + 1, np.int64)
    for i in range(count):
        firsts[_cell(float(constants[i]), lowest, scale, cells) + 1] += 1
    for cell in range(cells):
        firsts[cell + 1] += firsts[cell]
    out = np.empty(len(values), np.int32)
    for row in range(len(values)):
        if not (valid[row >> 6] >> np.uint64(row & 63)) & np.uint64(1):
            out[row] = -1
            continue
        value = values[row]
        if value != value:
            out[row] = 2 * count  # NaN is above everything
            continue
        cell = _cell(float(value), lowest, scale, cells)
        low, high = firsts[cell], firsts[cell + 1]
        while low < high:
            middle = (low + high) >> 1
            if constants[middle] < value:
                low = middle + 1
            else:
                high = middle
        out[row] = 2 * low + 1 if low < count and constants[low] == value else 2 * low
    return out


@kernel
def _cell(value: float, lowest: float, scale: float, cells: int) -> int:
    at = (value - lowest) * scale
    # The comparison is false for NaN, which only 0 * infinity can give: then there is one cell.
    if not at > 0.0:
        return 0
    return int(at) if at < cells - 1 else cells - 1


@kernel
def sort_by_gap(gaps: Int32s, gap_count: int) -> tuple[Int32s, Int64s]:
    """Rows in the order of their gaps, ascending within one, NULLs left out; and where each gap begins."""
    edges = np.zeros(gap_count + 1, np.int64)
    for row in range(len(gaps)):
        if gaps[row] >= 0:
            edges[gaps[row] + 1] += 1
    for gap in range(gap_count):
        edges[gap + 1] += edges[gap]
    order = np.empty(edges[gap_count], np.int32)
    fill = edges.copy()
    for row in range(len(gaps)):
        gap = gaps[row]
        if gap >= 0:
            order[fill[gap]] = row
            fill[gap] += 1
    return order, edges


@kernel
def fill_rows(
    order: Int32s,
    edges: Int64s,
    valid: Words,
    codes: npt.NDArray[np.int8],
    starts: Int64s,
    indices: Int64s,
    places: Int64s,
    out: Words,
) -> None:
    """Write the vector of each comparison to its place (none where that is negative).

    Comparisons come in the order of their constants, so that the prefix only ever grows.
    """
    words = len(valid)
    one = np.uint64(1)
    prefix = np.zeros(words, np.uint64)
    done = 0
    for m in range(len(codes)):
        place, code = places[m], codes[m]
        if place < 0:
            continue
        if code in (EQ, IN):
            for w in range(words):
                out[place, w] = 0
        elif code in (NE, NOT_IN):
            for w in range(words):
                out[place, w] = valid[w]
        else:
            gap = 2 * indices[starts[m]] + (1 if code in (LT, GE) else 2)
            while done < edges[gap]:
                row = order[done]
                prefix[row >> 6] |= one << np.uint64(row & 63)
                done += 1
            if code in (LT, LE):
                for w in range(words):
                    out[place, w] = prefix[w]
            else:
                for w in range(words):
                    out[place, w] = valid[w] ^ prefix[w]
            continue
        for i in range(starts[m], starts[m + 1]):
            gap = 2 * indices[i] + 1
            for at in range(edges[gap], edges[gap + 1]):
                row = order[at]
                if code in (EQ, IN):
                    out[place, row >> 6] |= one << np.uint64(row & 63)
                else:
                    out[place, row >> 6] &= ~(one << np.uint64(row & 63))
