"""Error rates and times: false alarms, missed threats, and the time to a decision against a fixed counting time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from apps.hazmat.boxes import DETECTORS, Content, Shield, resample, strength_for, thin
from apps.hazmat.decision import ALARM, INSPECT, RULES, SAFE, log_alternatives, posterior
from apps.hazmat.hypotheses import Hypotheses
from apps.hazmat.likelihood import fit
from apps.hazmat.measure.outcome import SECONDS, Outcomes, follow, make_boxes
from apps.hazmat.reading import radiacode_tools, suro
from apps.hazmat.spectrum import Array, pair_bins
from apps.hazmat.split import TEST_BACKGROUND, TEST_LAWN, TEST_NATURAL, TEST_ROOM, TESTS

FIXED_S = (2, 4, 6, 8, 10, 12, 15, *range(18, SECONDS + 1, 3))
FIXED_MISSED = 0.02
FIXED_FALSE = 0.001
THREAT_SHARE = 0.1
_BATCH = 500


@dataclass(frozen=True, slots=True, eq=False)
class FalseAlarms:
    """Boxes without a source. `ever` counts those whose M ever reached the limit, also after they were called safe."""

    boxes: int
    ever: int
    inspected: int
    mean_s: float
    log_m: Array
    """Boxes x FIXED_S: ln M after each of the fixed times."""
    largest_mean_m: float


def log_ratio(hypotheses: Hypotheses, summed: Array, second: int) -> Array:
    """ln M after so many seconds of all detectors, without the rest of the verdict."""
    x = pair_bins(summed)
    log_mean, _, _ = posterior(hypotheses, log_alternatives(hypotheses, x, np.full(len(x), float(DETECTORS * second))))
    return np.asarray(log_mean - fit(x, hypotheses.null).log_likelihood, dtype=np.float64)


def measure_false_alarms(hypotheses: Hypotheses, boxes: int, dice: np.random.Generator) -> FalseAlarms:
    """Boxes of the site's background, from a run that the library does not have."""
    ever, inspected, times, logs, means = 0, 0, [], [], np.zeros(SECONDS)
    for start in range(0, boxes, _BATCH):
        count = min(_BATCH, boxes - start)
        bins = resample(Content(suro()[TEST_BACKGROUND]), count, SECONDS, dice)
        summed = bins.cumsum(axis=1)
        all_logs = np.array([log_ratio(hypotheses, summed[:, now - 1], now) for now in range(1, SECONDS + 1)])
        ever += int(np.sum(all_logs.max(axis=0) >= -np.log(RULES.alpha)))
        means += np.exp(all_logs).sum(axis=1) / boxes
        logs.append(all_logs[np.array(FIXED_S) - 1].T)
        found = follow(hypotheses, bins)
        inspected += int(np.sum(found.verdict == INSPECT))
        times.append(found.second)
    return FalseAlarms(
        boxes, ever, inspected, float(np.concatenate(times).mean()), np.concatenate(logs), float(means.max())
    )


def measure_elsewhere(hypotheses: Hypotheses, boxes: int, dice: np.random.Generator) -> dict[str, Outcomes]:
    """Boxes without a threat at places for which there is no background run."""
    office = suro()[TEST_BACKGROUND]
    places = {
        "lawn": Content(suro()[TEST_LAWN]),
        "another room": Content(suro()[TEST_ROOM]),
        "another unit": Content(radiacode_tools()["bg"]),
        **{name: Content(suro()[runs[0]]) for name, runs in TEST_NATURAL.items()},
    }
    found = {name: follow(hypotheses, resample(content, boxes, SECONDS, dice)) for name, content in places.items()}
    found["gain drift"] = follow(hypotheses, thin(Content(office, drift=True), boxes, SECONDS, dice))
    return found


@dataclass(frozen=True, slots=True, eq=False)
class Threats:
    """Boxes of one material and strength: outcomes over all its test runs, and ln M at the fixed times."""

    outcomes: list[Outcomes]
    log_m: Array

    def share(self, verdict: str) -> float:
        return float(np.mean(np.concatenate([one.verdict for one in self.outcomes]) == verdict))

    @property
    def seconds(self) -> Array:
        return np.concatenate([one.second for one in self.outcomes]).astype(np.float64)


def measure_threats(
    hypotheses: Hypotheses, net_per_s: float, boxes: int, dice: np.random.Generator
) -> dict[str, Threats]:
    """Each material at one strength: so many boxes of each of its test runs."""
    found = {}
    for material, runs in TESTS.items():
        outcomes, logs = [], []
        for run in runs:
            bins = make_boxes(suro()[run], net_per_s, boxes, dice)
            outcomes.append(follow(hypotheses, bins, names=True))
            summed = bins.cumsum(axis=1)
            logs.append(np.array([log_ratio(hypotheses, summed[:, now - 1], now) for now in FIXED_S]).T)
        found[material] = Threats(outcomes, np.concatenate(logs))
    return found


def shortest_fixed_s(null: FalseAlarms, threats: dict[str, Threats]) -> float | None:
    """The shortest fixed counting time that misses at most 2 % of each material, at 0.1 % false alarms; None beyond 60 s."""
    for place, seconds in enumerate(FIXED_S):
        limit = np.quantile(null.log_m[:, place], 1.0 - FIXED_FALSE)
        if all(np.mean(one.log_m[:, place] <= limit) <= FIXED_MISSED for one in threats.values()):
            return float(seconds)
    return None


def mean_time_s(null: FalseAlarms, threats: dict[str, Threats]) -> float:
    """The mean time to a decision where one box in ten is a threat, all materials alike."""
    threat_s = float(np.mean([one.seconds.mean() for one in threats.values()]))
    return (1.0 - THREAT_SHARE) * null.mean_s + THREAT_SHARE * threat_s


@dataclass(frozen=True, slots=True)
class Shielded:
    """What a shield leaves of a material, and what the decision makes of it."""

    shield: str
    material: str
    left_per_s: float
    alarm: float
    safe: float
    mean_s: float


def measure_shielding(hypotheses: Hypotheses, boxes: int, dice: np.random.Generator) -> list[Shielded]:
    """16 net counts per second and detector before the shield."""
    found = []
    office = suro()[TEST_BACKGROUND]
    for shield in (Shield("lead", 5.0), Shield("iron", 20.0)):
        for material, runs in TESTS.items():
            run = suro()[runs[0]]
            strength = strength_for(16.0, run, office)
            content = Content(office, run, strength, shield)
            bins = (thin if strength <= 1.0 else resample)(content, boxes, SECONDS, dice)
            one = follow(hypotheses, bins)
            left = bins.sum() / (boxes * SECONDS * DETECTORS) - office.rate.sum()
            found.append(
                Shielded(
                    f"{shield.mm:g} mm {shield.material}",
                    material,
                    left,
                    one.share(ALARM),
                    one.share(SAFE),
                    float(one.second.mean()),
                )
            )
    return found


def prediction_errors(outcomes: list[Outcomes]) -> Array:
    """How far the time predicted at half time was off, over the time that was left; boxes that took 4 seconds and more."""
    errors = []
    for one in outcomes:
        counted = (one.second >= 4) & np.isin(one.verdict, (ALARM, SAFE))
        left = one.second[counted] - one.second[counted] // 2
        errors.append(np.abs(one.halfway_s[counted] - left) / left)
    return np.concatenate(errors)
