"""Streams made up for comparisons, and what an algorithm costs on them: microseconds and comparisons per tuple."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np
import pyarrow as pa

from bench.joins_baselines import BASELINES
from bench.joins_nested import NESTED
from penstock.operators.join.kernels.bounds import Bounds, close
from penstock.operators.join.kernels.keys import Ints, key_numbers
from penstock.operators.join.kernels.runs import Run, build_run, merge_runs
from penstock.operators.join.kernels.step import Join, join_step
from penstock.operators.join.papers.registry import ALGORITHMS
from penstock.operators.join.papers.registry import Run as Find
from penstock.operators.join.papers.sides import Counters, Side

SECOND = 1_000_000
EVERY: dict[str, Find] = {name: a.run for name, a in {**ALGORITHMS, **BASELINES}.items()} | NESTED
OURS = "sorted_runs"
COMPARED = ("window_tests", "key_comparisons", "predicate_tests", "refinements", "sweep_tests")


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one run. `comparisons` is None for our own step, which finds ranges and compares whole arrays."""

    us_per_tuple: float
    comparisons: float | None
    results: int
    counters: dict[str, int] = field(default_factory=dict)


def exponential(rate: float, seconds: float, rng: np.random.Generator) -> Ints:
    """Arrival times of a stream with exponential gaps, in microseconds."""
    gaps = rng.exponential(SECOND / rate, int(rate * seconds * 1.2) + 50)
    times = np.cumsum(gaps).astype(np.int64)
    return times[times < seconds * SECOND]


def side(ts: Ints, domain: int, rng: np.random.Generator) -> Side:
    return Side(ts, np.ones(len(ts), np.bool_), rng.integers(0, domain, len(ts)))


def streams(rates: Sequence[float], seconds: float, domain: int, seed: int) -> list[Side]:
    rng = np.random.default_rng(seed)
    return [side(exponential(rate, seconds, rng), domain, rng) for rate in rates]


def uniform(count: int, window_s: float) -> Bounds:
    window = int(window_s * SECOND)
    return close(count, [(i, j, -window, window) for i in range(count) for j in range(i + 1, count)])


def tuples(sides: Sequence[Side]) -> int:
    return sum(map(len, sides))


def until(sides: Sequence[Side], count: int) -> list[Side]:
    """The first so many tuples over all streams."""
    times = np.sort(np.concatenate([s.ts for s in sides]))
    edge = times[min(count, len(times)) - 1]
    ends = [int(np.searchsorted(s.ts, edge, side="right")) for s in sides]
    return [
        replace(s, ts=s.ts[:end], fresh=s.fresh[:end], key=None if s.key is None else s.key[:end])
        for s, end in zip(sides, ends, strict=True)
    ]


def cost(name: str, sides: Sequence[Side], bounds: Bounds, repeat: int = 2) -> Cost:
    """The best of some runs, compiled before; one run only where it takes long."""
    run_once(name, until(sides, 200), bounds)
    best, found = float("inf"), (0, Counters())
    for _ in range(repeat):
        began = time.perf_counter()
        found = run_once(name, sides, bounds)
        best = min(best, time.perf_counter() - began)
        if best > 0.5:
            break
    results, counters = found
    total = tuples(sides)
    compared = None if name == OURS else sum(counters[c] for c in COMPARED) / total
    return Cost(best / total * 1e6, compared, results, counters.as_dict())


def run_once(name: str, sides: Sequence[Side], bounds: Bounds) -> tuple[int, Counters]:
    counters = Counters()
    if name == OURS:
        return run_steps(sides, bounds), counters
    return len(EVERY[name](sides, bounds, None, counters)[0]), counters


class _Rows:
    """A stream's rows in memory, as the pipeline keeps them: runs, merged while there are as many rows behind as before."""

    def __init__(self, whole: Side) -> None:
        self.ts = whole.ts
        self.key = None if whole.key is None else key_numbers([pa.array(whole.key)])[0]
        self.runs: list[Run] = []
        self.fresh = build_run(0, 0, self.ts[:0], self.ts[:0], None if self.key is None else self.key[:0], {})

    @property
    def starts(self) -> Run:
        return self.fresh

    def old(self, low: int, high: int) -> list[Run]:
        return [run for run in self.runs if run.max_ts >= low and run.min_ts <= high]

    def weight(self) -> float:
        return 1.0

    def step(self, low: int, high: int) -> None:
        first, end = (int(e) for e in np.searchsorted(self.ts, [low, high]))
        key = None if self.key is None else self.key[first:end]
        self.fresh = build_run(first, end, self.ts[first:end], np.arange(first, end), key, {})

    def keep(self, low: int) -> None:
        self.runs = [run for run in (*self.runs, self.fresh) if len(run) and run.max_ts >= low]
        while len(self.runs) > 1 and len(self.runs[-2]) <= len(self.runs[-1]):
            self.runs[-2:] = [merge_runs(self.runs[-2:])]


def run_steps(sides: Sequence[Side], bounds: Bounds, rows_per_step: int = 300_000) -> int:
    """How many results our own step finds, in steps of so many rows; buffers are kept while a window can reach them."""
    times = np.sort(np.concatenate([s.ts for s in sides]))
    edges = [*(int(t) for t in times[::rows_per_step]), int(times[-1]) + 1]
    upper = tuple(tuple(0 if u is None else u for u in row) for row in bounds.upper)
    join = Join(tuple("abcdefgh"[: len(sides)]), upper)
    reach = bounds.largest() or 0
    rows = [_Rows(s) for s in sides]
    total = 0
    for low, high in pairwise(edges):
        for r in rows:
            r.step(low, high)
        total += sum(len(found) for found in join_step(join, rows))
        for r in rows:
            r.keep(high - reach)
    return total
