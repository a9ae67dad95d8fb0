"""What the server keeps of queries with window functions: the columns of the rows that their last answers looked at."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.cache import Cache
from penstock.cycle.folder import DataFolder
from penstock.operators.base.answer import Ids
from penstock.operators.base.state import OperatorState
from penstock.sql.plan import Plan

MOST_BYTES = 256 << 20
"""Of all queries together; of one query at most a quarter."""
Columns = Mapping[str, pa.Array]


@dataclass(frozen=True, slots=True)
class RowColumns:
    """Columns of readings by log position, ascending. A reading never changes."""

    positions: Ids
    columns: Columns

    @property
    def nbytes(self) -> int:
        return self.positions.nbytes + sum(int(column.nbytes) for column in self.columns.values())

    def of(self, positions: Ids, read: Callable[[Ids], Columns]) -> Columns:
        """The columns of some positions, ascending: those of others are read."""
        at = np.minimum(np.searchsorted(self.positions, positions), max(0, len(self.positions) - 1))
        known = self.positions[at] == positions if len(self.positions) else np.zeros(len(positions), np.bool_)
        if not known.any():
            return read(positions)
        fresh = read(positions[~known]) if not known.all() else {}
        count = int(known.sum())
        places = np.empty(len(positions), np.int64)
        places[known], places[~known] = np.arange(count), np.arange(count, len(positions))
        taken, found = pa.array(at[known]), {}
        for name, column in self.columns.items():
            parts = [column.take(taken), fresh[name]] if fresh else [column.take(taken)]
            whole = pa.concat_arrays(parts)
            if len(whole) < len(positions):
                return {name: whole}  # retention has taken some
            found[name] = whole.take(pa.array(places))
        return found


NOTHING = RowColumns(np.empty(0, np.int64), {})


class WindowFunctionsState(OperatorState):
    """The rows of last answers, soft: what is missing is read from the log."""

    def __init__(self, folder: DataFolder) -> None:
        self._rows: Cache[int, RowColumns] = Cache(most_bytes=MOST_BYTES)

    def define(self, query_id: int, plan: Plan, position: int) -> None:
        self.drop(query_id)

    def drop(self, query_id: int) -> None:
        self._rows.remove(query_id)

    def rows(self, query_id: int) -> RowColumns:
        return self._rows.get(query_id) or NOTHING

    def keep(self, query_id: int, rows: RowColumns) -> None:
        """Keep the rows of an answer, in place of those of the answer before."""
        if rows.nbytes <= MOST_BYTES // 4:
            self._rows.put(query_id, rows, rows.nbytes)

    def nbytes(self, query_id: int) -> int:
        return dict(self._rows.items()).get(query_id, NOTHING).nbytes


STATE = WindowFunctionsState
