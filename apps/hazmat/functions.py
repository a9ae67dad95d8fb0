"""Functions that SQL calls, over Arrow arrays: the peaks of a spectrum, and what three methods match it with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from apps.hazmat.background import read_background
from apps.hazmat.matching import METHODS
from apps.hazmat.peaks import peaks

MATCHES = f"STRUCT<{', '.join(f'{method}: TEXT' for method in METHODS)}>"
PEAK = "ARRAY<STRUCT<kev: DOUBLE, significance: DOUBLE, area: DOUBLE, line: TEXT>>"


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


def match_all(bins: pa.Array, live_s: pa.Array, background: str) -> dict[str, list[str | None]]:
    """What each method takes a spectrum for; NULL where there is none. `live_s` is summed over the detectors, as `bins` are."""
    rows = [i for i, row in enumerate(bins.to_pylist()) if row is not None and live_s[i].is_valid]
    found: dict[str, list[str | None]] = {method: [None] * len(bins) for method in METHODS}
    if rows:
        table, seconds = np.array(bins.take(pa.array(rows)).to_pylist()), np.array(live_s.take(pa.array(rows)))
        site = read_background(Path(background))
        for method, match in METHODS.items():
            for row, name in zip(rows, match(table, seconds, site), strict=True):
                found[method][row] = str(name)
    return found
