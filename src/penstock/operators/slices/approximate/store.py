"""The store of an approximate measure: cells that grow wider with age."""

from __future__ import annotations

from penstock.operators.slices.approximate.base import Approximate
from penstock.operators.slices.approximate.coarsening import coarsened
from penstock.operators.slices.base import Partial
from penstock.operators.slices.cells import Cells, CellStore

FEW = 256


class CoarseCellStore(CellStore):
    """Whenever there are twice as many cells as after the last time, old ones are joined: that costs little per cell."""

    def __init__(self, partial: Approximate) -> None:
        super().__init__(partial)
        self._approximate = partial
        self._room = FEW

    def put(self, cells: Cells) -> None:
        super().put(cells)
        if len(self) > self._room:
            self._keep(coarsened(self.view(), self._approximate))
            self._room = 2 * len(self) + FEW


def cell_store(partial: Partial) -> CellStore:
    return CoarseCellStore(partial) if isinstance(partial, Approximate) else CellStore(partial)
