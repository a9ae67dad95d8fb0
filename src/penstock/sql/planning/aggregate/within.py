"""WITHIN n PERCENT of a correlated aggregate as parameters of slices: how fine buckets are, and how wide cells may grow."""

from __future__ import annotations

from penstock.expr.windows import FOREVER, TimeWindow
from penstock.operators.aggregate.approximate.coarse_cells import LONGEST_US
from penstock.sql.nodes import WithinPercent

APPROXIMATED = ("count", "sum", "avg")
"""Of MIN and MAX the values are kept, as without WITHIN."""
_SHARE_OF_WINDOW = 64
_RECENT_US = 10_000_000
"""How long cells stay seconds: a question about an older cycle reads some rows of the log."""

_OF_BAND = 4
"""Between two edges lies less than beyond one of them, and both are cut."""


def parameters(within: WithinPercent, outer: str, window: TimeWindow, band: bool) -> tuple[float, ...]:
    """What is promised, how fine buckets are, the widest slot and how long cells stay as fine as they came."""
    recent = _RECENT_US - window.end.offset_us if window.end.anchor == "now" else FOREVER
    fine = fineness(within.share, outer) / (_OF_BAND if band else 1)
    return within.share, fine, widest_us(window), max(_RECENT_US, recent)


def fineness(share: float, outer: str) -> float:
    """How much of what lies beyond a bucket it may hold. The middle of the bounds is off by half of the buckets that a cut goes
    through: one of each cell, and another for each time that cells were merged. An average has the doubt of a sum and of a count.
    """
    return share / (4 if outer == "avg" else 2)


def widest_us(window: TimeWindow) -> int:
    """The slot that BEGIN cuts is read from the log, so it is a small part of the window."""
    if not window.slides:
        return LONGEST_US
    return min(LONGEST_US, (window.end.offset_us - window.begin.offset_us) // _SHARE_OF_WINDOW)
