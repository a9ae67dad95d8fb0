"""Terms by slot, the number of a term's vector: lists of slots, combinations of terms, and a block's vectors."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from penstock.expr.bits import Words
from penstock.expr.kernel import kernel
from penstock.expr.vector_kernels import EMPTY, FULL, MIXED, Bytes, Int32s, Int64s, state_of


@dataclass(frozen=True, slots=True)
class Block:
    """One block's vectors by slot; only vectors with the state MIXED are written. It begins at `word` of the batch."""

    word: int
    everything: Words
    vectors: Words
    states: Bytes

    def words(self, slot: int) -> Words:
        """A vector as it stands, or would stand if it were written: to be read only."""
        state = self.states[slot]
        found: Words = self.vectors[slot] if state == MIXED else self.everything
        return np.zeros_like(found) if state == EMPTY else found

    def write(self, slot: int, vector: Words) -> None:
        self.vectors[slot] = vector
        self.states[slot] = state_of(vector, self.everything)


@dataclass(frozen=True, slots=True)
class Masks:
    """Masks of answers: answer i is limited to the rows that are set in rows[numbers[i]], unless numbers[i] is -1."""

    numbers: Int32s
    rows: Words

    @classmethod
    def none(cls, answers: int) -> Masks:
        return cls(np.full(answers, -1, np.int32), np.zeros((0, 0), np.uint64))


class SlotTable:
    """Short lists of slots as rows of an array that a kernel can read: row n of `slots` holds list n, then -1."""

    def __init__(self) -> None:
        self.slots: Int32s = np.full((16, 4), -1, np.int32)
        self._free: list[int] = []
        self._count = 0

    def add(self, slots: Sequence[int]) -> int:
        """The number of a new row."""
        if self._free:
            row = self._free.pop()
        else:
            row, self._count = self._count, self._count + 1
        height, width = self.slots.shape
        if row >= height or len(slots) > width:
            grown = np.full((max(height, 2 * row), max(width, len(slots))), -1, np.int32)
            grown[:height, :width] = self.slots
            self.slots = grown
        self.slots[row, : len(slots)] = slots
        return row

    def remove(self, row: int) -> list[int]:
        """Forget a row; gives what it held."""
        found = self.parts(row)
        self.slots[row] = -1
        self._free.append(row)
        return found

    def parts(self, row: int) -> list[int]:
        return [slot for slot in self.slots[row].tolist() if slot >= 0]


CombinationOrder: TypeAlias = tuple[Int64s, Int32s, npt.NDArray[np.bool_]]


class TermCombinations:
    """AND and OR of terms that several predicates share, evaluated once per block, innermost first.

    Per combination it has its slot, whether it is an AND, and the slots of its parts.
    """

    def __init__(self) -> None:
        self._rows: dict[int, int] = {}  # by slot
        self._levels: dict[int, int] = {}
        self._parts = SlotTable()
        self._order: CombinationOrder | None = None
        self._both: dict[int, bool] = {}

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

    def __contains__(self, slot: int) -> bool:
        return slot in self._rows

    def is_both(self, slot: int) -> bool:
        return self._both[slot]

    def parts(self, slot: int) -> list[int]:
        return self._parts.parts(self._rows[slot])

    def failed(self, failed: set[int]) -> dict[int, int]:
        """Combinations that need what failed, with one such part each."""
        found: dict[int, int] = {}
        for slot in sorted(self._rows, key=self._levels.__getitem__):
            for part in self._parts.parts(self._rows[slot]):
                if part in failed or part in found:
                    found[slot] = part
                    break
        return found

    def fill(self, block: Block, order: CombinationOrder | None = None) -> None:
        """Write one block of every combination, or of some, given their parts."""
        if not self._rows:
            return
        if self._order is None:
            self._order = self.in_order(self._rows)
        _combine(order or self._order, self._parts.slots, block.everything, block.vectors, block.states)

    def in_order(self, some: Iterable[int]) -> CombinationOrder:
        """Combinations as a kernel reads them, innermost first."""
        slots = np.array(sorted(some, key=self._levels.__getitem__), np.int32)
        rows = np.array([self._rows[s] for s in slots.tolist()], np.int64)
        return rows, slots, np.array([self._both[s] for s in slots.tolist()], np.bool_)


@kernel
def _combine(order: CombinationOrder, parts: Int32s, everything: Words, vectors: Words, states: Bytes) -> None:
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
            states[slot] = state_of(out, everything)
