"""Approximate partials against brute force: late rows, coarse cells, any BEGIN, groups and panes."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.operators.aggregate.approximate import coarse_cells as coarse
from penstock.operators.aggregate.approximate.brackets import CellSum, look_approximately
from penstock.operators.aggregate.approximate.coarse_cells import cell_store
from penstock.operators.aggregate.partials.cell_sums import CellRange, CombinedCells, Panes, combine, merge_combined
from penstock.operators.aggregate.partials.cells import Cells
from penstock.operators.aggregate.partials.registry import approximate_name, make_approximate
from penstock.operators.aggregate.partials.slices import slice_rows
from penstock.types import BIGINT, DOUBLE, TEXT, Field, Type
from tests.support.examples import seeds

SECOND = 1_000_000
TOP = Type("ARRAY", element=Type("STRUCT", fields=(Field("item", TEXT), Field("count", BIGINT))))
BAR = Type("STRUCT", fields=(Field("low", DOUBLE), Field("high", DOUBLE), Field("count", BIGINT)))
BARS = Type("ARRAY", element=BAR)
# kind, type of the argument, parameters (special, error, pane, recent), type of the answer
CASES: dict[str, tuple[Type, float, float, Type]] = {
    "approx_count": (DOUBLE, 0.0, 0.05, BIGINT),
    "approx_sum": (DOUBLE, 0.0, 0.05, DOUBLE),
    "approx_distinct": (TEXT, 0.0, 0.1, BIGINT),
    "approx_percentile": (DOUBLE, 0.9, 0.05, DOUBLE),
    "approx_top_k": (TEXT, 3.0, 0.05, TOP),
    "approx_norm": (TEXT, 2.0, 0.4, DOUBLE),
    "approx_avg": (DOUBLE, 0.0, 0.05, DOUBLE),
    "approx_histogram": (DOUBLE, 8.0, 0.1, BARS),
}
# What else is special.
MORE: dict[str, tuple[float, ...]] = {"approx_histogram": (2.0, 20.0)}


class World:
    """Rows of a log, and their cells in a store that is kept small."""

    def __init__(self, kind: str, seed: int, pane: int = 0) -> None:
        self.random = np.random.default_rng(seed)
        self.type, self.special, self.epsilon, self.answer_type = CASES[kind]
        self.kind, self.pane = kind, pane
        self.partial = make_approximate(
            approximate_name(kind, (self.special, self.epsilon, *MORE.get(kind, ()), float(pane), 5.0 * SECOND)),
            (self.type,),
        )
        self.store = cell_store(self.partial)
        self.times = np.empty(0, np.int64)
        self.groups = np.empty(0, np.int64)
        self.values: list[Any] = []
        self.now = 100 * SECOND

    def push(self) -> None:
        count = int(self.random.integers(1, 200))
        self.now += int(self.random.integers(0, 4 * SECOND))
        late = self.random.choice([0, 0, 0, 1, 3, 40], count) * self.random.integers(0, SECOND, count)
        times = np.sort(self.now - late)
        groups = self.random.choice([0, 0, 0, 1, 2], count)
        numbers = self.random.zipf(1.5, count) % 500
        values: list[Any] = [None if self.random.random() < 0.05 else float(n) for n in numbers]
        if self.type == TEXT:
            values = [None if v is None else f"v{v:.0f}" for v in values]
        elif self.kind in ("approx_sum", "approx_avg"):
            values = [None if v is None else v * float(self.random.choice([1, 1, 1, -1])) for v in values]
        first = len(self.times)
        self.times, self.groups = np.append(self.times, times), np.append(self.groups, groups)
        self.values += values
        self.store.put(self.cells(np.arange(first, len(self.times)), SECOND))

    def cells(self, rows: Any, width: int) -> Cells:
        sliced = slice_rows(self.times[rows], rows, self.groups[rows], width)
        argument = pa.array([self.values[i] for i in rows], self.type.to_arrow())
        return sliced.aggregate(self.partial, [argument])

    def look(self, low: int, panes: Panes | None) -> tuple[CombinedCells, int]:
        pane = math.gcd(panes.width, panes.step) if panes is not None else None
        look = CellRange(low, self.now, 0, len(self.times), pane)
        looked = look_approximately(self.store.view(), self.partial, look, panes)
        parts, read = [], 0
        for each in looked:
            rows = self.rest(each, low)
            read += len(rows)
            own = self.cells(rows, pane or SECOND)
            parts += [each.lines(), combine(own, self.partial, panes)]
        return merge_combined(parts, self.partial), read

    def rest(self, looked: CellSum, low: int) -> Any:
        inside = np.zeros(len(self.times), np.bool_)
        for begin, end in looked.rest.periods:
            inside |= (self.times >= begin) & (self.times < end)
        inside &= (self.times >= low) & (self.times <= self.now) & looked.of_these(self.groups)
        rows = np.flatnonzero(inside)
        assert all(any(a <= r < b for a, b in looked.rest.positions) for r in rows)
        return rows

    def truth(self, low: int, panes: Panes | None) -> dict[tuple[int, int], list[Any]]:
        found: dict[tuple[int, int], list[Any]] = {}
        inside = np.flatnonzero((self.times >= low) & (self.times <= self.now))
        rows = zip(inside.tolist(), self.times[inside].tolist(), self.groups[inside].tolist(), strict=True)
        for row, time, group in rows:
            window = 0 if panes is None else time // panes.width * panes.width
            found.setdefault((window, group), []).append(self.values[row])
        return found

    def check(self, low: int, panes: Panes | None = None) -> int:
        combined, read = self.look(low, panes)
        parameter = (self.special, self.epsilon, 0, 0)
        values = self.partial.finish(self.kind, combined.state, self.answer_type, parameter).to_pylist()
        errors = self.partial.finish(f"{self.kind}_error", combined.state, DOUBLE, parameter).to_pylist()
        lines = list(zip(combined.windows.tolist(), combined.groups.tolist(), strict=True))
        truth = self.truth(low, panes)
        assert sorted(lines) == sorted(truth)
        for line, value, error in zip(lines, values, errors, strict=True):
            self.compare([v for v in truth[line] if v is not None], value, error)
        return read

    def compare(self, truth: list[Any], value: Any, error: Any) -> None:
        said = (self.kind, len(truth), value, error)
        if self.kind == "approx_histogram":
            assert [bar["low"] for bar in value] == [None, *(2 + 2.25 * i for i in range(9))], said
            assert [bar["high"] for bar in value] == [*(2 + 2.25 * i for i in range(9)), None], said
            ordered = np.sort(truth)
            for bar in value:
                low, high = (-math.inf if bar["low"] is None else bar["low"]), (bar["high"] or math.inf)
                exact = int(np.searchsorted(ordered, high) - np.searchsorted(ordered, low))
                assert abs(bar["count"] - exact) <= min(error, self.epsilon * exact), (said, bar, exact)
            return
        if not truth and self.kind not in ("approx_count", "approx_distinct"):
            assert value is None and error is None, said
            return
        if self.kind == "approx_percentile":
            ordered = np.sort(truth)
            below, upto = (
                np.searchsorted(ordered, value) / len(truth),
                np.searchsorted(ordered, value, "right") / len(truth),
            )
            slack = self.epsilon + 1 / len(truth)
            assert below - slack <= self.special <= upto + slack, said
            exact = ordered[min(len(truth) - 1, int(self.special * len(truth)))]
            assert abs(exact - value) <= error + 1e-9 or below <= self.special <= upto, said
            return
        if self.kind == "approx_top_k":
            counts = Counter(truth)
            assert len(value) == min(3, len(counts)), said
            for item in value:
                assert abs(counts[item["item"]] - item["count"]) <= error <= self.epsilon * len(truth), (said, counts)
            least = min(item["count"] for item in value)
            for item, count in counts.items():
                assert item in [v["item"] for v in value] or count <= least + error, (said, counts)
            return
        exact, scale = {
            "approx_count": lambda: (len(truth), len(truth)),
            "approx_sum": lambda: (math.fsum(truth), math.fsum(abs(t) for t in truth)),
            "approx_avg": lambda: (math.fsum(truth) / len(truth), math.fsum(map(abs, truth)) / len(truth)),
            "approx_distinct": lambda: (len(set(truth)), len(set(truth))),
            "approx_norm": lambda: (math.sqrt(sum(n * n for n in Counter(truth).values())),) * 2,
        }[self.kind]()
        slack = 1e-9 * (1 + scale)
        assert abs(value - exact) <= error + slack, (said, exact)
        rounding = 1.5 if self.kind == "approx_distinct" else 0
        assert abs(value - exact) <= self.epsilon * scale + rounding + slack, (said, exact)


@pytest.mark.parametrize("kind", CASES)
@pytest.mark.parametrize("seed", seeds(2, soak=4))
def test_every_answer_is_within_its_bound_and_its_promise(
    kind: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(coarse, "FEW", 8)
    world = World(kind, seed)
    for _ in range(60):
        world.push()
        for back in world.random.integers(0, 120 * SECOND, 2):
            world.check(world.now - int(back))
    assert len(world.store) < len(np.unique(world.times // SECOND * 4 + world.groups))


@pytest.mark.parametrize("kind", CASES)
def test_panes_are_never_joined(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coarse, "FEW", 8)
    world, panes = World(kind, 7, pane=10 * SECOND), Panes(10 * SECOND, 10 * SECOND)
    for _ in range(40):
        world.push()
    for back in (200 * SECOND, 61 * SECOND + 5, 3 * SECOND):
        world.check(world.now - back, panes)


def test_a_count_reads_few_rows_and_keeps_few_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coarse, "FEW", 8)
    world = World("approx_count", 3)
    for _ in range(300):
        world.push()
    read = [world.check(world.now - back * SECOND) for back in range(20, 500, 20)]
    assert max(read) < 0.02 * len(world.times)  # the newest second, which END cuts
    assert len(world.store) < 400


@pytest.mark.parametrize("kind", CASES)
def test_cells_come_back_from_their_columns(kind: str) -> None:
    world = World(kind, 5)
    world.push()
    cells = world.store.view()
    back = {n: world.partial.from_arrow(n, world.partial.to_arrow(n, a)) for n, a in cells.state.items()}
    again = world.partial.empty(len(cells))
    world.partial.merge(again, np.arange(len(cells)), back)
    parameter = (world.special, world.epsilon, 0, 0)
    one, two = (world.partial.finish(kind, s, world.answer_type, parameter) for s in (cells.state, again))
    assert one.equals(two)
