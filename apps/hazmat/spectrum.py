"""Spectra of any detector in common bins: equal in the square root of the energy.

A scintillator's resolution grows with the square root of the energy, so a line is about three bins wide everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]

BINS = 128
PAIRS = BINS // 2
LOWEST_KEV, HIGHEST_KEV = 28.0, 2900.0
EDGES_KEV: Array = np.linspace(LOWEST_KEV**0.5, HIGHEST_KEV**0.5, BINS + 1) ** 2
ROOT_WIDTH = float((HIGHEST_KEV**0.5 - LOWEST_KEV**0.5) / BINS)
CHANNELS = (256, 1024)
"""Channel counts of the detectors that are known."""


@dataclass(frozen=True, slots=True, eq=False)
class Spectrum:
    """Counts per channel of one run. Channel c is at a0 + a1 c + a2 c^2 keV."""

    name: str
    counts: Counts
    live_s: float
    calibration: tuple[float, float, float]
    detector: str = ""

    @property
    def edges_kev(self) -> Array:
        return channel_edges(len(self.counts), self.calibration)

    @property
    def bins(self) -> Array:
        """Counts in bins."""
        return np.asarray(self.counts @ overlaps(len(self.counts), self.calibration), dtype=np.float64)

    @property
    def rate(self) -> Array:
        """Counts per second in bins."""
        return self.bins / self.live_s


def channel_edges(channels: int, calibration: tuple[float, float, float]) -> Array:
    """Energies between channels in keV: one more than there are channels."""
    a0, a1, a2 = calibration
    c = np.arange(channels + 1) - 0.5
    edges = np.asarray(a0 + a1 * c + a2 * c * c, dtype=np.float64)
    if not np.all(np.diff(edges) > 0):
        raise ValueError(f"calibration {a0:g}, {a1:g}, {a2:g} does not rise over {channels} channels")
    return edges


def overlaps(channels: int, calibration: tuple[float, float, float]) -> Array:
    """The share of each channel (row) that lies in each bin (column)."""
    return shares(channel_edges(channels, calibration))


def shares(edges_kev: Array) -> Array:
    """The share of each interval between neighbours of `edges_kev` that lies in each bin."""
    low, high = edges_kev[:-1, None], edges_kev[1:, None]
    common = np.minimum(high, EDGES_KEV[None, 1:]) - np.maximum(low, EDGES_KEV[None, :-1])
    return np.asarray(np.maximum(common, 0.0) / (high - low), dtype=np.float64)


def to_bins(counts: npt.NDArray[np.generic], a0: Array, a1: Array, a2: Array) -> Array:
    """Counts per channel (one row per burst) in bins. Calibrations may differ from row to row."""
    table = np.asarray(counts, dtype=np.float64)
    if table.ndim != 2 or table.shape[1] not in CHANNELS:
        length = table.shape[1] if table.ndim == 2 else "uneven"
        raise ValueError(f"a spectrum has {length} channels; detectors here have {' or '.join(map(str, CHANNELS))}")
    calibrations, which = np.unique(np.column_stack([a0, a1, a2]).astype(np.float64), axis=0, return_inverse=True)
    found = np.empty((len(table), BINS))
    for number, (c0, c1, c2) in enumerate(calibrations):
        rows = which.reshape(-1) == number
        found[rows] = table[rows] @ overlaps(table.shape[1], (float(c0), float(c1), float(c2)))
    return found


def pair_bins(bins: Array) -> Array:
    """Neighbouring bins added up: half as many bins, along the last axis."""
    return np.asarray(bins[..., 0::2] + bins[..., 1::2], dtype=np.float64)


def position(kev: Array | float) -> Array:
    """The place of an energy on the axis of bins; the middle of bin i is i + 0.5."""
    return np.asarray((np.sqrt(kev) - LOWEST_KEV**0.5) / ROOT_WIDTH, dtype=np.float64)


def energy(place: Array | float) -> Array:
    """The energy in keV at a place on the axis of bins."""
    return np.asarray((np.asarray(place) * ROOT_WIDTH + LOWEST_KEV**0.5) ** 2, dtype=np.float64)


def smooth(bins: Array) -> Array:
    """(1, 2, 1)/4 over the last axis; what would fall over an end stays in it, so that sums are kept."""
    padded = np.concatenate([bins[..., :1], bins, bins[..., -1:]], axis=-1)
    return np.asarray((padded[..., :-2] + 2 * padded[..., 1:-1] + padded[..., 2:]) / 4, dtype=np.float64)
