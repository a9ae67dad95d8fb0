"""Functions that SQL calls, over Arrow arrays: the peaks of a spectrum."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from apps.hazmat.peaks import peaks

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
