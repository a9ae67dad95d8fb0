"""What the newest answers with RESAMPLE were made of, so that the next cycle's need not read all of their windows."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Container
from dataclasses import dataclass

from penstock.queries.resampled.finding import Found, Sampled
from penstock.sql.plan import SparkPlan

MOST_BYTES = 64 << 20
PER_QUERY = 3  # subscribers are seldom in step


@dataclass(frozen=True, slots=True)
class Kept:
    """One answer of a query, as of a cycle."""

    plan: SparkPlan
    cycle: int
    sampled: Sampled
    found: Found

    @property
    def nbytes(self) -> int:
        return self.sampled.nbytes + int(self.found.table.nbytes)


class KeptSamples:
    """Soft: whatever is missing is found again. Any thread may ask."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[int, int], Kept] = OrderedDict()  # those used last at the end

    def before(self, query_id: int, plan: SparkPlan, cycle: int) -> Kept | None:
        """The newest answer up to a cycle."""
        with self._lock:
            known = [key for key, k in self._kept.items() if key[0] == query_id and key[1] <= cycle and k.plan == plan]
            if not known:
                return None
            self._kept.move_to_end(max(known))
            return self._kept[max(known)]

    def keep(self, query_id: int, kept: Kept) -> None:
        with self._lock:
            self._kept[(query_id, kept.cycle)] = kept
            own = sorted(key for key in self._kept if key[0] == query_id)
            for key in own[:-PER_QUERY]:
                del self._kept[key]
            while self._kept and sum(k.nbytes for k in self._kept.values()) > MOST_BYTES:
                self._kept.popitem(last=False)

    def tidy(self, queries: Container[int]) -> None:
        """Forget queries that are gone."""
        with self._lock:
            for key in [key for key in self._kept if key[0] not in queries]:
                del self._kept[key]

    def clear(self) -> None:
        with self._lock:
            self._kept.clear()

    def memory_of(self, query_id: int) -> int:
        with self._lock:
            return sum(kept.nbytes for key, kept in self._kept.items() if key[0] == query_id)
