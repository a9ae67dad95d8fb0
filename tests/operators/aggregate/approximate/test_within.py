"""Buckets of correlated aggregates per cell: bounds hold, no mass is lost, and they are as narrow as they should be."""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.operators.aggregate.approximate.coarse_cells import cell_store
from penstock.operators.aggregate.approximate.within import (
    WITHIN,
    Within,
    beyond,
    make_within,
    points_of,
    row_by_row,
    thinned,
    within_name,
)
from penstock.operators.aggregate.partials.cell_sums import combine
from penstock.operators.aggregate.partials.cells import Cells
from penstock.operators.aggregate.partials.correlated import Correlated, cuts_of, edges_of, order_keys, picked
from penstock.operators.aggregate.partials.slices import slice_rows
from penstock.types import BIGINT, BOOLEAN, DOUBLE
from tests.support.examples import FAST, SOAK

TYPES = (DOUBLE, DOUBLE, DOUBLE, BOOLEAN)
SECOND = 1_000_000


class Rig:
    """Rows of one group into cells that grow wide, and the same rows for the exact partial."""

    def __init__(self, question: str, epsilon: float, top_s: int = 64) -> None:
        self.question = question
        name = within_name(f"{WITHIN} count {question} value", (0.01, epsilon, top_s * SECOND, 5 * SECOND))
        partial = make_within(name, TYPES)
        self.partial: Within = partial
        self.store = cell_store(partial)
        self.rows: list[tuple[int, Any, Any, Any, Any]] = []

    def take(self, rows: list[tuple[int, Any, Any, Any, Any]]) -> None:
        self.store.put(self._sliced(rows, self.partial, len(self.rows)))
        self.rows += rows

    def _sliced(self, rows: list[tuple[int, Any, Any, Any, Any]], partial: Correlated, first: int = 0) -> Cells:
        times = np.array([r[0] for r in rows], np.int64)
        positions = np.arange(len(rows)) + first
        columns = [pa.array([r[i] for r in rows], t.to_arrow(), from_pandas=False) for i, t in enumerate(TYPES, 1)]
        return slice_rows(times, positions, np.zeros(len(rows), np.int64), SECOND).aggregate(partial, columns)

    def check(self, cells: Cells, rows: list[tuple[int, Any, Any, Any, Any]]) -> dict[str, tuple[float, float]]:
        """All bounds hold; gives them."""
        state = combine(cells, self.partial, None).state
        exact = Correlated(TYPES)
        truth = combine(self._sliced(rows, exact), exact, None).state
        bounds = {}
        for outer in ("count", "sum", "avg"):
            type_ = BIGINT if outer == "count" else DOUBLE
            (expected,) = exact.finish(f"correlated {outer} {self.question}", truth, type_).to_pylist()
            found = self.partial.brackets(f"{WITHIN} {outer} {self.question} value", state)
            bounds[outer] = float(found.lowers[0]), float(found.uppers[0])
            if expected is None or math.isnan(expected):
                continue
            slack = 1e-9 * (1 + abs(expected))
            assert bounds[outer][0] - slack <= expected <= bounds[outer][1] + slack, (outer, expected, bounds)
        return bounds


QUESTIONS = (
    *("max ge mul 0.9", "max lt mul 0.5", "min le mul 1.5", "min gt add 2.0", "avg gt mul 1.0", "avg le add -1.0"),
    *("max ge mul -0.5", "min lt mul 0.0"),
    *("avg le off 1.5", "avg lt off 0.3", "avg ge add -1.0 lt mul 1.2", "min gt mul 1.1 le add 5.0", "max le off 3.0"),
)


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("seed", range(3) if SOAK else (0,) if FAST else (0, 2))
def test_bounds_hold_whatever_comes_and_however_cells_are_joined(seed: int, question: str) -> None:
    chance = random.Random(seed)
    rig = Rig(question, chance.choice([0.5, 0.1]))
    now = 1_000 * SECOND
    special = [math.nan, math.inf, -math.inf, 0.0, -0.0] if seed == 2 else [1.0]
    for _ in range(60):
        now += chance.choice([0, SECOND, 30 * SECOND])
        rows = []
        for _ in range(chance.randint(1, 30)):
            x: Any = chance.choice([None, chance.choice(special), chance.gauss(5, 3), chance.lognormvariate(0, 2)])
            of = x if chance.random() < 0.8 else chance.choice([None, 1.0])
            ts = now - chance.choice([0, 0, chance.randint(0, 100 * SECOND)])
            seen = chance.choice([True, True, True, False, None])
            rows.append((ts, of, x, chance.choice([None, chance.gauss(0, 5)]), seen))
        rig.take(rows)
        cells = rig.store.view()
        rig.check(cells, rig.rows)
        # Only some of the cells, as behind a BEGIN between two of them: their rows are those of their time.
        begin = now - chance.randint(0, 300) * SECOND
        cut = (cells.starts < begin) & (cells.starts + cells.widths > begin)
        chosen = cells.take((cells.starts >= begin) & ~cut)
        left_out = sum(((cells.starts < begin) & ~cut).tolist()) and not cut.any()
        inside = [r for r in rig.rows if r[0] >= begin]
        if left_out and inside:
            rig.check(chosen, inside)


@pytest.mark.parametrize("comparison", ["ge", "lt"])
def test_no_mass_is_made_or_lost_and_a_cut_leaves_little_doubt(comparison: str) -> None:
    chance = np.random.default_rng(4)
    parts = [(chance.normal(size=3000).round(3), chance.normal(size=3000)) for _ in range(20)]
    bag = np.concatenate([points_of(*part) for part in parts])
    thin = thinned(bag, comparison, 0.02)
    assert len(thin) < 60 + math.log(60_000 * 0.02) / 0.02
    assert thin["count"].sum() == bag["count"].sum() == 60_000
    for name in ("plus", "minus"):
        assert thin[name].sum() == pytest.approx(bag[name].sum())
    x = np.concatenate([part[0] for part in parts])
    for cut in np.quantile(x, [0.0001, 0.01, 0.5, 0.99, 0.9999]):
        sure, maybe = beyond(thin, int(order_keys(np.array([cut]))[0]), comparison)
        truth = int((x >= cut).sum() if comparison == "ge" else (x < cut).sum())
        lower, upper = thin["count"][sure].sum(), thin["count"][maybe].sum()
        assert lower <= truth <= upper <= lower * 1.03 + 2, (cut, lower, truth, upper)
    heavy = np.concatenate([points_of(np.full(1000, 3.0), np.ones(1000)), points_of(x[:900], np.ones(900))])
    kept = thinned(heavy, comparison, 0.5)
    (alone,) = kept[kept["count"] >= 1000]
    assert alone["low"] == alone["high"] == order_keys(np.array([3.0]))[0]


@pytest.mark.parametrize("seed", range(20))
def test_edges_by_distance_are_the_same_ones_on_the_line_of_keys(seed: int) -> None:
    """To the last bit: differences are rounded, so the ends of the band are not where they would be on paper."""
    chance = random.Random(seed)
    scale = 10.0 ** chance.randint(-8, 18)
    inner = chance.choice([chance.gauss(0, 1), 0.1, 0.0, 1e300]) * chance.choice([scale, 1.0])
    limit = abs(chance.choice([chance.gauss(0, 1), 0.3, 0.0, inner])) * chance.choice([scale, 1.0])
    edges = edges_of([chance.choice(["le", "lt"]), "off", repr(limit), *chance.choice([[], ["gt", "add", "-0.1"]])])
    places = [inner, inner - limit, inner + limit, 0.0, -limit, limit, math.inf, -math.inf, math.nan]
    places += [chance.gauss(inner, limit or 1.0) for _ in range(20)]
    for _ in range(3):
        places += [math.nextafter(place, side) for place in places[:60] for side in (-math.inf, math.inf)]
    x = np.array(places)
    sure = np.ones(len(x), np.bool_)
    for cut in cuts_of(inner, edges):
        sure &= beyond(row_by_row(x, np.ones(len(x))), *cut)[0]
    assert (picked(x, inner, edges) == sure).all(), (inner, limit, edges)


@pytest.mark.parametrize("seed", range(10))
def test_edges_among_whole_numbers_are_exact_and_wrap_around(seed: int) -> None:
    chance = random.Random(seed)
    bits = chance.choice([32, 64])
    least, most = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    inner = chance.choice([least, most, 0, -1, 2**30, min(most, 2**53 + 1), chance.randint(least, most)])
    constant = chance.choice([1, 2, -1, 0, 3, most])
    how, comparison = chance.choice(["mul", "add"]), chance.choice(["gt", "ge", "lt", "le"])
    (edge,) = edges = edges_of([comparison, f"{how}{bits}", str(constant)])
    threshold = inner * constant if how == "mul" else inner + constant
    threshold = (threshold - least) % 2**bits + least
    assert edge.threshold(inner) == threshold and edges_of(str(edge).split(" ")) == edges
    places = [threshold, max(least, threshold - 1), min(most, threshold + 1), least, most, 0]
    compare = {"gt": int.__gt__, "ge": int.__ge__, "lt": int.__lt__, "le": int.__le__}[comparison]
    expected = [compare(place, threshold) for place in places]
    x = np.array(places, np.int64)
    assert picked(x, inner, edges).tolist() == expected
    ((key, side),) = cuts_of(inner, edges, whole=True)
    assert beyond(row_by_row(x, np.ones(len(x))), key, side)[0].tolist() == expected


def test_keys_have_the_order_of_sql() -> None:
    values = np.array([-math.inf, -2.5, -1e-300, -0.0, 0.0, 1e-300, 7.0, math.inf, math.nan])
    keys = order_keys(values)
    assert keys[3] == keys[4] and (np.diff(np.delete(keys, 3)) > 0).all()


@pytest.mark.parametrize("kind", ["lognormal", "normal", "whole"])
@pytest.mark.parametrize("question", ["max ge mul 0.9", "min le mul 1.5", "avg gt mul 1.0", "max lt mul 0.5"])
def test_counts_are_within_a_percent_without_reading_and_take_less_than_the_values(kind: str, question: str) -> None:
    """Two minutes of a thousand rows a second: a cell is a second, later eight, then 64."""
    chance = np.random.default_rng(7)
    rig = Rig(question, 0.005)
    rows = 120_000
    x = {
        "lognormal": chance.lognormal(0, 1, rows),
        "normal": chance.normal(20, 1, rows),
        "whole": chance.integers(1, 100, rows).astype(np.float64),
    }[kind]
    times = 1_000 * SECOND + np.arange(rows) * 1000
    for begin in range(0, rows, 10_000):
        part = slice(begin, begin + 10_000)
        columns = [pa.array(x[part])] * 3 + [pa.array(np.ones(10_000, np.bool_))]
        sliced = slice_rows(times[part], np.arange(begin, begin + 10_000), np.zeros(10_000, np.int64), SECOND)
        rig.store.put(sliced.aggregate(rig.partial, columns))
    assert len(rig.store) < 60
    state = combine(rig.store.view(), rig.partial, None).state
    assert not rig.partial.loose(f"{WITHIN} count {question} value", state, 0.01, True)
    found = rig.partial.brackets(f"{WITHIN} count {question} value", state)
    inner, _, factor = {"max": x.max(), "min": x.min(), "avg": x.mean()}[question[:3]], None, float(question[-3:])
    truth = {"ge": x >= factor * inner, "le": x <= factor * inner, "gt": x > inner, "lt": x < factor * inner}
    assert found.lowers[0] <= truth[question[4:6]].sum() <= found.uppers[0]
    assert rig.store.nbytes < rows * 16 / 2, "half of what the values would take"
