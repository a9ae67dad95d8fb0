"""The sequential decision: alarm, safe, more data or inspect by hand, with stated error rates at every moment.

`x` are the summed bins of all bursts of a box and `t` its summed live seconds. They are sufficient: order, lateness and the number
of detectors do not matter. Both rates hold however often a box is looked at, by Ville's inequality: a ratio that is at most a
martingale with mean 1 exceeds 1/alpha with probability alpha at most.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from apps.hazmat.hypotheses import NULL_BACKGROUNDS, UNKNOWN, Hypotheses, information
from apps.hazmat.likelihood import fit, fit_probability
from apps.hazmat.spectrum import BINS, Array, pair_bins

ALARM, SAFE, MORE, INSPECT = "alarm", "safe", "more", "inspect"
FAULT = "fault"
"""Not a verdict of `decide`: bursts of a box cannot be used, and a finding says why."""
NOT_YET = "not yet identified"
NOTHING = "none"
NATURAL_CARGO = "natural"


@dataclass(frozen=True, slots=True)
class Rules:
    """The stated rates and limits. Strengths are net counts per second and detector."""

    alpha: float = 0.001
    """Chance that a box without a threat ever raises an alarm."""
    beta: float = 0.01
    """Chance that a threat of strength `a_min` is ever called safe."""
    a_min: float = 4.0
    max_s: float = 60.0
    natural_limit: float = 5.0
    named_at: float = 0.95
    null_fits_at: float = 0.02
    named_fits_at: float = 0.001
    natural_gain: float = 6.0
    """What natural sources must add to ln L before a box is said to hold them."""


RULES = Rules()


@dataclass(frozen=True, slots=True, eq=False)
class Verdicts:
    """One verdict per box. `log_m` and `log_safe` are what is compared with the two limits."""

    verdict: npt.NDArray[np.str_]
    finding: npt.NDArray[np.str_]
    confidence: Array
    predicted_s: Array
    log_m: Array
    log_safe: Array
    probability: Array
    """Boxes x findings: the posterior over the alternatives."""


def decide(
    hypotheses: Hypotheses, bins: Array, live_s: Array, detectors: Array | float = 1.0, rules: Rules = RULES
) -> Verdicts:
    """Verdicts for boxes with these summed bins (128 each), summed live seconds, and numbers of detectors."""
    if bins.ndim != 2 or bins.shape[1] != BINS:
        raise ValueError(f"a box has {bins.shape[-1]} bins; {BINS} are needed")
    if not (np.all(np.isfinite(bins)) and np.all(bins >= 0) and np.all(live_s > 0)):
        raise ValueError("bins must be finite and not negative, live seconds positive")
    x, t = pair_bins(bins), np.asarray(live_s, dtype=np.float64)
    null = fit(x, hypotheses.null)
    members = log_alternatives(hypotheses, x, t)
    log_mean, probability, growth = posterior(hypotheses, members)
    log_m = log_mean - null.log_likelihood
    log_safe = log_null_mean(hypotheses, x, t) - log_threat(hypotheses, x, t, rules.a_min)
    fits = fit_probability(x, null.expected, (null.factors > 1e-3).sum(axis=1)) >= rules.null_fits_at
    natural = null.factors[:, NULL_BACKGROUNDS:].sum(axis=1) / t
    alarm = log_m >= -math.log(rules.alpha)
    safe = (log_safe >= -math.log(rules.beta)) & fits & (natural <= rules.natural_limit) & ~alarm
    late = t / detectors >= rules.max_s - 1e-9
    verdict = np.select([alarm, safe, late], [ALARM, SAFE, INSPECT], MORE)
    # Natural cargo is said where the fit needs it by far.
    gain = null.log_likelihood - fit(x, hypotheses.null[:NULL_BACKGROUNDS]).log_likelihood
    otherwise = np.where(gain >= rules.natural_gain, NATURAL_CARGO, NOTHING)
    return Verdicts(
        verdict=verdict,
        finding=np.where(alarm, _name(hypotheses, x, alarm, probability, rules), otherwise),
        confidence=_confidence(alarm, log_safe, probability),
        predicted_s=_predicted(hypotheses, log_m, log_safe, growth, rules) / detectors,
        log_m=log_m,
        log_safe=log_safe,
        probability=probability,
    )


def log_alternatives(hypotheses: Hypotheses, x: Array, t: Array) -> Array:
    """ln(prior x L) of each alternative (column) for each box."""
    steady = hypotheses.log_prior - t[:, None] * hypotheses.rates.sum(axis=1)
    return np.asarray(x @ hypotheses.log_rates.T + (x.sum(axis=1) * np.log(t))[:, None] + steady, dtype=np.float64)


def posterior(hypotheses: Hypotheses, members: Array) -> tuple[Array, Array, Array]:
    """ln of the mean of L over the alternatives, the probability of each finding given one of them, and how fast ln M grows then."""
    top = members.max(axis=1)
    weights = np.exp(members - top[:, None])
    sums = np.add.reduceat(weights, hypotheses.starts, axis=1)
    whole = sums.sum(axis=1)
    return (
        np.asarray(top + np.log(whole), dtype=np.float64),
        sums / whole[:, None],
        weights @ hypotheses.information / whole,
    )


def log_null_mean(hypotheses: Hypotheses, x: Array, t: Array) -> Array:
    """ln of the mean of L over the grid of nulls."""
    grid = hypotheses.null_grid
    steady = hypotheses.log_null_prior - t[:, None] * grid.sum(axis=1)
    logs = x @ np.log(grid).T + (x.sum(axis=1) * np.log(t))[:, None] + steady
    top = logs.max(axis=1)
    return np.asarray(top + np.log(np.exp(logs - top[:, None]).sum(axis=1)), dtype=np.float64)


def log_threat(hypotheses: Hypotheses, x: Array, t: Array, a_min: float) -> Array:
    """The largest ln L over null parts plus any one material at the smallest strength that matters."""
    found = [fit(x, hypotheses.null, (t * a_min)[:, None] * shape).log_likelihood for shape in hypotheses.shapes]
    return np.asarray(np.max(found, axis=0), dtype=np.float64)


def _name(
    hypotheses: Hypotheses, x: Array, alarm: npt.NDArray[np.bool_], probability: Array, rules: Rules
) -> npt.NDArray[np.str_]:
    """The name of what is in each box that raised an alarm: a finding that is probable enough and fits."""
    best, found = probability.argmax(axis=1), np.full(len(x), NOT_YET, dtype=object)
    named = alarm & (probability.max(axis=1) >= rules.named_at)
    for number in np.unique(best[named]):
        rows = np.flatnonzero(named & (best == number))
        name = hypotheses.findings[number]
        if name == UNKNOWN:
            found[rows] = UNKNOWN
            continue
        shapes = [hypotheses.shapes[hypotheses.materials.index(one)] for one in name.split(" + ")]
        whole = fit(x[rows], np.array([*hypotheses.null, *shapes]))
        p = fit_probability(x[rows], whole.expected, (whole.factors > 1e-3).sum(axis=1))
        found[rows] = np.where(p >= rules.named_fits_at, name, UNKNOWN)
    return found.astype(np.str_)


def fitted_sum(hypotheses: Hypotheses, bins: Array, finding: str) -> Array:
    """What the best sum of harmless sources and the materials of a finding expects of one box: 128 bins, for display."""
    named = [name for name in finding.split(" + ") if name in hypotheses.materials]
    shapes = [hypotheses.shapes[hypotheses.materials.index(name)] for name in named]
    expected = fit(pair_bins(bins)[None, :], np.array([*hypotheses.null, *shapes])).expected[0]
    return np.repeat(expected / 2, 2)


def _confidence(alarm: npt.NDArray[np.bool_], log_safe: Array, probability: Array) -> Array:
    """For an alarm the probability of the best finding; for the others that of safe, at even odds before."""
    safe = 1.0 / (1.0 + np.exp(-np.clip(log_safe, -50, 50)))
    return np.asarray(np.where(alarm, probability.max(axis=1), safe), dtype=np.float64)


def _predicted(hypotheses: Hypotheses, log_m: Array, log_safe: Array, growth: Array, rules: Rules) -> Array:
    """Live seconds to the limit that is nearer in time: its distance over the rate at which the ratio grows, on average.

    The rate of M is the Kullback-Leibler rate of the alternatives against their nearest nulls, by their probability. That of safe is known
    beforehand, so the time to it is the median: half of such boxes need less.
    """
    alarm, safe = np.maximum(-math.log(rules.alpha) - log_m, 0.0), np.maximum(-math.log(rules.beta) - log_safe, 0.0)
    alarm_s = alarm / np.maximum(growth, 1e-9)
    safe_s = safe * median_share(safe) / _safe_information(hypotheses, rules.a_min)
    return np.minimum(alarm_s, safe_s)


def median_share(distance: Array) -> Array:
    """The median time to a limit over the mean time to it, for a log-likelihood ratio at this distance from the limit.

    Such a ratio walks at random: while its mean grows by 1, its variance grows by 2. So the time to the limit is an inverse Gaussian
    variable with shape / mean = distance / 2. Few boxes take very long, and so the median is less than the mean.
    """
    distances, shares = _median_table()
    return np.asarray(np.interp(np.log(np.maximum(distance, 1e-9)), distances, shares), dtype=np.float64)


@functools.cache
def _median_table() -> tuple[Array, Array]:
    def normal(z: float) -> float:
        return 0.5 * math.erfc(-z / math.sqrt(2.0))

    def before(share: float, phi: float) -> float:
        """The chance of less than this share of the mean."""
        root = math.sqrt(phi / share)
        return normal(root * (share - 1.0)) + math.exp(2.0 * phi) * normal(-root * (share + 1.0))

    distances = np.linspace(math.log(0.01), math.log(50.0), 60)
    low, high = np.zeros(len(distances)), np.ones(len(distances))
    for _ in range(40):
        middle = (low + high) / 2
        early = np.array([before(m, d / 2) < 0.5 for m, d in zip(middle, np.exp(distances), strict=True)])
        low, high = np.where(early, middle, low), np.where(early, high, middle)
    return distances, low


@functools.lru_cache(maxsize=64)
def _safe_information(hypotheses: Hypotheses, a_min: float) -> float:
    """How fast the safe ratio grows per second over the site's background: the rate of the material that is hardest to exclude."""
    base = hypotheses.null[:1]
    return min(float(information(base, hypotheses.null, a_min * shape)[0]) for shape in hypotheses.shapes)
