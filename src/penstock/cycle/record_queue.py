"""Rows that wait for the next commit record: results that were found outside the cycle."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from penstock.cycle.commit_files import ResultRow
from penstock.cycle.folder import DataFolder


class RecordQueue:
    """At most one row per query, the newest. Any thread. A row stays until a record that holds it is on disk.

    While a row waits, a file in `tmp` makes the planner plan a cycle even if no data came.
    """

    def __init__(self, folder: DataFolder) -> None:
        self._hint = _hint(folder)
        self._hint.unlink(missing_ok=True)
        self._waiting: dict[int, ResultRow] = {}
        self._lock = threading.Lock()
        self.on_put: Callable[[], None] = lambda: None  # where no planner process reads the file

    def put(self, row: ResultRow) -> None:
        with self._lock:
            self._waiting[row[0]] = row
            self._hint.touch()
        self.on_put()

    def waiting(self) -> list[ResultRow]:
        with self._lock:
            return list(self._waiting.values())

    def written(self, rows: list[ResultRow]) -> None:
        """A record that holds these rows is on disk."""
        with self._lock:
            for row in rows:
                if self._waiting.get(row[0]) is row:
                    del self._waiting[row[0]]
            if not self._waiting:
                self._hint.unlink(missing_ok=True)


def wants_cycle(folder: DataFolder) -> bool:
    """Whether a cycle is to be planned for waiting rows alone; for the planner, which may be another process."""
    return _hint(folder).exists()


def _hint(folder: DataFolder) -> Path:
    return folder.tmp / "rows_wait"
