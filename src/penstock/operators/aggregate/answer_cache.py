"""A cache of approximate answers: all clients get the same answer about the same cycle."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from penstock.cache import Cache

Key = tuple[int, int, str, int | None]
MOST = 1000
_MOST_BYTES = 16 << 20


@dataclass(slots=True)
class WithinStats:
    """How WITHIN n PERCENT was kept: the number of answers, how many of them read the log, and the doubt of the newest."""

    answers: int = 0
    read: int = 0
    doubt: float = 0.0


class AnswerCache:
    """The newest answers by query, cycle, window and NOW. Called under the store's lock."""

    def __init__(self) -> None:
        self.kept: dict[int, WithinStats] = {}
        self._answers: Cache[Key, pa.Table] = Cache(most=MOST, most_bytes=_MOST_BYTES)

    def get(self, key: Key) -> pa.Table | None:
        return self._answers.get(key)

    def keep(self, key: Key, answer: pa.Table) -> pa.Table:
        """The answer that counts: the first one."""
        known = self._answers.get(key)
        if known is not None:
            return known
        self._answers.put(key, answer, answer.nbytes)
        return answer
