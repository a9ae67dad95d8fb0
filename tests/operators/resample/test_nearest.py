"""Values of one stream at the times of another, against a look at every reading."""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.operators.resample.nearest import Method, Resampler, key_codes, window_sums
from tests.sql.test_resample import WAYS, Reading, rounded

Key = tuple[Any, ...] | None
_KEYS: list[list[Any]] = [
    [1, 2, 3, None],
    ["north", "south", "", None],
    [0.0, -0.0, math.nan, 1.5, None],
    [True, False, None],
]


def equal(ours: Key, theirs: Key) -> bool:
    """NULL equals nothing, NaN equals NaN."""
    if ours is None or theirs is None:
        return True
    pairs = zip(ours, theirs, strict=True)
    return all(a is not None and b is not None and (a == b or (a != a and b != b)) for a, b in pairs)


@pytest.mark.parametrize("seed", range(30))
def test_it_says_what_brute_force_says(seed: int) -> None:
    chance = random.Random(seed)
    kinds = [chance.choice(_KEYS) for _ in range(chance.choice([0, 1, 1, 2]))]
    span, count, asked = chance.choice([5, 40]), chance.choice([0, 1, 7, 80]), chance.choice([0, 1, 30])
    readings = [
        Reading(chance.randrange(span), n, 0, chance.choice([None, 1.0, -7.25, float(n)])) for n in range(count)
    ]
    times = [chance.randrange(-3, span + 3) for _ in range(asked)]
    ours, theirs = ([[chance.choice(kind) for kind in kinds] for _ in range(n)] for n in (asked, count))
    codes: tuple[Any, Any] = (None, None)
    if kinds:
        types = [pa.array([v for v in kind if v is not None]).type for kind in kinds]
        columns = [
            [pa.array([row[i] for row in rows], type_) for i, type_ in enumerate(types)] for rows in (ours, theirs)
        ]
        codes = key_codes(*columns)
    resampler = Resampler(np.array([r.ts for r in readings], np.int64), np.array(times, np.int64), codes[1], codes[0])
    values = pa.array([r.value for r in readings], pa.float64())
    for way, brute in WAYS.items():
        us = chance.choice([1, 2, 9, 100])
        method: Method = way.lower()  # type: ignore[assignment]
        found = resampler.values(values, us, method).to_pylist()
        expected = []
        for at, key in zip(times, ours, strict=True):
            near = [r for r in readings if r.value is not None and equal(tuple(key), tuple(theirs[r.position]))]
            expected.append(brute(near, at, us))
        assert rounded(tuple(found)) == rounded(tuple(expected)), (seed, way, us)


def test_the_previous_value_may_be_of_any_type() -> None:
    resampler = Resampler(np.array([10, 20, 20]), np.array([5, 15, 20, 29, 31]))
    found = resampler.values(pa.array(["a", "b", "c"]), 10, "previous")
    assert found.to_pylist() == [None, "a", "c", "c", None]
    lists = pa.array([[1], None, [3]])
    assert resampler.values(lists, 100, "previous").to_pylist() == [None, [1], [3], [3], [3]]


def test_what_has_left_a_window_is_not_felt_in_the_next() -> None:
    """A running sum that takes values off again would say 0.0, or NaN for ever."""
    values = np.array([1.0, 1e17, 1.0, 2.0, math.inf, 3.0, math.nan, 4.0, 5.0])
    first = np.array([0, 2, 3, 4, 5, 6, 7, 7, 0])
    end = np.array([3, 4, 6, 5, 6, 8, 9, 7, 9])
    found = window_sums(values, first, end)
    expected = [1e17 + 2.0, 3.0, math.inf, math.inf, 3.0, math.nan, 9.0, 0.0, math.nan]
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("seed", range(5))
def test_sums_of_many_overlapping_windows_are_those_of_each(seed: int) -> None:
    chance = np.random.default_rng(seed)
    values = chance.integers(-1000, 1000, 300).astype(np.float64)
    first = chance.integers(0, 301, 200)
    end = np.minimum(300, first + chance.integers(0, 301, 200))
    np.testing.assert_array_equal(
        window_sums(values, first, end), [values[a:b].sum() for a, b in zip(first, end, strict=True)]
    )
