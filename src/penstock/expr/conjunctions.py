"""Answers of many queries to one block of rows: the AND of each one's terms and static mask."""

from __future__ import annotations

import numpy as np

from penstock.expr.bits import Words, lowest_bit, popcount
from penstock.expr.gaps import EMPTY, FULL, MIXED, Bytes, Int32s, Int64s
from penstock.expr.kernel import kernel


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
