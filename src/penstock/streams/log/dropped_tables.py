"""Folders of dropped tables: they go after a while, so that readers that named their files can finish."""

from __future__ import annotations

import shutil
import threading
import time
from pathlib import Path

from penstock.streams.log.layout import ASIDE

DROP_AFTER_S = 60.0


class DroppedFolders:
    """Which tables' folders are to go. Thread-safe."""

    def __init__(self, folder: Path, temporary: Path) -> None:
        self._folder = folder
        self._temporary = temporary
        self._lock = threading.Lock()
        self._since: dict[int, float] = {}

    def add(self, table_id: int) -> None:
        with self._lock:
            self._since[table_id] = time.monotonic()

    def remove(self, after_s: float) -> None:
        """Remove those that were added long enough ago."""
        with self._lock:
            due = [t for t, since in self._since.items() if time.monotonic() - since >= after_s]
        for table_id in due:
            folder = self._folder / str(table_id)
            if folder.is_dir():
                # Renamed first: a listing sees the whole table or none of it.
                self._temporary.mkdir(exist_ok=True)
                aside = self._temporary / f"{ASIDE}dropped-{table_id}"
                folder.rename(aside)
                shutil.rmtree(aside, ignore_errors=True)
            with self._lock:
                self._since.pop(table_id, None)
