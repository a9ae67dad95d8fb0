"""The smooth part of a spectrum below its peaks, by SNIP (statistics-sensitive nonlinear iterative peak clipping)."""

from __future__ import annotations

import numpy as np

from apps.hazmat.spectrum import Array

WIDEST = 12


def snip(bins: Array, widest: int = WIDEST) -> Array:
    """The background of each spectrum (last axis), for display and for the areas of peaks.

    A bin is clipped to the mean of its two neighbours at distances `widest` to 1, on a scale that makes counts nearly even in
    noise. The decision does not use it: it has a model of the background.
    """
    v = np.log(np.log(np.sqrt(bins + 1.0) + 1.0) + 1.0)
    n = v.shape[-1]
    for w in range(widest, 0, -1):
        clipped = v.copy()
        clipped[..., w : n - w] = np.minimum(v[..., w : n - w], (v[..., : n - 2 * w] + v[..., 2 * w :]) / 2)
        v = clipped
    return np.asarray((np.exp(np.exp(v) - 1.0) - 1.0) ** 2 - 1.0, dtype=np.float64)
