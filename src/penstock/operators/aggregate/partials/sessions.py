"""SESSION windows: readings of a group at most a gap apart are one session, found by chaining the sums of short pieces of time."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import TypeVar

import numpy as np

from penstock.operators.aggregate.partials.base import Ints, Partial
from penstock.operators.aggregate.partials.cell_sums import CombinedCells

LEAST_GAP_US, MOST_GAP_US = 1000, 10 * 24 * 3_600_000_000
_WIDTHS = (1000, 10_000, 100_000, 1_000_000, 10_000_000, 60_000_000, 600_000_000, 3_600_000_000)
Key = TypeVar("Key", bound=Hashable)


def piece_width(gap_us: int) -> int:
    """The width of the pieces that sessions consist of: no more than the gap, so the readings of a piece are in one session."""
    return max(width for width in _WIDTHS if width <= gap_us)


def sessions_of(
    pieces: Mapping[Key, CombinedCells], partials: Mapping[Key, Partial], span: Key, gap_us: int
) -> tuple[dict[Key, CombinedCells], Ints]:
    """The sums per session, in the order of groups and time, and when each session ends. All measures have the same pieces.

    `span` is the measure that knows the first and the last time of a piece. A window of a session is its first time.
    """
    one = pieces[span]
    order = np.lexsort((one.windows, one.groups))
    groups, firsts, lasts = one.groups[order], one.state["least"][order], one.state["greatest"][order]
    begins = np.ones(len(order), np.bool_)
    begins[1:] = (groups[1:] != groups[:-1]) | (firsts[1:] - lasts[:-1] > gap_us)
    session = np.cumsum(begins) - 1
    starts, groups = firsts[begins], groups[begins]
    found = {}
    for measure, own in pieces.items():
        total = partials[measure].empty(len(starts))
        partials[measure].merge(total, session, {name: field[order] for name, field in own.state.items()})
        found[measure] = CombinedCells(starts, groups, total)
    last_of_each = np.append(begins[1:], True) if len(order) else begins
    ends: Ints = lasts[last_of_each] + gap_us
    return found, ends
