"""Verdicts on boxes of real counts: what they say, and what they do not depend on."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from apps.hazmat.actions import ACTIONS, recommend
from apps.hazmat.background import background_rate, read_background, write_background
from apps.hazmat.boxes import DETECTORS, Content, strength_for, thin, thin_bursts
from apps.hazmat.decision import ALARM, INSPECT, MORE, NOTHING, SAFE, Verdicts, decide, fitted_sum, median_share
from apps.hazmat.hypotheses import UNKNOWN, Hypotheses, build_hypotheses
from apps.hazmat.likelihood import deviance
from apps.hazmat.reading import suro
from apps.hazmat.spectrum import BINS, Spectrum, to_bins
from apps.hazmat.split import MATERIALS, TESTS

OFFICE = suro()[1]


@pytest.fixture(scope="module")
def hypotheses() -> Hypotheses:
    return build_hypotheses(background_rate([suro()[2]]))


def same(one: Verdicts, other: Verdicts) -> None:
    assert one.verdict.tolist() == other.verdict.tolist() and one.finding.tolist() == other.finding.tolist()
    np.testing.assert_allclose(one.log_m, other.log_m, atol=1e-6)
    np.testing.assert_allclose(one.log_safe, other.log_safe, atol=1e-6)


@pytest.mark.parametrize("material", MATERIALS)
def test_every_material_raises_an_alarm_and_is_named(hypotheses: Hypotheses, material: str) -> None:
    run = suro()[TESTS[material][0]]
    strength = min(strength_for(16.0, run, OFFICE), 1.0)
    boxes = thin(Content(OFFICE, run, strength), 20, 40, np.random.default_rng(4)).sum(axis=1)
    found = decide(hypotheses, boxes, np.full(20, 160.0), 4.0)
    assert set(found.verdict) == {ALARM}
    assert sum(found.finding == material) >= 18
    assert np.all(found.predicted_s == 0)


def test_background_is_more_at_first_and_safe_later(hypotheses: Hypotheses) -> None:
    boxes = thin(Content(OFFICE), 30, 60, np.random.default_rng(5)).cumsum(axis=1)
    first = decide(hypotheses, boxes[:, 0], np.full(30, 4.0), 4.0)
    assert set(first.verdict) == {MORE} and set(first.finding) == {NOTHING}
    assert np.all(first.predicted_s > 1) and np.all(first.predicted_s < 120)
    last = decide(hypotheses, boxes[:, 44], np.full(30, 180.0), 4.0)
    assert sum(last.verdict == SAFE) >= 25 and ALARM not in last.verdict


def test_a_box_that_stays_open_is_inspected_by_hand(hypotheses: Hypotheses) -> None:
    mine = thin(Content(suro()[16]), 5, 60, np.random.default_rng(6)).sum(axis=1)
    found = decide(hypotheses, mine, np.full(5, 240.0), 4.0)
    assert set(found.verdict) <= {INSPECT, ALARM} and INSPECT in found.verdict


def test_verdicts_do_not_depend_on_the_order_of_bursts_or_on_their_detectors(hypotheses: Hypotheses) -> None:
    run = suro()[24]
    bursts = thin_bursts(Content(OFFICE, run, strength_for(8.0, run, OFFICE)), 12, np.random.default_rng(7))
    rows = bursts.reshape(-1, bursts.shape[-1])
    a0, a1, a2 = (np.full(len(rows), value) for value in OFFICE.calibration)
    bins = to_bins(rows, a0, a1, a2)
    shuffled = np.random.default_rng(1).permutation(len(rows))
    live = np.array([float(len(rows))])
    one = decide(hypotheses, bins.sum(axis=0)[None], live, 4.0)
    same(one, decide(hypotheses, bins[shuffled].sum(axis=0)[None], live, 4.0))
    by_detector = bins.reshape(12, DETECTORS, BINS).sum(axis=0).sum(axis=0)
    same(one, decide(hypotheses, by_detector[None], live, 4.0))


def test_a_box_has_the_same_verdict_alone_and_among_others(hypotheses: Hypotheses) -> None:
    boxes = thin(Content(OFFICE, suro()[62], 0.1), 8, 10, np.random.default_rng(8)).sum(axis=1)
    together = decide(hypotheses, boxes, np.full(8, 40.0), 4.0)
    for row in range(8):
        alone = decide(hypotheses, boxes[row : row + 1], np.array([40.0]), 4.0)
        assert alone.verdict[0] == together.verdict[row] and alone.log_m[0] == pytest.approx(
            together.log_m[row], abs=1e-6
        )


def test_a_material_that_is_not_in_the_library_is_not_safe(hypotheses: Hypotheses) -> None:
    known = tuple(name for name in MATERIALS if name != "Cs-137")
    left_out = build_hypotheses(background_rate([suro()[2]]), known)
    run = suro()[25]
    boxes = thin(Content(OFFICE, run, strength_for(16.0, run, OFFICE)), 10, 40, np.random.default_rng(9)).sum(axis=1)
    found = decide(left_out, boxes, np.full(10, 160.0), 4.0)
    assert SAFE not in found.verdict and "Cs-137" not in found.finding
    assert UNKNOWN in found.finding


def test_bad_bins_are_refused(hypotheses: Hypotheses) -> None:
    with pytest.raises(ValueError, match="a box has 64 bins; 128 are needed"):
        decide(hypotheses, np.zeros((1, 64)), np.ones(1))
    for bins, live in (
        (np.full((1, BINS), math.nan), 1.0),
        (np.full((1, BINS), -1.0), 1.0),
        (np.zeros((1, BINS)), 0.0),
    ):
        with pytest.raises(ValueError, match="bins must be finite and not negative, live seconds positive"):
            decide(hypotheses, bins, np.array([live]))


def test_without_a_background_run_there_is_no_decision(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="there is no background run; measure one without a box: python -m apps"):
        read_background(tmp_path / "background.json")
    with pytest.raises(ValueError, match="no background run"):
        background_rate([])
    (tmp_path / "background.json").write_text("[1, 2]")
    with pytest.raises(ValueError, match=r"background\.json is not a background run"):
        read_background(tmp_path / "background.json")


def test_a_background_run_is_read_as_it_was_written_and_must_be_long_enough(tmp_path: Path) -> None:
    path = tmp_path / "background.json"
    write_background([OFFICE], path)
    np.testing.assert_allclose(read_background(path), background_rate([OFFICE]))
    write_background([Spectrum("short", OFFICE.counts, 60.0, OFFICE.calibration, "left")], path)
    with pytest.raises(ValueError, match="the background run of left is shorter than 10 minutes"):
        read_background(path)


def test_every_finding_has_an_action_and_a_mixture_has_those_of_its_parts() -> None:
    known = {action.finding for action in ACTIONS}
    assert {NOTHING, UNKNOWN, *MATERIALS} <= known
    assert recommend(NOTHING) == "let it pass"
    both = recommend("Co-60 + Cs-137")
    assert "50 m" in both and "soluble" in both and both.count("stop the belt") == 1


def test_the_fitted_sum_explains_a_spectrum_with_its_material_and_not_without(hypotheses: Hypotheses) -> None:
    caesium = suro()[TESTS["Cs-137"][0]]
    content = Content(OFFICE, caesium, strength_for(12.0, caesium, OFFICE))
    bins = thin(content, 1, 20, np.random.default_rng(4)).sum(axis=1)[0]
    with_it, without = (fitted_sum(hypotheses, bins, finding) for finding in ("Cs-137", "none"))
    assert with_it.shape == bins.shape
    assert deviance(bins, with_it) < 160 < 300 < deviance(bins, without)
    # A sum that is fitted has as many counts as the spectrum; a mixture has both parts.
    assert with_it.sum() == pytest.approx(bins.sum(), rel=1e-5)
    assert deviance(bins, fitted_sum(hypotheses, bins, "Co-60 + Cs-137")) <= deviance(bins, with_it) + 1e-6


def test_the_predicted_time_is_the_median_of_a_random_walk_to_the_limit() -> None:
    dice = np.random.default_rng(8)
    distances = np.array([0.2, 1.0, 2.3, 4.6, 6.9])
    for distance, share in zip(distances, median_share(distances), strict=True):
        # Each step of a log-likelihood ratio has a variance of twice its mean; NumPy's wald has this time, in means.
        assert share == pytest.approx(np.median(dice.wald(1.0, distance / 2, size=200_000)), rel=0.02)
    assert median_share(np.array([0.0])) > 0 and median_share(np.array([1e3])) < 1
