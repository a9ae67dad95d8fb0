"""Answers of many queries: the AND of each one's factors and static mask, written as Roaring bitmaps."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from penstock.operators.bits import Words, lowest_bit, popcount, write_container
from penstock.operators.kernel import kernel

Int64s = npt.NDArray[np.int64]
Int32s = npt.NDArray[np.int32]

# Roaring's portable head for one container: cookie, container count, key, cardinality - 1, offset of its content.
HEADER = 16


@kernel
def and_factors(
    vectors: Words,
    slots: Int64s,
    masks: Int64s,
    mask_bits: Words,
    vids: Int32s,
    order: Int32s,
    edges: Int64s,
    everything: Words,
    out: npt.NDArray[np.uint8],
    counts: Int64s,
    lengths: Int64s,
) -> None:
    """Answer s is the AND of vectors[slots[s]] (up to the first -1) and of the rows whose vid is in masks[s].

    `order` and `edges` list the batch's rows by vid. Queries with the same mask should stand together: the rows
    of a mask are looked up once for all of them.
    """
    words = len(everything)
    static = np.empty(words, np.uint64)
    bits = np.empty(words, np.uint64)
    have = -1
    for s in range(len(slots)):
        if masks[s] < 0:
            bits[:] = everything
        else:
            if masks[s] != have:
                have = masks[s]
                _rows_of_mask(mask_bits[have], vids, order, edges, static)
            bits[:] = static
        for k in range(slots.shape[1]):
            slot = slots[s, k]
            if slot < 0:
                break
            for w in range(words):
                bits[w] &= vectors[slot, w]
        count, size = write_container(bits, out[s, HEADER:])
        counts[s] = count
        lengths[s] = HEADER + size
        if count:
            head = out[s, :HEADER].view(np.uint32)
            head[0] = 12346
            head[1] = 1
            head[2] = (count - 1) << 16
            head[3] = HEADER


@kernel
def and_words(
    vectors: Words,
    slots: Int64s,
    masks: Int64s,
    mask_bits: Words,
    vids: Int32s,
    order: Int32s,
    edges: Int64s,
    everything: Words,
    out: Words,
    counts: Int64s,
) -> None:
    """As `and_factors`, into rows of bits; what they count is added to `counts`."""
    static = np.empty(len(everything), np.uint64)
    have = -1
    for s in range(len(slots)):
        if masks[s] < 0:
            out[s] = everything
        else:
            if masks[s] != have:
                have = masks[s]
                _rows_of_mask(mask_bits[have], vids, order, edges, static)
            out[s] = static
        for k in range(slots.shape[1]):
            if slots[s, k] < 0:
                break
            for w in range(len(everything)):
                out[s, w] &= vectors[slots[s, k], w]
        for w in range(len(everything)):
            counts[s] += popcount(out[s, w])


@kernel
def _rows_of_mask(mask: Words, vids: Int32s, order: Int32s, edges: Int64s, out: Words) -> None:
    """The rows whose vid is in the mask: looked up per row where it selects most, per vid where it selects few."""
    one = np.uint64(1)
    rows = len(vids)
    selected = 0
    for w in range(len(mask)):
        word = mask[w]
        while word != 0:
            vid = w * 64 + lowest_bit(word)
            selected += edges[vid + 1] - edges[vid]
            word &= word - one
    out[:] = 0
    if 2 * selected > rows:
        for row in range(rows):
            vid = vids[row]
            out[row >> 6] |= ((mask[vid >> 6] >> np.uint64(vid & 63)) & one) << np.uint64(row & 63)
        return
    for w in range(len(mask)):
        word = mask[w]
        while word != 0:
            vid = w * 64 + lowest_bit(word)
            for at in range(edges[vid], edges[vid + 1]):
                row = order[at]
                out[row >> 6] |= one << np.uint64(row & 63)
            word &= word - one
