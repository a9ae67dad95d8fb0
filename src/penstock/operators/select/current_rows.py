"""Answers that are kept current: the rows inside the window, updated at each cycle instead of computed on request.

For queries with more requests than cycles. An answer that is behind is updated at the next request.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass

import numpy as np

from penstock.expr.windows import FOREVER, TimeWindow, Window
from penstock.operators.base.log_reader import LogReader, TimedPositions, no_rows
from penstock.operators.select.position_lists import Ints
from penstock.operators.select.window_cut import WindowAt, WindowMatches


@dataclass(frozen=True, slots=True)
class ReadyRows:
    """Matches from the beginning of the window on, as of a cycle; matches past its end enter the answer later."""

    cycle: int
    head: int
    window: Window
    rows: TimedPositions


class CurrentRows:
    """The current rows by query. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[int, ReadyRows] = {}

    def inside(self, query_id: int, cycle: int, matches: WindowMatches, at: WindowAt, log_reader: LogReader) -> Ints:
        """The positions inside the window at a cycle, ascending."""
        with self._lock:
            known = self._known.get(query_id)
        span = at.range() if isinstance(at.window, TimeWindow) else None
        if span is None:
            return np.empty(0, np.int64)
        low, high = span
        if known is None or known.window != at.window or known.cycle > cycle:
            known = ReadyRows(0, 0, at.window, no_rows())
        if known.cycle < cycle:
            # NOW never steps back, so what was before the window stays out of it.
            kept = known.rows.take(np.flatnonzero((known.rows.times >= low) & (known.rows.positions >= at.floor)))
            new = matches.times(log_reader, at.head, low, FOREVER, first=max(known.head, at.floor))
            known = ReadyRows(cycle, at.head, at.window, TimedPositions.together([kept, new]))
            self._keep(query_id, known)
        positions: Ints = known.rows.positions
        return positions if high >= FOREVER or not len(positions) else positions[known.rows.times <= high]

    def _keep(self, query_id: int, ready: ReadyRows) -> None:
        with self._lock:
            known = self._known.get(query_id)
            if known is None or known.cycle < ready.cycle or known.window != ready.window:
                self._known[query_id] = ready

    def forget(self, query_id: int) -> None:
        with self._lock:
            self._known.pop(query_id, None)

    def clear(self) -> None:
        with self._lock:
            self._known.clear()

    def size(self, query_id: int) -> tuple[int, int]:
        """(rows, bytes) of what is kept for a query."""
        with self._lock:
            known = self._known.get(query_id)
        return (len(known.rows.positions), known.rows.nbytes) if known is not None else (0, 0)
