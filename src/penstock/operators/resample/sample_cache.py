"""A cache of the samples of the newest answers with RESAMPLE, so that the next cycle need not read whole windows."""

from __future__ import annotations

import threading
from collections.abc import Container, Iterable
from dataclasses import dataclass, field

from penstock.cache import Cache
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
        self._kept: Cache[int, tuple[CachedSamples, ...]] = Cache(most_bytes=MOST_BYTES)  # by query

    def before(self, query_id: int, plan: SparkPlan, cycle: int) -> CachedSamples | None:
        """The newest answer up to a cycle."""
        with self._lock:
            known = [kept for kept in self._of(query_id) if kept.cycle <= cycle and kept.plan == plan]
        return max(known, key=lambda kept: kept.cycle, default=None)

    def keep(self, query_id: int, kept: CachedSamples) -> None:
        """Cache the samples of an answer, and drop the least recently used ones over the limit; too large ones are left out.

        Where room is short, a query keeps only its newest: without it a query reads its whole window again.
        """
        if kept.nbytes > MOST_BYTES:
            return
        with self._lock:
            others = [known for known in self._of(query_id) if known.cycle != kept.cycle]
            newest = sorted((*others, kept), key=lambda known: known.cycle)[-PER_QUERY:]
            self._kept.remove(query_id)
            while len(newest) > 1 and self._kept.nbytes + _nbytes(newest) > MOST_BYTES:
                del newest[0]
            self._kept.put(query_id, tuple(newest), _nbytes(newest))

    def tidy(self, queries: Container[int]) -> None:
        """Forget queries that are gone."""
        with self._lock:
            for query_id in [query_id for query_id, _ in self._kept.items() if query_id not in queries]:
                self._kept.remove(query_id)

    def forget(self, query_id: int) -> None:
        with self._lock:
            self._kept.remove(query_id)

    def clear(self) -> None:
        with self._lock:
            self._kept.clear()

    def memory_of(self, query_id: int) -> int:
        with self._lock:
            return _nbytes(self._of(query_id))

    def _of(self, query_id: int) -> tuple[CachedSamples, ...]:
        return self._kept.get(query_id) or ()


def _nbytes(kept: Iterable[CachedSamples]) -> int:
    return sum(each.nbytes for each in kept)
