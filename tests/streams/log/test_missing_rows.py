"""Acknowledged rows that a disk has lost: named, never mistaken for others, and nothing waits for them for ever."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.clock import SECOND
from penstock.errors import PenstockError
from penstock.streams.log.segments import list_whole
from tests.support.pipe import Pipe


def files(pipe: Pipe) -> list[Path]:
    return sorted((pipe.folder / "log" / str(pipe.db.catalog.state.tables["probes"].id)).iterdir())


def is_refused(pipe: Pipe, name: str) -> bool:
    try:
        pipe.answer(name)
    except PenstockError as problem:
        assert problem.condition == "corrupt_segment"
        return True
    return False


@pytest.mark.parametrize("how", ["damaged", "gone"])
def test_new_rows_do_not_take_the_places_of_lost_ones_that_a_cycle_has_seen(pipe: Pipe, how: str) -> None:
    pipe.probes()
    pipe.db.execute("CREATE QUERY high AS SELECT value FROM probes WHERE value > 10 BEGIN (NOW - 1 HOUR) END (NOW)")
    pipe.push(20.0)
    pipe.push(30.0, 1.0)
    pipe.engine.drain()
    assert pipe.answer("high") == [20.0, 30.0]
    newest = files(pipe)[-1]
    pipe.db.stop()
    whole = newest.read_bytes()
    if how == "damaged":
        newest.write_bytes(b"no")
    else:
        newest.unlink()
    pipe.open()
    assert is_refused(pipe, "high")
    pipe.push(2.0, 40.0)
    pipe.engine.drain()
    assert is_refused(pipe, "high")
    newest.write_bytes(whole)
    assert pipe.answer("high") == [20.0, 30.0, 40.0]


WINDOWS = ["BEGIN (NOW - 1 HOUR) END (NOW)", "BEGIN (LAST 10 ROWS)", "BEGIN (LAST 10 ROWS PER SENSOR)"]


@pytest.mark.parametrize("window", WINDOWS)
def test_the_oldest_file_is_missed_by_old_queries_and_by_new_ones(pipe: Pipe, window: str) -> None:
    pipe.probes()
    pipe.db.execute(f"CREATE QUERY old AS SELECT value FROM probes WHERE value > 10 {window}")
    for value in (20.0, 30.0, 1.0):
        pipe.push(value)
    pipe.engine.drain()
    oldest = files(pipe)[0]
    whole = oldest.read_bytes()
    oldest.unlink()
    pipe.db.execute(f"CREATE QUERY new AS SELECT value FROM probes WHERE value > 10 {window}")
    for _ in range(45):  # what no window reaches is forgotten every 20 cycles
        pipe.push(2.0)
        pipe.engine.drain()
    assert is_refused(pipe, "old") and is_refused(pipe, "new")
    with pytest.raises(PenstockError, match="0000000000000000-"):
        list_whole(pipe.folder / "log", 1, 0, 3)
    oldest.write_bytes(whole)
    pipe.db.execute("ALTER QUERY new PAUSE; ALTER QUERY new RESUME")
    pipe.engine.drain()
    if "HOUR" in window:
        assert pipe.answer("old") == pipe.answer("new") == [20.0, 30.0]
    else:
        assert pipe.answer("old") == pipe.answer("new") == []


def test_what_retention_took_is_not_missed(pipe: Pipe) -> None:
    pipe.probes("WITH (retention = '1 MINUTE')")
    pipe.db.execute("CREATE QUERY old AS SELECT value FROM probes BEGIN (NOW - 1 HOUR) END (NOW)")
    pipe.push(20.0)
    pipe.engine.drain()
    with pipe.db.standing.locked() as store:
        before = store.state.retention(1)
    pipe.clock.advance(120 * SECOND)
    pipe.push(30.0)
    pipe.engine.drain()
    pipe.db.housekeeper.tend(1)
    pipe.engine.drain()
    pipe.db.housekeeper.tend(1)
    assert [f.name[:16] for f in files(pipe)] == ["0000000000000001"]
    assert pipe.answer("old") == [30.0]
    assert len(list_whole(pipe.folder / "log", 1, before, 2)) == 1, "also by somebody who looked before it did"


def test_definitions_do_not_wait_for_lost_rows(pipe: Pipe) -> None:
    pipe.probes()
    pipe.push(20.0)
    pipe.engine.drain()
    pipe.push(30.0)
    pipe.db.execute("CREATE TABLE rooms (id INT PRIMARY KEY)")
    newest = files(pipe)[-1]
    pipe.db.stop()
    newest.write_bytes(b"no")
    pipe.open()
    pipe.engine.drain()
    assert pipe.db.standing.store.state.position == pipe.db.catalog.state.position
