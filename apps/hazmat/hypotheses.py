"""What a box may hold, as rates in 64 bins: natural null hypotheses, and alternatives with a fixed prior."""

from __future__ import annotations

import functools
import itertools
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from apps.hazmat.background import background_rate
from apps.hazmat.likelihood import fit
from apps.hazmat.lines import line_shape
from apps.hazmat.reading import suro
from apps.hazmat.spectrum import BINS, Array, energy, pair_bins
from apps.hazmat.split import BACKGROUND, LIBRARY, MATERIALS, NATURAL

UNKNOWN = "unknown source"
PRIOR_ONE, PRIOR_TWO, PRIOR_UNKNOWN = 0.72, 0.20, 0.08
STRENGTHS = tuple(2.0 ** (i / 4) for i in range(29))
"""Net counts per second and detector of one source. In steps of two, a source between two of them would look like a mixture."""
COARSE_STRENGTHS = STRENGTHS[::4]
"""1, 2, 4 to 128: for an unknown source, which is not compared with mixtures."""
PAIR_STRENGTHS = COARSE_STRENGTHS[:6]
LEVELS = (0.7, 0.85, 1.0, 1.15, 1.3)
"""The background of an alternative over that of the site."""
PAIR_LEVELS = (0.85, 1.0, 1.15)
LARGEST_RATIO = 5.0
UNKNOWN_KEV: Array = np.asarray(np.linspace(40.0**0.5, 2600.0**0.5, 24) ** 2, dtype=np.float64)
TILTS = (-0.4, 0.4)
NULL_BACKGROUNDS = 1 + len(TILTS)
"""So many parts of the null come before the natural sources."""


@dataclass(frozen=True, slots=True, eq=False)
class Hypotheses:
    """Null parts and alternatives for one site and one library.

    `null`: parts x 64, counts per second; the background, two tilts of it, and natural sources. `null_grid`: rates of a mean over
    nulls, with `log_null_prior`. `shapes`: one material per row, with sum 1. `rates`: one alternative per row, with `log_prior`. Alternatives of a finding
    are neighbours: `starts` has the first one of each. `information`: how fast ln M grows per second if the alternative is true.
    """

    materials: tuple[str, ...]
    null: Array
    null_grid: Array
    log_null_prior: Array
    shapes: Array
    rates: Array
    log_rates: Array
    log_prior: Array
    starts: npt.NDArray[np.intp]
    findings: tuple[str, ...]
    information: Array


@functools.cache
def material_shapes() -> dict[str, Array]:
    """The shape of each material and natural source in 128 bins, with sum 1: its library run less the background."""
    runs = suro()
    below = background_rate([runs[BACKGROUND]])
    shapes = {"K-40": line_shape(1460.8)}
    for name, number in LIBRARY.items():
        net = np.maximum(runs[number].rate - below, 0.0) + 1e-6
        shapes[name] = net / net.sum()
    return shapes


def build_hypotheses(background: Array, materials: tuple[str, ...] = MATERIALS) -> Hypotheses:
    """All hypotheses for a site with this background (128 bins). A material that is left out of `materials` is not known."""
    base = pair_bins(background)
    middles = energy(np.arange(1.0, BINS, 2.0))
    tilted = [base * (middles / 300.0) ** power for power in TILTS]
    shapes = np.array([pair_bins(material_shapes()[name]) for name in materials])
    null = np.array([base, *tilted, *(pair_bins(material_shapes()[name]) for name in NATURAL)])
    unknown = np.array([pair_bins(line_shape(float(kev))) for kev in UNKNOWN_KEV])
    rates: list[Array] = []
    prior: list[float] = []
    starts: list[int] = []

    def add(share: float, members: list[Array]) -> None:
        starts.append(len(rates))
        rates.extend(members)
        prior.extend([share / len(members)] * len(members))

    for shape in shapes:
        add(PRIOR_ONE / len(shapes), [b * base + a * shape for a in STRENGTHS for b in LEVELS])
    strengths = [(a, c) for a in PAIR_STRENGTHS for c in PAIR_STRENGTHS if max(a, c) / min(a, c) <= LARGEST_RATIO]
    pairs = list(itertools.combinations(range(len(shapes)), 2))
    for i, j in pairs:
        members = [b * base + a * shapes[i] + c * shapes[j] for a, c in strengths for b in PAIR_LEVELS]
        add(PRIOR_TWO / len(pairs), members)
    unknowns = [b * base + a * shape for shape in unknown for a in COARSE_STRENGTHS for b in LEVELS]
    add(PRIOR_UNKNOWN, unknowns)
    names = (*materials, *(f"{materials[i]} + {materials[j]}" for i, j in pairs), UNKNOWN)
    table = np.array(rates)
    grid, grid_prior = _null_grid(null)
    return Hypotheses(
        materials=materials,
        null=null,
        null_grid=grid,
        log_null_prior=grid_prior,
        shapes=shapes,
        rates=table,
        log_rates=np.log(table),
        log_prior=np.log(prior),
        starts=np.array(starts),
        findings=names,
        information=information(table, null),
    )


def _null_grid(null: Array) -> tuple[Array, Array]:
    """100 nulls with ln of their weights: ten levels of the background, five tilts, without and with a little natural material.

    Any fixed weights keep the stated rate. These were chosen on the library's own background run: most boxes have the site's
    background as it is, and safe is reached earlier than with even weights.
    """
    base, down, up = null[:NULL_BACKGROUNDS]
    # A tilted background has another sum; what counts as one level has the sum of the site's own.
    down, up = down * base.sum() / down.sum(), up * base.sum() / up.sum()
    natural = 0.3 * null[NULL_BACKGROUNDS:].sum(axis=0)
    rates, weights = [], []
    for level in np.linspace(0.775, 1.225, 10):
        for tilt, tilt_weight in ((-0.5, 0.05), (-0.2, 0.15), (0.0, 0.6), (0.2, 0.15), (0.5, 0.05)):
            for extra, extra_weight in ((0.0, 0.9), (1.0, 0.1)):
                bent = (1 - abs(tilt)) * base + abs(tilt) * (down if tilt < 0 else up)
                rates.append(level * bent + extra * natural)
                weights.append(np.exp(-0.5 * ((level - 1.0) / 0.08) ** 2) * tilt_weight * extra_weight)
    return np.array(rates), np.log(np.array(weights) / np.sum(weights))


def information(rates: Array, parts: Array, offset: Array | None = None) -> Array:
    """Kullback-Leibler rate per second of each rate against the nearest sum of parts."""
    nearest = fit(rates, parts, offset).expected
    return np.asarray((rates * np.log(rates / nearest) - rates + nearest).sum(axis=1), dtype=np.float64)
