"""Gamma lines of the materials, and the shape that one line has in these detectors."""

from __future__ import annotations

import numpy as np

from apps.hazmat.spectrum import BINS, Array, position

# Energies in keV and intensities per 100 decays, from evaluated nuclear data, rounded.
LINES: dict[str, tuple[tuple[float, float], ...]] = {
    "Am-241": ((59.5, 36),),
    "Ba-133": ((81.0, 33), (302.9, 18), (356.0, 62)),
    "Co-57": ((122.1, 86), (136.5, 11)),
    "Co-60": ((1173.2, 100), (1332.5, 100)),
    "Cs-137": ((32.0, 6), (661.7, 85)),
    "Eu-152": ((121.8, 28), (244.7, 8), (344.3, 27), (778.9, 13), (964.1, 15), (1112.1, 14), (1408.0, 21)),
    "I-131": ((284.3, 6), (364.5, 82), (637.0, 7)),
    "K-40": ((1460.8, 11),),
    "Th series": ((238.6, 43), (338.3, 11), (583.2, 31), (911.2, 26), (969.0, 16), (2614.5, 36)),
    "U series": ((186.2, 4), (295.2, 18), (351.9, 36), (609.3, 45), (1120.3, 15), (1764.5, 15)),
    "annihilation": ((511.0, 1),),
}
NAMES = tuple(name for name, lines in LINES.items() for _ in lines)
ENERGIES_KEV: Array = np.array([kev for lines in LINES.values() for kev, _ in lines])
INTENSITIES: Array = np.array([intensity for lines in LINES.values() for _, intensity in lines], dtype=np.float64)
FWHM_BINS = 3.0
"""Full width of a line at half its height, in bins, at every energy."""
_SIGMA_BINS = FWHM_BINS / 2.3548
_ELECTRON_KEV = 511.0


def line_shape(kev: float) -> Array:
    """The spectrum of one gamma line, with sum 1: a peak, and a flat shelf up to the Compton edge.

    The share in the peak is a rough fit to CsI of 10 mm: nearly all of it at 60 keV, a fifth at 660 keV, few percent at 1.5 MeV.
    """
    middles = np.arange(BINS) + 0.5
    peak = np.exp(-0.5 * ((middles - position(kev)) / _SIGMA_BINS) ** 2)
    edge = position(kev / (1.0 + _ELECTRON_KEV / (2.0 * kev)))
    # Bins are wider at high energies: a shelf that is flat per keV grows with the bin's width.
    shelf = np.clip(edge - np.arange(BINS), 0.0, 1.0) * (middles - position(0.0))
    share = 1.0 / (1.0 + (kev / 250.0) ** 1.5)
    if not shelf.sum():
        return np.asarray(peak / peak.sum(), dtype=np.float64)
    return np.asarray(share * peak / peak.sum() + (1.0 - share) * shelf / shelf.sum(), dtype=np.float64)
