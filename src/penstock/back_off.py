"""How long to wait before the next attempt after failures in a row: the only place that doubles a pause."""

from __future__ import annotations

import random
from dataclasses import dataclass

_DOUBLINGS_MAX = 60  # more of them would overflow a float before `most_s` limits them


@dataclass(frozen=True, slots=True)
class BackOff:
    """`least_s` after the first failure, twice as long after each further one, never longer than `most_s`."""

    least_s: float
    most_s: float

    def pause_s(self, failures: int) -> float:
        """The pause after so many failures in a row, counted from 1."""
        return min(self.most_s, self.least_s * 2.0 ** min(max(failures - 1, 0), _DOUBLINGS_MAX))

    def spread_s(self, failures: int) -> float:
        """The same or down to half of it, by chance: what failed in one moment does not come back in one moment."""
        return self.pause_s(failures) * random.uniform(0.5, 1.0)
