"""Partial combinations as columns: one row per stream that is bound so far."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.catalog.model import TIME_COLUMN
from penstock.operators.join.kernels.keys import Ints
from penstock.operators.join.kernels.runs import Run
from penstock.types import TIMESTAMP


@dataclass(frozen=True, slots=True)
class Combinations:
    """As many combinations as each array is long. `pos` and `ts` by input; columns by alias.column."""

    pos: Mapping[int, Ints]
    ts: Mapping[int, Ints]
    key: Ints
    columns: Mapping[str, pa.Array]

    def __len__(self) -> int:
        return len(next(iter(self.pos.values())))

    @classmethod
    def of(cls, stream: int, alias: str, rows: Run) -> Combinations:
        """Every row of a run as the beginning of a combination."""
        columns = {f"{alias}.{n}": c for n, c in rows.columns.items()}
        return cls({stream: rows.pos}, {stream: rows.ts}, rows.key, columns)

    def take(self, chosen: Ints) -> Combinations:
        index = pa.array(chosen)
        return Combinations(
            {s: p[chosen] for s, p in self.pos.items()},
            {s: t[chosen] for s, t in self.ts.items()},
            self.key[chosen] if len(self.key) else self.key,
            {n: c.take(index) for n, c in self.columns.items()},
        )

    def slice(self, first: int, end: int) -> Combinations:
        return Combinations(
            {s: p[first:end] for s, p in self.pos.items()},
            {s: t[first:end] for s, t in self.ts.items()},
            self.key[first:end],
            {n: c.slice(first, end - first) for n, c in self.columns.items()},
        )

    def with_rows(self, stream: int, alias: str, run: Run, left: Ints, right: Ints) -> Combinations:
        """The combinations `left`, each with the row `right` of a run as its next stream's."""
        kept = self.take(left)
        index = pa.array(right)
        added = {f"{alias}.{n}": c.take(index) for n, c in run.columns.items()}
        return Combinations(
            {**kept.pos, stream: run.pos[right]},
            {**kept.ts, stream: run.ts[right]},
            kept.key,
            {**kept.columns, **added},
        )

    def evaluable(self, aliases: Sequence[str]) -> dict[str, pa.Array]:
        """Columns as conditions name them, times included."""
        times = {f"{aliases[s]}.{TIME_COLUMN}": as_timestamps(t) for s, t in self.ts.items()}
        return {**self.columns, **times}


def as_timestamps(times: Ints) -> pa.Array:
    return pa.array(times).view(TIMESTAMP.to_arrow())


def concat(parts: Sequence[Combinations]) -> Combinations:
    if len(parts) == 1:
        return parts[0]
    first = parts[0]
    return Combinations(
        {s: np.concatenate([p.pos[s] for p in parts]) for s in first.pos},
        {s: np.concatenate([p.ts[s] for p in parts]) for s in first.ts},
        np.concatenate([p.key for p in parts]),
        {n: pa.concat_arrays([p.columns[n] for p in parts]) for n in first.columns},
    )


def blocks(whole: Combinations, size: int) -> Iterator[Combinations]:
    for first in range(0, len(whole), size):
        yield whole.slice(first, min(first + size, len(whole)))
