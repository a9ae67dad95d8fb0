"""Look-ups by equalities that link only some streams: a second order of a run's rows, made at the first look-up.

A run without a key stands in the order of time, so that every period is one range of it. Where the next stream shares an
equality with one that is bound, its rows are also kept by that key: the same layout as a run with a key, of row numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from penstock.operators.join.kernels.combinations import Combinations
from penstock.operators.join.kernels.keys import Ints
from penstock.operators.join.kernels.runs import Run, build_run


@dataclass(frozen=True, slots=True)
class Link:
    """A key that some streams have in common: by stream the column that holds it as a number, None for the others."""

    columns: tuple[str | None, ...]

    def reaches(self, stream: int, bound: Sequence[int]) -> bool:
        """Whether a stream's partners can be looked up by what is bound."""
        return self.columns[stream] is not None and any(self.columns[b] is not None for b in bound)

    def number_column(self, stream: int) -> str:
        name = self.columns[stream]
        assert name is not None, "only streams that have the key are looked up by it"
        return name


def key_of(link: Link, made: Combinations, bound: Sequence[int], aliases: Sequence[str]) -> Ints:
    """The key that combinations look for: all streams bound so far agree on it."""
    owner = next(b for b in bound if link.columns[b] is not None)
    numbers: Ints = made.columns[f"{aliases[owner]}.{link.columns[owner]}"].to_numpy()
    return numbers


def by_key(run: Run, column: str) -> Run:
    """A run's rows by key and time; their `pos` is where they stand in the run."""
    name = ("by key", column)
    if name not in run.cache:
        run.cache[name] = build_run(run.first, run.end, run.ts, np.arange(len(run)), run.columns[column].to_numpy(), {})
    found: Run = run.cache[name]
    return found
