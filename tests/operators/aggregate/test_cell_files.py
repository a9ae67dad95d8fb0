"""Files of cells: written once at a snapshot, mapped after a restart, soft, and gone with the query that needs them."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from penstock.clock import SECOND
from penstock.cycle.commit_files import CommitRecord
from penstock.cycle.commits import CommitStore
from penstock.errors import PenstockError, expect
from penstock.operators.aggregate import cell_files
from penstock.operators.aggregate.answer import AggregateAt
from penstock.operators.aggregate.cell_files import CellFiles, file_batches
from penstock.operators.aggregate.partials import tiles
from penstock.operators.aggregate.partials.cell_sums import CellRange
from penstock.operators.aggregate.partials.cells import Cells
from penstock.operators.aggregate.partials.sums import Total
from penstock.operators.aggregate.partials.tiles import TileStore
from penstock.operators.join.result_files import ResultFiles
from penstock.types import DOUBLE
from penstock.views import standing_queries
from penstock.views.standing_queries import Intervals
from tests.spark.asking import rows_of
from tests.support.pipe import BEGAN_US, Pipe

ROWS, MOST = 3000, 700
WINDOW = "BEGIN (NOW - 3000 SECONDS) END (NOW)"
Damage = Callable[[Path], object]
DAMAGES: dict[str, Damage] = {
    "deleted": Path.unlink,
    "short": lambda path: _replace(path, path.read_bytes()[:-100]),
    "empty": lambda path: _replace(path, b""),
    "changed": lambda path: _replace(path, _changed(path.read_bytes())),
}


def _replace(path: Path, data: bytes) -> None:
    path.unlink()  # no file is written to
    path.write_bytes(data)


def _changed(data: bytes) -> bytes:
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 4]) + data[middle + 1 :]


class World(Pipe):
    """Two sensors with a reading every half second, and a query over all of them."""

    def __init__(self, folder: Path) -> None:
        intervals = Intervals(snapshot_cycles=2, trim_cycles=2)
        super().__init__(folder, intervals=intervals, answer_read_max_rows=MOST, cycles_keep=3)
        self.probes("WITH (time = 'valid', out_of_order = 'accept')")
        self.values = np.random.default_rng(4).integers(0, 100, ROWS) / 10
        self.db.execute(f"CREATE QUERY totals AS SELECT id, COUNT(*), SUM(value) FROM probes GROUP BY id {WINDOW}")
        for part in np.array_split(np.arange(ROWS), 12):
            ts = pa.array(BEGAN_US - (ROWS - 1 - part) * (SECOND // 2), pa.timestamp("us", "UTC"))
            ids = pa.array(1 + part % 2, pa.int32())
            self.db.push("probes", pa.table({"id": ids, "ts": ts, "value": pa.array(self.values[part])}))
            self.engine.drain()

    def files(self) -> list[Path]:
        return sorted((self.folder / "slices").glob("*/*.arrow"))

    def used(self) -> set[str]:
        """The names of the files that have cells which are known."""
        families = self.db.standing.store.slices.families.values()
        tiles = [known.tiles for family in families for known in family.measures.values()]
        return {name for each in tiles if each is not None for name in each.files}

    def finer(self) -> set[tuple[int, ...]]:
        """The wide slots with finer cells that are in files."""
        families = self.db.standing.store.slices.families.values()
        tiles = [known.tiles for family in families for known in family.measures.values()]
        return {slot for each in tiles if each is not None for _, _, slot in each.refined_files}

    def is_right(self) -> bool:
        assert self.db.standing.is_ready("totals", 60.0)
        found = sorted(rows_of(self.db.invoke("totals").table))
        return [n for _, n, _ in found] == [1500, 1500] and np.allclose(
            [s for *_, s in found], [self.values[::2].sum(), self.values[1::2].sum()], rtol=1e-14
        )

    def a_cycle(self, statement: str) -> None:
        self.db.execute(statement)
        self.engine.drain()


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setattr(cell_files, "FILE_CELLS", 50)
    monkeypatch.setattr(tiles, "RECENT", 1)
    monkeypatch.setattr(tiles, "RECENT_CELLS", 100)
    monkeypatch.setattr(tiles, "SLOT_ROWS", 1)  # cells stay what they are
    made = World(tmp_path / "data")
    yield made
    made.db.stop()


def test_a_restart_maps_the_files_and_reads_no_log(world: World) -> None:
    files = world.files()
    assert files and world.is_right()
    snapshots = sorted((world.folder / "commits").glob("snapshot-*"))
    assert snapshots[-1].stat().st_size < sum(path.stat().st_size for path in files)
    world.restart()
    assert {*files} & {*world.files()}
    assert world.is_right() and world.engine.tasks_run == 0 and (world.db.standing.reads.most or 0) < MOST


@pytest.mark.parametrize("fate", list(DAMAGES))
def test_cells_of_a_lost_file_are_filled_again_from_the_log(world: World, fate: str) -> None:
    world.db.stop()
    DAMAGES[fate](world.files()[-1])
    world.open()
    assert world.is_right() and world.engine.tasks_run > 0
    world.a_cycle("INSERT INTO probes VALUES (3, 'east', NULL)")
    world.a_cycle("INSERT INTO probes VALUES (4, 'east', NULL)")
    world.restart()
    assert world.is_right() and world.engine.tasks_run == 0, "and are in files again"


def test_a_start_keeps_the_other_files_that_the_snapshot_names(world: World) -> None:
    world.set_intervals(snapshot_cycles=1000)
    world.db.stop()
    lost, *others = [path for path in world.files() if path.name in world.used()]
    lost.unlink()
    world.open()
    assert others and {*others} <= {*world.files()}, "until there is another snapshot"


def test_a_start_that_cannot_read_the_newest_snapshot_removes_no_file(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.set_intervals(snapshot_cycles=1000)
    world.a_cycle("INSERT INTO probes VALUES (3, 'east', NULL)")
    world.db.stop()
    files, read = world.files(), CommitStore.read_snapshot
    newest = max(world.db.standing.commits.snapshots())

    def refused(commits: CommitStore, cycle: int) -> CommitRecord:
        if cycle == newest:
            raise PenstockError("corrupt_segment", "too many open files")
        return read(commits, cycle)

    with monkeypatch.context() as patched:
        patched.setattr(CommitStore, "read_snapshot", refused)
        patched.setattr(ResultFiles, "remove_orphans", lambda *_: None)  # which reads it, too
        world.open()
    assert {*files} <= {*world.files()}
    assert world.is_right()
    world.restart()
    assert world.is_right()


def test_files_that_are_deleted_below_a_running_server_change_no_answer(world: World) -> None:
    for path in world.files():
        path.unlink()
    assert world.is_right()
    world.restart()
    assert world.is_right()


def test_files_go_with_their_query_and_no_others_are_left_at_a_start(world: World) -> None:
    world.db.stop()
    stray = world.files()[0].parent / "stray.arrow"
    stray.write_bytes(b"half written")
    world.open()
    assert not stray.exists() and world.files()
    world.a_cycle("DROP QUERY totals")
    for number in range(3, 6):
        world.a_cycle(f"INSERT INTO probes VALUES ({number}, 'east', NULL)")
    assert not world.files() and not list((world.folder / "slices").iterdir())


@pytest.mark.parametrize("file_cells", [50, 1 << 14])
def test_slots_that_were_made_again_in_finer_ones_are_there_after_a_restart(
    world: World, monkeypatch: pytest.MonkeyPatch, file_cells: int
) -> None:
    monkeypatch.setattr(cell_files, "FILE_CELLS", file_cells)
    monkeypatch.setattr(tiles, "MANY_CELLS", 0)
    monkeypatch.setattr(tiles, "SLOT_POSITIONS", 100)
    monkeypatch.setattr(tiles, "TILE_SLOTS", (10, 1))
    select = "SELECT id, COUNT(*), SUM(value) FROM probes WHERE value >= 0 GROUP BY id"
    world.a_cycle(f"CREATE QUERY cut AS {select} BEGIN (NOW - 1000 SECONDS) END (NOW)")
    assert world.db.standing.is_ready("cut", 60.0)
    right = rows_of(world.db.invoke("cut").table)
    jobs = world.engine.tasks_run
    assert sum(n for _, n, _ in right) == 2001 and jobs
    # The filler does this while it has nothing else to do: here before the restart, so that nothing is left for after it.
    expect(AggregateAt, world.db.standing.held("cut", asked=False)).refine_ahead()
    for number in range(3, 7):
        world.a_cycle(f"INSERT INTO probes VALUES ({number}, 'east', NULL)")
    finer = world.finer()
    world.restart()
    assert finer and world.finer() == finer
    assert rows_of(world.db.invoke("cut").table) == right and world.engine.tasks_run == 0


def test_snapshots_are_written_while_more_measures_change_than_a_cycle_has_time_for(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(standing_queries, "FILES_PER_CYCLE", 1)
    world.db.execute(
        f"CREATE QUERY more AS SELECT id, MIN(value), MAX(value), STDDEV(value) FROM probes GROUP BY id {WINDOW}"
    )
    for cycle in range(40):
        ts = pa.array(BEGAN_US + (cycle * 60 + np.arange(60)) * SECOND, pa.timestamp("us", "UTC"))
        readings = {"id": pa.array(np.full(60, 1), pa.int32()), "ts": ts, "value": pa.array(np.arange(60.0))}
        world.clock.advance(60 * SECOND)
        world.db.push("probes", pa.table(readings))
        world.engine.drain()
    standing = world.db.standing
    assert max(standing.commits.snapshots()) > standing.store.cycle - 20
    assert len({path.name for path in world.files()} - world.used()) < 20, "what is not used any more went"
    right = rows_of(world.db.invoke("more").table)
    world.restart()
    assert rows_of(world.db.invoke("more").table) == right and world.engine.tasks_run == 0


def test_readers_go_on_while_files_are_removed(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    unlink, read, pool = Path.unlink, list[bool](), ThreadPoolExecutor(1)

    def look(path: Path, missing_ok: bool = False) -> None:
        if world.folder / "slices" in path.parents:
            reader = pool.submit(world.db.standing.strategy_of, 1)
            read.append(not wait([reader], 5.0).not_done)
        unlink(path, missing_ok)

    monkeypatch.setattr(Path, "unlink", look)
    for number in range(3, 6):
        world.a_cycle(f"INSERT INTO probes VALUES ({number}, 'east', NULL)")
    assert read and all(read)


def test_no_other_account_can_read_the_files_and_backups_leave_them_out(world: World, tmp_path: Path) -> None:
    folder = world.folder / "slices"
    assert all(each.stat().st_mode & 0o077 == 0 for each in (folder, *folder.iterdir()))
    assert {path.stat().st_mode & 0o777 for path in world.files()} == {0o400}
    world.db.backup(tmp_path / "copy")
    assert not (tmp_path / "copy" / "slices").exists()
    world.db.stop()
    world.folder = tmp_path / "copy"
    world.open()
    assert world.is_right()


def cells(groups: list[int], start: int = 0) -> Cells:
    count = len(groups)
    zeros = np.zeros(count, np.int64)
    starts = start + 10 * np.arange(count)
    state = {"count": np.ones(count, np.int64), "high": np.arange(count) + 0.5, "low": np.zeros(count)}
    return Cells(starts, zeros + 10, np.array(groups), np.arange(count), np.arange(count), zeros + 1, state)


def test_cells_stay_in_memory_where_the_disk_may_not_have_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(_: int) -> None:
        raise OSError(errno.EIO, "the disk failed")

    monkeypatch.setattr(cell_files, "FILE_CELLS", 1)
    monkeypatch.setattr(tiles, "RECENT_CELLS", 1)
    store = TileStore(Total((DOUBLE,)))
    store.put(cells([0, 1, 2]))
    (batch,) = file_batches("f", store.unfiled(), store.partial)
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", refused)
        assert CellFiles(tmp_path).write(batch) is None
    assert not list((tmp_path / "slices").glob("*/*"))


def test_groups_that_have_other_numbers_after_a_restart_keep_their_cells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cell_files, "FILE_CELLS", 1)
    monkeypatch.setattr(tiles, "RECENT_CELLS", 1)
    partial, files = Total((DOUBLE,)), CellFiles(tmp_path)
    before, after = TileStore(partial), TileStore(partial)
    before.put(cells([0, 1, 2, 1, 0]))
    for batch in file_batches("f", before.unfiled(), partial):
        mapped = files.write(batch)
        assert mapped is not None
        mapped.adopt()
    assert not before.unfiled() and not len(before.unfiled_cells())
    found = files.open("f", before.files, partial)
    assert found is not None
    after.take_tiles(found, np.array([7, 5, 6]))
    assert not after.files, "the numbers in the files are others"
    for store, numbers in ((before, [0, 1, 2]), (after, [5, 6, 7])):
        lines, _ = store.look(CellRange(0, 1000, 0, 1000), None)
        assert lines().groups.tolist() == numbers
    assert lines().state["high"].tolist() == [1.5 + 3.5, 2.5, 0.5 + 4.5]
