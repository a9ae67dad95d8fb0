"""Runs: a stream's rows of one log range, laid out so that the partners of a tuple are found at once.

With a key, rows are grouped into buckets by the key's low bits and stand in time order inside each; without, they
stand in time order. A run never changes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.expr.kernel import kernel
from penstock.operators.join.kernels.keys import Ints
from penstock.operators.join.kernels.run_cache import RunCache

NO_KEY = np.empty(0, np.int64)
NO_BUCKETS = np.empty(0, np.int32)


@dataclass(frozen=True, slots=True)
class Run:
    """Rows of log positions [first, end) that passed, with the columns that conditions name."""

    first: int
    end: int
    ts: Ints
    pos: Ints
    key: Ints = field(default_factory=lambda: NO_KEY)
    columns: Mapping[str, pa.Array] = field(default_factory=dict)
    buckets: np.ndarray[Any, np.dtype[np.int32]] = field(default_factory=lambda: NO_BUCKETS)
    min_ts: int = 0
    max_ts: int = 0
    cache: RunCache = field(default_factory=RunCache, compare=False, repr=False)

    def __len__(self) -> int:
        return len(self.ts)

    @property
    def keyed(self) -> bool:
        return len(self.buckets) > 0

    @property
    def nbytes(self) -> int:
        laid_out = self.ts.nbytes + self.pos.nbytes + self.key.nbytes + self.buckets.nbytes
        return int(laid_out + sum(c.nbytes for c in self.columns.values()))

    def take(self, rows: Ints) -> Run:
        """Some rows of it, as a bag: in the order given, not to be probed."""
        chosen = pa.array(rows)
        return Run(
            self.first,
            self.end,
            self.ts[rows],
            self.pos[rows],
            self.key[rows] if len(self.key) else NO_KEY,
            {n: c.take(chosen) for n, c in self.columns.items()},
            min_ts=self.min_ts,
            max_ts=self.max_ts,
        )


def build_run(first: int, end: int, ts: Ints, pos: Ints, key: Ints | None, columns: Mapping[str, pa.Array]) -> Run:
    """Lay out rows that come in log order."""
    order: Ints | None = None
    if len(ts) > 1 and not bool(np.all(ts[1:] >= ts[:-1])):
        order = np.argsort(ts, kind="stable")
    if key is not None:
        order = _by_bucket(key, _bucket_count(len(ts)) - 1, order if order is not None else np.arange(len(ts)))
    if order is not None:
        chosen = pa.array(order)
        ts, pos = ts[order], pos[order]
        key = key[order] if key is not None else None
        columns = {n: c.take(chosen) for n, c in columns.items()}
    return attach_run(first, end, ts, pos, key, columns)


def attach_run(first: int, end: int, ts: Ints, pos: Ints, key: Ints | None, columns: Mapping[str, pa.Array]) -> Run:
    """A run of rows that are in the order of a run already."""
    low, high = (int(ts.min()), int(ts.max())) if len(ts) else (0, 0)
    if key is None:
        return Run(first, end, ts, pos, NO_KEY, columns, NO_BUCKETS, low, high)
    return Run(first, end, ts, pos, key, columns, _edges(key, _bucket_count(len(ts))), low, high)


def merge_runs(runs: Sequence[Run]) -> Run:
    """One run for neighbouring ones."""
    pos = np.concatenate([r.pos for r in runs])
    order = np.argsort(pos, kind="stable")
    names = runs[0].columns.keys()
    chosen = pa.array(order)
    columns = {n: pa.concat_arrays([r.columns[n] for r in runs]).take(chosen) for n in names}
    key = np.concatenate([r.key for r in runs])[order] if runs[0].keyed else None
    first, end = min(r.first for r in runs), max(r.end for r in runs)
    return build_run(first, end, np.concatenate([r.ts for r in runs])[order], pos[order], key, columns)


def cut_below(run: Run, first: int) -> Run:
    """Without the rows before a log position. Kept beside the run until the position moves."""
    name = "from a position on"
    if name not in run.cache or run.cache[name].first != first:
        run.cache[name] = _cut_below(run, first)
    found: Run = run.cache[name]
    return found


def _cut_below(run: Run, first: int) -> Run:
    rows = np.flatnonzero(run.pos >= first)
    rows = rows[np.argsort(run.pos[rows], kind="stable")]
    index = pa.array(rows)
    columns = {n: c.take(index) for n, c in run.columns.items()}
    return build_run(first, run.end, run.ts[rows], run.pos[rows], run.key[rows] if run.keyed else None, columns)


def _bucket_count(rows: int) -> int:
    return 1 << max(4, (rows // 2).bit_length())


@kernel
def _by_bucket(key: Ints, mask: int, order: Ints) -> Ints:
    """Rows by bucket, keeping `order` inside each: one counting sort."""
    counts = np.zeros(mask + 2, np.int64)
    for i in range(len(key)):
        counts[(key[i] & mask) + 1] += 1
    for b in range(mask + 1):
        counts[b + 1] += counts[b]
    out = np.empty(len(key), np.int64)
    for at in range(len(order)):
        row = order[at]
        b = key[row] & mask
        out[counts[b]] = row
        counts[b] += 1
    return out


@kernel
def _edges(key: Ints, buckets: int) -> np.ndarray[Any, np.dtype[np.int32]]:
    """Where each bucket begins, and the end of the last."""
    edges = np.zeros(buckets + 1, np.int32)
    for i in range(len(key)):
        edges[(key[i] & (buckets - 1)) + 1] += 1
    for b in range(buckets):
        edges[b + 1] += edges[b]
    return edges
