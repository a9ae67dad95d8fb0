"""Rows sorted into the gaps between constants, and the vectors of all comparisons read off that order.

For constants c0 < c1 < ... gap 2i lies below c(i), gap 2i + 1 is c(i) itself, gap 2k lies above all (NaN too).
`a < c(i)` is then a prefix of the order, `a = c(i)` one gap, `a >= c(i)` the rest.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.expr.bits import Words
from penstock.expr.kernel import kernel

Int64s = npt.NDArray[np.int64]
Int32s = npt.NDArray[np.int32]
Bytes = npt.NDArray[np.uint8]

# What a block of a vector is known to be: mixed vectors are written out, of the others only the state.
MIXED, EMPTY, FULL = range(3)

# Integer constants no farther apart than this have a table that gives the gap of each value.
TABLE_MAX = 65_536


@kernel
def gap_table(constants: Int64s) -> Int32s:
    """The gap of each value from one below the first constant to one above the last."""
    first = constants[0] - 1
    table = np.empty(constants[-1] - first + 2, np.int32)
    at = 0
    for value in range(len(table)):
        while at < len(constants) and constants[at] - first < value:
            at += 1
        table[value] = 2 * at + (1 if at < len(constants) and constants[at] - first == value else 0)
    return table


@kernel
def look_up_gaps(values: npt.NDArray[Any], lowest: int, table: Int32s) -> Int32s:
    """The gap of every row by table; values beyond the table's ends are like its ends."""
    out = np.empty(len(values), np.int32)
    last = lowest + len(table) - 1
    for row in range(len(values)):
        value = np.int64(values[row])
        out[row] = table[0 if value < lowest else (len(table) - 1 if value > last else value - lowest)]
    return out


@kernel
def find_gaps(values: npt.NDArray[Any], constants: npt.NDArray[Any]) -> Int32s:
    """The gap of every row.

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
    """Rows in the order of their gaps, ascending within one, NULLs (-1) left out; and where each gap begins."""
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
def fill_vectors(
    gaps: Int32s,
    slots: Int32s,
    lists: tuple[Int32s, npt.NDArray[np.bool_], Int64s, Int32s],
    vectors: Words,
    states: Bytes,
) -> None:
    """Write one block of every comparison of an attribute to its slot; negative slots are not there.

    Per constant `slots[0]` names the vector of `<` and `slots[1]` that of `>=`. `lists` are the slots, whether negated,
    starts and indices: list m holds constants[indices[starts[m] : starts[m + 1]]]. A row without a value has gap -1.
    """
    slots_below, slots_from = slots[0], slots[1]
    list_slots, list_negated, list_starts, list_indices = lists
    count = len(slots_below)
    order, edges = sort_by_gap(gaps, 2 * count + 1)
    known = edges[2 * count + 1]
    words = vectors.shape[1]
    one = np.uint64(1)
    valid = np.zeros(words, np.uint64)
    for row in range(len(gaps)):
        if gaps[row] >= 0:
            valid[row >> 6] |= one << np.uint64(row & 63)
    whole = FULL if known == len(gaps) else MIXED
    prefix = np.zeros(words, np.uint64)
    done = 0
    for i in range(count):
        upto = edges[2 * i + 1]
        while done < upto:
            row = order[done]
            prefix[row >> 6] |= one << np.uint64(row & 63)
            done += 1
        below, above = slots_below[i], slots_from[i]
        if below >= 0:
            if done == 0:
                states[below] = EMPTY
            elif done == len(gaps):
                states[below] = FULL
            else:
                states[below] = MIXED
                out = vectors[below]
                for w in range(words):
                    out[w] = prefix[w]
        if above >= 0:
            if done == known:
                states[above] = EMPTY
            elif done == 0 and whole == FULL:
                states[above] = FULL
            else:
                states[above] = MIXED
                out = vectors[above]
                for w in range(words):
                    out[w] = valid[w] ^ prefix[w]
    for m in range(len(list_slots)):
        slot = list_slots[m]
        out = vectors[slot]
        named = 0
        for at in range(list_starts[m], list_starts[m + 1]):
            gap = 2 * list_indices[at] + 1
            if edges[gap] == edges[gap + 1]:
                continue
            if named == 0:
                out[:] = 0
            named += edges[gap + 1] - edges[gap]
            for place in range(edges[gap], edges[gap + 1]):
                row = order[place]
                out[row >> 6] |= one << np.uint64(row & 63)
        if list_negated[m]:
            if named == known:
                states[slot] = EMPTY
            elif named == 0 and whole == FULL:
                states[slot] = FULL
            else:
                states[slot] = MIXED
                for w in range(words):
                    out[w] = valid[w] ^ out[w] if named else valid[w]
        elif named == 0:
            states[slot] = EMPTY
        elif named == len(gaps):
            states[slot] = FULL
        else:
            states[slot] = MIXED
