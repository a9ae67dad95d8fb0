"""Peaks of a spectrum: where they are, how strong, and which line of the library they may be."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from apps.hazmat.lines import ENERGIES_KEV, FWHM_BINS, INTENSITIES, NAMES
from apps.hazmat.snip import snip
from apps.hazmat.spectrum import BINS, Array, energy, position

REACH = 6
"""The filter covers 2 REACH + 1 bins."""
LEAST_SIGNIFICANCE = 3.5
NEAR_WIDTHS = 0.6
AREA_REACH = 3
_OFFSETS = np.arange(-REACH, REACH + 1)
_GAUSS = np.exp(-0.5 * (_OFFSETS / (FWHM_BINS / 2.3548)) ** 2)
FILTER: Array = _GAUSS - _GAUSS.mean()


@dataclass(frozen=True, slots=True)
class Peak:
    """One peak. `line` names the strongest line of the library that is near, or is empty where none is.

    The nearest would be worse: calibrations of real detectors are off by up to 3 %, and weak lines are everywhere.
    """

    kev: float
    significance: float
    area: float
    area_error: float
    line: str


def significances(bins: Array) -> Array:
    """The zero-sum matched filter over its own error at each bin (last axis); 0 where the filter would reach over an end."""
    windows = np.lib.stride_tricks.sliding_window_view(bins, len(FILTER), axis=-1)
    found = np.zeros_like(bins, dtype=np.float64)
    error = np.sqrt(np.maximum(windows, 1.0) @ FILTER**2)
    found[..., REACH : BINS - REACH] = (windows @ FILTER) / error
    return found


def peaks(bins: Array) -> list[Peak]:
    """The peaks of one spectrum in order of energy."""
    s = significances(bins)
    below = snip(bins)
    inner = s[1:-1]
    tops = np.flatnonzero((inner >= LEAST_SIGNIFICANCE) & (inner > s[:-2]) & (inner >= s[2:])) + 1
    found = []
    for top in tops:
        left, middle, right = s[top - 1 : top + 2]
        # The vertex of the parabola through the maximum and its neighbours.
        place = top + 0.5 + 0.5 * (left - right) / (left - 2 * middle + right)
        near = slice(max(top - AREA_REACH, 0), top + AREA_REACH + 1)
        area = float(np.sum(bins[near] - below[near]))
        error = float(np.sqrt(np.sum(np.maximum(bins[near] + below[near], 1.0))))
        near_lines = np.abs(position(ENERGIES_KEV) - place) <= NEAR_WIDTHS * FWHM_BINS
        line = NAMES[int(np.argmax(np.where(near_lines, INTENSITIES, -1.0)))] if near_lines.any() else ""
        found.append(Peak(float(energy(place)), float(middle), area, error, line))
    return found
