"""Boxes made of real counts: none is used twice, and their mean is what the rates say."""

from __future__ import annotations

import math

import numpy as np
import pytest

from apps.hazmat.boxes import DRIFT_LIMIT, Content, Shield, resample, strength_for, survival, thin, thin_bursts
from apps.hazmat.reading import suro

OFFICE, CAESIUM = suro()[1], suro()[24]


def test_no_count_of_a_run_is_used_twice_in_a_box() -> None:
    """A box that takes all the time of its runs takes all their counts, once."""
    seconds = int(OFFICE.live_s) // 4
    whole = thin_bursts(Content(OFFICE), seconds, np.random.default_rng(1)).sum(axis=(0, 1))
    assert np.all(whole <= OFFICE.counts) and whole.sum() > 0.99 * OFFICE.counts.sum()


def test_the_mean_of_thinned_boxes_is_background_and_source() -> None:
    strength = strength_for(8.0, CAESIUM, OFFICE)
    bins = thin(Content(OFFICE, CAESIUM, strength), 300, 20, np.random.default_rng(2))
    expected = 80.0 * (OFFICE.rate + strength * (CAESIUM.rate - OFFICE.rate))
    assert bins.sum(axis=(1, 2)).mean() == pytest.approx(expected.sum(), rel=0.01)
    assert expected.sum() == pytest.approx(80.0 * (OFFICE.rate.sum() + 8.0))
    spread = np.sqrt(expected / 300)
    assert np.all(np.abs(bins.sum(axis=1).mean(axis=0) - expected) < 5 * spread + 0.05)


def test_resampled_boxes_have_the_same_mean() -> None:
    strength = strength_for(8.0, CAESIUM, OFFICE)
    content = Content(OFFICE, CAESIUM, strength, Shield("lead", 5.0))
    thinned = thin(content, 200, 10, np.random.default_rng(3)).sum(axis=(1, 2)).mean()
    assert resample(content, 200, 10, np.random.default_rng(3)).sum(axis=(1, 2)).mean() == pytest.approx(
        thinned, rel=0.03
    )


def test_the_same_seed_gives_the_same_bursts() -> None:
    content = Content(OFFICE, CAESIUM, 0.1)
    one, other = (thin_bursts(content, 5, np.random.default_rng(4)) for _ in range(2))
    np.testing.assert_array_equal(one, other)
    assert one.shape == (5, 4, 256)


def test_a_run_without_enough_counts_says_so() -> None:
    with pytest.raises(ValueError, match="too few counts for 600 s"):
        thin(Content(OFFICE), 1, 600, np.random.default_rng(1))


def test_a_shield_holds_back_as_the_tables_say() -> None:
    kev = np.array([100.0, 600.0, 1000.0, 700.0])
    found = survival(kev, Shield("lead", 5.0))
    between = math.exp(
        math.log(0.1248) + (math.log(700) - math.log(600)) / (math.log(800) - math.log(600)) * math.log(0.0887 / 0.1248)
    )
    for value, mu in zip(found, (5.549, 0.1248, 0.07102, between), strict=True):
        assert value == pytest.approx(math.exp(-mu * 11.35 * 0.5))
    assert np.all(survival(kev, None) == 1) and np.all(survival(kev, Shield("iron", 20.0)) < survival(kev, None))
    low, high = survival(np.array([87.9, 88.1]), Shield("lead", 0.1))
    assert low > high, "lead holds back more above its K edge"


def test_drift_moves_a_line_within_its_limit_and_loses_hardly_a_count() -> None:
    still = thin(Content(OFFICE, CAESIUM, 1.0), 60, 5, np.random.default_rng(6)).sum(axis=1)
    moved = thin(Content(OFFICE, CAESIUM, 1.0, drift=True), 60, 5, np.random.default_rng(6)).sum(axis=1)
    assert moved.sum() == pytest.approx(still.sum(), rel=0.02)
    tops = 40 + moved[:, 40:80].argmax(axis=1)
    # A bin at 650 keV is 3 % wide: the line moves by a bin to each side, and not by three.
    assert tops.std() > 0.3 and np.ptp(tops) <= 5 and DRIFT_LIMIT == 0.03
