"""Where in the journal each piece of a table's log was written."""

from __future__ import annotations

from typing import Any

import numpy as np

Int64s = np.ndarray[Any, np.dtype[np.int64]]


class HeadHistory:
    """How a table's log head moved from entry to entry: one step for each head that an entry saw first."""

    def __init__(self) -> None:
        # A table is empty when it comes, and was before: every earlier entry saw head 0.
        self._heads = [0]
        self._first = [0]

    def take(self, head: int, position: int) -> None:
        """The entry at `position` saw this head."""
        if head > self._heads[-1]:
            # Heads last: another thread reads them first, and finds a position for each it saw.
            self._first.append(position)
            self._heads.append(head)
        while head < self._heads[-1]:
            # A log that lost its end is written again from there: later entries stand before the new rows.
            self._heads.pop()
            first = self._first.pop()
            if self._heads[-1] < head:
                self._heads.append(head)
                self._first.append(first)

    def steps(self, position: int) -> tuple[Int64s, Int64s]:
        """Heads, ascending, and for each the last entry up to `position` that saw no higher one."""
        heads = np.asarray(self._heads, np.int64)
        first = np.asarray(self._first[1 : len(heads)], np.int64)
        return heads, np.append(first - 1, position)


def journal_of(positions: Int64s, heads: Int64s, entries: Int64s) -> Int64s:
    """The journal position at which each log position was written: the last entry whose head is not beyond it."""
    index = np.searchsorted(heads, positions, side="right")
    found: Int64s = np.concatenate([[0], entries]).astype(np.int64)[index]
    return found
