"""Which of Spark's checkpoints a data folder accepts as its own: checked before Spark starts, from the files alone."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from penstock.errors import PenstockError
from penstock.pipeline.commits import RESULT_SCHEMA, CommitStore
from penstock.pipeline.engine import check_checkpoint
from penstock.pipeline.folder import DataFolder, FolderLock
from penstock.pipeline.offset import Offset


@pytest.fixture
def folder(tmp_path: Path) -> DataFolder:
    made = DataFolder(tmp_path / "data")
    FolderLock(made).release()
    return made


def offset(folder: DataFolder, cycle: int) -> Offset:
    return Offset(folder.read_id(), {1: 10 * cycle}, cycle, cycle)


def plan(folder: DataFolder, *cycles: int) -> None:
    (folder.checkpoint / "offsets").mkdir(parents=True)
    for batch, cycle in enumerate(cycles):
        text = orjson.dumps(offset(folder, cycle).to_json()).decode()
        (folder.checkpoint / "offsets" / str(batch)).write_text(f"v1\n{{}}\n{text}")


def commit(folder: DataFolder, upto: int) -> None:
    store = CommitStore(folder)
    for cycle in range(1, upto + 1):
        store.write(offset(folder, cycle - 1), offset(folder, cycle), RESULT_SCHEMA.empty_table(), {})


@pytest.mark.parametrize(
    ("planned", "committed"),
    [
        ((), 3),  # deleted
        ((1,), 0),  # died in the first cycle
        ((1, 2, 3), 3),  # at rest, or died after the record
        ((1, 2, 3), 2),  # died in mid-cycle
        ((9,), 8),  # began anew after a deletion
    ],
)
def test_its_own_is_accepted(folder: DataFolder, planned: tuple[int, ...], committed: int) -> None:
    if planned:
        plan(folder, *planned)
    commit(folder, committed)
    check_checkpoint(folder)


@pytest.mark.parametrize(("planned", "committed"), [((1, 2, 3), 5), ((1, 2, 3, 4), 2), ((1, 2), 0)])
def test_one_of_another_time_is_refused(folder: DataFolder, planned: tuple[int, ...], committed: int) -> None:
    plan(folder, *planned)
    commit(folder, committed)
    with pytest.raises(PenstockError) as caught:
        check_checkpoint(folder)
    assert caught.value.condition == "checkpoint_mismatch"
    assert caught.value.hint is not None and "delete the folder" in caught.value.hint


def test_one_of_another_folder_or_without_sense_is_refused(folder: DataFolder) -> None:
    plan(folder, 1, 2)
    commit(folder, 2)
    newest = folder.checkpoint / "offsets" / "1"
    for text in (newest.read_text().replace(folder.read_id(), "0" * 32), "v1\n{}\nnonsense", ""):
        newest.write_text(text)
        with pytest.raises(PenstockError) as caught:
            check_checkpoint(folder)
        assert caught.value.condition == "checkpoint_mismatch"
