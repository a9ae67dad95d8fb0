"""Names: the confusion matrices of four methods, other detectors, materials that the library lacks, and mixtures."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from apps.hazmat.background import background_rate
from apps.hazmat.boxes import DETECTORS, Content, resample
from apps.hazmat.decision import SAFE
from apps.hazmat.hypotheses import Hypotheses, build_hypotheses
from apps.hazmat.matching import CLASSES, METHODS, NATURAL_CLASS
from apps.hazmat.measure.outcome import SECONDS, Outcomes, follow, look, make_boxes, make_mixed_boxes
from apps.hazmat.reading import radiacode_tools, suro
from apps.hazmat.spectrum import Array, Spectrum
from apps.hazmat.split import BACKGROUND, MATERIALS, NONE, TEST_BACKGROUND, TEST_MIXTURE, TEST_NATURAL, TESTS

AT_S = 10
OTHER = "other"
COLUMNS = (*CLASSES, OTHER)
"""`other`: not yet identified, unknown, or a mixture."""


@dataclass(frozen=True, slots=True, eq=False)
class Confusion:
    """Boxes of known content, by truth (CLASSES) and finding (COLUMNS), per method: after 10 s, and at the decision."""

    early: dict[str, Array]
    decided: dict[str, Array]
    named: int
    named_right: int
    wrong_threats: int
    """Boxes without a threat that were given the name of one, and threats that were given a wrong name."""
    boxes: int


def matrix(truth: npt.NDArray[np.str_], found: npt.NDArray[np.str_]) -> Array:
    """How often each finding was made of each truth."""
    column = np.array([COLUMNS.index(name) if name in COLUMNS else len(COLUMNS) - 1 for name in found])
    row = np.array([CLASSES.index(name) for name in truth])
    counts = np.bincount(row * len(COLUMNS) + column, minlength=len(CLASSES) * len(COLUMNS))
    return counts.reshape(len(CLASSES), len(COLUMNS)).astype(np.float64)


def measure_confusion(hypotheses: Hypotheses, boxes: int, dice: np.random.Generator) -> Confusion:
    """Materials of 4 to 16 net counts per second and detector, from each test run; natural materials as they were measured."""
    bins: list[Array] = []
    truth: list[str] = []
    for material, runs in TESTS.items():
        for place, run in enumerate(runs):
            count = boxes // len(runs) + (place < boxes % len(runs))
            if count:
                bins.append(make_mixed_boxes(suro()[run], count, dice))
            truth += [material] * count
    bins.append(resample(Content(suro()[TEST_BACKGROUND]), boxes, SECONDS, dice))
    truth += [NONE] * boxes
    for runs in TEST_NATURAL.values():
        bins.append(resample(Content(suro()[runs[0]]), boxes // len(TEST_NATURAL), SECONDS, dice))
        truth += [NATURAL_CLASS] * (boxes // len(TEST_NATURAL))
    whole, known = np.concatenate(bins), np.array(truth)
    found = follow(hypotheses, whole, names=True)
    when = np.where(found.named_second > 0, found.named_second, found.second)
    summed = whole.cumsum(axis=1)
    at_decision = summed[np.arange(len(whole)), when - 1]
    site = background_rate([suro()[BACKGROUND]])
    early = {"decide": matrix(known, look(hypotheses, summed[:, AT_S - 1], AT_S).finding)}
    decided = {"decide": matrix(known, np.where(found.name != "", found.name, found.last_finding))}
    for name, match in METHODS.items():
        early[name] = matrix(known, match(summed[:, AT_S - 1], np.full(len(whole), float(DETECTORS * AT_S)), site))
        decided[name] = matrix(known, match(at_decision, (DETECTORS * when).astype(np.float64), site))
    named = found.name != ""
    wrong = named & (found.name != known)
    return Confusion(early, decided, int(named.sum()), int((named & ~wrong).sum()), int(wrong.sum()), len(whole))


def right_share(table: Array) -> float:
    """The share of boxes whose finding is the truth."""
    return float(np.trace(table[:, : len(CLASSES)]) / table.sum())


@dataclass(frozen=True, slots=True, eq=False)
class Named:
    """Boxes with one true content: what they were called. `outcomes` has the rest."""

    truth: str
    boxes: int
    named: int
    right: int
    safe: int
    outcomes: Outcomes


def count_names(truth: str, outcomes: Outcomes) -> Named:
    named = outcomes.name != ""
    right = int(np.sum(outcomes.name == truth))
    return Named(truth, len(named), int(named.sum()), right, int(np.sum(outcomes.verdict == SAFE)), outcomes)


def measure_other_detectors(boxes: int, dice: np.random.Generator) -> dict[str, Named]:
    """Sources before units of the same family that the library has not seen, with 15 minutes of their own background."""
    runs = radiacode_tools()
    site, test = split_run(runs["bg"], dice)
    hypotheses = build_hypotheses(background_rate([site]))
    truths = {"Ba133_a": "Ba-133", "Eu152_b": "Eu-152", "Co60_a": "Co-60", "Cs137_b": "Cs-137", "data_am241": "Am-241"}
    found = {}
    for name, truth in truths.items():
        bins = make_mixed_boxes(runs[name], boxes, dice, test)
        found[f"{truth}, {runs[name].detector}"] = count_names(truth, follow(hypotheses, bins, names=True))
    return found


def split_run(run: Spectrum, dice: np.random.Generator) -> tuple[Spectrum, Spectrum]:
    """Two independent runs of half the time: each count goes to one of them."""
    first = dice.binomial(run.counts, 0.5)
    halves = ((f"{run.name} first", first), (f"{run.name} second", run.counts - first))
    one, other = (Spectrum(name, counts, run.live_s / 2, run.calibration, run.detector) for name, counts in halves)
    return one, other


def measure_thorium_elsewhere(boxes: int, dice: np.random.Generator) -> Outcomes:
    """Thorium before a third unit, at 5 net counts per second, with that unit's own background: natural cargo."""
    runs = radiacode_tools()
    below = runs["data_th232_plus_background background"]
    site, test = split_run(below, dice)
    bins = make_boxes(runs["data_th232_plus_background"], 5.0, boxes, dice, test)
    return follow(build_hypotheses(background_rate([site])), bins, names=True)


def measure_left_out(boxes: int, dice: np.random.Generator) -> dict[str, Named]:
    """Each material before a library without it."""
    site = background_rate([suro()[BACKGROUND]])
    found = {}
    for material, runs in TESTS.items():
        hypotheses = build_hypotheses(site, tuple(name for name in MATERIALS if name != material))
        per_run = -(-boxes // len(runs))
        bins = np.concatenate([make_mixed_boxes(suro()[run], per_run, dice) for run in runs])
        found[material] = count_names(material, follow(hypotheses, bins, names=True))
    return found


@dataclass(frozen=True, slots=True)
class Mixture:
    """Boxes with two materials: how many had both named, by the first name and after 60 s."""

    truth: str
    boxes: int
    first: int
    last: int
    safe: int


def measure_mixtures(hypotheses: Hypotheses, boxes: int, dice: np.random.Generator) -> list[Mixture]:
    """Real runs of two sources at once, 16 net counts per second and detector in all."""
    tools = radiacode_tools()
    site, test = split_run(tools["bg"], dice)
    other = build_hypotheses(background_rate([site]))
    office = suro()[TEST_BACKGROUND]
    cases = [("Co-60 + Cs-137", hypotheses, suro()[run], office) for run in TEST_MIXTURE]
    cases += [
        ("Co-60 + Cs-137", other, tools["Co60_a+Cs137_b"], test),
        ("Ba-133 + Eu-152", other, tools["Ba133_a+Eu152_b"], test),
    ]
    found = []
    for truth, known, run, below in cases:
        bins = make_boxes(run, 16.0, boxes, dice, below)
        outcomes = follow(known, bins, names=True)
        last = look(known, bins.sum(axis=1), SECONDS).finding
        first = int(np.sum(outcomes.name == truth))
        found.append(Mixture(truth, boxes, first, int(np.sum(last == truth)), int(np.sum(outcomes.verdict == SAFE))))
    return found
