"""Acknowledged rows that a disk has lost: named, never mistaken for others, and nothing waits for them for ever."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.errors import PenstockError
from tests.pipeline_pure.world import Pipe


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
    pipe.push(2.0, 40.0)
    pipe.engine.drain()
    assert is_refused(pipe, "high")
    newest.write_bytes(whole)
    assert pipe.answer("high") == [20.0, 30.0, 40.0]


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
