"""However partners are found in each stream, by look-ups, in a table built for the step or by a scan: they are the same."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any, get_args

import numpy as np
import pyarrow as pa
import pytest

from penstock.operators.join.kernels.choice import StepSize, ways_of
from penstock.operators.join.kernels.keys import key_numbers
from penstock.operators.join.kernels.probe import Link
from penstock.operators.join.kernels.runs import Run, build_run
from penstock.operators.join.kernels.step import Join, Way, join_step

WINDOW = 40
LINKS = (Link(("#link0", "#link0", None)), Link((None, "#link1", "#link0")))


@dataclass
class Rows:
    """One stream: two old runs and a new one. `values` by log position: time and keys."""

    values: list[tuple[int, int, int]]
    fresh: Run
    kept: list[Run]

    @property
    def starts(self) -> Run:
        return self.fresh

    @property
    def start(self) -> int:
        return self.fresh.first

    def old(self, low: int, high: int) -> Iterator[Run]:
        return (run for run in self.kept if run.max_ts >= low and run.min_ts <= high)

    def weight(self) -> float:
        return 0.1

    def runs(self) -> int:
        return len(self.kept)

    @property
    def whole(self) -> bool:
        return True

    def near(self) -> int:
        return sum(map(len, self.kept))


def rows_of(rng: np.random.Generator, keyed: bool) -> Rows:
    values: list[tuple[int, int, int]] = []
    runs = []
    for count in (9, 7, 8):
        first = len(values)
        values += [(int(rng.integers(0, 200)), int(rng.integers(0, 3)), int(rng.integers(0, 3))) for _ in range(count)]
        ts, one, other = (np.array(each) for each in zip(*values[first:], strict=True))
        columns: dict[str, Any] = {} if keyed else {"#link0": number(one), "#link1": number(other)}
        pos = np.arange(first, len(values))
        runs.append(build_run(first, len(values), ts, pos, number(one).to_numpy() if keyed else None, columns))
    return Rows(values, runs[2], runs[:2])


def number(values: np.ndarray[Any, Any]) -> pa.Array:
    return pa.array(key_numbers([pa.array(values)])[0])


def by_definition(streams: list[Rows], keyed: bool) -> list[tuple[int, ...]]:
    found = []
    for places in product(*(range(len(s.values)) for s in streams)):
        (ta, a, _), (tb, b, more), (tc, c, _) = (s.values[place] for s, place in zip(streams, places, strict=True))
        equal = a == b == c if keyed else a == b and more == c
        near = max(ta, tb, tc) - min(ta, tb, tc) <= WINDOW
        if equal and near and any(place >= s.start for s, place in zip(streams, places, strict=True)):
            found.append(places)
    return sorted(found)


@pytest.mark.parametrize("keyed", [True, False])
def test_every_way_finds_the_same(keyed: bool) -> None:
    rng = np.random.default_rng(18)
    streams = [rows_of(rng, keyed) for _ in range(3)]
    upper = tuple(tuple(0 if i == j else WINDOW for j in range(3)) for i in range(3))
    join = Join(("a", "b", "c"), upper, (), () if keyed else LINKS)
    expected = by_definition(streams, keyed)
    assert len(expected) > 20
    for ways in product(get_args(Way), repeat=3):
        blocks = list(join_step(join, streams, None, ways))
        found = [places for b in blocks for places in zip(*(b.pos[s].tolist() for s in range(3)), strict=True)]
        assert sorted(found) == expected, ways


def test_each_stream_gets_the_way_that_is_cheapest_for_it() -> None:
    join = Join(("a", "b"), ((0, WINDOW), (WINDOW, 0)))

    def ways(fresh: tuple[int, int], old: tuple[int, int], runs: tuple[int, int]) -> tuple[Way, ...]:
        return ways_of(join, StepSize(fresh, fresh, old, runs, ((0.0, 9.0), (9.0, 0.0))), keyed=True)

    assert ways((5000, 5000), (50_000, 50_000), (2, 2)) == ("probe", "probe")
    # Many look for partners in a few rows that lie in many runs.
    assert ways((8000, 50), (300_000, 2000), (2, 8)) == ("probe", "build")
    # So few rows are looked at one by one.
    assert ways((5000, 10), (50_000, 20), (2, 2)) == ("probe", "scan")
