"""Which rows a plain subscriber has received already, derived from the windows of its events.

A window over time only moves forward. So of the rows of one cycle all were delivered, then or later, from the window's begin in
that cycle to its end now: this takes two numbers per cycle, and none per row. Each change of window begins an era.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np

from penstock.expr.windows import FOREVER, TimeWindow, Window
from penstock.operators.base.log_reader import TimedPositions
from penstock.operators.select.window_cut import WindowAt

MOST_CYCLES = 1 << 16


@dataclass(slots=True)
class _Era:
    """One window. Rows below heads[i] (and not below the one before) were delivered from the time lows[i] on, up to `high`."""

    window: Window
    heads: list[int] = field(default_factory=list)
    lows: list[int] = field(default_factory=list)
    high: int = -FOREVER

    def note(self, head: int, low: int, high: int) -> None:
        self.high = max(self.high, high)
        if self.heads and self.heads[-1] >= head:
            return
        self.heads.append(head)
        self.lows.append(low)
        if len(self.heads) > MOST_CYCLES:
            # Cycles two by two, from the later time on: rows that are forgotten may be delivered again, but none is left out.
            self.heads, self.lows = self.heads[1::2], self.lows[1::2]

    def has(self, rows: TimedPositions) -> np.ndarray:
        place = np.searchsorted(np.array(self.heads, np.int64), rows.positions, side="right")
        lows = np.array([*self.lows, FOREVER], np.int64)
        return (rows.times >= lows[place]) & (rows.times <= self.high)


class DeliveredWindows:
    """The delivered windows of one subscriber. Windows of rows are not recorded: their rows may be delivered again."""

    def __init__(self) -> None:
        self._eras: list[_Era] = []
        self._branches: dict[int, DeliveredWindows] = {}

    def of_branch(self, place: int) -> DeliveredWindows:
        """Those of a branch of the query."""
        return self._branches.setdefault(place, DeliveredWindows())

    def begin(self, at: WindowAt) -> None:
        """It has the answer as of an instant."""
        self._note(at, None)

    def without_told(self, rows: TimedPositions, steps: Sequence[WindowAt]) -> TimedPositions:
        """New rows between the first and the last of some instants without those that were delivered; marks all of them as delivered."""
        before, after = steps[0], steps[-1]
        if len(self._eras) > 1 or before.window != after.window:
            known = np.zeros(len(rows.positions), np.bool_)
            for era in self._eras:
                known |= era.has(rows)
            rows = rows.take(np.flatnonzero(~known))
        for last, step in pairwise(steps):
            self._note(replace(step, window=before.window), last)  # until the new window took over, the old one stood
        if before.window != after.window:
            self._note(after, None)
        return rows

    def _note(self, at: WindowAt, before: WindowAt | None) -> None:
        if not self._eras or self._eras[-1].window != at.window:
            self._eras.append(_Era(at.window))
        span = at.range() if isinstance(at.window, TimeWindow) else None
        if span is None:
            return
        low, high = span
        if before is not None:
            low = min(low, before.range_before()[0])
        self._eras[-1].note(at.head, low, high)
