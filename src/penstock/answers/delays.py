"""How long readings waited until they were in answers: of the oldest new one of each cycle, by table, over the last cycles."""

from __future__ import annotations

import threading
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping
from typing import TypeAlias

from penstock.cycle.commits import CommitRecord

CYCLES_KEPT = 20
QUANTILE = 0.95

_ByTable: TypeAlias = defaultdict[int, deque[float]]


class Delays:
    """The follower writes, any thread reads. Soft state: after a restart there are none until readings come."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._each = _no_delays()  # of answers that take part in every cycle
        self._behind = _no_delays()  # of those that may stand behind
        self._waiting: deque[tuple[int, Mapping[int, int]]] = deque()  # cycles that these have not come to

    def note_cycle(self, record: CommitRecord, arrived_us: Mapping[int, int], now_us: int) -> None:
        """A cycle is in the answers. `arrived_us`: by table with new readings, when the oldest of these came."""
        late = record.end.late
        stands_at = record.cycle - (late.behind if late is not None else 0)
        with self._lock:
            _note(self._each, arrived_us, now_us)
            self._waiting.append((record.cycle, arrived_us))
            while self._waiting and self._waiting[0][0] <= stands_at:
                _note(self._behind, self._waiting.popleft()[1], now_us)

    def p95_ms(self, tables: Iterable[int], may_wait: bool) -> float | None:
        """Of a query that reads these tables; None where no reading of them came since the start."""
        with self._lock:
            known = self._behind if may_wait else self._each
            found = [sorted(known[table]) for table in tables if table in known]
        return max((delays[int(QUANTILE * (len(delays) - 1))] for delays in found), default=None)


def _no_delays() -> _ByTable:
    return defaultdict(lambda: deque(maxlen=CYCLES_KEPT))


def _note(delays: _ByTable, arrived_us: Mapping[int, int], now_us: int) -> None:
    for table, at_us in arrived_us.items():
        delays[table].append(max(0, now_us - at_us) / 1000)
