"""The folder of commit records after a crash in the middle of tidying it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.views.standing_queries import Intervals
from tests.support.pipe import Pipe


@pytest.fixture
def long(pipes: Callable[..., Pipe]) -> Pipe:
    """Thirteen cycles, each with one reading, with snapshots at 5 and 10 and no record pruned yet."""
    pipe = pipes(intervals=Intervals(snapshot_cycles=5), cycles_keep=100)
    pipe.probes()
    pipe.db.execute("CREATE QUERY seen AS SELECT value FROM probes BEGIN (NOW - 1 HOUR) END (NOW)")
    while pipe.db.standing.store.cycle < 13:
        pipe.push(float(pipe.db.standing.store.cycle))
        pipe.engine.cycle()
    return pipe


def record(pipe: Pipe, cycle: int) -> Path:
    return pipe.db.folder.commits / f"{cycle:012d}.arrow"


@pytest.mark.parametrize("removed", [[1, 2, 3], [1, 2, 3, 4, 5, 6, 7], [3, 4]])
def test_a_crash_while_records_are_removed_loses_no_answer(long: Pipe, removed: list[int]) -> None:
    before = long.answer("seen")
    assert len(before) > 8
    for cycle in removed:
        record(long, cycle).unlink()
    long.restart()
    assert long.answer("seen") == before
    long.restart()
    assert long.answer("seen") == before


def test_a_record_that_no_snapshot_covers_retires_the_later_ones_by_name(long: Pipe) -> None:
    before = long.answer("seen")
    record(long, 12).unlink()
    long.restart()
    assert long.answer("seen") == before
    (missing, later) = long.db.damage.rows()
    assert missing.file == f"commits/{record(long, 12).name}" and "missing" in missing.detail
    assert later.file == f"commits/{record(long, 13).name}"
    assert long.db.standing.store.cycle == 15  # 14 resumes after 11
