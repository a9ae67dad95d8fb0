"""The follower: a thread that folds commit records into the answers after the micro-batch callback has returned.

In: records in the order of their cycles, from the callback that wrote them. Out: calls of `fold`, in one thread. A record
is durable before it comes here, so a follower that lags or dies loses nothing: a start folds the records from disk.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

from penstock.cycle.commits import CommitRecord
from penstock.services import Service

LAG_MAX = 50
RECORDS_MAX = 8  # kept in memory; later ones are read from disk again
_IDLE_S = 0.5


class Follower:
    """Folds records one after the other. `append` may be called by one thread at a time."""

    def __init__(self, fold: Callable[[CommitRecord], None], read: Callable[[int], CommitRecord]) -> None:
        self._fold = fold
        self._read = read
        self._waiting: deque[CommitRecord | int] = deque()
        self._changed = threading.Condition()
        self._service = Service("follower", self._step, critical=True)

    def start(self) -> None:
        self._service.start()

    def services(self) -> list[Service]:
        return [self._service]

    def append(self, record: CommitRecord) -> None:
        """A cycle was committed."""
        with self._changed:
            self._waiting.append(record if len(self._waiting) < RECORDS_MAX else record.cycle)
            self._changed.notify_all()

    @property
    def lag(self) -> int:
        """How many committed cycles are not folded yet."""
        return len(self._waiting)

    def wait_folded(self, timeout_s: float) -> bool:
        """Whether all records that were appended are folded, after a while."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._waiting, timeout_s)

    def stop(self) -> None:
        """Fold what waits, for a while, and end."""
        self.wait_folded(10.0 if self._service.is_alive() else 0.0)
        self._service.stop()
        with self._changed:
            self._changed.notify_all()
        self._service.join(10)

    def _step(self) -> float:
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._service.stopping, _IDLE_S)
            if not self._waiting:
                return 0.0
            first = self._waiting[0]
        # A record stays in the queue until it is folded: one that fails is tried again.
        self._fold(self._read(first) if isinstance(first, int) else first)
        with self._changed:
            self._waiting.popleft()
            self._changed.notify_all()
        return 0.0
