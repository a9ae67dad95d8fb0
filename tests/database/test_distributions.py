"""Summaries of values: exact where they can be, bounded always."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from penstock.database.sampler import KEPT_VALUES, Distribution


def test_moments_do_not_depend_on_how_the_values_came() -> None:
    values = np.random.default_rng(7).normal(1e6, 3.0, 10_000)
    at_once, in_pieces = Distribution(), Distribution()
    at_once.add(pa.array(values))
    for piece in np.array_split(values, 77):
        in_pieces.add(pa.array(piece))
    one, many = at_once.as_dict(), in_pieces.as_dict()
    for name in ("sampled", "nulls", "least", "most"):
        assert one[name] == many[name]
    assert in_pieces.mean == pytest.approx(values.mean(), rel=1e-12)
    assert (many["mean"], many["stddev"]) == (1e6, pytest.approx(values.std(), rel=1e-5))


def test_quantiles_of_a_long_stream_are_near_although_few_values_are_kept() -> None:
    found = Distribution()
    for piece in np.array_split(np.random.default_rng(7).permutation(200_000) / 2000, 200):
        found.add(pa.array(piece))
    facts = found.as_dict()
    assert found._kept.shape == (KEPT_VALUES,)
    assert facts["p50"] == pytest.approx(50, abs=4) and facts["p95"] == pytest.approx(95, abs=2)


@pytest.mark.parametrize(
    ("column", "mean"),
    [
        (pa.array([1, 3, None], pa.int32()), 2.0),
        (pa.array([True, False, None]), 0.5),
        (pa.array([Decimal("1.5"), Decimal("2.5"), None]), 2.0),
        (pa.array([1.0, float("nan"), float("inf"), 3.0]), 2.0),
        (pa.array(["a", None]), None),
        (pa.array([None, None]), None),
    ],
)
def test_numbers_of_any_type_are_measured_and_others_are_counted(column: pa.Array, mean: float | None) -> None:
    found = Distribution()
    found.add(column)
    facts = found.as_dict()
    assert (facts["sampled"], facts["nulls"], facts.get("mean")) == (len(column), column.null_count, mean)


def test_very_large_values_have_a_mean_and_no_warning() -> None:
    found = Distribution()
    for _ in range(3):
        found.add(pa.array([1.7e308, 1.7e308, -1.7e308]))
    facts = found.as_dict()
    assert facts["mean"] == pytest.approx(1.7e308 / 3) and facts["stddev"] == float("inf")
    assert (facts["least"], facts["p50"], facts["most"]) == (-1.7e308, 1.7e308, 1.7e308)
