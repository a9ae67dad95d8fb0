"""From packed bits to lists of row numbers, for many answers at once."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from penstock.expr.bits import Words, lowest_bit
from penstock.expr.kernel import kernel


def list_rows(words: Words, chosen: npt.NDArray[np.int64], counts: npt.NDArray[np.int64]) -> npt.NDArray[np.uint32]:
    """The numbers of the set bits of some rows of a matrix, one row after the other; `counts` of these rows."""
    out = np.empty(int(counts.sum()), np.uint32)
    _list_rows(words, chosen, out)
    return out


def set_bits(words: Words) -> npt.NDArray[np.int64]:
    """The numbers of the set bits of one packed vector, ascending."""
    # As booleans: NumPy looks for those three times as fast as for numbers that are not zero.
    return np.flatnonzero(np.unpackbits(words.view(np.uint8), bitorder="little").view(np.bool_))


@kernel
def _list_rows(words: Words, chosen: npt.NDArray[np.int64], out: npt.NDArray[np.uint32]) -> None:
    at = 0
    for row in chosen:
        for i in range(words.shape[1]):
            word = words[row, i]
            while word != 0:
                out[at] = np.uint32(i * 64 + lowest_bit(word))
                at += 1
                word &= word - np.uint64(1)
