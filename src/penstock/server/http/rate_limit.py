"""How often one client may ask: a bucket of tokens per client that fills at a steady rate."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable

# Beyond so many the one that has been silent longest is forgotten; by then its bucket is mostly full again.
CLIENTS_MAX = 10_000


class RateLimits:
    """Buckets of `burst` tokens that fill with `per_s`; 0 lets everything pass. Used by the event loop only."""

    def __init__(self, per_s: float, burst: float, now: Callable[[], float] = time.monotonic) -> None:
        self._per_s = per_s
        self._burst = max(burst, 1.0)
        self._now = now
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, client: str) -> float:
        """0 if the client may go on now, else how many seconds it should wait."""
        if self._per_s <= 0:
            return 0.0
        now = self._now()
        left, at = self._buckets.pop(client, (self._burst, now))
        left = min(self._burst, left + (now - at) * self._per_s)
        passes = left >= 1.0
        self._buckets[client] = (left - 1.0 if passes else left, now)
        if len(self._buckets) > CLIENTS_MAX:
            self._buckets.popitem(last=False)
        return 0.0 if passes else (1.0 - left) / self._per_s
