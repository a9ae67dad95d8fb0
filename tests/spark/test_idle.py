"""When there is nothing to do, nothing is done. Without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.database.database import Database
from penstock.settings import Settings
from tests.spark.asking import make_meters, push
from tests.support.local_engine import LocalEngine


@pytest.fixture
def local(tmp_path: Path) -> Iterator[Database]:
    made = Database(Settings(data=str(tmp_path / "data")), engine=LocalEngine)
    made.start()
    yield made
    made.stop()


def cycle(db: Database) -> object:
    return db.engine.cycle()  # type: ignore[attr-defined]


def test_no_cycle_runs_without_readings_or_definitions(local: Database) -> None:
    make_meters(local)
    local.execute("CREATE QUERY w AS SELECT n FROM meters")
    push(local, (1, 0, 0))
    assert cycle(local) is not None
    assert cycle(local) is None


def test_a_dropped_table_leaves_the_pipeline_at_rest(local: Database, tmp_path: Path) -> None:
    make_meters(local)
    push(local, (1, 0, 0))
    assert cycle(local) is not None
    local.execute("DROP TABLE meters")
    assert cycle(local) is not None
    assert cycle(local) is None, "its files are still there, but nobody waits for their rows"
    make_meters(local)
    push(local, (1, 0, 0))
    assert cycle(local) is not None
    assert cycle(local) is None


def test_files_of_a_table_dropped_in_a_former_life_go(local: Database, tmp_path: Path) -> None:
    make_meters(local)
    push(local, (1, 0, 0))
    number = local.catalog.state.tables["meters"].id
    local.execute("DROP TABLE meters")
    local.stop()
    again = Database(Settings(data=str(tmp_path / "data")), engine=LocalEngine)
    again.start()
    try:
        assert (again.folder.log / str(number)).exists()
        assert cycle(again) is None
        again.log.remove_dropped(after_s=0)
        assert not (again.folder.log / str(number)).exists()
    finally:
        again.stop()
