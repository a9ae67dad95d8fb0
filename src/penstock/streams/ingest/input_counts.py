"""What came in by one way, and why some of it was refused: for SHOW INPUTS, /v1/status and /metrics."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable
from typing import Any

_MOST_NAMES = 200  # of members that no table has: senders must not fill our memory with their names


class InputCounts:
    """Counts since the start of the server. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._messages = self._bytes = self._accepted = self._duplicates = 0
        self._refused: Counter[str] = Counter()
        self._ignored: Counter[str] = Counter()
        self._last_problem: str | None = None

    def came(self, messages: int, size: int) -> None:
        with self._lock:
            self._messages += messages
            self._bytes += size

    def stored(self, accepted: int, duplicates: int = 0) -> None:
        with self._lock:
            self._accepted += accepted
            self._duplicates += duplicates

    def wait_for(self, problem: str) -> None:
        """What came cannot be stored yet, and is kept."""
        with self._lock:
            self._last_problem = problem[:500]

    def refuse(self, condition: str, message: str, count: int = 1) -> None:
        with self._lock:
            self._refused[condition] += count
            self._last_problem = message[:500]

    def ignore(self, names: Iterable[str]) -> None:
        """Parts of messages that the table has no place for."""
        with self._lock:
            for name in names:
                known = name in self._ignored or len(self._ignored) < _MOST_NAMES
                self._ignored[name if known else "(others)"] += 1

    @property
    def last_problem(self) -> str | None:
        return self._last_problem

    def ignored_names(self) -> list[str]:
        """The most frequent first."""
        with self._lock:
            return [name for name, _ in self._ignored.most_common()]

    def as_dict(self) -> dict[str, Any]:
        """Flat numbers, and `refused` by condition."""
        with self._lock:
            return {
                "messages": self._messages,
                "bytes": self._bytes,
                "accepted": self._accepted,
                "duplicates": self._duplicates,
                "refused": dict(self._refused),
                "ignored": sum(self._ignored.values()),
            }
