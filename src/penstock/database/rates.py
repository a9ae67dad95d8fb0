"""Readings per second, by table and by sensor: the counts now against those of about a minute ago."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock.catalog.model import Table
from penstock.errors import PenstockError
from penstock.streams.ingest.ingest import Ingest

MARK_EVERY_S = 15.0
_MARKS = 4
Counts = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True, slots=True)
class _Mark:
    """Readings stored up to a moment: of a table, and of each of its sensors by sid."""

    at_s: float
    total: int
    by_sid: Counts


class Rates:
    """Rates between counts: `mark` is called every 15 seconds, and rates are computed on request."""

    def __init__(self, ingest: Ingest, now_s: Callable[[], float] = time.monotonic) -> None:
        self._ingest = ingest
        self._now_s = now_s
        self._marks: dict[int, deque[_Mark]] = {}
        self._marked_s = now_s()

    def mark(self, tables: Sequence[Table]) -> None:
        at_s = self._now_s()
        marks: dict[int, deque[_Mark]] = {}
        for table in tables:
            kept = self._marks.get(table.id) or deque([self._nothing()], maxlen=_MARKS)
            try:
                kept.append(self._mark_of(table, at_s, kept[-1]))
            except PenstockError:
                continue  # dropped a moment ago
            marks[table.id] = kept
        self._marks, self._marked_s = marks, at_s

    def _mark_of(self, table: Table, at_s: float, last: _Mark) -> _Mark:
        total = self._ingest.counters(table.name)["accepted"]
        # A copy: ingest returns a view of an array five times as large.
        by_sid = last.by_sid if total == last.total else self._ingest.sensors(table.name)["accepted"].copy()
        return _Mark(at_s, total, by_sid)

    def _nothing(self) -> _Mark:
        """Before the last mark a table that it does not have had no readings."""
        return _Mark(self._marked_s, 0, np.empty(0, np.int64))

    def of(self, table: Table) -> float:
        """Readings of a table per second."""
        kept = self._marks.get(table.id)
        before = kept[0] if kept else self._nothing()
        total = self._ingest.counters(table.name)["accepted"]
        return _per_second(total - before.total, self._now_s() - before.at_s)

    def by_sid(self, table: Table, accepted: Counts) -> np.ndarray[Any, np.dtype[np.float64]]:
        """The same of each sensor, given the counts as they are now."""
        kept = self._marks.get(table.id)
        before = kept[0] if kept else self._nothing()
        was = np.zeros(len(accepted), np.int64)
        was[: len(before.by_sid)] = before.by_sid[: len(was)]
        return np.round((accepted - was) / max(self._now_s() - before.at_s, 1.0), 3)


def _per_second(count: int, seconds: float) -> float:
    """A count per second; a time below one second counts as one second, since a rate over less is meaningless."""
    return round(count / max(seconds, 1.0), 3)
