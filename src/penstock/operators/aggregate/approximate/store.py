"""The store of an approximate measure: cells that grow wider with age."""

from __future__ import annotations

from collections.abc import Callable

from penstock.operators.aggregate.approximate.base import Approximate
from penstock.operators.aggregate.approximate.coarse_cells import coarsened
from penstock.operators.aggregate.approximate.ladder import laddered
from penstock.operators.aggregate.approximate.within import Within
from penstock.operators.aggregate.partials.base import Partial
from penstock.operators.aggregate.partials.cells import Cells, CellStore

FEW = 256


class CoarseCellStore(CellStore):
    """A cell store that merges old cells whenever there are `growth` times as many cells as after the last merge."""

    def __init__(self, partial: Partial, coarsen: Callable[[Cells], Cells], few: int, growth: float) -> None:
        super().__init__(partial)
        self._coarsen, self._few, self._growth = coarsen, few, growth
        self._room = float(few)

    def put(self, cells: Cells) -> None:
        super().put(cells)
        if len(self) > self._room:
            self._keep(self._coarsen(self.view()))
            self._room = self._growth * len(self) + self._few


def cell_store(partial: Partial) -> CellStore:
    if isinstance(partial, Approximate):
        return CoarseCellStore(partial, lambda cells: coarsened(cells, partial), FEW, 2)
    if isinstance(partial, Within):
        # Its fine cells are large, so they are not left waiting.
        return CoarseCellStore(partial, lambda cells: laddered(cells, partial), FEW // 8, 1)
    return CellStore(partial)
