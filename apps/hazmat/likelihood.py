"""Poisson likelihood of spectra: the best non-negative sum of parts, found for many spectra at once and to a proven gap.

ln L here is sum(x ln m - m) with expected counts m; what depends on x alone is left out, because only differences are used.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from apps.hazmat.spectrum import Array

GAP = 1e-7
"""No other factors would raise ln L by more than this."""
_STEPS = 200
_TINY = 1e-300


@dataclass(frozen=True, slots=True, eq=False)
class Fit:
    """The best factors of each spectrum, the counts that they expect, and ln L."""

    factors: Array
    expected: Array
    log_likelihood: Array


def log_likelihood(x: Array, expected: Array) -> Array:
    """ln L of each spectrum (last axis). A bin that expects nothing and has counts makes it minus infinity."""
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where(x > 0, x * np.log(expected), 0.0) - expected
    return np.asarray(terms.sum(axis=-1), dtype=np.float64)


def fit(x: Array, parts: Array, offset: Array | None = None) -> Fit:
    """Maximise L over m = offset + factors @ parts with factors >= 0.

    x: spectra x bins; parts: parts x bins, the first one positive in each bin; offset: expected counts that are always there.
    A primal-dual interior-point method: the problem is convex, and the gap of its dual says when a spectrum is done.
    """
    spectra, k = len(x), len(parts)
    fixed = np.zeros_like(x) if offset is None else np.broadcast_to(offset, x.shape)
    weights = parts.sum(axis=1)
    products = (parts[:, None, :] * parts[None, :, :]).reshape(k * k, -1)
    total = x.sum(axis=1)
    factors = np.maximum(total, 1.0)[:, None] / (k * weights)[None, :]
    open_ = np.arange(spectra)
    for _ in range(_STEPS):
        xs, th, fx, sums = x[open_], factors[open_], fixed[open_], total[open_]
        m = fx + th @ parts
        ratio = xs / m
        gradient = weights - ratio @ parts.T
        # f(factors) - f(best) <= gradient . factors + (largest fall per expected count) * (most counts that factors can expect).
        fall = np.maximum(-gradient / weights, 0.0).max(axis=1)
        gap = (gradient * th).sum(axis=1) + fall * sums
        undone = gap > GAP
        if not undone.any():
            break
        open_, th, m, gradient, gap = open_[undone], th[undone], m[undone], gradient[undone], gap[undone]
        curvature = ((ratio[undone] / m) @ products.T).reshape(-1, k, k)
        factors[open_] = _step(th, gradient, curvature, gap)
    else:
        raise ArithmeticError("a likelihood fit did not converge")
    expected = fixed + factors @ parts
    return Fit(factors, expected, log_likelihood(x, expected))


def _step(factors: Array, gradient: Array, curvature: Array, gap: Array) -> Array:
    """One Newton step towards the point where factors * gradient is even and small, kept inside factors > 0."""
    k = factors.shape[1]
    aim = 0.1 * np.maximum(gap, 0.1 * GAP)[:, None] / k
    # A dual variable per factor; where the gradient is not positive, the centre's own value stands in.
    dual = np.maximum(gradient, aim / factors)
    system = curvature.copy()
    diagonal = np.arange(k)
    system[:, diagonal, diagonal] += dual / factors
    change = np.linalg.solve(system, (aim / factors - gradient)[:, :, None])[:, :, 0]
    # The step ends short of the boundary.
    with np.errstate(divide="ignore"):
        room = np.where(change < 0, -factors / change, np.inf).min(axis=1)
    length = np.minimum(1.0, 0.99 * room)[:, None]
    return np.asarray(factors + length * change, dtype=np.float64)


def deviance(x: Array, expected: Array) -> Array:
    """Twice the distance in ln L from a spectrum to what is expected; the larger, the worse the fit."""
    m = np.maximum(expected, _TINY)
    terms = np.where(x > 0, x * np.log(np.maximum(x, _TINY) / m), 0.0) - (x - m)
    return np.asarray(2.0 * terms.sum(axis=-1), dtype=np.float64)


def _deviance_moments() -> tuple[Array, Array, Array]:
    """Mean and variance of one bin's deviance by the logarithm of its expected counts, summed over the Poisson distribution."""
    grid = np.linspace(math.log(1e-6), math.log(100.0), 400)
    n = np.arange(300)
    log_factorial = np.array([math.lgamma(i + 1.0) for i in n])
    m = np.exp(grid)[:, None]
    weight = np.exp(n * np.log(m) - m - log_factorial)
    terms = 2.0 * (np.where(n > 0, n * np.log(np.maximum(n, 1) / m), 0.0) - (n - m))
    mean = (weight * terms).sum(axis=1)
    return grid, mean, (weight * terms**2).sum(axis=1) - mean**2


_GRID, _MEAN, _VARIANCE = _deviance_moments()


def fit_probability(x: Array, expected: Array, free: Array | int) -> Array:
    """The chance of a deviance as large as this or larger, if the expected counts are the truth.

    Bins with few counts are not chi-squared: the deviance is matched to a scaled chi-squared variable by its exact mean and
    variance, less the `free` factors that were fitted.
    """
    place = np.log(np.clip(expected, 1e-6, None))
    mean = np.interp(place, _GRID, _MEAN).sum(axis=-1)
    variance = np.maximum(np.interp(place, _GRID, _VARIANCE).sum(axis=-1), _TINY)
    freedom = np.maximum(2.0 * mean**2 / variance - free, 1.0)
    value = deviance(x, expected) * 2.0 * mean / variance
    # Wilson and Hilferty: the cube root of a chi-squared variable is nearly normal.
    z = ((value / freedom) ** (1 / 3) - (1 - 2 / (9 * freedom))) / np.sqrt(2 / (9 * freedom))
    return np.array([0.5 * math.erfc(one / math.sqrt(2.0)) for one in np.atleast_1d(z)])
