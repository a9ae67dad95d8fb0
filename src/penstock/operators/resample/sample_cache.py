"""A cache of the samples of the newest answers with RESAMPLE, so that the next cycle need not read whole windows."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Container
from dataclasses import dataclass, field

from penstock.operators.resample.samples import ResampledRows, SampleAnswer
from penstock.sql.plan import SparkPlan

MOST_BYTES = 64 << 20
PER_QUERY = 3  # subscribers are seldom in step


@dataclass(frozen=True, slots=True)
class CachedSamples:
    """One answer of a query, as of a cycle."""

    plan: SparkPlan
    cycle: int
    sampled: ResampledRows
    found: SampleAnswer
    nbytes: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "nbytes", self.sampled.nbytes + int(self.found.table.nbytes))


class SampleCache:
    """The cached samples of all queries. Soft state: missing samples are computed again. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[int, tuple[CachedSamples, ...]] = (
            OrderedDict()
        )  # by query; the last used one at the end
        self._bytes = 0

    def before(self, query_id: int, plan: SparkPlan, cycle: int) -> CachedSamples | None:
        """The newest answer up to a cycle."""
        with self._lock:
            known = [kept for kept in self._kept.get(query_id, ()) if kept.cycle <= cycle and kept.plan == plan]
        return max(known, key=lambda kept: kept.cycle, default=None)

    def keep(self, query_id: int, kept: CachedSamples) -> None:
        """Cache the samples of an answer, and drop the least recently used ones over the limit; too large ones are left out."""
        if kept.nbytes > MOST_BYTES:
            return
        with self._lock:
            others = [known for known in self._forget(query_id) if known.cycle != kept.cycle]
            newest = sorted((*others, kept), key=lambda known: known.cycle)[-PER_QUERY:]
            self._kept[query_id] = tuple(newest)
            self._bytes += sum(known.nbytes for known in newest)
            self._make_room()

    def tidy(self, queries: Container[int]) -> None:
        """Forget queries that are gone."""
        with self._lock:
            for query_id in [query_id for query_id in self._kept if query_id not in queries]:
                self._forget(query_id)

    def forget(self, query_id: int) -> None:
        with self._lock:
            self._forget(query_id)

    def clear(self) -> None:
        with self._lock:
            self._kept.clear()
            self._bytes = 0

    def memory_of(self, query_id: int) -> int:
        with self._lock:
            return sum(kept.nbytes for kept in self._kept.get(query_id, ()))

    def _make_room(self) -> None:
        """Older answers go first: without its newest a query reads its whole window again."""
        for query_id, (*older, newest) in list(self._kept.items()):
            if self._bytes <= MOST_BYTES:
                return
            self._kept[query_id] = (newest,)
            self._bytes -= sum(kept.nbytes for kept in older)
        while self._bytes > MOST_BYTES:
            self._forget(next(iter(self._kept)))

    def _forget(self, query_id: int) -> tuple[CachedSamples, ...]:
        known = self._kept.pop(query_id, ())
        self._bytes -= sum(kept.nbytes for kept in known)
        return known
