"""Exponential histograms: check values, invariants after every step, the bound for every sub-window, the adversary."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.papers.base import Ints
from bench.papers.canonical import bucket_sizes, canonical_form
from bench.papers.exponential import ExponentialCount, ExponentialHistogram, ExponentialSum
from tests.bench.papers.sizes import sized

Rows = list[tuple[int, int]]
rows = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 4)), max_size=60)
"""Values, and how much later than the one before."""


def unit_by_unit(values: Ints, times: Ints, least: int, window: int) -> list[tuple[int, int]]:
    """The rule as it is told, newest bucket first: (size, time)."""
    buckets: list[tuple[int, int]] = []
    for value, time in zip(values.tolist(), times.tolist(), strict=True):
        while buckets and buckets[-1][1] <= time - window:
            buckets.pop()
        for _ in range(value):
            buckets.insert(0, (1, time))
            size = 1
            while len(same := [i for i, b in enumerate(buckets) if b[0] == size]) == least + 2:
                newer, older = same[-2:]
                buckets[newer] = (2 * size, buckets[newer][1])
                del buckets[older]
                size *= 2
    return buckets


def columns(drawn: Rows) -> tuple[Ints, Ints]:
    table = np.array(drawn, np.int64).reshape(-1, 2)
    return table[:, 0], np.cumsum(table[:, 1])


@pytest.mark.parametrize(
    ("total", "least", "counts"),
    [
        (7, 5, [5, 1]),
        (20, 2, [2, 3, 3]),
        (100, 2, [2, 3, 3, 2, 2, 1]),
        (1000, 5, [6, 5, 6, 6, 5, 6, 6, 2]),
        (0, 3, []),
    ],
)
def test_the_check_values_of_the_canonical_form(total: int, least: int, counts: list[int]) -> None:
    assert canonical_form(total, least).tolist() == counts


@given(st.integers(0, 2**50), st.integers(1, 300))
def test_the_canonical_form_keeps_the_invariant_and_the_total(total: int, least: int) -> None:
    counts = canonical_form(total, least).tolist()
    assert sum(n << i for i, n in enumerate(counts)) == total
    assert all(n in (least, least + 1) for n in counts[:-1]) and all(1 <= n <= least + 1 for n in counts[-1:])


def test_the_worked_example_with_one_bucket_of_each_size() -> None:
    """32,16,8,8,4,4,2,1,1 and a one; then two more."""
    histogram = ExponentialCount(epsilon=1.0)
    assert histogram.least == 1
    steps = []
    for end in (76, 77, 79):
        histogram.update(np.ones(end - histogram.total, np.int64), np.arange(histogram.total, end))
        steps.append(bucket_sizes(histogram.total, 1)[::-1].tolist())
    assert steps == [
        [32, 16, 8, 8, 4, 4, 2, 1, 1],
        [32, 16, 8, 8, 4, 4, 2, 2, 1],
        [32, 16, 16, 8, 4, 2, 1],
    ]


@settings(max_examples=sized(300, 60), deadline=None)
@given(rows, st.integers(1, 4), st.integers(1, 40), st.data())
def test_a_batch_gives_the_buckets_of_the_rule_unit_by_unit(
    drawn: Rows, least: int, window: int, data: st.DataObject
) -> None:
    values, times = columns(drawn)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(drawn)), max_size=3)))
    histogram = ExponentialSum(epsilon=1 / (2 * least), window=window)
    for begin, end in zip([0, *cuts], [*cuts, len(drawn)], strict=True):
        histogram.update(values[begin:end], times[begin:end])
    wanted = unit_by_unit(values, times, least, window)
    found = list(zip(bucket_sizes(histogram.total, least).tolist(), histogram.held.tolist(), strict=True))
    assert found == wanted


def assert_bounds(histogram: ExponentialHistogram, values: Ints, times: Ints, windows: range) -> float:
    """Every sub-window is known within epsilon and within its bounds; the worst error as a share of epsilon."""
    epsilon, worst = histogram.parameters["epsilon"], 0.0
    for window in windows:
        exact = int(values[(times > histogram.now - window) & (times <= histogram.now)].sum())
        answer = histogram.answer(window)
        assert answer.lower <= exact <= answer.upper, (window, exact, answer)
        assert abs(answer.value - exact) <= epsilon * exact + 1e-9
        worst = max(worst, abs(answer.value - exact) / (epsilon * exact) if exact else 0.0)
    return worst


@settings(max_examples=sized(100, 30), deadline=None)
@given(rows, st.sampled_from([1.0, 0.5, 0.2, 0.05]), st.integers(1, 60))
def test_every_sub_window_is_known_within_epsilon_at_every_step(drawn: Rows, epsilon: float, window: int) -> None:
    values, times = columns(drawn)
    histogram = ExponentialSum(epsilon=epsilon, window=window)
    for i in range(len(values)):
        histogram.update(values[i : i + 1], times[i : i + 1])
        assert_bounds(histogram, values[: i + 1], times[: i + 1], range(1, window + 1))


def adversary(blocks: int, pieces: int, seed: int) -> Ints:
    """Blocks of doubling size, the largest first, a random quarter of each block's pieces filled with ones; then zeros."""
    rng = np.random.default_rng(seed)
    out = []
    for block in range(blocks - 1, -1, -1):
        filled = np.zeros((pieces, 1 << block), np.int64)
        filled[rng.permutation(pieces)[: pieces // 4]] = 1
        out.append(filled.ravel())
    return np.concatenate([*out, np.zeros(sum(map(len, out)), np.int64)])


@pytest.mark.parametrize("epsilon", [0.5, 0.1, 0.02])
@pytest.mark.parametrize("seed", range(sized(3, 1)))
def test_the_adversary_does_not_break_the_bound(epsilon: float, seed: int) -> None:
    values = adversary(sized(9, 7), 8, seed)
    times = np.arange(len(values))
    window = len(values) // 2
    histogram = ExponentialCount(epsilon=epsilon, window=window)
    worst = 0.0
    for begin in range(0, len(values), 37):
        histogram.update(values[begin : begin + 37], times[begin : begin + 37])
        end = begin + 37
        worst = max(worst, assert_bounds(histogram, values[:end], times[:end], range(1, window + 1, 41)))
        assert len(histogram.held) <= most_buckets(window, epsilon)
    assert 0.2 < worst <= 1


def most_buckets(window: int, epsilon: float) -> float:
    k = math.ceil(1 / epsilon)
    return (math.ceil(k / 2) + 1) * (math.log2(2 * window / k + 1) + 1)


@pytest.mark.parametrize("epsilon", [0.5, 0.1, 0.01])
def test_space_is_logarithmic_in_the_window(epsilon: float) -> None:
    for window in (100, 10_000, sized(1_000_000, 50_000)):
        histogram = ExponentialCount(epsilon=epsilon, window=window)
        histogram.update(np.ones(2 * window, np.int64), np.arange(2 * window))
        assert len(histogram.held) <= most_buckets(window, epsilon)


def test_zeros_only_move_the_clock() -> None:
    histogram = ExponentialCount(epsilon=0.1, window=10)
    histogram.update(np.ones(5, np.int64), np.arange(5))
    before = histogram.held.copy()
    histogram.update(np.zeros(4, np.int64), np.arange(5, 9))
    assert histogram.held.tolist() == before.tolist() and histogram.now == 8
    histogram.update(np.zeros(1, np.int64), np.array([14]))
    assert histogram.answer().value == 0


def test_a_row_window_is_a_window_of_row_numbers() -> None:
    passed = np.random.default_rng(0).integers(0, 2, 5_000)
    histogram = ExponentialCount(epsilon=0.05, window=1_000)
    histogram.update(passed, np.arange(5_000))
    assert abs(histogram.answer().value - passed[-1_000:].sum()) <= 0.05 * passed[-1_000:].sum()


def test_without_a_window_the_total_is_exact() -> None:
    total = ExponentialSum(epsilon=0.5)
    total.update(np.arange(1000), np.arange(1000))
    assert total.answer().lower == total.answer().upper == 499_500
