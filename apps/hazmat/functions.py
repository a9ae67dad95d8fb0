"""The functions that SQL calls, over Arrow arrays: a burst in bins, and the verdict about all bursts of a box.

A burst that cannot be used, and one of a detector without a background run, make a fault of their box and of no other. Where a site
has no background run at all, the call fails with a hint.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from apps.hazmat.background import HINT, detectors_of, read_background
from apps.hazmat.decision import ALARM, FAULT, MORE, NOT_YET, Rules, Verdicts, decide
from apps.hazmat.hypotheses import Hypotheses, build_hypotheses
from apps.hazmat.peaks import peaks
from apps.hazmat.spectrum import BINS, CHANNELS, Array, to_bins

BURST = "STRUCT<detector: TEXT, at: TIMESTAMP, live_s: DOUBLE, channels: INT, bins: ARRAY<DOUBLE>>"
VERDICT = (
    "STRUCT<verdict: TEXT, finding: TEXT, confidence: DOUBLE, after_s: DOUBLE, predicted_s: DOUBLE, log_m: DOUBLE, log_safe: DOUBLE, "
    "live_s: DOUBLE, bins: ARRAY<DOUBLE>>"
)
PEAK = "ARRAY<STRUCT<kev: DOUBLE, significance: DOUBLE, area: DOUBLE, line: TEXT>>"
_GRAIN = float(1 << 20)
"""Bins are multiples of 1 / _GRAIN, so that their sums are exact and the same in every order."""


def make_bursts(
    detector: pa.Array, counts: pa.Array, live_s: pa.Array, at: pa.Array, calibration: tuple[pa.Array, ...]
) -> dict[str, Any]:
    """Bursts of any detectors in bins. A burst of a wrong length, or without a calibration, has no bins."""
    lengths = np.asarray(counts.value_lengths().fill_null(0))
    a0, a1, a2 = (np.asarray(part.fill_null(np.nan), dtype=np.float64) for part in calibration)
    usable = np.isin(lengths, CHANNELS) & np.isfinite(a0 + a1 + a2)
    bins: list[list[float] | None] = [None] * len(lengths)
    for channels in CHANNELS:
        rows = np.flatnonzero(usable & (lengths == channels))
        if len(rows):
            table = np.asarray(counts.take(pa.array(rows)).flatten().fill_null(0)).reshape(len(rows), channels)
            found = np.round(to_bins(table, a0[rows], a1[rows], a2[rows]) * _GRAIN) / _GRAIN
            for row, values in zip(rows, found, strict=True):
                bins[row] = values.tolist()
    spectra = {"channels": lengths, "bins": pa.array(bins, pa.list_(pa.float64()))}
    return {"detector": detector, "at": at, "live_s": live_s, **spectra}


def judge(bursts: pa.Array, detectors: pa.Array, background: str, a_min: float, max_s: float) -> dict[str, Any]:
    """The first decision about each box, and the finding by now.

    Bursts are looked at in the order of their times, one time after the other. So the answer is a function of the bursts alone,
    however many of them come at once, and is the same after a restart.
    """
    site, known = _site(background, Path(background).stat().st_mtime_ns if Path(background).exists() else 0)
    rules = Rules(a_min=a_min, max_s=max_s)
    boxes = [_course(box, known) for box in bursts.to_pylist()]
    good = [number for number, box in enumerate(boxes) if isinstance(box, Course)]
    courses = [box for box in boxes if isinstance(box, Course)]
    found: dict[str, list[Any]] = {name: [None] * len(boxes) for name in _NAMES}
    if courses:
        sizes = [len(course.live_s) for course in courses]
        count = np.repeat(np.asarray(detectors, dtype=np.float64)[good], sizes)
        looks = decide(
            site, np.concatenate([c.bins for c in courses]), np.concatenate([c.live_s for c in courses]), count, rules
        )
        ends = np.cumsum(sizes)
        for number, course, end in zip(good, courses, ends, strict=True):
            row = _first_decision(looks, slice(end - len(course.live_s), end), course, count[end - 1])
            for name in _NAMES:
                found[name][number] = row[name]
    for number, box in enumerate(boxes):
        if isinstance(box, str):
            found["verdict"][number], found["finding"][number] = FAULT, box
    return found


def find_peaks(bins: pa.Array) -> list[list[dict[str, Any]] | None]:
    """The peaks of each spectrum."""
    return [
        None
        if row is None
        else [
            {"kev": p.kev, "significance": p.significance, "area": p.area, "line": p.line}
            for p in peaks(np.array(row, dtype=np.float64))
        ]
        for row in bins.to_pylist()
    ]


class Course:
    """The sums of a box's bursts, after each time at which there was one."""

    def __init__(self, at: npt.NDArray[Any], live_s: Array, bins: Array) -> None:
        order = np.argsort(at, kind="stable")
        last = np.append(np.flatnonzero(at[order][1:] != at[order][:-1]), len(at) - 1)
        self.live_s: Array = np.cumsum(live_s[order])[last]
        self.bins: Array = np.cumsum(bins[order], axis=0)[last]


_NAMES = ("verdict", "finding", "confidence", "after_s", "predicted_s", "log_m", "log_safe", "live_s", "bins")


def _course(bursts: list[dict[str, Any]] | None, known: frozenset[str]) -> Course | str:
    """The course of a box, or what is wrong with one of its bursts. `known`: the detectors with a background run."""
    if not bursts:
        return "no burst"
    for burst in bursts:
        if burst["bins"] is None and burst["channels"] in CHANNELS:
            return "a detector without a calibration"
        if burst["bins"] is None:
            return f"a spectrum of {burst['channels']} channels; detectors have {' or '.join(map(str, CHANNELS))}"
        if not (burst["live_s"] or 0) > 0:
            return "a burst without live seconds"
        if burst["detector"] not in known:
            return f"there is no background run of detector {burst['detector']}; {HINT}"
    at = np.array([burst["at"] for burst in bursts])
    return Course(at, np.array([b["live_s"] for b in bursts]), np.array([b["bins"] for b in bursts]).reshape(-1, BINS))


def _first_decision(looks: Verdicts, rows: slice, course: Course, detectors: float) -> dict[str, Any]:
    verdicts = looks.verdict[rows]
    decided = np.flatnonzero(verdicts != MORE)
    first = int(decided[0]) if len(decided) else len(verdicts) - 1
    finding = looks.finding[rows][-1]
    if verdicts[first] == ALARM and looks.verdict[rows][-1] != ALARM:
        finding = NOT_YET
    last = {
        "confidence": looks.confidence,
        "predicted_s": looks.predicted_s,
        "log_m": looks.log_m,
        "log_safe": looks.log_safe,
    }
    return {
        "verdict": str(verdicts[first]),
        "finding": str(finding),
        "after_s": float(course.live_s[first] / detectors),
        "live_s": float(course.live_s[-1]),
        "bins": course.bins[-1].tolist(),
        **{name: float(values[rows][-1]) for name, values in last.items()},
    }


@functools.lru_cache(maxsize=4)
def _site(background: str, _changed: int) -> tuple[Hypotheses, frozenset[str]]:
    """The hypotheses of a site and its detectors, read again when its background run has changed."""
    path = Path(background)
    return build_hypotheses(read_background(path)), detectors_of(path)
