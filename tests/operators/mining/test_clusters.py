"""CLUSTERS: the kernel against plain loops, samples in any order of merges, and answers at every committed cycle of random histories."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.clock import format_timestamp
from penstock.errors import PenstockError
from penstock.operators.aggregate.partials import tiles
from penstock.operators.aggregate.partials.base import Values
from penstock.operators.aggregate.partials.registry import make_partial
from penstock.operators.aggregate.partials.samples import Samples, sample_name
from penstock.operators.mining.clusters import clusters, partition
from penstock.operators.mining.sample import Sample
from penstock.types import DOUBLE
from penstock.views.standing_queries import Intervals
from tests.operators.mining.story import PLACES, Story, same
from tests.operators.mining.test_series import SECOND, SEEDS, at
from tests.oracle import mining
from tests.support.pipe import Pipe


@st.composite
def random_points(draw: st.DrawFn) -> list[list[float]]:
    chance = random.Random(draw(st.integers(0, 2**32)))
    kind = draw(st.sampled_from(["blobs", "noise", "grid", "constant", "line", "far"]))
    count, wide = draw(st.integers(0, 60)), draw(st.integers(1, 4))
    centers = [[chance.gauss(0, 10) for _ in range(wide)] for _ in range(4)]

    def point(center: list[float]) -> list[float]:
        if kind in ("blobs", "far"):
            return [x + chance.gauss(0, 1) + 1e6 * (kind == "far") for x in center]
        if kind == "noise":
            return [chance.gauss(0, 1) for _ in center]
        if kind == "grid":
            return [float(chance.randint(0, 2)) for _ in center]
        return [7.25] * wide if kind == "constant" else [float(chance.randint(0, 9)), *[3.0] * (wide - 1)]

    return [point(chance.choice(centers)) for _ in range(count)]


def as_rows(points: list[list[float]]) -> np.ndarray[Any, Any]:
    return np.array(points, np.float64).reshape(len(points), len(points[0]) if points else 1)


def found(points: list[list[float]], total: int | None = None, **options: Any) -> list[dict[str, Any]]:
    columns = clusters(Sample(as_rows(points), len(points) if total is None else total), {"scale": True, **options})
    names = ("size", "share", "center", "radius")
    return [dict(zip(names, line, strict=True)) for line in zip(*(column.tolist() for column in columns), strict=True)]


@given(random_points(), st.integers(1, 8), st.booleans())
def test_clusters_are_those_of_the_definition(points: list[list[float]], k: int, scale: bool) -> None:
    rows = [mining.Placed(i, point) for i, point in enumerate(points)]
    assert same(found(points, k=k, scale=scale), mining.clusters(rows, k, scale=scale))


@given(random_points(), st.integers(1, 8))
def test_every_row_is_in_one_cluster_and_near_its_centre(points: list[list[float]], k: int) -> None:
    lines = found(points, k=k, scale=False)
    assert sum(line["size"] for line in lines) == len(points) and len(lines) <= k
    assert math.isclose(sum(line["share"] for line in lines), 1.0) or not points
    rows = as_rows(points)
    labels = partition(rows, k) if points else np.empty(0, np.int64)
    centers = {label: rows[labels == label].mean(axis=0) for label in set(labels.tolist())}
    for row, label in zip(rows, labels.tolist(), strict=True):
        distances = {other: float(np.square(row - center).sum()) for other, center in centers.items()}
        assert distances[label] <= min(distances.values()) * (1 + 1e-6) + 1e-9


def test_planted_clusters_are_found_whatever_their_sizes() -> None:
    chance = np.random.default_rng(5)
    centers = np.array([[0.0, 0.0, 0.0], [50, 0, 5], [0, 800, 5], [50, 800, -5], [25, 400, 20]])
    sizes = [900, 500, 300, 100, 30]
    points = np.concatenate([c + chance.normal(0, (2, 20, 1), (n, 3)) for c, n in zip(centers, sizes, strict=True)])
    lines = found(chance.permutation(points).tolist(), k=5)
    assert [line["size"] for line in lines] == sizes
    assert all(np.allclose(line["center"], center, atol=20) for line, center in zip(lines, centers, strict=True))


def test_the_order_of_rows_and_the_unit_of_a_dimension_change_nothing() -> None:
    chance = np.random.default_rng(6)
    points = chance.normal(0, 1, (400, 3)) + chance.integers(0, 3, (400, 1)) * 4
    lines = found(points.tolist(), k=4)
    for other in (chance.permutation(points), points[::-1]):
        assert same(found(other.tolist(), k=4), lines)
    moved = [[1024 * a + 64, b, c] for a, b, c in points.tolist()]
    assert [line["size"] for line in found(moved, k=4)] == [line["size"] for line in lines]


def test_sizes_of_a_sample_are_those_of_all_rows() -> None:
    points = [[0.0]] * 30 + [[1.0]] * 10
    assert [line["size"] for line in found(points, 4000, k=2)] == [3000, 1000]


def test_no_rows_have_no_clusters() -> None:
    assert found([], k=3) == []


def test_work_without_end_is_an_error() -> None:
    with pytest.raises(PenstockError, match="100 clusters of 100000 rows of 3 numbers"):
        found(np.zeros((100_000, 3)).tolist(), k=100)
    with pytest.raises(PenstockError, match="10 rows of 1025 numbers"):
        found(np.zeros((10, 1025)).tolist(), k=2)


@st.composite
def random_values(draw: st.DrawFn) -> tuple[Values, int]:
    """Rows of two numbers at ascending places of the log, in up to five cells."""
    chance = np.random.default_rng(draw(st.integers(0, 2**32)))
    count = draw(st.integers(0, 120))
    cells, numbers = chance.integers(0, 5, count), chance.normal(0, 1, (2, count))
    places = np.cumsum(chance.integers(1, 1000, count))
    return Values(cells, (numbers[0], numbers[1]), places, places, np.ones(count, np.bool_)), count


@given(random_values(), st.sampled_from([10, 50]), st.integers(0, 2**32))
def test_a_sample_is_the_same_however_rows_are_split_and_merged(rows: tuple[Values, int], most: int, seed: int) -> None:
    values, count = rows
    partial, chance = make_partial(sample_name(most), (DOUBLE, DOUBLE)), random.Random(seed)
    assert isinstance(partial, Samples)
    parts = []
    order = chance.sample(range(count), count)
    while order:
        size = chance.randint(1, len(order))
        own, order = sorted(order[:size]), order[size:]
        state = partial.empty(5)
        partial.add(state, values.take(np.array(own)))
        told = {name: partial.from_arrow(name, partial.to_arrow(name, field)) for name, field in state.items()}
        parts.append(chance.choice([state, told]))
    total = partial.empty(1)
    while parts:
        one = parts.pop(chance.randrange(len(parts)))
        if parts and chance.random() < 0.5:
            parts[0] = {name: field.copy() for name, field in parts[0].items()}
            partial.merge(parts[0], np.arange(5), one)
        else:
            partial.merge(total, np.zeros(5, np.int64), one)
    placed = [mining.Placed(p, [x, y]) for p, x, y in zip(values.positions.tolist(), *values.numbers, strict=True)]
    (sample,) = partial.samples(total)
    assert sample.total == count
    assert sample.points.tolist() == [row.point for row in mining.sampled(placed, most)] or not count
    assert partial.kept(total) == 3 * min(most, count)


TWO = "CLUSTERS(3, value, value * value{0})"
ARRAYS = "CLUSTERS(2, vector)"
WINDOW = "BEGIN (NOW - 60 SECONDS) END (NOW)"


@pytest.mark.parametrize("seed", SEEDS)
def test_clusters_are_those_of_all_rows(seed: int, pipes: Callable[..., Pipe], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiles, "RECENT", 2)
    story = Story(pipes(intervals=Intervals(snapshot_cycles=7, trim_cycles=5)), seed, 30)
    texts = {
        "whole": f"SELECT place, COUNT(*) AS n, {TWO.format('')} AS c FROM probes GROUP BY place {WINDOW}",
        "few": f"SELECT {TWO.format(', sample => 25')} AS c FROM probes {WINDOW}",
        "some": f"SELECT {TWO.format('')} FILTER (WHERE value > 20) AS c, {ARRAYS} AS v, CLUSTERS(2, counts) AS w FROM probes {WINDOW}",
        "panes": f"SELECT window_start AS b, {ARRAYS} AS c FROM probes GROUP BY TUMBLE(20 SECONDS) {WINDOW}",
        "rows": f"SELECT {TWO.format('')} AS c FROM probes BEGIN (LAST 40 ROWS)",
        "own": f"SELECT COUNT(*) AS n, {TWO.format(', 10 SECONDS')} AS c FROM probes {WINDOW}",
    }
    for name, text in texts.items():
        story.pipe.db.execute(f"CREATE QUERY {name} AS {text}")

    def placed(low: int, until: int, place: str | None = None) -> list[mining.Placed]:
        return [
            mining.Placed(row.position, [row.value, row.value**2])
            for row in story.rows
            if low <= row.ts <= until and place in (None, row.group)
            if row.value is not None and math.isfinite(row.value)
        ]

    def arrays(low: int, until: int) -> list[dict[str, Any]]:
        inside = [(row, vector) for row, vector, _ in story.vectors if low <= row.ts <= until]
        known = [(row.position, [x for x in v if x is not None and mining.is_reading(x)]) for row, v in inside if v]
        return mining.clusters([mining.Placed(p, v) for p, v in known if len(v) == 3], 2)

    def whole(now: int) -> list[dict[str, Any]]:
        low = now - 60 * SECOND
        counts = [(p, sum(low <= row.ts <= now for row in story.of(p))) for p in PLACES.values()]
        return [{"place": p, "n": n, "c": mining.clusters(placed(low, now, p), 3)} for p, n in counts if n]

    known: dict[int, list[dict[str, Any]]] = {}
    for cycle in story.cycles(25):
        now, low = story.now_us, story.now_us - 60 * SECOND
        known[cycle] = story.answer("whole")
        assert same(known[cycle], whole(now))
        own = placed(low, now)
        assert same(story.answer("few"), [{"c": mining.clusters(own, 3, 25)}])
        high = [row for row in own if row.point[0] > 20]
        assert same(story.answer("some"), [{"c": mining.clusters(high, 3), "v": arrays(low, now), "w": []}])
        truth = []
        for begin in range(low // (20 * SECOND) * 20 * SECOND, now + 1, 20 * SECOND):
            since, until = max(low, begin), min(now, begin + 20 * SECOND - 1)
            if any(since <= row.ts <= until for row in story.rows):
                truth.append({"b": at(begin), "c": arrays(since, until)})
        assert same(story.answer("panes"), truth)
        newest = sorted(story.rows, key=lambda row: (row.ts, row.position))[-40:]
        points = [mining.Placed(r.position, [r.value, r.value**2]) for r in newest if mining.is_reading(r.value)]
        assert same(story.answer("rows"), [{"c": mining.clusters(points, 3)}])
        n = sum(low <= row.ts <= now for row in story.rows)
        assert same(story.answer("own"), [{"n": n, "c": mining.clusters(placed(now - 10 * SECOND, now), 3)}])
        for name in ("whole", "few", "some", "panes"):
            assert story.pipe.db.execute(texts[name]).table.to_pylist() == story.answer(name), name
        then = story.chance.choice(story.rows).ts
        answer = story.pipe.db.execute(f"SELECT * FROM whole AS OF '{format_timestamp(then)}'").table.to_pylist()
        assert same(answer, whole(then))
        asked = story.chance.choice([c for c in known if c > cycle - 8])
        assert story.answer("whole", asked) == known[asked]
    assert any(len(row["c"]) == 3 for row in story.answer("few"))
