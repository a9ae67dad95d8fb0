"""Committed cycles are folded by a follower: in order, once, and never in the way of the next commit."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from penstock.cycle.commits import RESULT_SCHEMA, CommitRecord
from penstock.cycle.offset import Offset
from penstock.views.follower import RECORDS_MAX, Follower
from tests.support.pipe import Pipe

WAIT_S = 60.0


def record(cycle: int) -> CommitRecord:
    offset = Offset("folder", now_us=cycle)
    return CommitRecord(cycle, offset, offset, pa.Table.from_pylist([], RESULT_SCHEMA), {})


@pytest.fixture
def pipe(tmp_path: Path) -> Iterator[Pipe]:
    made = Pipe(tmp_path / "data")
    made.probes()
    made.db.execute("CREATE QUERY high AS SELECT value FROM probes WHERE value > 10")
    made.db.execute("CREATE QUERY mean AS SELECT AVG(value) AS value FROM probes")
    made.engine.drain()
    yield made
    made.db.stop()


def test_many_records_are_folded_in_order_and_those_beyond_memory_are_read_again() -> None:
    released, folded, read = threading.Event(), [], []

    def fold(one: CommitRecord) -> None:
        released.wait(WAIT_S)
        folded.append(one.cycle)

    def read_again(cycle: int) -> CommitRecord:
        read.append(cycle)
        return record(cycle)

    follower = Follower(fold, read_again)
    follower.start()
    for cycle in range(1, 31):
        follower.append(record(cycle))
    assert follower.lag == 30 and not folded
    released.set()
    assert follower.wait_folded(WAIT_S)
    follower.stop()
    assert folded == list(range(1, 31)) and follower.lag == 0
    assert read == list(range(RECORDS_MAX + 1, 31))


def test_a_record_that_fails_is_folded_before_the_next_one() -> None:
    folded, failures = [], [RuntimeError("once"), RuntimeError("twice")]

    def fold(one: CommitRecord) -> None:
        if one.cycle == 2 and failures:
            raise failures.pop()
        folded.append(one.cycle)

    follower = Follower(fold, record)
    follower.start()
    for cycle in (1, 2, 3):
        follower.append(record(cycle))
    assert follower.wait_folded(WAIT_S)
    follower.stop()
    assert folded == [1, 2, 3]
    assert follower.services()[0].facts()["failures"] == 2


def test_a_reader_that_holds_the_answers_keeps_no_cycle_from_its_commit(pipe: Pipe) -> None:
    pipe.engine.lag = lambda: 0  # as Spark does, which waits for nothing
    before = pipe.db.standing.store.cycle
    with pipe.db.standing.locked():
        for value in (11.0, 12.0, 13.0):
            pipe.push(value)
            assert pipe.engine.cycle() is not None
        assert pipe.engine.commits.last is not None and pipe.engine.commits.last.cycle >= before + 3
        assert pipe.db.follower.lag >= 3 and pipe.db.standing.store.cycle == before
        assert pipe.db.status()["follower_lag_cycles"] >= 3
    assert pipe.db.follower.wait_folded(WAIT_S)
    assert pipe.answer("high") == [11.0, 12.0, 13.0] and pipe.answer("mean") == [12.0]


def test_a_server_that_is_killed_while_the_follower_lags_answers_from_every_record(pipe: Pipe, tmp_path: Path) -> None:
    pipe.engine.lag = lambda: 0
    pipe.push(11.0)
    pipe.engine.cycle()
    assert pipe.db.follower.wait_folded(WAIT_S)
    with pipe.db.standing.locked():
        for value in (12.0, 13.0):
            pipe.push(value)
            pipe.engine.cycle()
        assert pipe.db.follower.lag >= 2
        shutil.copytree(pipe.folder, tmp_path / "killed")
    (tmp_path / "killed" / "lock").unlink(missing_ok=True)
    again = Pipe(tmp_path / "killed", began_us=pipe.clock.now_us())
    try:
        assert again.answer("high") == [11.0, 12.0, 13.0] and again.answer("mean") == [12.0]
    finally:
        again.db.stop()


def test_a_fold_that_fails_half_way_is_begun_again_from_the_records(pipe: Pipe) -> None:
    """What the callback has appended meanwhile is in the records, too, and is not folded twice."""
    store, broken = pipe.db.standing.store, [True]
    apply = store.apply

    def fail_once(one: CommitRecord) -> None:
        apply(one)
        if broken.pop() if broken else False:
            raise RuntimeError("the memory was full for a moment")

    store.apply = fail_once  # type: ignore[method-assign]
    for value in (11.0, 12.0):
        pipe.push(value)
        pipe.engine.cycle()
    assert pipe.answer("high") == [11.0, 12.0] and pipe.answer("mean") == [11.5]
