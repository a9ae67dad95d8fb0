"""Boxes that are looked at once a second until they are decided, and the first decision of each."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from apps.hazmat.background import background_rate
from apps.hazmat.boxes import DETECTORS, Content, resample, strength_for, thin
from apps.hazmat.decision import ALARM, MORE, NATURAL_CARGO, NOT_YET, NOTHING, RULES, Rules, Verdicts, decide
from apps.hazmat.hypotheses import UNKNOWN, Hypotheses, build_hypotheses
from apps.hazmat.reading import suro
from apps.hazmat.spectrum import Array, Counts, Spectrum
from apps.hazmat.split import BACKGROUND, TEST_BACKGROUND

SECONDS = 60
_PER_STRENGTH = 10
NO_NAMES = (NOTHING, NATURAL_CARGO, NOT_YET, UNKNOWN)


@dataclass(frozen=True, slots=True, eq=False)
class Outcomes:
    """The first decision of each box, and the first name that it was given.

    `second` is when it was decided; `named_second` is 0 where it was never named. `halfway_s` is the time that was predicted at half
    of the time to the decision.
    """

    verdict: npt.NDArray[np.str_]
    second: Counts
    name: npt.NDArray[np.str_]
    named_second: Counts
    last_finding: npt.NDArray[np.str_]
    halfway_s: Array

    def share(self, verdict: str) -> float:
        return float(np.mean(self.verdict == verdict))


def site_hypotheses() -> Hypotheses:
    """Those of the library's own site."""
    return build_hypotheses(background_rate([suro()[BACKGROUND]]))


def look(hypotheses: Hypotheses, summed: Array, second: int, rules: Rules = RULES) -> Verdicts:
    """Verdicts after so many seconds of all detectors."""
    return decide(hypotheses, summed, np.full(len(summed), float(DETECTORS * second)), float(DETECTORS), rules)


def follow(hypotheses: Hypotheses, bins: Array, names: bool = False, rules: Rules = RULES) -> Outcomes:
    """Look at boxes (boxes x seconds x 128 bins) every second. With `names`, alarms are followed until they are named."""
    boxes, seconds = bins.shape[:2]
    summed = bins.cumsum(axis=1)
    verdict, name = np.full(boxes, MORE, dtype=object), np.full(boxes, "", dtype=object)
    second, named_second = np.full(boxes, seconds), np.zeros(boxes, dtype=np.int64)
    last, predicted = np.full(boxes, NOTHING, dtype=object), np.zeros((boxes, seconds + 1))
    looked_at = np.arange(boxes)
    for now in range(1, seconds + 1):
        found = look(hypotheses, summed[looked_at, now - 1], now, rules)
        undecided = verdict[looked_at] == MORE
        predicted[looked_at, now] = found.predicted_s
        decided = undecided & (found.verdict != MORE)
        verdict[looked_at[decided]], second[looked_at[decided]] = found.verdict[decided], now
        last[looked_at] = found.finding
        named = (found.verdict == ALARM) & ~np.isin(found.finding, NO_NAMES) & (name[looked_at] == "")
        name[looked_at[named]], named_second[looked_at[named]] = found.finding[named], now
        waiting = (verdict[looked_at] == MORE) | (names & (verdict[looked_at] == ALARM) & (name[looked_at] == ""))
        looked_at = looked_at[waiting]
        if not len(looked_at):
            break
    halfway = predicted[np.arange(boxes), second // 2]
    texts = (array.astype(np.str_) for array in (verdict, name, last))
    first, given, final = texts
    return Outcomes(first, second.astype(np.int64), given, named_second, final, halfway)


def make_boxes(
    source: Spectrum, net_per_s: float, boxes: int, dice: np.random.Generator, background: Spectrum | None = None
) -> Array:
    """Boxes with a source of this strength over a test background: thinned, or resampled where the run is too weak for it."""
    below = background or suro()[TEST_BACKGROUND]
    content = Content(below, source, strength_for(net_per_s, source, below))
    return (thin if content.strength <= 1.0 else resample)(content, boxes, SECONDS, dice)


def make_mixed_boxes(
    source: Spectrum, boxes: int, dice: np.random.Generator, background: Spectrum | None = None
) -> Array:
    """Boxes of 4 to 16 net counts per second and detector, another strength for every ten of them.

    Strengths of the grid of alternatives would be too easy to name.
    """
    parts = []
    for start in range(0, boxes, _PER_STRENGTH):
        net_per_s = float(np.exp(dice.uniform(np.log(4.0), np.log(16.0))))
        parts.append(make_boxes(source, net_per_s, min(_PER_STRENGTH, boxes - start), dice, background))
    return np.concatenate(parts)


def upper_limit(events: int, trials: int) -> float:
    """The upper 95 % limit of a share, from the Poisson distribution of its events."""
    low, high = 0.0, 3.0 * (events + 2.0)
    for _ in range(60):
        middle = (low + high) / 2
        chance = sum(math.exp(k * math.log(middle) - middle - math.lgamma(k + 1)) for k in range(events + 1))
        low, high = (middle, high) if chance > 0.05 else (low, middle)
    return high / trials
