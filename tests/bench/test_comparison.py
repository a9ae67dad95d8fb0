"""Two sides in turns: which of them is worse, and what is said where a run gave no figure."""

from __future__ import annotations

import math

import pytest

from bench.comparison import Comparison, Measure, turns

TIME = Measure("cycle_p99_ms")
RATE = Measure("rows_per_s", higher_is_better=True)


def test_the_ratio_is_that_of_the_medians_and_one_slow_run_does_not_count() -> None:
    found = Comparison(TIME, [100.0, 110.0, 100.0], [104.0, 400.0, 100.0])
    assert found.ratio == pytest.approx(1.04)
    assert found.spread == pytest.approx((1.0, 400 / 110))
    assert found.verdict(0.05) == "not worse"


def test_more_time_is_worse_and_less_is_not() -> None:
    assert Comparison(TIME, [100.0], [105.1]).verdict(0.05) == "WORSE than 5 %"
    assert Comparison(TIME, [100.0], [105.1]).verdict(0.1) == "not worse"
    assert not Comparison(TIME, [100.0], [50.0]).is_worse(0.05)


def test_a_lower_rate_is_worse_and_a_higher_one_is_not() -> None:
    assert Comparison(RATE, [1_000.0], [940.0]).verdict(0.05) == "WORSE than 5 %"
    assert Comparison(RATE, [1_000.0], [960.0]).verdict(0.05) == "not worse"
    assert not Comparison(RATE, [1_000.0], [2_000.0]).is_worse(0.05)


@pytest.mark.parametrize("figure", [math.nan, 0.0, -3.0])
def test_a_measure_that_lacks_a_figure_is_neither_worse_nor_not_worse(figure: float) -> None:
    found = Comparison(TIME, [100.0, 100.0], [100.0, figure])
    assert found.verdict(0.05) == "NOT MEASURED" and math.isnan(found.ratio) and not found.is_worse(0.05)


def test_a_line_says_which_direction_is_better() -> None:
    line = Comparison(RATE, [1_000.0, 1_200.0], [900.0, 1_200.0]).line(("before", "after"), 0.05)
    assert line == {
        "measure": "rows_per_s",
        "better": "higher",
        "before": 1_100.0,
        "after": 1_050.0,
        "after / before": "0.955",
        "of pairs": "0.900 to 1.000",
        "verdict": "not worse",
    }


def test_the_side_that_goes_first_alternates() -> None:
    assert list(turns(("a", "b"), 3)) == [(0, "a"), (0, "b"), (1, "b"), (1, "a"), (2, "a"), (2, "b")]
