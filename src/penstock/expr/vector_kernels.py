"""Compiled loops of the shared pass: the vectors of all comparisons, and of each query the AND of its terms and static mask.

Rows are sorted into the gaps between constants. For constants c0 < c1 < ... gap 2i lies below c(i), gap 2i + 1 is c(i)
itself, gap 2k lies above all (NaN too). `a < c(i)` is then a prefix of the order, `a = c(i)` one gap, `a >= c(i)` the rest.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.expr.bits import Words, lowest_bit, popcount
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
            states[below] = _state_of_count(done, len(gaps))
            if states[below] == MIXED:
                out = vectors[below]
                for w in range(words):
                    out[w] = prefix[w]
        if above >= 0:
            states[above] = _state_of_count(known - done, len(gaps))
            if states[above] == MIXED:
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
        states[slot] = _state_of_count(known - named if list_negated[m] else named, len(gaps))
        if list_negated[m] and states[slot] == MIXED:
            for w in range(words):
                out[w] = valid[w] ^ out[w] if named else valid[w]


@kernel
def _state_of_count(rows: int, of: int) -> int:
    return EMPTY if rows == 0 else (FULL if rows == of else MIXED)


@kernel
def copy_block(given: Words, slots: Int32s, word: int, everything: Words, vectors: Words, states: Bytes) -> None:
    """Put one block of whole vectors at their slots."""
    words = len(everything)
    for i in range(len(slots)):
        vector = given[i, word : word + words]
        out = vectors[slots[i]]
        states[slots[i]] = state_of(vector, everything)
        for w in range(words):
            out[w] = vector[w]


@kernel
def state_of(vector: Words, everything: Words) -> int:
    some, missing = np.uint64(0), np.uint64(0)
    for w in range(len(everything)):
        some |= vector[w]
        missing |= vector[w] ^ everything[w]
    return EMPTY if some == 0 else (FULL if missing == 0 else MIXED)


@kernel
def and_terms(
    rows: Int64s,
    slots: Int32s,
    masks: Int32s,
    mask_rows: Words,
    word: int,
    everything: Words,
    vectors: Words,
    states: Bytes,
    out: Words,
    counts: Int64s,
) -> None:
    """Answer i is the AND of the vectors that slots[rows[i]] names (up to the first -1) and of mask_rows[masks[i]].

    It is written from `word` of out[i] on, where only zeros stand, and its bits are added to counts[i]. Answers
    with the same mask should stand together: a look at the mask serves them all.
    """
    words = len(everything)
    mixed = np.empty(slots.shape[1] + 1, np.int32)
    front, back = np.empty(words, np.uint64), np.empty(words, np.uint64)
    have, mask_state = -1, FULL
    for i in range(len(rows)):
        row = rows[i]
        if masks[i] != have:
            have = masks[i]
            if have < 0:
                mask_state = FULL
            else:
                mask_state = state_of(mask_rows[have, word : word + words], everything)
        if mask_state == EMPTY:
            continue
        count, empty = 0, False
        for k in range(slots.shape[1]):
            slot = slots[row, k]
            if slot < 0:
                break
            state = states[slot]
            if state == EMPTY:
                empty = True
                break
            if state == MIXED:
                mixed[count] = slot
                count += 1
        if empty:
            continue
        target = out[i, word : word + words]
        current = mask_rows[have, word : word + words] if mask_state == MIXED else everything
        k, left = 0, 1
        while left:
            last = count - k <= 5
            into = target if last else (front if (k // 5) % 2 == 0 else back)
            left = _and6(
                current,
                vectors[mixed[k]] if k < count else everything,
                vectors[mixed[k + 1]] if k + 1 < count else everything,
                vectors[mixed[k + 2]] if k + 2 < count else everything,
                vectors[mixed[k + 3]] if k + 3 < count else everything,
                vectors[mixed[k + 4]] if k + 4 < count else everything,
                into,
            )
            if last:
                counts[i] += left
                break
            current = into
            k += 5


@kernel
def _and6(a: Words, b: Words, c: Words, d: Words, e: Words, f: Words, out: Words) -> int:
    """The AND of six vectors and its number of bits; callers with fewer vectors pass a full one, which stays in the cache."""
    count = 0
    for w in range(len(out)):
        word = a[w] & b[w] & c[w] & d[w] & e[w] & f[w]
        out[w] = word
        count += popcount(word)
    return count


@kernel
def rows_of_masks(masks: Words, numbers: Int64s, vids: Int32s, order: Int32s, edges: Int64s, out: Words) -> None:
    """Write to out[i] the rows with a vid in masks[numbers[i]]; `order` and `edges` list the rows by vid.

    Looked up per row where a mask selects most of them, per vid where it selects few.
    """
    one = np.uint64(1)
    rows = len(vids)
    for i in range(len(numbers)):
        mask, found = masks[numbers[i]], out[i]
        selected = 0
        for w in range(len(mask)):
            word = mask[w]
            while word != 0:
                vid = w * 64 + lowest_bit(word)
                selected += edges[vid + 1] - edges[vid]
                word &= word - one
        found[:] = 0
        if 2 * selected > rows:
            for row in range(rows):
                vid = vids[row]
                found[row >> 6] |= ((mask[vid >> 6] >> np.uint64(vid & 63)) & one) << np.uint64(row & 63)
            continue
        for w in range(len(mask)):
            word = mask[w]
            while word != 0:
                vid = w * 64 + lowest_bit(word)
                for at in range(edges[vid], edges[vid + 1]):
                    row = order[at]
                    found[row >> 6] |= one << np.uint64(row & 63)
                word &= word - one
