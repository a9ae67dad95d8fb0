"""Answers of many queries to one batch of rows, as one matrix of bits."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from penstock.errors import PenstockError
from penstock.expr.bits import Words


@dataclass(frozen=True, slots=True)
class Matrix:
    """Which rows of the batch each query selects. Queries of equal meaning share a row of the matrix.

    Bit i % 64 of word i // 64 is row i of the batch; bits past the end are 0. Some rows may belong to no query.
    """

    numbers: npt.NDArray[np.int64]  # the queries, ascending
    row_of: npt.NDArray[np.int32]  # beside `numbers`: the query's row of the matrix
    counts: npt.NDArray[np.int64]  # per row of the matrix: how many bits are set
    words: Words  # shape (rows, words)
    failed: dict[int, PenstockError] = field(default_factory=dict)  # queries without an answer; not in `numbers`
