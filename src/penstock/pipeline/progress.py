"""Detects that the pipeline makes no progress: data or definitions wait, and no cycle is committed."""

from __future__ import annotations

import time
from collections.abc import Callable

# A streaming query that has just begun starts processes first.
FIRST_CYCLE_FACTOR = 3


class Progress:
    """Watches one streaming query at a time. It checks for waiting data at most once a second."""

    def __init__(
        self, stall_s: float, is_waiting: Callable[[], bool], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._stall_s = stall_s
        self._is_waiting = is_waiting
        self._clock = clock
        self.fruitless = 0  # stalls in a row whose cause was not found: each gets the next try twice the time
        self.begin(0)

    def begin(self, cycle: int) -> None:
        """A streaming query starts after a committed cycle."""
        self._began, self._cycle, self._since = cycle, cycle, self._clock()
        self._looked = self._since

    @property
    def limit_s(self) -> float:
        factor = FIRST_CYCLE_FACTOR if self._cycle == self._began else 1
        return float(self._stall_s * factor * 2**self.fruitless)

    def is_stalled(self, cycle: int) -> bool:
        """Whether something has waited for a cycle after this one for too long."""
        now = self._clock()
        if cycle != self._cycle:
            self._cycle, self._since, self.fruitless = cycle, now, 0
        elif now - self._looked >= 1.0:
            self._looked = now
            if not self._is_waiting():
                self._since = now
        return now - self._since > self.limit_s
