"""Difference bounds: what windows between some pairs of streams say about all of them."""

from __future__ import annotations

import itertools
import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.operators.join.kernels.bounds import UNBOUNDED, ContradictoryWindows, Form, Pair, close, form, path_order
from tests.support.examples import examples

S = 1_000_000


def clique(n: int, w: int) -> list[Pair]:
    return [(i, j, -w, w) for i, j in itertools.combinations(range(n), 2)]


def test_a_missing_pair_gets_the_sum_of_the_windows_between_the_two() -> None:
    bounds = close(3, [(0, 1, -30 * S, 30 * S), (1, 2, -60 * S, 60 * S)])
    assert bounds.upper[0][2] == bounds.upper[2][0] == 90 * S
    assert bounds.reach(0) == (90 * S, 90 * S)
    assert bounds.reach(1) == (60 * S, 60 * S)
    assert bounds.largest() == 90 * S


def test_a_directed_path_bounds_both_ends() -> None:
    bounds = close(3, [(0, 1, 0, 30 * S), (1, 2, 5 * S, 60 * S)])
    assert (bounds.upper[0][2], bounds.upper[2][0]) == (90 * S, -5 * S)
    assert bounds.reach(0) == (0, 90 * S)
    assert bounds.reach(2) == (90 * S, 0)


def test_a_stated_window_wider_than_what_follows_is_tightened() -> None:
    assert close(3, [(0, 1, -S, S), (1, 2, -S, S), (0, 2, -9 * S, 9 * S)]).upper[0][2] == 2 * S


def test_a_pair_may_be_written_either_way_round_and_more_than_once() -> None:
    assert close(2, [(1, 0, -5, 7)]) == close(2, [(0, 1, -7, 5)])
    assert close(2, [(0, 1, -9, 5), (1, 0, -9, 7)]).given == ((0, 1, -7, 5),)


def test_a_contradiction_names_the_streams_that_it_goes_through() -> None:
    with pytest.raises(ContradictoryWindows) as found:
        close(4, [(0, 1, -S, S), (1, 2, 0, S), (2, 3, 0, S), (1, 3, 5 * S, 9 * S)])
    assert set(found.value.streams) == {1, 2, 3}
    assert found.value.excess == 3 * S
    again = pickle.loads(pickle.dumps(found.value))
    assert (again.streams, str(again)) == (found.value.streams, str(found.value))
    with pytest.raises(ContradictoryWindows) as pair:
        close(3, [(0, 1, -S, S), (1, 2, 5, 4)])
    assert set(pair.value.streams) == {1, 2}


def test_streams_that_no_window_ties_together_are_listed() -> None:
    bounds = close(5, [(0, 2, -1, 1), (1, 3, -1, 1)])
    assert bounds.components() == ((0, 2), (1, 3), (4,))
    assert bounds.largest() is None
    assert bounds.reach(0) == (None, None)


def test_after_without_a_limit_does_not_connect_two_streams() -> None:
    bounds = close(2, [(0, 1, 0, None)])
    assert bounds.components() == ((0,), (1,))
    assert bounds.upper == ((0, None), (0, 0))
    assert bounds.matrix().tolist() == [[0, UNBOUNDED], [0, 0]]


@pytest.mark.parametrize(
    ("streams", "pairs", "expected"),
    [
        (2, [(0, 1, -5, 5)], Form("binary", False)),
        (2, [(0, 1, 0, 5)], Form("binary", True)),
        (3, clique(3, 5), Form("uniform clique", False)),
        (3, [(0, 1, -5, 5), (1, 2, -5, 5), (0, 2, -6, 6)], Form("clique", False)),
        (3, [(0, 1, 0, 5), (1, 2, 0, 5), (0, 2, 0, 5)], Form("clique", True)),
        (3, [(0, 1, -5, 5), (1, 2, -6, 6)], Form("path", False)),
        (4, [(2, 1, 0, 5), (1, 3, 0, 5), (3, 0, 0, 7)], Form("path", True)),
        (4, [(0, 1, -5, 5), (0, 2, -5, 5), (0, 3, -5, 5)], Form("graph", False)),
        (4, [(0, 1, 0, 5), (1, 2, 0, 5), (2, 0, -20, 0)], Form("graph", True)),
    ],
)
def test_the_form_is_read_off_the_stated_pairs(streams: int, pairs: list[Pair], expected: Form) -> None:
    assert form(close(streams, pairs)) == expected


def test_a_path_knows_its_order_in_time() -> None:
    assert path_order(close(4, [(2, 1, 0, 5), (1, 3, 0, 5), (3, 0, 0, 7)])) == (2, 1, 3, 0)
    assert path_order(close(3, [(0, 1, -5, 5), (0, 2, -5, 5)])) == (1, 0, 2)
    assert path_order(close(3, [(0, 1, 0, 5), (0, 2, -9, 0)])) == (2, 0, 1)
    assert path_order(close(3, clique(3, 5))) is None
    assert str(Form("path", True)) == "directed path"


@st.composite
def stated(draw: st.DrawFn) -> tuple[int, list[Pair]]:
    n = draw(st.integers(2, 3))
    ends = st.none() | st.integers(-4, 4)
    return n, [(i, j, draw(ends), draw(ends)) for i, j in itertools.combinations(range(n), 2) if draw(st.booleans())]


@settings(max_examples=examples(100), deadline=None)
@given(stated())
def test_closed_bounds_are_exactly_what_the_pairs_allow(case: tuple[int, list[Pair]]) -> None:
    n, pairs = case
    every = [(0, *times) for times in itertools.product(range(-13, 14), repeat=n - 1)]
    inside = [
        t
        for t in every
        if all(
            (low is None or low <= t[j] - t[i]) and (high is None or t[j] - t[i] <= high) for i, j, low, high in pairs
        )
    ]
    try:
        bounds = close(n, pairs)
    except ContradictoryWindows as found:
        assert not inside
        assert found.excess > 0
        return
    assert inside
    for i, j in itertools.permutations(range(n), 2):
        widest = max(t[j] - t[i] for t in inside)
        upper = bounds.upper[i][j]
        # Two windows of at most 4 add up to 8; what is wider was not bounded by anything.
        assert widest > 8 if upper is None else widest == upper
