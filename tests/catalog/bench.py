"""A catalog with a log that tests move by hand, and everything in it as plain values to compare."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from penstock.catalog.catalog import Catalog
from penstock.catalog.model import StreamColumn, Table
from penstock.catalog.state import CatalogState
from penstock.damage import DamageReport, damage_of
from penstock.errors import PenstockError
from penstock.types import DOUBLE, INT, TEXT, Field
from tests.support.manual_clock import ManualClock

READING = StreamColumn("reading", (Field("ppm", DOUBLE),))
STATIC = (Field("sensor_id", INT), Field("location", TEXT))


class CatalogBench:
    """One data folder; `heads` is what its log would say."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.heads: dict[int, int] = {}
        self.clock = ManualClock(1_000)
        if not (folder / "folder_id").exists():
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "folder_id").write_text(uuid.uuid4().hex)
        self.open()

    def open(self) -> None:
        self.catalog = Catalog(self.folder, self._still, self.clock)

    def close(self) -> None:
        self.catalog.close()

    def reopen(self) -> None:
        self.close()
        self.open()

    @property
    def state(self) -> CatalogState:
        return self.catalog.state

    @property
    def damage(self) -> DamageReport:
        return damage_of(self.folder)

    @contextmanager
    def _still(self) -> Iterator[dict[int, int]]:
        yield dict(self.heads)

    def make_sensors(self, name: str = "sensors", connector: str | None = None) -> Table:
        stream = StreamColumn("reading", READING.fields, connector=connector)
        return self.catalog.create_table(Table(0, name, STATIC, ("sensor_id",), stream))


def everything(state: CatalogState) -> dict[str, Any]:
    """All that a state says through its doors."""
    return {
        "position": state.position,
        "stream_types": list(state.stream_types.values()),
        "functions": list(state.functions.values()),
        "tables": list(state.tables.values()),
        "tables_by_id": state.tables_by_id,
        "queries": list(state.queries.values()),
        "queries_by_id": state.queries_by_id,
        "query_positions": state.query_positions,
        "next_ids": (state.next_table_id, state.next_query_id, state.next_rollup_id, state.next_sink_id),
        "rollups": [(r, state.rolled_up(r.id)) for r in state.rollups.values()],
        "rows": {t: state.rows(t).versions().to_pylist() for t in state.tables_by_id},
        "live": {t: state.rows(t).current().to_pylist() for t in state.tables_by_id},
        "observed": {t: {s: list(o) for s, o in state.observations(t).items()} for t in state.tables_by_id},
        "ended": {t: sorted(state.ended(t)) for t in state.tables_by_id},
        "retained": {t: state.retention(t) for t in state.tables_by_id},
        "heads": {t: [a.tolist() for a in state.journal_positions(t)] for t in state.tables_by_id},
    }


def refused(condition: str, work: object, *arguments: object, **named: object) -> str:
    with pytest.raises(PenstockError) as caught:
        work(*arguments, **named)  # type: ignore[operator]  # any of the catalog's methods
    assert caught.value.condition == condition
    return caught.value.message
