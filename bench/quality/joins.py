"""The algorithm of a join as the server learns it, against each algorithm by itself, on eight workloads that stay and two that change.

Each step runs once by every algorithm and once as chosen, on the same rows, so that a busy machine slows all of them. What is
summed is the time of this process, for ours with what it costs to weigh and to learn. An algorithm that has taken thrice the time of the best one is left out from then on.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from bench.quality import Figures
from penstock.expr.expression import Call, Column, Expr
from penstock.operators.join.algorithm_choice import GroupChoice, StepReport
from penstock.operators.join.algorithms import NAMES, default_of, run_step, runnable
from penstock.operators.join.kernels.bounds import Bounds, close
from penstock.operators.join.kernels.choice import expected_ms, step_size
from penstock.operators.join.kernels.keys import Ints, key_numbers
from penstock.operators.join.kernels.probe import Link
from penstock.operators.join.kernels.run_cache import RunCache
from penstock.operators.join.kernels.runs import Run, build_run, merge_runs
from penstock.operators.join.kernels.step import Join
from penstock.operators.join.papers.registry import covers
from penstock.streams.log.release_memory import give_back_large_at_once
from penstock.types import BOOLEAN, DOUBLE

SECOND = 1_000_000
STEPS = 250
LEFT_BEHIND, PATIENCE_S = 3.0, 0.3
ALIASES = "abcd"
# Read before each step, so that none finds its rows in the caches: in a worker, reading and other joins come between.
_BETWEEN = np.ones(1 << 20)


@dataclass(frozen=True, slots=True)
class Phase:
    """Per stream how many rows a step of one second brings, and how many keys there are."""

    rates: tuple[int, ...]
    keys: int


@dataclass(frozen=True, slots=True)
class Workload:
    """Streams with windows in seconds between them, for so many steps in each phase."""

    name: str
    phases: tuple[Phase, ...]
    windows: tuple[tuple[int, int, float], ...]
    keyed: bool = True
    linked: bool = False  # a and b by one key, b and c by another
    compared: bool = False  # a.x < b.x, for one in a hundred
    phase_steps: int = STEPS

    @property
    def streams(self) -> int:
        return len(self.phases[0].rates)

    def bounds(self) -> Bounds:
        return close(self.streams, [(i, j, -int(w * SECOND), int(w * SECOND)) for i, j, w in self.windows])

    def join(self) -> Join:
        upper = tuple(tuple(map(int, row)) for row in self.bounds().matrix())
        links = (Link(("#link0", "#link0", None)), Link((None, "#link1", "#link0"))) if self.linked else ()
        left, right = Column("a.x", DOUBLE), Column("b.x", DOUBLE)
        conditions: tuple[Expr, ...] = (Call("lt", (left, right), BOOLEAN),) if self.compared else ()
        return Join(tuple(ALIASES[: self.streams]), upper, conditions, links)


def pairs(count: int, window: float) -> tuple[tuple[int, int, float], ...]:
    return tuple((i, j, window) for i in range(count) for j in range(i + 1, count))


STATIONARY = (
    Workload("even pair", (Phase((2000, 2000), 1000),), pairs(2, 5)),
    Workload("few rows, long window", (Phase((500, 500), 5000),), pairs(2, 200)),
    Workload("many rows, short window", (Phase((20_000, 20_000), 5000),), pairs(2, 0.3), phase_steps=120),
    Workload("fast and slow", (Phase((8000, 50), 1000),), pairs(2, 20)),
    Workload("three alike", (Phase((1500, 1500, 1500), 1500),), pairs(3, 3)),
    Workload("path", (Phase((1000, 300, 30), 300),), ((0, 1, 5), (1, 2, 8))),
    Workload("no key", (Phase((300, 300), 1),), pairs(2, 10), keyed=False, compared=True),
    Workload("partly equal", (Phase((400, 400, 400), 400),), pairs(3, 4), keyed=False, linked=True),
)
_CALM, _BUSY = Phase((100, 100), 3000), Phase((12_000, 12_000), 3000)
CHANGING = (
    Workload("calm and busy", (_CALM, _BUSY, _CALM, _BUSY), pairs(2, 2), phase_steps=80),
    Workload(
        "either side",
        (Phase((6000, 20), 500), Phase((20, 6000), 500), Phase((6000, 20), 500)),
        pairs(2, 10),
        phase_steps=150,
    ),
)


@dataclass(slots=True)
class MemoryRows:
    """One stream's rows as a worker has them: runs, merged as long as there are as many rows behind as before."""

    keyed: bool
    fresh: Run
    kept: list[Run] = field(default_factory=list)

    @property
    def starts(self) -> Run:
        return self.fresh

    @property
    def start(self) -> int:
        return self.fresh.first

    def old(self, low: int, high: int) -> Iterator[Run]:
        return (run for run in self.kept if len(run) and run.max_ts >= low and run.min_ts <= high)

    def weight(self) -> float:
        runs = [run for run in (*self.kept, self.fresh) if len(run)]
        span = max(r.max_ts for r in runs) - min(r.min_ts for r in runs) if runs else 0
        return sum(map(len, runs)) / max(1, span)

    def runs(self) -> int:
        return len(self.kept)

    @property
    def whole(self) -> bool:
        return True

    def near(self) -> int:
        return sum(map(len, self.kept))

    def move_on(self, low: int, fresh: Run) -> None:
        self.kept = [run for run in (*self.kept, self.fresh) if len(run) and run.max_ts >= low]
        while len(self.kept) > 1 and len(self.kept[-2]) <= len(self.kept[-1]):
            self.kept[-2:] = [merge_runs(self.kept[-2:])]
        self.fresh = fresh


class Contender:
    """One algorithm, or the learned choice where it has no name. It has indexes of its own beside the runs that all share."""

    def __init__(self, workload: Workload, name: str | None) -> None:
        self.name, self.join, self.keyed = name, workload.join(), workload.keyed
        self.bounds = workload.bounds()
        self.choice = GroupChoice()
        self.seconds = self.learning_s = 0.0
        self.ran: dict[str, int] = {}
        self._own: dict[int, tuple[Run, Run]] = {}
        self._tried = 0

    def step(self, cycle: int, shared: Sequence[MemoryRows], timed: bool = True) -> int:
        rows = [MemoryRows(s.keyed, self._mine(s.fresh), [self._mine(run) for run in s.kept]) for s in shared]
        present = {id(run) for s in shared for run in (s.fresh, *s.kept)}
        self._own = {known: pair for known, pair in self._own.items() if known in present}
        name = self.name or self._chosen()
        _BETWEEN.sum()
        began = time.process_time()
        found = sum(map(len, run_step(name, self.join, rows, self.bounds, {})))
        took = time.process_time() - began
        if self.name is None and timed:
            size = step_size(self.join, rows)
            costs = expected_ms(self.join, size, self.keyed, covers(self.bounds), found)
            self.choice.note(StepReport(cycle, name, took * 1000, costs))
            self.learning_s += time.process_time() - began - took
            took = time.process_time() - began  # what it costs to learn is part of it
        if timed:
            self.seconds += took
            self.ran[name] = self.ran.get(name, 0) + 1
        return found

    def _mine(self, run: Run) -> Run:
        known = self._own.get(id(run))
        if known is None:
            known = self._own[id(run)] = (run, replace(run, cache=RunCache()))
        return known[1]

    def _chosen(self) -> str:
        attempt = self.choice.attempt
        if attempt is not None and attempt[1] != self._tried:
            self._tried = attempt[1]
            return attempt[0]
        return self.choice.runs or default_of(self.keyed, bool(self.join.links))


def run(settings: Any) -> Figures:
    give_back_large_at_once()  # as workers do, so that no algorithm finds the memory of the one before
    say = settings.say
    learning_us: list[float] = []
    stationary = {w.name: measure(w, say, learning_us) for w in STATIONARY}
    changing = {w.name: measure(w, say, learning_us) for w in CHANGING}
    figures: Figures = {
        "join_choice_worst_ratio": max(stationary.values()),
        "join_choice_changing_ratio": max(changing.values()),
        "join_choice_learning_us": statistics.median(learning_us),
    }
    return {**figures, **{f"join_choice_ratio {name}": ratio for name, ratio in (stationary | changing).items()}}


def measure(workload: Workload, say: Callable[[str], None], learning_us: list[float]) -> float:
    """Our time by that of the best fixed algorithm. `learning_us` gets what it costs per step to weigh and to learn."""
    ours = Contender(workload, None)
    # "backward" is one of two others.
    names = [n for n in NAMES if n != "backward" and runnable(n, ours.bounds, workload.keyed) == n]
    if not workload.keyed and not workload.linked:
        names = [n for n in names if n not in ("sorted_runs", "per_side")]  # the same as a scan
    alive = [Contender(workload, name) for name in names]
    everyone, cycle, order = [ours, *alive], 0, random.Random(53)
    for cycle, rows in enumerate(steps(workload)):
        # In any order: none is always the one that finds the rows in the processor's cache.
        found = {c.step(cycle, rows, timed=cycle > 0) for c in order.sample([ours, *alive], 1 + len(alive))}
        assert len(found) == 1, f"{workload.name}: algorithms disagree: {found}"
        best = min(c.seconds for c in alive)
        alive = [c for c in alive if c.seconds <= LEFT_BEHIND * best + PATIENCE_S]
    best_of = min(alive, key=lambda c: c.seconds)
    ratio = ours.seconds / best_of.seconds
    learning_us.append(ours.learning_s / (cycle or 1) * 1e6)
    others = ", ".join(f"{c.name} {c.seconds:.2f}" for c in sorted(everyone[1:], key=lambda c: c.seconds) if c in alive)
    say(f"{workload.name}: {ours.seconds:.2f} s ({_counts(ours.ran)}), {ratio:.2f} of the best; {others}")
    return ratio


def _counts(ran: dict[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in ran.items())


def steps(workload: Workload) -> Iterator[list[MemoryRows]]:
    """The rows of all streams, step by step; a step is a second."""
    rng, now = np.random.default_rng(53), 0
    reach = max(max(row) for row in workload.join().bounds)
    rows: list[MemoryRows] = []
    heads = [0] * workload.streams
    for phase in workload.phases:
        for _ in range(workload.phase_steps):
            fresh = []
            for stream, rate in enumerate(phase.rates):
                ts = now + np.sort(rng.integers(0, SECOND, rate))
                fresh.append(_run(workload, phase, (stream, heads[stream]), ts, rng))
                heads[stream] += rate
            if rows:
                for each, run_ in zip(rows, fresh, strict=True):
                    each.move_on(now - reach, run_)
            else:
                rows = [MemoryRows(workload.keyed, run_) for run_ in fresh]
            yield rows
            now += SECOND


def _run(workload: Workload, phase: Phase, place: tuple[int, int], ts: Ints, rng: np.random.Generator) -> Run:
    stream, first = place

    def numbers() -> Any:
        return key_numbers([pa.array(rng.integers(0, phase.keys, len(ts)))])[0]

    columns: dict[str, pa.Array] = {}
    if workload.compared:
        columns["x"] = pa.array(rng.random(len(ts)) * (0.02 if stream else 1.0))
    if workload.linked:
        columns |= {"#link0": pa.array(numbers()), "#link1": pa.array(numbers())}
    pos = np.arange(first, first + len(ts))
    return build_run(first, first + len(ts), ts, pos, numbers() if workload.keyed else None, columns)
