"""AND and OR of terms that several predicates share, evaluated once per block, innermost first."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from penstock.expr.bits import Words
from penstock.expr.gaps import EMPTY, FULL, MIXED, Bytes, Int32s, Int64s
from penstock.expr.kernel import kernel
from penstock.expr.slot_table import SlotTable


class TermCombinations:
    """Per combination its slot, whether it is an AND, and the slots of its parts."""

    def __init__(self) -> None:
        self._rows: dict[int, int] = {}  # by slot
        self._levels: dict[int, int] = {}
        self._parts = SlotTable()
        self._order: tuple[Int64s, Int32s, npt.NDArray[np.bool_]] | None = None
        self._both: dict[int, bool] = {}

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, slot: int, both: bool, parts: list[int]) -> None:
        self._rows[slot] = self._parts.add(parts)
        self._levels[slot] = 1 + max((self._levels.get(p, 0) for p in parts), default=0)
        self._both[slot] = both
        self._order = None

    def remove(self, slot: int) -> list[int]:
        """Forget a combination; gives its parts."""
        self._order = None
        del self._levels[slot], self._both[slot]
        return self._parts.remove(self._rows.pop(slot))

    def failed(self, failed: set[int]) -> dict[int, int]:
        """Combinations that need what failed, with one such part each."""
        found: dict[int, int] = {}
        for slot in sorted(self._rows, key=self._levels.__getitem__):
            for part in self._parts.parts(self._rows[slot]):
                if part in failed or part in found:
                    found[slot] = part
                    break
        return found

    def fill(self, everything: Words, vectors: Words, states: Bytes) -> None:
        """Write one block of every combination, given its factors."""
        if not self._rows:
            return
        if self._order is None:
            slots = np.array(sorted(self._rows, key=self._levels.__getitem__), np.int32)
            rows = np.array([self._rows[s] for s in slots.tolist()], np.int64)
            self._order = rows, slots, np.array([self._both[s] for s in slots.tolist()], np.bool_)
        _combine(self._order, self._parts.slots, everything, vectors, states)


@kernel
def _combine(
    order: tuple[Int64s, Int32s, npt.NDArray[np.bool_]], parts: Int32s, everything: Words, vectors: Words, states: Bytes
) -> None:
    rows, slots, both = order
    words = vectors.shape[1]
    for i in range(len(rows)):
        slot = slots[i]
        decided = EMPTY if both[i] else FULL
        states[slot] = FULL if both[i] else EMPTY
        out = vectors[slot]
        for k in range(parts.shape[1]):
            part = parts[rows[i], k]
            if part < 0:
                break
            if states[part] == decided:
                states[slot] = decided
                break
            if states[part] != MIXED:
                continue
            vector = vectors[part]
            if states[slot] != MIXED:
                states[slot] = MIXED
                for w in range(words):
                    out[w] = vector[w]
            elif both[i]:
                for w in range(words):
                    out[w] &= vector[w]
            else:
                for w in range(words):
                    out[w] |= vector[w]
        if states[slot] == MIXED:
            some, all_ = np.uint64(0), np.uint64(0)
            for w in range(words):
                some |= out[w]
                all_ |= out[w] ^ everything[w]
            if some == 0:
                states[slot] = EMPTY
            elif all_ == 0:
                states[slot] = FULL
