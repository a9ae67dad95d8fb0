"""Spark's checkpoint is scratch: whatever became of it, work resumes from the last commit record without manual work."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pytest

from penstock.cycle.commits import RESULT_SCHEMA, CommitRecord, CommitStore
from penstock.cycle.folder import DataFolder, FolderLock
from penstock.cycle.offset import Offset
from penstock.cycle.wakeup import Wakeup
from penstock.errors import PenstockError
from penstock.pipeline.engine import Engine
from penstock.pipeline.source import CycleReader
from penstock.settings import Settings
from tests.pipeline.fake_spark import sessions


class Query:
    """A streaming query of `Spark` below, which lives for ever."""

    def __init__(self) -> None:
        self.isActive = True
        self.status: dict[str, Any] = {}

    def stop(self) -> None:
        pass


class Spark:
    """Stands for a session: notes with what each streaming query starts, and leaves files as Spark does."""

    def __init__(self) -> None:
        self.readStream = self.writeStream = self.sparkContext = self
        self.defaultParallelism = 2
        self.given: dict[str, str] = {}
        self.started: list[dict[str, str]] = []
        self.found: list[list[Path]] = []
        self.commit: list[Callable[[Any, int], None]] = []

    def format(self, _name: str) -> Spark:
        self.given = {}
        return self

    def options(self, **given: str) -> Spark:
        self.given |= given
        return self

    def option(self, name: str, value: str) -> Spark:
        self.given[name] = value
        return self

    def load(self) -> Spark:
        return self

    def setLocalProperty(self, _name: str, _value: str | None) -> None:
        pass

    def queryName(self, _name: str) -> Spark:
        return self

    def foreachBatch(self, commit: Callable[[Any, int], None]) -> Spark:
        self.commit.append(commit)
        return self

    def start(self) -> Query:
        checkpoint = Path(self.given["checkpointLocation"])
        self.found.append(list(checkpoint.rglob("*")))
        self.started.append(self.given)
        plan(checkpoint, "")
        return Query()

    @property
    def checkpoints(self) -> list[Path]:
        return [Path(options["checkpointLocation"]) for options in self.started]


class Frame:
    """What Spark hands to foreachBatch."""

    def __init__(self, start: Offset, end: Offset) -> None:
        self._header = orjson.dumps({"start": start.to_json(), "end": end.to_json(), "tasks": 1})

    def toArrow(self) -> pa.Table:
        rows = [[0], ["cycle"], [0], [0], [self._header]]
        return pa.table([pa.array(c, f.type) for c, f in zip(rows, RESULT_SCHEMA, strict=True)], RESULT_SCHEMA)


@pytest.fixture
def folder(tmp_path: Path) -> DataFolder:
    made = DataFolder(tmp_path / "data")
    FolderLock(made).release()
    return made


def offset(folder: DataFolder, cycle: int) -> Offset:
    return Offset(folder.read_id(), {1: 10 * cycle}, 0, cycle)


def plan(checkpoint: Path, *texts: str) -> None:
    """Files as Spark leaves them: it writes them without syncing, so a power cut leaves any part of each."""
    for part in ("offsets", "commits"):
        (checkpoint / part).mkdir(parents=True, exist_ok=True)
        for batch, text in enumerate(texts):
            (checkpoint / part / str(batch)).write_text(text)
    (checkpoint / "metadata").write_text("")


def commit(folder: DataFolder, upto: int) -> None:
    store = CommitStore(folder)
    for cycle in range(1, upto + 1):
        store.write(offset(folder, cycle - 1), offset(folder, cycle), RESULT_SCHEMA.empty_table(), {})


def opened(folder: DataFolder) -> tuple[Engine, Spark, list[CommitRecord]]:
    FolderLock(folder).release()
    commits: list[CommitRecord] = []
    engine = Engine(folder, Settings(data=str(folder.root)), commits.append, sessions=sessions())
    spark = Spark()
    engine.spark = spark  # type: ignore[assignment]
    return engine, spark, commits


@pytest.mark.parametrize(
    ("planned", "committed"),
    [
        ((), 3),  # lost
        ((1,), 0),  # died in the first cycle
        ((1, 2, 3), 3),  # at rest, or died after the record
        ((1, 2, 3), 2),  # died in mid-cycle
        ((1, 2, 3), 5),  # older than the last record
        ((1, 2, 3, 4), 2),  # newer than the last record
    ],
)
@pytest.mark.parametrize("left", ["whole", "empty", "torn", "foreign"])
def test_whatever_an_older_release_left_there_is_no_manual_step(
    folder: DataFolder, planned: tuple[int, ...], committed: int, left: str
) -> None:
    texts = [f"v1\n{{}}\n{orjson.dumps(offset(folder, cycle).to_json()).decode()}" for cycle in planned]
    change: dict[str, Callable[[str], str]] = {
        "whole": lambda text: text,
        "empty": lambda text: "",
        "torn": lambda text: text[: len(text) // 2],
        "foreign": lambda text: text.replace(folder.read_id(), "0" * 32),
    }
    plan(folder.root / "checkpoint", *map(change[left], texts))
    commit(folder, committed)
    engine, spark, _ = opened(folder)
    engine.start()
    engine.stop()
    assert spark.found == [[]]
    expected = offset(folder, committed) if committed else Offset(folder.read_id())
    assert begins_at(folder, spark.started[0]) == expected.to_json()
    assert not (folder.root / "checkpoint").exists()


def begins_at(folder: DataFolder, options: dict[str, str]) -> dict[str, Any]:
    return CycleReader({**options, "folder": str(folder.root)}).initialOffset()


def test_each_start_of_the_streaming_query_has_an_empty_checkpoint_and_old_ones_are_removed(folder: DataFolder) -> None:
    engine, spark, _ = opened(folder)
    for _ in range(3):
        engine._start_query()
    assert spark.found == [[], [], []]
    assert len(set(spark.checkpoints)) == 3
    assert [path.exists() for path in spark.checkpoints] == [False, False, True]
    FolderLock(folder).release()
    assert not spark.checkpoints[-1].exists()


def test_each_start_of_the_streaming_query_has_a_planner_with_a_fifo_of_its_own(folder: DataFolder) -> None:
    """A planner that was abandoned would take signals of the next one, and a reading would wait."""
    engine, spark, _ = opened(folder)
    found = []
    for _ in range(3):
        engine._start_query()
        path = Path(spark.started[-1]["wakeup"])
        wakeup = Wakeup(path)
        engine.wake()
        found.append((path.parent, path.exists(), wakeup.wait(0.001)))
    assert found == [(folder.tmp, True, True)] * 3
    paths = [Path(options["wakeup"]) for options in spark.started]
    assert len(set(paths)) == 3 and [path.exists() for path in paths] == [False, False, True]
    engine.stop()
    assert not paths[-1].exists()


def test_a_restarted_query_begins_where_the_last_commit_record_ended(folder: DataFolder) -> None:
    commit(folder, 2)
    engine, spark, commits = opened(folder)
    engine._start_query()
    spark.commit[0](Frame(offset(folder, 2), offset(folder, 3)), 0)
    engine._start_query()
    assert [begins_at(folder, options) for options in spark.started] == [
        offset(folder, 2).to_json(),
        offset(folder, 3).to_json(),
    ]
    # Nothing of an uncommitted cycle was visible: it may end elsewhere when it is planned anew.
    spark.commit[1](Frame(offset(folder, 3), offset(folder, 7)), 0)
    assert [(c.cycle, c.end) for c in commits] == [(3, offset(folder, 3)), (4, offset(folder, 7))]


def test_a_record_that_the_server_does_not_know_is_not_where_a_query_begins(folder: DataFolder) -> None:
    """Its folder could not be synced, so the commit failed, yet the file may be there."""
    commit(folder, 2)
    engine, spark, commits = opened(folder)
    CommitStore(folder).write(offset(folder, 2), offset(folder, 3), RESULT_SCHEMA.empty_table(), {})
    engine._start_query()
    assert begins_at(folder, spark.started[0]) == offset(folder, 2).to_json()
    spark.commit[0](Frame(offset(folder, 2), offset(folder, 4)), 0)
    assert [(c.cycle, c.end) for c in commits] == [(3, offset(folder, 4))]
    last = CommitStore(folder).last
    assert last is not None and last.end == offset(folder, 4)


def test_a_cycle_of_a_query_that_was_replaced_is_not_committed(folder: DataFolder) -> None:
    engine, spark, commits = opened(folder)
    engine._start_query()
    engine._start_query()
    late = Frame(Offset(folder.read_id()), offset(folder, 1))
    with pytest.raises(PenstockError) as caught:
        spark.commit[0](late, 0)
    assert caught.value.condition == "stale_cycle"
    assert commits == []
    spark.commit[1](Frame(Offset(folder.read_id()), offset(folder, 2)), 0)
    assert [c.end for c in commits] == [offset(folder, 2)]


def test_half_a_commit_record_is_none(folder: DataFolder) -> None:
    """Records are written aside, synced and renamed: a power cut leaves a torn one only where nothing looks for records."""
    commit(folder, 2)
    whole = (folder.commits / f"{2:012d}.arrow").read_bytes()
    for name in (".aside-1", "000000000003.arrow.part"):
        (folder.commits / name).write_bytes(whole[: len(whole) // 2])
        (folder.tmp / name).write_bytes(whole[: len(whole) // 2])
    engine, _, _ = opened(folder)
    assert engine.commits.last is not None and engine.commits.last.cycle == 2
    assert list(folder.tmp.glob("*.part")) == []
