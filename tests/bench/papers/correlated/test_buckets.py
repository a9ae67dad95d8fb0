"""Correlated aggregates in buckets: bounds that hold, mass that stays, batches, errors beside the baselines."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.papers.base import Floats
from bench.papers.correlated.baselines import heuristic_answers
from bench.papers.correlated.buckets import CorrelatedBuckets, Cut, How
from bench.papers.correlated.edge_choice import PIECEMEAL, WHOLESALE, fill
from bench.papers.correlated.exact import exact_answers, landmark_starts, sliding_starts
from bench.papers.correlated.mass import AT_LEAST, AT_MOST, ESTIMATE, enter, read_below, recut
from bench.papers.correlated.moving_buckets import EDGES
from bench.papers.correlated.question import Question, above_avg, around_avg, near_max, near_min
from penstock.errors import PenstockError
from tests.bench.papers.correlated.brute import QUESTIONS, arrays, columns
from tests.bench.papers.sizes import sized

# Between edges that are next to each other the slope is infinite; only the interpreter says that it overflows.
pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")
WAYS: tuple[tuple[How, Cut], ...] = (
    ("piecemeal", "uniform"),
    ("piecemeal", "quantile"),
    ("wholesale", "uniform"),
    ("wholesale", "quantile"),
    ("equi_depth", "uniform"),
)
Drawn = list[tuple[int, int, int]]


@settings(max_examples=sized(400, 80), deadline=None)
@given(columns, st.sampled_from(QUESTIONS), st.sampled_from(WAYS), st.integers(0, 12), st.integers(3, 7), st.booleans())
def test_the_truth_lies_within_the_bounds(
    drawn: Drawn, question: Question, way: tuple[How, Cut], window: int, buckets: int, summed: bool
) -> None:
    x, y, times = arrays(drawn)
    question = replace(question, outer="sum" if summed else "count")
    starts = sliding_starts(times, window) if window else landmark_starts(len(x))
    if question.low and question.high:
        buckets += 2
    state = CorrelatedBuckets(question, buckets, *way, sliding=window > 0)
    band = state.update(x, y, starts)
    exact = np.nan_to_num(exact_answers(question, x, y, starts))
    assert (band.lower <= exact + 1e-9).all() and (exact - 1e-9 <= band.upper).all()
    assert (band.lower <= band.value + 1e-9).all() and (band.value - 1e-9 <= band.upper).all()


@settings(max_examples=sized(150, 40), deadline=None)
@given(columns, st.sampled_from(QUESTIONS), st.sampled_from(WAYS), st.integers(0, 12), st.data())
def test_batches_and_restarts_change_nothing(
    drawn: Drawn, question: Question, way: tuple[How, Cut], window: int, data: st.DataObject
) -> None:
    x, y, times = arrays(drawn)
    starts = sliding_starts(times, window) if window else landmark_starts(len(x))
    whole = CorrelatedBuckets(question, 5, *way, sliding=window > 0).update(x, y, starts)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(x)), max_size=3)))
    saved, found, left = b"", [], 0
    for begin, end in zip([0, *cuts], [*cuts, len(x)], strict=True):
        state = CorrelatedBuckets(question, 5, *way, sliding=window > 0)
        if saved:
            state.restore(saved)
        if window:
            band = state.update(x[left:end], y[left:end], starts[begin:end] - left, begin - left)
            left = int(starts[end - 1]) if end > begin else left
        else:
            band = state.update(x[begin:end], y[begin:end])
        found.append(band.value)
        saved = state.save()
    np.testing.assert_allclose(np.concatenate(found), whole.value, rtol=1e-9, atol=1e-9)


@settings(max_examples=sized(200, 60), deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 100), st.integers(-5, 5)), min_size=1, max_size=40),
    st.integers(0, 60),
    st.integers(1, 80),
    st.integers(1, 8),
    st.sampled_from([PIECEMEAL, WHOLESALE]),
    st.booleans(),
)
def test_cutting_anew_makes_and_loses_no_mass(
    rows: list[tuple[int, int]], begin: int, width: int, buckets: int, how: int, by_count: bool
) -> None:
    """Whatever lies between the ends of the new edges is what lay there before, straddling buckets included."""
    edges, below = np.zeros(20), np.zeros((20, 3, 3))
    edges[:6] = [0, 7, 20, 21, 64, 101]
    for x, y in rows:
        enter(edges, below, 6, float(x), float(y))
    before, after, new = np.empty((2, 3, 3)), np.empty((2, 3, 3)), np.empty(40)
    for i, cut in enumerate((begin, begin + width)):
        read_below(edges, below, 6, float(cut), before[i])
    count = fill(edges, below, 6, float(begin), float(begin + width), buckets, how, by_count, new)
    assert 2 <= count <= buckets + 1 and (np.diff(new[:count]) > 0).all()
    assert new[0] == begin and new[count - 1] == begin + width
    recut(edges, below, 6, new, count)
    for i, cut in enumerate((begin, begin + width)):
        read_below(edges, below, count, float(cut), after[i])
    np.testing.assert_allclose(after, before)
    pieces = np.diff(below[:count], axis=0)[:, ESTIMATE].sum(axis=0)
    np.testing.assert_allclose(pieces, (before[1] - before[0])[ESTIMATE], atol=1e-9)
    assert (np.diff(below[:count], axis=0) >= -1e-9).all()
    for i in range(count):
        truth = sum(x < new[i] for x, _ in rows)
        assert below[i, AT_LEAST, 0] <= truth <= below[i, AT_MOST, 0]


@settings(max_examples=sized(150, 40), deadline=None)
@given(columns, st.sampled_from(WAYS), st.sampled_from([q for q in QUESTIONS if q.inner == "avg"]), st.integers(0, 12))
def test_all_buckets_together_hold_every_row_of_the_window(
    drawn: Drawn, way: tuple[How, Cut], question: Question, window: int
) -> None:
    x, y, times = arrays(drawn)
    starts = sliding_starts(times, window) if window else landmark_starts(len(x))
    state = CorrelatedBuckets(question, 6, *way, sliding=window > 0)
    state.update(x, y, starts)
    inside = slice(int(starts[-1]), len(x))
    plus, minus = y[inside][y[inside] > 0].sum(), -y[inside][y[inside] < 0].sum()
    last = state.below[int(state.numbers[EDGES]) - 1, ESTIMATE]
    np.testing.assert_allclose(last, [len(y[inside]), plus, minus], atol=1e-9)
    assert state.numbers[EDGES] <= 7


def test_a_minimum_far_below_begins_anew_and_is_exact() -> None:
    x = np.array([100.0, 150, 180, 199, 10, 12, 21, 15])
    state = CorrelatedBuckets(near_min(1), 5)
    band = state.update(x, x)
    assert band.value[4] == band.lower[4] == band.upper[4] == 1
    assert band.lower[7] == band.upper[7] == 3


def test_the_bucket_that_is_cut_is_estimated_from_its_neighbours_and_bounded_by_all_or_nothing() -> None:
    """MIN 10, threshold 20: four buckets of width 2.5. A new minimum 9 moves the threshold to 18, into the last bucket."""
    x = np.array([10.0, 11, 13, 14, 16, 17, 18.0, 19, 9])
    state = CorrelatedBuckets(near_min(1), 4)
    state.regions[0] = 10, np.nextafter(20, 21)
    state.edges[:5] = [10, 12.5, 15, 17.5, np.nextafter(20, 21)]
    state.numbers[EDGES] = 5
    band = state.update(x, x)
    assert band.value[7] == band.lower[7] == band.upper[7] == 8
    # Two rows in every bucket: the curve is a straight line, and a fifth of the last bucket remains.
    assert band.value[8] == pytest.approx(7 + 2 * 0.5 / 2.5) and (band.lower[8], band.upper[8]) == (7, 9)


def lognormal(seed: int, n: int = sized(8_000, 1_500)) -> Floats:
    return np.random.default_rng(seed).lognormal(5, 2, n)


def rms(found: Floats, exact: Floats) -> float:
    return float(np.sqrt(np.mean((found - exact) ** 2)))


@pytest.mark.parametrize("question", [near_min(99), near_min(99, "sum"), above_avg()])
def test_following_buckets_beat_equi_depth_and_the_heuristics(question: Question) -> None:
    ours, equi_depth, heuristics = [], [], []
    for seed in range(sized(5, 1)):
        x = lognormal(seed, sized(8_000, 4_000))  # the lead grows with the stream
        exact = np.nan_to_num(exact_answers(question, x, x, landmark_starts(len(x))))
        ours.append(rms(CorrelatedBuckets(question, 10).update(x, x).value, exact))
        equi_depth.append(rms(CorrelatedBuckets(question, 10, "equi_depth").update(x, x).value, exact))
        heuristics.append(min(rms(heuristic_answers(question, x, x, h), exact) for h in ("keep_all", "reset")))
    assert np.mean(ours) < min(np.mean(equi_depth), np.mean(heuristics)) / 2


def test_the_errors_are_those_that_we_promise() -> None:
    x = lognormal(1)
    for question, most in ((near_min(99), 5), (above_avg(), 40)):
        exact = exact_answers(question, x, x, landmark_starts(len(x)))
        assert rms(CorrelatedBuckets(question, 10).update(x, x).value, exact) < most


def test_a_threshold_that_rises_again_finds_buckets_in_its_way() -> None:
    """The minimum leaves a sliding window, and the next one lies far above."""
    x = lognormal(6)
    starts = sliding_starts(np.arange(len(x)), 1_000)
    exact = exact_answers(near_min(99), x, x, starts)
    band = CorrelatedBuckets(near_min(99), 10, sliding=True).update(x, x, starts)
    assert rms(band.value, exact) < 0.15 * exact.mean()
    assert (band.lower <= exact).all() and (exact <= band.upper).all()


def test_space_does_not_grow_with_the_stream() -> None:
    rows = sized(8_000, 500)
    for question, (how, cut) in product((near_min(99), near_max(0.9), above_avg()), WAYS):
        state = CorrelatedBuckets(question, 10, how, cut)
        before = state.nbytes
        state.update(lognormal(2, rows), lognormal(3, rows))
        assert state.nbytes == before < 2_000 and len(state.save()) < 2_000


def test_an_average_of_y_lies_within_its_bounds() -> None:
    x, y = lognormal(4), np.abs(lognormal(5))
    question = replace(above_avg(), outer="avg")
    band = CorrelatedBuckets(question, 10).update(x, y)
    exact = exact_answers(question, x, y, landmark_starts(len(x)))
    some = ~np.isnan(exact)
    assert (band.lower[some] <= exact[some] * (1 + 1e-9)).all() and (exact[some] <= band.upper[some] * (1 + 1e-9)).all()


def test_what_buckets_cannot_answer_is_refused() -> None:
    for question, buckets in ((near_min(1, "max"), 5), (near_min(1), 2), (around_avg(1), 4)):
        with pytest.raises(PenstockError):
            CorrelatedBuckets(question, buckets)
