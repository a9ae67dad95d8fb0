"""The fit against many EM steps, and the ratios of the decision against plain loops."""

from __future__ import annotations

import math

import numpy as np
import pytest

from apps.hazmat.background import background_rate
from apps.hazmat.boxes import Content, resample
from apps.hazmat.decision import log_alternatives, log_null_mean, posterior
from apps.hazmat.hypotheses import Hypotheses, build_hypotheses
from apps.hazmat.likelihood import GAP, deviance, fit, fit_probability, log_likelihood
from apps.hazmat.reading import suro
from apps.hazmat.spectrum import Array, pair_bins
from tests.support.examples import SOAK


@pytest.fixture(scope="module")
def hypotheses() -> Hypotheses:
    return build_hypotheses(background_rate([suro()[2]]))


def em(x: Array, parts: Array, offset: Array, steps: int) -> Array:
    """ln L after so many steps of expectation-maximisation, which never overshoots the maximum."""
    factors = np.full((len(x), len(parts)), np.maximum(x.sum(axis=1), 1.0)[:, None] / parts.sum() / 1.0)
    for _ in range(steps):
        m = np.maximum(offset + factors @ parts, 1e-300)
        factors *= (x / m) @ parts.T / parts.sum(axis=1)
    return log_likelihood(x, np.maximum(offset + factors @ parts, 1e-300))


@pytest.mark.parametrize("t", [4.0, 40.0, 240.0])
def test_the_fit_is_as_good_as_20_000_em_steps(hypotheses: Hypotheses, t: float) -> None:
    dice = np.random.default_rng(int(t))
    x = dice.poisson(hypotheses.null[0] * t + 8.0 * t * hypotheses.shapes[4] * (np.arange(6) % 2)[:, None]).astype(
        np.float64
    )
    offset = np.broadcast_to(4.0 * t * hypotheses.shapes[1], x.shape)
    for fixed in (np.zeros_like(x), offset):
        found = fit(x, hypotheses.null, fixed)
        slow = em(x, hypotheses.null, fixed, 20_000)
        assert np.all(found.log_likelihood >= slow - GAP) and np.all(found.log_likelihood <= slow + 2e-3)
        assert np.all(found.factors >= 0)
        np.testing.assert_allclose(found.expected, fixed + found.factors @ hypotheses.null)


def test_a_spectrum_without_a_count_is_fitted_by_nothing(hypotheses: Hypotheses) -> None:
    found = fit(np.zeros((2, 64)), hypotheses.null)
    assert np.all(found.expected.sum(axis=1) < 1e-6) and np.all(np.abs(found.log_likelihood) < 1e-6)


def test_mean_and_posterior_are_those_of_plain_loops(hypotheses: Hypotheses) -> None:
    dice = np.random.default_rng(3)
    t = 8.0
    x = dice.poisson(t * (hypotheses.null[0] + 6.0 * hypotheses.shapes[0])).astype(np.float64)
    members = log_alternatives(hypotheses, x[None, :], np.array([t]))
    log_mean, probability, growth = posterior(hypotheses, members)
    sums, whole, rate_sum = [0.0] * len(hypotheses.findings), 0.0, 0.0
    shift = float(members.max())
    ends = [*hypotheses.starts[1:], len(hypotheses.rates)]
    for finding, (start, end) in enumerate(zip(hypotheses.starts, ends, strict=True)):
        for k in range(start, end):
            log_l = sum(x[i] * math.log(t * hypotheses.rates[k, i]) - t * hypotheses.rates[k, i] for i in range(64))
            weight = math.exp(hypotheses.log_prior[k] + log_l - shift)
            sums[finding] += weight
            whole += weight
            rate_sum += weight * hypotheses.information[k]
    assert log_mean[0] == pytest.approx(shift + math.log(whole), abs=1e-8)
    np.testing.assert_allclose(probability[0], np.array(sums) / whole, atol=1e-9)
    assert growth[0] == pytest.approx(rate_sum / whole)
    grid = [sum(x[i] * math.log(t * rate[i]) - t * rate[i] for i in range(64)) - shift for rate in hypotheses.null_grid]
    grid = [log_l + weight for log_l, weight in zip(grid, hypotheses.log_null_prior, strict=True)]
    expected = shift + math.log(sum(map(math.exp, grid)))
    assert log_null_mean(hypotheses, x[None, :], np.array([t]))[0] == pytest.approx(expected, abs=1e-8)


def test_the_prior_has_sum_one_and_100_nulls_and_every_pair(hypotheses: Hypotheses) -> None:
    assert np.exp(hypotheses.log_prior).sum() == pytest.approx(1.0)
    assert np.exp(hypotheses.log_null_prior).sum() == pytest.approx(1.0)
    assert len(hypotheses.null_grid) == 100 and len(hypotheses.findings) == 8 + 28 + 1
    assert np.all(hypotheses.information > 0)


def test_the_mean_of_m_over_boxes_without_a_source_is_at_most_one(hypotheses: Hypotheses) -> None:
    boxes = 20_000 if SOAK else 2_000
    x = pair_bins(resample(Content(suro()[1]), boxes, 1, np.random.default_rng(5))[:, 0])
    for t in (1, 10, 60):
        summed = x if t == 1 else np.random.default_rng(t).poisson(x.mean(axis=0) * t, size=x.shape).astype(np.float64)
        log_mean, _, _ = posterior(hypotheses, log_alternatives(hypotheses, summed, np.full(boxes, 4.0 * t)))
        log_m = log_mean - fit(summed, hypotheses.null).log_likelihood
        assert np.exp(log_m).mean() <= 1.05


def test_the_chance_of_a_deviance_is_even_where_the_model_is_true(hypotheses: Hypotheses) -> None:
    dice = np.random.default_rng(8)
    for t in (4.0, 240.0):
        m = np.broadcast_to(t * hypotheses.null[0], (4000, 64))
        p = fit_probability(dice.poisson(m).astype(np.float64), m, 0)
        assert abs(np.mean(p < 0.5) - 0.5) < 0.06 and abs(np.mean(p < 0.02) - 0.02) < 0.015


def test_deviance_is_that_of_plain_loops() -> None:
    x, m = [0.0, 3.0, 2.5], [0.4, 1.0, 9.0]
    expected = 2 * sum((a * math.log(a / b) if a else 0.0) - (a - b) for a, b in zip(x, m, strict=True))
    assert deviance(np.array([x]), np.array([m]))[0] == pytest.approx(expected)
