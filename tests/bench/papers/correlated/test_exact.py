"""Exact correlated aggregates against the definition."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.papers.correlated.exact import exact_answers, landmark_starts, sliding_starts
from bench.papers.correlated.question import Edge, Outer, Question, near_max, near_min
from penstock.errors import PenstockError
from tests.bench.papers.correlated.brute import QUESTIONS, arrays, by_definition, columns
from tests.support.examples import examples

OUTERS: tuple[Outer, ...] = ("count", "sum", "avg", "min", "max")


@settings(max_examples=examples(150), deadline=None)
@given(columns, st.sampled_from(QUESTIONS), st.sampled_from(OUTERS), st.integers(0, 12), st.data())
def test_exact_answers_are_those_of_the_definition(
    drawn: list[tuple[int, int, int]], question: Question, outer: Outer, window: int, data: st.DataObject
) -> None:
    """Landmark (window 0) and sliding, from any row on."""
    x, y, times = arrays(drawn)
    question = replace(question, outer=outer)
    starts = sliding_starts(times, window) if window else landmark_starts(len(x))
    fresh = data.draw(st.integers(0, len(x)))
    found = exact_answers(question, x, y, starts[fresh:], fresh)
    np.testing.assert_allclose(found, by_definition(question, x, y, starts)[fresh:])


def test_calls_nearly_as_long_as_the_longest() -> None:
    """x >= 0.9 * MAX(x): 10, then 9 joins it, 20 leaves both behind, 18 is exactly on the edge."""
    x = np.array([10.0, 9, 8.9, 20, 18, 17.9])
    found = exact_answers(near_max(0.1), x, x, landmark_starts(6))
    assert found.tolist() == [1, 2, 2, 1, 2, 2]


def test_the_threshold_rises_again_when_the_minimum_leaves_the_window() -> None:
    x = np.array([4.0, 1, 7, 8, 9])
    found = exact_answers(near_min(1), x, x, sliding_starts(np.arange(5), 3))
    assert found.tolist() == [1, 1, 1, 1, 3]


def test_a_question_without_edges_or_with_a_negative_factor_is_refused() -> None:
    for low in (None, Edge(-1)):
        with pytest.raises(PenstockError):
            Question("min", low=low)
