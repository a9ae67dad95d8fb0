"""What retention takes is in the files of a rollup before it goes, once, whatever fails in between."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest

from penstock.database.database import Database
from penstock.errors import PenstockError
from penstock.operators.aggregate.rollups import files
from penstock.settings import Settings
from tests.support.local_engine import LocalEngine
from tests.support.pipe import Pipe
from tests.support.rolled_up import CLIMATE, LAST_DAY, MINUTE_US, forget, held_by, live, on_disk, rows


def test_a_rollup_that_comes_late_knows_since_when_it_has_everything(pipe: Pipe) -> None:
    pipe.db.execute(f"CREATE QUERY q AS {LAST_DAY}")
    live(pipe, 40)
    pipe.db.execute(CLIMATE)
    since = pipe.clock.now_us() - 10 * MINUTE_US
    live(pipe, 60)
    found = pipe.db.invoke("q")
    assert found.complete_from_us == since and found.notices
    assert min(row["n"] for row in found.table.to_pylist()) >= 14


def test_a_last_tier_that_is_not_kept_for_ever_gives_up_whole_blocks(pipe: Pipe) -> None:
    pipe.db.execute(
        "CREATE ROLLUP short ON probes AS SELECT COUNT(*) EVERY 1 MINUTE KEEP 20 MINUTES, EVERY 5 MINUTES KEEP 1 HOUR"
    )
    pipe.db.execute("CREATE QUERY q AS SELECT COUNT(*) AS n FROM probes BEGIN (NOW - 1 DAY) END (NOW)")
    live(pipe, 240)
    gone = held_by(pipe, "short").gone_us
    assert gone is not None and pipe.clock.now_us() - gone >= 60 * MINUTE_US
    found = pipe.db.invoke("q")
    assert found.complete_from_us == gone
    assert found.table.to_pylist() == [{"n": 2 * ((pipe.clock.now_us() - gone) // (5 * MINUTE_US) + 1)}]


def test_a_rollup_that_cannot_be_written_holds_retention_back_and_says_so(
    pipe: Pipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipe.db.execute(CLIMATE)
    pipe.db.execute(f"CREATE QUERY q AS {LAST_DAY}")

    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as disk:
        disk.setattr("pyarrow.parquet.ParquetWriter", full)
        with pytest.raises(OSError, match="No space"):
            live(pipe, 30)
    assert pipe.db.catalog.state.retention(1) == 0
    (said, *_) = pipe.db.execute("SHOW ROLLUPS").table.column("error").to_pylist()
    assert "disk" in said and not on_disk(pipe)
    told = "\n".join(pipe.db.execute("EXPLAIN climate").table.column("plan").to_pylist())
    assert "retention waits for it: the disk that holds the data folder is full" in told
    forget(pipe)
    assert pipe.db.catalog.state.retention(1) > 0
    assert pipe.db.execute("SHOW ROLLUPS").table.column("error").to_pylist() == [None] * 3


def test_dropping_removes_the_files_once_no_cycle_knows_them(pipe: Pipe) -> None:
    pipe.db.execute(CLIMATE)
    live(pipe, 30)
    assert on_disk(pipe)
    with pytest.raises(PenstockError) as refused:
        pipe.db.execute("DROP TABLE probes")
    assert refused.value.condition == "dependents_exist" and 'rollup "climate"' in str(refused.value)
    pipe.db.execute("DROP ROLLUP climate")
    pipe.db.rollups.sweep(grace_s=0)
    assert on_disk(pipe), "a question may still read them"
    pipe.engine.drain()
    pipe.db.rollups.sweep(grace_s=0)
    assert not list((pipe.folder / files.FOLDER).iterdir())
    pipe.db.execute(CLIMATE)
    assert pipe.db.catalog.state.rollups["climate"].id == 2
    pipe.db.execute("DROP TABLE probes CASCADE")
    assert not pipe.db.catalog.state.rollups


def test_what_a_crash_leaves_is_swept_and_rolled_up_again(pipe: Pipe) -> None:
    pipe.db.execute(CLIMATE)
    pipe.db.execute(f"CREATE QUERY q AS {LAST_DAY}")

    class Killed(BaseException):
        pass

    for step in ("written", "renamed", "folder_synced"):

        def die(at: str, step: str = step) -> None:
            if at == f"rollup:{step}":
                raise Killed

        pipe.crash_point = die
        with pytest.raises(Killed):
            live(pipe, 30)
        pipe.restart()
        assert on_disk(pipe) == set() and held_by(pipe).position == 0
    pipe.crash_point = lambda at: pipe.db.catalog.retain(99, 1) if at == "rollup:closed" else None
    live(pipe, 30)
    count = len(pipe.db.log.heads()) and pipe.db.log.head(1) // 2
    assert rows(pipe) == [("north", count, 1.0), ("south", count, 3.0)]


def test_between_the_closing_and_the_retention_nothing_counts_twice(pipe: Pipe) -> None:
    pipe.db.execute(CLIMATE)
    pipe.db.execute(f"CREATE QUERY q AS {LAST_DAY}")

    def stop(at: str) -> None:
        if at == "rollup:closed":
            raise InterruptedError

    pipe.crash_point = stop
    with pytest.raises(InterruptedError):
        live(pipe, 30)
    pipe.engine.drain()
    assert pipe.db.catalog.state.retention(1) == 0 and held_by(pipe).position > 4
    assert rows(pipe) == [("north", 6, 1.0), ("south", 6, 3.0)]


def test_a_backup_carries_the_rollup(pipe: Pipe, tmp_path: Path) -> None:
    pipe.db.execute(CLIMATE)
    pipe.db.execute(f"CREATE QUERY q AS {LAST_DAY}")
    live(pipe, 90)
    pipe.db.backup(tmp_path / "copy")
    restored = Database(
        Settings(data=str(tmp_path / "copy")),
        pipe.clock,
        engine=lambda folder, settings, taken: LocalEngine(folder, settings, taken, pipe.clock),  # type: ignore[arg-type,return-value]
    )
    restored.start()
    try:
        assert restored.invoke("q").table == pipe.db.invoke("q").table
        assert restored.invoke("q").notices == pipe.db.invoke("q").notices
    finally:
        restored.stop()


def test_a_damaged_file_is_named_and_not_answered_around(pipe: Pipe) -> None:
    pipe.db.execute(CLIMATE)
    pipe.db.execute(f"CREATE QUERY q AS {LAST_DAY}")
    live(pipe, 30)
    path = sorted(on_disk(pipe))[0]
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(PenstockError) as refused:
        pipe.db.invoke("q")
    assert refused.value.condition == "corrupt_segment" and "rollups/1/1m" in str(refused.value)
