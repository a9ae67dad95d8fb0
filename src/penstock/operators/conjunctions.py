"""Answers of many queries to one block of rows: the AND of each one's terms and static mask."""

from __future__ import annotations

import numpy as np

from penstock.operators.bits import Words, lowest_bit, popcount
from penstock.operators.gaps import EMPTY, FULL, MIXED, Bytes, Int32s, Int64s
from penstock.operators.kernel import kernel


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
        if mask_state == MIXED:
            mask = mask_rows[have, word : word + words]
        else:
            mask = everything
        if count == 0:
            counts[i] += _and1(mask, target)
            continue
        if mask_state == FULL and count <= 4:
            if count == 1:
                counts[i] += _and1(vectors[mixed[0]], target)
            elif count == 2:
                counts[i] += _and2(vectors[mixed[0]], vectors[mixed[1]], target)
            elif count == 3:
                counts[i] += _and3(vectors[mixed[0]], vectors[mixed[1]], vectors[mixed[2]], target)
            else:
                counts[i] += _and4(vectors[mixed[0]], vectors[mixed[1]], vectors[mixed[2]], vectors[mixed[3]], target)
            continue
        k = 0
        if mask_state == MIXED:
            for w in range(words):
                front[w] = mask[w]
        else:
            _and3(vectors[mixed[0]], vectors[mixed[1]], vectors[mixed[2]], front)
            k = 3
        while count - k > 3:
            left = _and4(front, vectors[mixed[k]], vectors[mixed[k + 1]], vectors[mixed[k + 2]], back)
            front, back = back, front
            k += 3
            if left == 0:
                break
        else:
            if count - k == 3:
                counts[i] += _and4(front, vectors[mixed[k]], vectors[mixed[k + 1]], vectors[mixed[k + 2]], target)
            elif count - k == 2:
                counts[i] += _and3(front, vectors[mixed[k]], vectors[mixed[k + 1]], target)
            elif count - k == 1:
                counts[i] += _and2(front, vectors[mixed[k]], target)
            else:
                counts[i] += _and1(front, target)


@kernel
def _and1(a: Words, out: Words) -> int:
    count = 0
    for w in range(len(out)):
        out[w] = a[w]
        count += popcount(a[w])
    return count


@kernel
def _and2(a: Words, b: Words, out: Words) -> int:
    count = 0
    for w in range(len(out)):
        word = a[w] & b[w]
        out[w] = word
        count += popcount(word)
    return count


@kernel
def _and3(a: Words, b: Words, c: Words, out: Words) -> int:
    count = 0
    for w in range(len(out)):
        word = a[w] & b[w] & c[w]
        out[w] = word
        count += popcount(word)
    return count


@kernel
def _and4(a: Words, b: Words, c: Words, d: Words, out: Words) -> int:
    count = 0
    for w in range(len(out)):
        word = a[w] & b[w] & c[w] & d[w]
        out[w] = word
        count += popcount(word)
    return count


@kernel
def rows_of_masks(masks: Words, numbers: Int64s, vids: Int32s, order: Int32s, edges: Int64s, out: Words) -> None:
    """Write to out[i] the rows whose vid is in masks[numbers[i]]; `order` and `edges` list the rows by vid.

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
