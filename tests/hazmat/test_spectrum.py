"""Bins, background and peaks against plain loops, and on real spectra."""

from __future__ import annotations

import math

import numpy as np
import pytest

from apps.hazmat.lines import line_shape
from apps.hazmat.peaks import FILTER, REACH, peaks, significances
from apps.hazmat.reading import suro
from apps.hazmat.snip import snip
from apps.hazmat.spectrum import BINS, EDGES_KEV, Array, energy, pair_bins, position, smooth, to_bins

DICE = np.random.default_rng(17)


def bins_by_loop(counts: list[int], a0: float, a1: float, a2: float) -> list[float]:
    found = [0.0] * BINS
    for channel, count in enumerate(counts):
        low, high = (a0 + a1 * c + a2 * c * c for c in (channel - 0.5, channel + 0.5))
        for number in range(BINS):
            common = min(high, EDGES_KEV[number + 1]) - max(low, EDGES_KEV[number])
            if common > 0:
                found[number] += count * common / (high - low)
    return found


def snip_by_loop(bins: list[float]) -> list[float]:
    v = [math.log(math.log(math.sqrt(x + 1) + 1) + 1) for x in bins]
    for w in range(12, 0, -1):
        v = [min(v[i], (v[i - w] + v[i + w]) / 2) if w <= i < len(v) - w else v[i] for i in range(len(v))]
    return [(math.exp(math.exp(x) - 1) - 1) ** 2 - 1 for x in v]


def test_bins_are_those_of_plain_loops_for_every_calibration() -> None:
    counts = DICE.poisson(5.0, size=(4, 256))
    a0, a1, a2 = (
        np.array([1.9, -6.4, 1.9, 0.0]),
        np.array([9.46, 9.4, 9.46, 11.0]),
        np.array([0.008, 0.009, 0.008, 0.0]),
    )
    found = to_bins(counts, a0, a1, a2)
    for row in range(4):
        np.testing.assert_allclose(found[row], bins_by_loop(counts[row].tolist(), a0[row], a1[row], a2[row]), atol=1e-9)


def test_every_count_between_the_outer_edges_is_in_a_bin() -> None:
    run = suro()[29]
    edges = run.edges_kev
    inside = (edges[:-1] >= EDGES_KEV[0]) & (edges[1:] <= EDGES_KEV[-1])
    partly = (edges[1:] > EDGES_KEV[0]) & (edges[:-1] < EDGES_KEV[-1])
    assert run.counts[inside].sum() - 1e-6 <= run.bins.sum() <= run.counts[partly].sum() + 1e-6


def test_a_spectrum_of_the_wrong_length_is_refused() -> None:
    one = np.ones(1)
    with pytest.raises(ValueError, match="a spectrum has 255 channels; detectors here have 256 or 1024"):
        to_bins(np.zeros((1, 255)), one, one, one)
    with pytest.raises(ValueError, match="does not rise"):
        to_bins(np.zeros((1, 256)), one, -one, one * 0)


def test_energy_and_place_are_inverse_and_pairs_keep_the_sum() -> None:
    np.testing.assert_allclose(energy(position(np.array([30.0, 661.7, 2614.5]))), [30.0, 661.7, 2614.5])
    bins = DICE.random((3, BINS))
    np.testing.assert_allclose(pair_bins(bins).sum(axis=1), bins.sum(axis=1))
    np.testing.assert_allclose(smooth(bins).sum(axis=1), bins.sum(axis=1))


def test_snip_is_that_of_plain_loops() -> None:
    bins = DICE.poisson(20.0, size=(3, BINS)).astype(np.float64)
    for row in range(3):
        np.testing.assert_allclose(snip(bins)[row], snip_by_loop(bins[row].tolist()), atol=1e-9)


def test_snip_stays_below_a_real_spectrum_and_follows_it_between_peaks() -> None:
    bins = suro()[29].bins
    below = snip(bins)
    assert np.all(below <= bins + 1e-6)
    at_peak = int(position(645.0))
    assert below[at_peak] < 0.4 * bins[at_peak]


def test_the_filter_is_that_of_plain_loops() -> None:
    assert abs(FILTER.sum()) < 1e-12
    bins = DICE.poisson(3.0, size=BINS).astype(np.float64)
    found = significances(bins)
    for i in range(BINS):
        expected = 0.0
        if REACH <= i < BINS - REACH:
            near = [bins[i + k] for k in range(-REACH, REACH + 1)]
            error = math.sqrt(sum(f * f * max(x, 1.0) for f, x in zip(FILTER, near, strict=True)))
            expected = sum(f * x for f, x in zip(FILTER, near, strict=True)) / error
        assert found[i] == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(
    ("run", "material", "kev"),
    [(24, "Cs-137", 661.7), (39, "Am-241", 59.5), (69, "Co-57", 122.1), (62, "Ba-133", 81.0)],
)
def test_a_strong_peak_of_a_real_source_is_its_line(run: int, material: str, kev: float) -> None:
    found = [peak for peak in peaks(suro()[run].bins) if peak.line == material]
    assert any(
        abs(peak.kev - kev) < 0.06 * kev and peak.significance > 20 and peak.area > 5 * peak.area_error
        for peak in found
    )


def test_flat_noise_has_hardly_a_peak() -> None:
    noise: Array = DICE.poisson(50.0, size=(200, BINS)).astype(np.float64)
    assert sum(len(peaks(row)) for row in noise) <= 20


def test_a_line_has_sum_one_and_its_peak_where_it_belongs() -> None:
    for kev in (60.0, 661.7, 1460.8):
        shape = line_shape(kev)
        assert shape.sum() == pytest.approx(1.0) and np.all(shape >= 0)
        if kev < 1000:
            assert abs(int(np.argmax(shape)) + 0.5 - position(kev)) <= 1
