"""What became of a table's readings since the start of the server."""

from __future__ import annotations

import threading
from collections import Counter
from typing import Any

import numpy as np

from penstock.streams.ingest.receipt import ReadingRefusal
from penstock.streams.ingest.rules import ACCEPTED, CLAMPED, DUPLICATE, LATE, UNORDERED
from penstock.streams.ingest.sensor_order import Verdict


class ReadingCounters:
    """Counts of pushes that were answered. `failed` counts good readings that could not be written."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._refused: Counter[str] = Counter()
        self._accepted = self._late = self._clamped = self._unordered = self._deduplicated = self._failed = 0
        self._discovered = 0

    def add(self, verdict: Verdict, refused: tuple[ReadingRefusal, ...]) -> None:
        accepted = int((verdict.code == ACCEPTED).sum())
        marks = np.bincount(verdict.marks, minlength=8)
        duplicates = int((verdict.code == DUPLICATE).sum()) if len(verdict.keys) else 0
        reasons = Counter(refusal.condition for refusal in refused)
        reasons.pop("duplicate_reading", None)
        with self._lock:
            self._accepted += accepted
            self._late += int(marks[[m for m in range(8) if m & LATE]].sum())
            self._clamped += int(marks[[m for m in range(8) if m & CLAMPED]].sum())
            self._unordered += int(marks[[m for m in range(8) if m & UNORDERED]].sum())
            self._deduplicated += duplicates
            self._refused += reasons

    def fail(self, rows: int) -> None:
        with self._lock:
            self._failed += rows

    def discover(self, sensors: int) -> None:
        if sensors:
            with self._lock:
                self._discovered += sensors

    def as_dict(self) -> dict[str, Any]:
        """Flat numbers, and `refused` by condition."""
        with self._lock:
            return {
                "accepted": self._accepted,
                "refused": dict(self._refused),
                "late": self._late,
                "clamped": self._clamped,
                "unordered": self._unordered,
                "deduplicated": self._deduplicated,
                "failed": self._failed,
                "discovered": self._discovered,
            }
