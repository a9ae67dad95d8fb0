"""When each standing query was last invoked, across restarts. It is saved about once a minute, so a crash loses a minute."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Collection
from pathlib import Path

import orjson

SAVE_EVERY_S = 60.0


class Usage:
    """The time and number of invocations by query. Soft state: a file that cannot be read is started again."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._lock = threading.Lock()
        self._known: dict[int, tuple[int, int]] = {}
        self._changed = False
        self._saved_s = time.monotonic()
        with contextlib.suppress(OSError, ValueError, TypeError, AttributeError):
            self._known = {int(q): (int(at), int(n)) for q, (at, n) in orjson.loads(file.read_bytes()).items()}

    def note(self, query_id: int, at_us: int) -> None:
        with self._lock:
            self._known[query_id] = (at_us, self.invocations(query_id) + 1)
            self._changed = True

    def last_us(self, query_id: int) -> int | None:
        known = self._known.get(query_id)
        return known[0] if known is not None else None

    def invocations(self, query_id: int) -> int:
        known = self._known.get(query_id)
        return known[1] if known is not None else 0

    def save_sometimes(self, queries: Collection[int]) -> None:
        """Write it down if a minute has passed; `queries` are those that there are."""
        if self._changed and time.monotonic() - self._saved_s > SAVE_EVERY_S:
            self.save(queries)

    def save(self, queries: Collection[int]) -> None:
        with self._lock:
            self._known = {q: known for q, known in self._known.items() if q in queries}
            text = orjson.dumps({str(q): known for q, known in self._known.items()})
            self._changed, self._saved_s = False, time.monotonic()
        aside = self._file.with_suffix(".new")
        with contextlib.suppress(OSError):  # a full disk stops ingest, not answers
            aside.write_bytes(text)
            aside.replace(self._file)
