"""Correlated aggregates in constant space: m buckets that follow the threshold, with bounds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from bench.papers.base import Floats, Ints
from bench.papers.correlated.cuts import as_numbers
from bench.papers.correlated.edge_choice import PIECEMEAL, WHOLESALE
from bench.papers.correlated.moving_buckets import EQUI_DEPTH, LEAST, NUMBERS, follow
from bench.papers.correlated.question import Question
from bench.papers.storage import Saved, pack, unpack
from penstock.errors import error

How: TypeAlias = Literal["piecemeal", "wholesale", "equi_depth"]
Cut: TypeAlias = Literal["uniform", "quantile"]
HOW: dict[How, int] = {"piecemeal": PIECEMEAL, "wholesale": WHOLESALE, "equi_depth": EQUI_DEPTH}


@dataclass(frozen=True, slots=True)
class Band:
    """An answer per row: the estimate and bounds that hold for certain, up to the rounding of sums."""

    value: Floats
    lower: Floats
    upper: Floats


class CorrelatedBuckets:
    """The state of one question over one stream (or one group of it): about 80 * m bytes.

    A landmark window needs nothing but the new rows. A sliding one has to be given the rows of the window again, because
    a row that leaves has to be known; they are in the log.
    """

    def __init__(
        self,
        question: Question,
        buckets: int = 10,
        how: How = "piecemeal",
        cut: Cut = "uniform",
        sliding: bool = False,
    ) -> None:
        if question.outer not in ("count", "sum", "avg"):
            detail = f"{question.outer.upper()} of the rows that an inner aggregate picks is exact only"
            raise error("invalid_parameter", detail=detail)
        # A fine one at each edge, and one on each side of it.
        least = 1 + 2 * sum(edge is not None for edge in (question.low, question.high))
        if buckets < least:
            raise error("invalid_parameter", detail=f"{buckets} buckets are too few; {least} is the least here")
        self.question, self.how, self.cut, self.sliding = question, how, cut, sliding
        # A maximum is the minimum of what is negated.
        self.negated = question.inner == "max"
        self._questions = as_numbers(question.mirrored() if self.negated else question)
        self.edges: Floats = np.zeros(buckets + 1)
        self.below: Floats = np.zeros((buckets + 1, 3, 3))
        self.numbers: Floats = np.zeros(NUMBERS)
        self.numbers[LEAST] = np.inf
        self.regions: Floats = np.full((2, 2), np.nan)

    def update(self, x: Floats, y: Floats, starts: Ints | None = None, fresh: int = 0) -> Band:
        """Answers for the rows from `fresh` on. A sliding window's rows come first: those that were inside after the last
        update. `starts` says for each new row where its window begins in x.
        """
        if starts is None:
            starts = np.zeros(len(x) - fresh, np.int64)
        signed = -x if self.negated else x
        found = follow(
            signed.astype(np.float64),
            y.astype(np.float64),
            starts,
            fresh,
            self._questions,
            self.question.inner == "avg",
            self.sliding,
            HOW[self.how],
            self.cut == "quantile",
            self.edges,
            self.below,
            self.numbers,
            self.regions,
        )
        return self._outer(found)

    def _outer(self, found: Floats) -> Band:
        counts, sums = found[:, :, 0], found[:, :, 1]
        if self.question.outer == "count":
            return Band(counts[:, 1], counts[:, 0], counts[:, 2])
        if self.question.outer == "sum":
            return Band(sums[:, 1], sums[:, 0], sums[:, 2])
        with np.errstate(invalid="ignore", divide="ignore"):
            ends = np.stack([s / c for s in (sums[:, 0], sums[:, 2]) for c in (counts[:, 0], counts[:, 2])])
            value = np.where(counts[:, 1] > 0, sums[:, 1] / counts[:, 1], np.nan)
        known = counts[:, 0] > 0
        lower, upper = np.where(known, ends.min(axis=0), -np.inf), np.where(known, ends.max(axis=0), np.inf)
        return Band(value, lower, upper)

    @property
    def nbytes(self) -> int:
        return self.edges.nbytes + self.below.nbytes + self.numbers.nbytes + self.regions.nbytes

    def save(self) -> bytes:
        arrays = {"edges": self.edges, "below": self.below, "numbers": self.numbers, "regions": self.regions}
        return pack(Saved("correlated", {}, 0, arrays))

    def restore(self, data: bytes) -> None:
        """Go on from saved state; question and settings come with the plan."""
        arrays = unpack(data).arrays
        self.edges, self.below = arrays["edges"].copy(), arrays["below"].copy()
        self.numbers, self.regions = arrays["numbers"].copy(), arrays["regions"].copy()
