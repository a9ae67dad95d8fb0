"""Sensors that go on reading while retention goes by, and what a rollup keeps of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from penstock.catalog.rollup_records import RollupState
from penstock.operators.aggregate.rollups import files
from tests.support.pipe import Pipe

MINUTE_US = 60_000_000
CLIMATE = (
    "CREATE ROLLUP climate ON probes AS SELECT place, COUNT(*), AVG(value), MAX(value) GROUP BY place"
    " EVERY 1 MINUTE KEEP 1 HOUR, EVERY 1 HOUR KEEP 1 YEAR, EVERY 1 DAY"
)
LAST_DAY = "SELECT place, COUNT(*) AS n, AVG(value) AS mean FROM probes GROUP BY place BEGIN (NOW - 1 DAY) END (NOW)"


def live(pipe: Pipe, minutes: int) -> None:
    """A reading of each sensor every five minutes, 1.0 in the north and 3.0 in the south; now and then retention comes by."""
    for step in range(minutes // 5):
        pipe.clock.advance(5 * MINUTE_US)
        pipe.db.push("probes", [{"id": 1, "value": 1.0}, {"id": 2, "value": 3.0}])
        if step % 3 == 2:
            forget(pipe)


def forget(pipe: Pipe) -> None:
    pipe.engine.drain()
    pipe.db.housekeeper.tend(1)
    pipe.engine.drain()
    pipe.db.housekeeper.tend(1)


def held_by(pipe: Pipe, name: str = "climate") -> RollupState:
    state = pipe.db.catalog.state
    found = state.rolled_up(state.rollups[name].id)
    assert found is not None
    return found


def rows(pipe: Pipe, name: str = "q") -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in pipe.db.invoke(name).table.to_pylist()]


def on_disk(pipe: Pipe) -> set[Path]:
    return set((pipe.folder / files.FOLDER).glob("*/*/*"))
