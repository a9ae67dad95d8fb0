"""Boxes with a known content, and the bursts that detectors around them would send. The truth is for scoring, never for the log."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from apps.hazmat.spectrum import BINS, EDGES_KEV, Array, Counts, Spectrum, overlaps, smooth

# Mass attenuation coefficients (NIST, X-ray mass attenuation tables), cm^2/g, at these energies. Lead has its K edge twice.
_KEV = (30, 40, 60, 80, 100, 150, 200, 300, 400, 500, 600, 800, 1000, 1500, 2000, 3000)
_IRON = (
    8.176,
    3.629,
    1.205,
    0.5952,
    0.3717,
    0.1964,
    0.146,
    0.1099,
    0.094,
    0.08414,
    0.07704,
    0.06699,
    0.05995,
    0.04883,
    0.04265,
    0.03621,
)
_LEAD = (
    30.32,
    14.36,
    5.021,
    2.419,
    5.549,
    2.014,
    0.9985,
    0.4031,
    0.2323,
    0.1614,
    0.1248,
    0.0887,
    0.07102,
    0.05222,
    0.04606,
    0.04234,
)
_LEAD_EDGE = ((88.0, 1.91), (88.01, 7.683))
_DENSITY = {"iron": 7.874, "lead": 11.35}
DETECTORS = 4
DRIFT_LIMIT = 0.03
DRIFT_PER_ROOT_SECOND = DRIFT_LIMIT / 600.0**0.5
"""A random walk with this step reaches 3 % in about ten minutes."""


@dataclass(frozen=True, slots=True)
class Shield:
    """A plate between box and detectors. Scatter in it is left out."""

    material: str
    mm: float


@dataclass(frozen=True, slots=True, eq=False)
class Content:
    """What is in a box: a source run at `strength` (10 cm / distance)^2 over the background of its detector, or none."""

    background: Spectrum
    source: Spectrum | None = None
    strength: float = 0.0
    shield: Shield | None = None
    drift: bool = False
    sides: tuple[float, float, float, float] = (1.0, 1.0, 1.0, 1.0)
    """How much more or less of the source each detector sees, because it is nearer or farther; 1 on average."""


def strength_for(net_per_s: float, source: Spectrum, background: Spectrum) -> float:
    """The strength at which a source run gives so many net counts per second in the bins."""
    return float(net_per_s / (source.rate.sum() - background.rate.sum()))


def survival(kev: Array, shield: Shield | None) -> Array:
    """The chance of a count at each energy to pass the shield, log-log between the table's energies."""
    if shield is None:
        return np.ones_like(kev)
    points: list[tuple[float, float]] = [*zip(_KEV, _LEAD if shield.material == "lead" else _IRON, strict=True)]
    if shield.material == "lead":
        points = sorted([*points, *_LEAD_EDGE])
    x, y = np.log(np.array(points, dtype=np.float64)).T
    mu = np.exp(np.interp(np.log(np.maximum(kev, 1.0)), x, y)) * _DENSITY[shield.material]
    return np.asarray(np.exp(-mu * shield.mm / 10.0), dtype=np.float64)


def thin(content: Content, boxes: int, seconds: int, dice: np.random.Generator) -> Array:
    """Boxes x seconds x 128 bins, summed over the detectors. Each count is one of a real run, used at most once per box.

    A count of the source run is taken with probability a t / T, one of the background run with (1 - a) t / T. Thinned Poisson
    counts are Poisson: the sum is background + a source, without a model.
    """
    found = np.zeros((boxes, seconds, BINS))
    gains = _gains(content, boxes, seconds, dice)
    for run, weight in _shares(content):
        share = weight * seconds * DETECTORS / run.live_s
        if np.any(share > 1.0 + 1e-9) or np.any(share < 0.0):
            raise ValueError(f"run {run.name!r} has too few counts for {seconds} s at this strength; use resample")
        taken = dice.binomial(run.counts, np.clip(share, 0.0, 1.0), size=(boxes, len(run.counts)))
        found += _spread(run, taken, seconds, gains, dice)
    return found


def thin_bursts(content: Content, seconds: int, dice: np.random.Generator) -> Counts:
    """The same box as it leaves the detectors: seconds x detectors x channels, for runs of one calibration."""
    channels = len(content.background.counts)
    found = np.zeros((seconds, DETECTORS, channels), dtype=np.int64)
    by_detector = [_shares(replace(content, strength=content.strength * side)) for side in content.sides]
    for place, (run, _) in enumerate(by_detector[0]):
        shares = np.array([runs[place][1] for runs in by_detector]) * seconds / run.live_s
        whole = shares.sum(axis=0)
        if np.any(whole > 1.0 + 1e-9) or np.any(shares < 0.0):
            raise ValueError(f"run {run.name!r} has too few counts for {seconds} s at this strength")
        taken = dice.binomial(run.counts, np.clip(whole, 0.0, 1.0))
        channel = np.repeat(np.arange(channels), taken)
        # Each count goes to one detector, by how much of it each of them sees, and to any second.
        limits = np.cumsum(shares, axis=0)[:, channel]
        detector = (dice.random(len(channel)) * limits[-1] >= limits[:-1]).sum(axis=0)
        np.add.at(found, (dice.integers(0, seconds, size=len(channel)), detector, channel), 1)
    return found


def resample(content: Content, boxes: int, seconds: int, dice: np.random.Generator) -> Array:
    """Boxes x seconds x 128 bins by Poisson draws from the runs' smoothed rates: for more boxes than a run has counts for."""
    rate = np.zeros(BINS)
    for run, weight in _shares(content):
        rate += smooth((run.counts * weight) @ overlaps(len(run.counts), run.calibration) / run.live_s)
    return dice.poisson(np.maximum(rate, 0.0) * DETECTORS, size=(boxes, seconds, BINS)).astype(np.float64)


def _shares(content: Content) -> list[tuple[Spectrum, Array]]:
    """Runs of a content with the weight of each channel. What a shield holds back of the source run, the background run gives."""
    background = content.background
    if content.source is None:
        return [(background, np.ones(len(background.counts)))]
    weight = content.strength * survival(_middles(content.source), content.shield)
    if content.shield is None:
        rest = np.full(len(background.counts), 1.0 - content.strength)
    else:
        rest = 1.0 - content.strength * survival(_middles(background), content.shield)
    return [(content.source, weight), (background, rest)]


def _middles(run: Spectrum) -> Array:
    edges = run.edges_kev
    return np.asarray((edges[1:] + edges[:-1]) / 2, dtype=np.float64)


def _gains(content: Content, boxes: int, seconds: int, dice: np.random.Generator) -> Array | None:
    """E becomes E (1 + g): g starts anywhere within the limit and walks at random, reflected at the limit."""
    if not content.drift:
        return None
    steps = dice.normal(0.0, DRIFT_PER_ROOT_SECOND, size=(boxes, seconds))
    walk = dice.uniform(-DRIFT_LIMIT, DRIFT_LIMIT, size=(boxes, 1)) + np.cumsum(steps, axis=1)
    around = np.mod(walk + DRIFT_LIMIT, 4 * DRIFT_LIMIT)
    return np.asarray(
        np.where(around > 2 * DRIFT_LIMIT, 4 * DRIFT_LIMIT - around, around) - DRIFT_LIMIT, dtype=np.float64
    )


def _spread(run: Spectrum, taken: Counts, seconds: int, gains: Array | None, dice: np.random.Generator) -> Array:
    """Counts per box and channel, each put into a second at random, in bins."""
    boxes, channels = taken.shape
    place = np.repeat(np.arange(boxes * channels), taken.ravel())
    box, channel = place // channels, place % channels
    second = dice.integers(0, seconds, size=len(place))
    if gains is None:
        cells = np.bincount((box * seconds + second) * channels + channel, minlength=boxes * seconds * channels)
        whole = cells.reshape(boxes * seconds, channels) @ overlaps(channels, run.calibration)
        return np.asarray(whole.reshape(boxes, seconds, BINS), dtype=np.float64)
    edges = run.edges_kev
    kev = (edges[channel] + dice.random(len(place)) * (edges[channel + 1] - edges[channel])) * (
        1.0 + gains[box, second]
    )
    return _count_energies(kev, box * seconds + second, boxes * seconds).reshape(boxes, seconds, BINS)


def _count_energies(kev: Array, row: Counts, rows: int) -> Array:
    number = np.searchsorted(EDGES_KEV, kev, side="right") - 1
    inside = (number >= 0) & (number < BINS)
    return (
        np.bincount(row[inside] * BINS + number[inside], minlength=rows * BINS).reshape(rows, BINS).astype(np.float64)
    )
