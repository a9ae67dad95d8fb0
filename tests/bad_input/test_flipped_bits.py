"""One bit of a file flips while the server is down: its table says so by name, and other tables go on.

Without Spark: the same log, planner, tasks and commits. Files that are cut or gone: tests/kill/test_damage.py.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.database.database import Database
from penstock.errors import PenstockError
from penstock.settings import Settings
from tests.support.local_engine import LocalEngine

TABLES = ("meters", "probes")


def opened(folder: Path, form: str) -> Database:
    # The housekeeper must not replace the Arrow files whose damage is to be seen.
    merge_after = 2 if form == "parquet" else 1_000
    db = Database(Settings(data=str(folder), compact_after_segments=merge_after), engine=LocalEngine)
    db.start()
    return db


def push(db: Database, first: int) -> None:
    for table in TABLES:
        assert db.push(table, [{"id": 1, "n": first + i} for i in range(50)]).accepted == 50


def numbers(db: Database, table: str) -> list[int]:
    return sorted(db.invoke(f"all_{table}").table.column("n").to_pylist())


@pytest.mark.parametrize("form", ["arrow", "parquet"])
def test_a_flipped_bit_is_named_and_harms_its_own_table_only(tmp_path: Path, form: str) -> None:
    db = opened(tmp_path / "data", form)
    for table in TABLES:
        db.execute(f"CREATE TABLE {table} (id INT PRIMARY KEY, r STREAM (n INT)); INSERT INTO {table} VALUES (1, NULL)")
        db.execute(f"CREATE QUERY all_{table} AS SELECT n FROM {table} BEGIN (LAST 100000 ROWS)")
    for first in (0, 50, 100):
        push(db, first)
    table_id = db.catalog.state.tables["meters"].id
    if form == "parquet":
        db.housekeeper.tend(table_id)
    db.engine.drain()  # type: ignore[attr-defined]
    assert numbers(db, "meters") == numbers(db, "probes") == list(range(150))
    db.stop()

    victim = max((tmp_path / "data" / "log" / str(table_id)).glob(f"*.{form}"), key=lambda path: path.stat().st_size)
    whole = victim.read_bytes()
    damaged = bytearray(whole)
    number = int(victim.name[:16]) + 7  # readings count from their positions, so this one is in the file
    damaged[whole.index(number.to_bytes(4, "little") + (number + 1).to_bytes(4, "little"))] ^= 16
    victim.write_bytes(damaged)

    db = opened(tmp_path / "data", form)
    try:
        push(db, 150)
        db.engine.drain()  # type: ignore[attr-defined]
        with pytest.raises(PenstockError) as caught:
            db.invoke("all_meters")
        assert caught.value.condition == "corrupt_segment" and victim.name in caught.value.message
        assert numbers(db, "probes") == list(range(200))
        victim.write_bytes(whole)
        assert numbers(db, "meters") == list(range(200)), "put back, it is history like any other"
    finally:
        db.stop()
