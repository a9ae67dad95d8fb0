"""Short lists of slots as rows of one array that a kernel can read, added and removed one at a time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from penstock.expr.gaps import Int32s


class SlotTable:
    """Row n of `slots` holds list n, then -1."""

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
