"""The state of a box in the aggregate `judge`: what its detectors counted at each time, or what is wrong with one of their bursts.

Bursts come in any order and any parts: states of some of them merge to the state of all. Bins are multiples of 1 / GRAIN, so that their
sums are exact, and the verdict is the same whichever way they came.
"""

from __future__ import annotations

import base64
import functools
import math
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from apps.hazmat.background import HINT, detectors_of, read_background
from apps.hazmat.decision import ALARM, FAULT, MORE, NOT_YET, Rules, decide
from apps.hazmat.hypotheses import Hypotheses, build_hypotheses
from apps.hazmat.spectrum import CHANNELS, Array, overlaps

STATE = "STRUCT<fault: TEXT, looks: ARRAY<STRUCT<at: TIMESTAMP, live_s: DOUBLE, detectors: ARRAY<TEXT>, bins: TEXT>>>"
"""`looks`: the bursts that ended at the same time, added up. `bins` is text, because it is copied and compared much more often than read."""
VERDICT = (
    "STRUCT<verdict: TEXT, finding: TEXT, confidence: DOUBLE, after_s: DOUBLE, first_finding: TEXT, first_confidence: DOUBLE, "
    "predicted_s: DOUBLE, log_m: DOUBLE, log_safe: DOUBLE, live_s: DOUBLE, bins: ARRAY<DOUBLE>>"
)
"""`finding` and `confidence` are those by now, because naming goes on; `first_finding` and `first_confidence` those at the decision."""
GRAIN = float(1 << 20)
State = dict[str, Any]
Look = tuple[datetime, float, str]


def init() -> State:
    """The state of no bursts."""
    return {"fault": None, "looks": []}


def add(
    state: State,
    detector: str,
    counts: Sequence[int],
    live_s: float,
    at: datetime,
    calibration: tuple[float, float, float],
) -> State:
    """The state with one burst more."""
    found = _binned(counts, live_s, calibration)
    if isinstance(found, str):
        return merge(state, {"fault": found, "looks": []})
    return merge(state, {"fault": None, "looks": [_look(at, live_s, {detector}, found)]})


def merge(a: State, b: State) -> State:
    """The state of the bursts of both. Of several faults the first one in the alphabet is said."""
    looks = {look["at"]: look for look in a["looks"]}
    for look in b["looks"]:
        known = looks.get(look["at"])
        if known is not None:
            detectors = {*known["detectors"], *look["detectors"]}
            bins = _bins(known["bins"]) + _bins(look["bins"])
            look = _look(look["at"], known["live_s"] + look["live_s"], detectors, bins)
        looks[look["at"]] = look
    return {"fault": min(filter(None, (a["fault"], b["fault"])), default=None), "looks": list(looks.values())}


def finish(state: State, background: str, rules: Rules) -> dict[str, Any]:
    """The first decision about a box with its finding, and the finding by now.

    The bursts are looked at in the order of their times, one time after the other. So the answer is a function of the bursts alone,
    however many of them come at once, and is the same after a restart.
    """
    if state["fault"] is not None or not state["looks"]:
        return _fault(state["fault"] or "no burst")
    changed = Path(background).stat().st_mtime_ns if Path(background).exists() else 0
    detectors = {detector for look in state["looks"] for detector in look["detectors"]}
    strangers = detectors - site_of(background, changed)[1]
    if strangers:
        return _fault(f"there is no background run of detector {min(strangers)}; {HINT}")
    looks = sorted((look["at"], look["live_s"], look["bins"]) for look in state["looks"])
    return dict(_verdict(tuple(looks), len(detectors), (background, changed), rules))


@functools.lru_cache(maxsize=64)
def _verdict(looks: tuple[Look, ...], detectors: int, site: tuple[str, int], rules: Rules) -> dict[str, Any]:
    """The verdict about bursts without a fault. Most boxes of an answer have not changed since the one before."""
    live_s = np.cumsum([live for _, live, _ in looks])
    bins = np.cumsum([_bins(text) for _, _, text in looks], axis=0)
    found = decide(site_of(*site)[0], bins, live_s, float(detectors), rules)
    decided = np.flatnonzero(found.verdict != MORE)
    first = int(decided[0]) if len(decided) else len(looks) - 1
    finding = found.finding[-1]
    if found.verdict[first] == ALARM and found.verdict[-1] != ALARM:
        finding = NOT_YET
    return {
        "verdict": str(found.verdict[first]),
        "finding": str(finding),
        "confidence": _rounded(found.confidence[-1]),
        "after_s": float(live_s[first] / detectors),
        "first_finding": str(found.finding[first]),
        "first_confidence": _rounded(found.confidence[first]),
        "predicted_s": float(found.predicted_s[-1]),
        "log_m": float(found.log_m[-1]),
        "log_safe": float(found.log_safe[-1]),
        "live_s": float(live_s[-1]),
        "bins": bins[-1].tolist(),
    }


def _rounded(share: float) -> float:
    """Without the digits that another processor or process may compute otherwise, so that a row is the same after a restart."""
    return round(float(share), 6)


_NAMES = ("confidence", "after_s", "first_confidence", "predicted_s", "log_m", "log_safe", "live_s", "bins")


def _fault(why: str) -> dict[str, Any]:
    return {"verdict": FAULT, "finding": why, "first_finding": why, **dict.fromkeys(_NAMES)}


@functools.lru_cache(maxsize=4)
def site_of(background: str, _changed: int) -> tuple[Hypotheses, frozenset[str]]:
    """The hypotheses of a site and its detectors, read again when its background run has changed."""
    path = Path(background)
    return build_hypotheses(read_background(path)), detectors_of(path)


def _binned(counts: Sequence[int], live_s: float, calibration: tuple[float, float, float]) -> Array | str:
    """A burst in bins, or what is wrong with it."""
    if len(counts) not in CHANNELS:
        return f"a spectrum of {len(counts)} channels; detectors have {' or '.join(map(str, CHANNELS))}"
    if not all(map(math.isfinite, calibration)):
        return "a detector without a calibration"
    if not live_s > 0:
        return "a burst without live seconds"
    table = np.array([count or 0 for count in counts], dtype=np.float64)
    if np.any(table < 0):
        return "a spectrum with negative counts"
    try:
        shares = overlaps(len(counts), calibration)
    except ValueError as problem:
        return str(problem)
    return np.asarray(np.round(table @ shares * GRAIN) / GRAIN, dtype=np.float64)


def _look(at: datetime, live_s: float, detectors: set[str], bins: Array) -> dict[str, Any]:
    text = base64.b64encode(bins.astype("<f8").tobytes()).decode()
    return {"at": at, "live_s": live_s, "detectors": sorted(detectors), "bins": text}


def _bins(text: str) -> Array:
    return np.frombuffer(base64.b64decode(text), dtype="<f8").astype(np.float64)
