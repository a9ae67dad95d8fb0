"""The background of a site: what the detectors count when there is no box. The decision refuses to work without it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from apps.hazmat.spectrum import BINS, Array, Spectrum, smooth

SHORTEST_S = 600.0
HINT = "measure one without a box: python -m apps.hazmat background --minutes 20"


def background_rate(runs: Iterable[Spectrum]) -> Array:
    """Counts per second and detector in bins, from runs without a box; the mean over detectors.

    Slightly smoothed, and never 0: a bin without a count in an hour may still have one in the next.
    """
    rates = [smooth((run.bins + 0.1) / run.live_s) for run in runs]
    if not rates:
        raise ValueError(f"there is no background run; {HINT}")
    return np.asarray(np.mean(rates, axis=0), dtype=np.float64)


def write_background(runs: Iterable[Spectrum], path: Path) -> None:
    """The background of each detector as JSON."""
    found = {run.detector: {"live_s": run.live_s, "rate": background_rate([run]).tolist()} for run in runs}
    path.write_text(json.dumps(found, indent=1) + "\n")


def read_background(path: Path) -> Array:
    """The mean background of all detectors of a site."""
    if not path.exists():
        raise ValueError(f"there is no background run; {HINT}")
    try:
        runs = json.loads(path.read_text())
        rates = np.array([run["rate"] for run in runs.values()], dtype=np.float64)
        short = [name for name, run in runs.items() if run["live_s"] < SHORTEST_S]
    except (ValueError, TypeError, KeyError, AttributeError):
        raise ValueError(f"{path.name} is not a background run; {HINT}") from None
    if rates.ndim != 2 or rates.shape[1] != BINS or not np.all(rates > 0):
        raise ValueError(f"{path.name} is not a background run; {HINT}")
    if short:
        raise ValueError(
            f"the background run of {', '.join(short)} is shorter than {SHORTEST_S / 60:g} minutes; {HINT}"
        )
    return np.asarray(rates.mean(axis=0), dtype=np.float64)


def detectors_of(path: Path) -> frozenset[str]:
    """The detectors of which a background run is known."""
    return frozenset(json.loads(path.read_text()))
