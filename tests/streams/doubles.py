"""A catalog of one hand: tables and sensors that tests add, with the doors that ingest uses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from penstock.catalog.model import Deduplicate, StreamColumn, Table, TableOptions
from penstock.types import DOUBLE, INT, Field


class RowsDouble:
    """Sensors 0..n-1 with key = sid + 1; a version each, more by `update`."""

    def __init__(self, count: int) -> None:
        self.sids = np.arange(count, dtype=np.int32)
        self._vid = {sid: sid for sid in range(count)}

    def find(self, keys: list[pa.Array], rows: int | None = None) -> np.ndarray[Any, np.dtype[np.int32]]:
        return np.array(
            [self._vid.get(key - 1 if key is not None else -1, -1) for key in keys[0].to_pylist()], np.int32
        )

    def current(self) -> pa.Table:
        return pa.table(
            {
                "_sid": pa.array(list(self._vid), pa.int32()),
                "_vid": pa.array(list(self._vid.values()), pa.int32()),
            }
        )

    def update(self, sid: int) -> None:
        self._vid[sid] = len(self.sids)
        self.sids = np.append(self.sids, np.int32(sid))

    def delete(self, sid: int) -> None:
        del self._vid[sid]


class StateDouble:
    def __init__(self, *tables: Table, sensors: int = 4) -> None:
        self.position = 1
        self.tables = {table.name: table for table in tables}
        self.tables_by_id = {table.id: table for table in tables}
        self._rows = {table.id: RowsDouble(sensors) for table in tables}

    def rows(self, table_id: int) -> RowsDouble:
        return self._rows[table_id]


def make_table(
    time: Any = "valid",
    out_of_order: Any = "refuse",
    retention_us: int | None = None,
    max_ahead_us: int = 60_000_000,
    deduplicate: Deduplicate | None = None,
    fields: tuple[Field, ...] = (Field("ppm", DOUBLE), Field("seq", INT)),
    id: int = 3,
    lateness_us: int | None = None,
) -> Table:
    options = TableOptions(
        time=time,
        out_of_order=out_of_order,
        retention_us=retention_us,
        max_ahead_us=max_ahead_us,
        deduplicate=deduplicate,
        lateness_us=lateness_us,
    )
    return Table(id, "probes", (Field("sensor_id", INT),), ("sensor_id",), StreamColumn("reading", fields), options)
