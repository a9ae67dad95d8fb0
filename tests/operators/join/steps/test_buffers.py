"""Buffers of joins: shares of the keys that change from step to step, holes, merging, leftovers."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest

from penstock.cycle import folder as folders
from penstock.operators.join.kernels.runs import Run, build_run
from penstock.operators.join.steps import buffers, orphaned_buffers
from penstock.operators.join.steps.buffers import BufferFolder
from penstock.operators.join.steps.key_ranges import RANGES, WHOLE, KeyRange, Share, share_of, without
from penstock.operators.join.steps.rows import belongs

LOWER, UPPER = share_of(0, 2), share_of(1, 2)
KEYS = np.random.default_rng(1).integers(-(2**63), 2**63 - 1, 1_000)


def run_of(first: int, end: int, share: Share) -> Run:
    """Row p has time p and the p-th key; those of the share."""
    pos = np.arange(first, end)
    pos = pos[belongs(KEYS[pos], share)]
    return build_run(first, end, pos.copy(), pos, KEYS[pos], {})


def positions(folder: BufferFolder, end: int, share: Share) -> list[int]:
    """The rows of a share that are buffered, each as often as it is found."""
    held = [h.run.pos for h in folder.runs([KeyRange(0, end, share)])]
    found = np.concatenate([np.empty(0, np.int64), *held])
    return sorted(found[belongs(KEYS[found], share)].tolist())


def expected(first: int, end: int, share: Share) -> list[int]:
    return [p for p in range(first, end) if belongs(KEYS[p : p + 1], share)[0]]


@pytest.mark.parametrize("parts", [1, 2, 3, 7, 64, 100])
def test_every_key_belongs_to_one_part(parts: int) -> None:
    owners = sum(belongs(KEYS, share_of(part, parts)).astype(int) for part in range(parts))
    assert np.all(owners == 1)


def test_what_nobody_has_taken_is_left() -> None:
    rng = np.random.default_rng(2)
    for _ in range(200):
        grid = np.zeros((20, RANGES), np.int64)
        taken = []
        for _ in range(rng.integers(0, 5)):
            (first, end), (low, high) = np.sort(rng.integers(0, 21, 2)), np.sort(rng.integers(0, RANGES + 1, 2))
            taken.append(KeyRange(int(first), int(end), Share(int(low), int(high))))
            grid[first:end, low:high] = 1
        for hole in without([KeyRange(0, 20)], taken):
            grid[hole.first : hole.end, hole.share.low : hole.share.high] += 1
        assert np.all(grid == 1)


def test_parts_of_any_number_read_what_parts_of_any_other_number_left(tmp_path: Path) -> None:
    """whole | halves | whole | thirds"""
    for first, parts in ((0, 1), (100, 2), (200, 1), (300, 3)):
        for part in range(parts):
            share = share_of(part, parts)
            BufferFolder(tmp_path, share).publish(run_of(first, first + 100, share), share)
    for share in (WHOLE, LOWER, UPPER, share_of(2, 5)):
        assert positions(BufferFolder(tmp_path, share), 400, share) == expected(0, 400, share)
        assert positions(BufferFolder(tmp_path, share), 200, share) == expected(0, 200, share)


def test_merging_loses_and_repeats_nothing_while_the_number_of_parts_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(buffers, "MOST_RUNS", 3)
    rng = np.random.default_rng(3)
    for step in range(100):
        first, parts = step * 10, int(rng.choice([1, 2]))
        for part in range(parts):
            folder = BufferFolder(tmp_path, share_of(part, parts))
            folder.publish(run_of(first, first + 10, folder.share), folder.share)
            folder.tidy(keep_from=first - 300, before=first)
        for share in (WHOLE, LOWER, UPPER):
            found = positions(BufferFolder(tmp_path, share), first + 10, share)
            assert len(found) == len(set(found)) and set(found) >= set(expected(max(0, first - 300), first + 10, share))
    assert len(list(tmp_path.glob("*.run"))) < 20
    assert len(list(tmp_path.glob("*.gone"))) < 10


# -- leftovers


@pytest.fixture
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = tmp_path / "shm"
    place.mkdir()
    monkeypatch.setattr(orphaned_buffers, "SHARED", place)
    return place


def _server(shared: Path, root: Path, pid: int, server: bool = True) -> Path:
    """A data folder with its buffers in shared memory."""
    place = shared / f"penstock-{root.name}"
    place.mkdir()
    (root / "tmp").mkdir(parents=True)
    (root / "tmp" / "buffers").symlink_to(place)
    (root / "lock").write_text(f"{pid}\n")
    orphaned_buffers.claim(place, root, server)
    return place


def test_buffers_of_a_dead_server_go_and_those_of_others_stay(shared: Path, tmp_path: Path) -> None:
    dead = subprocess.Popen(["true"])
    dead.wait()
    gone = _server(shared, tmp_path / "dead", dead.pid)
    kept = [
        _server(shared, tmp_path / "alive", os.getpid()),
        _server(shared, tmp_path / "elsewhere", dead.pid, server=False),  # its process is of another host
        shared / "penstock-unclaimed",
        shared / "other",
    ]
    for place in kept:
        place.mkdir(exist_ok=True)
    moved = _server(shared, tmp_path / "moved", os.getpid())
    (tmp_path / "moved" / "tmp" / "buffers").unlink()
    orphaned_buffers.remove_places_of_the_dead()
    assert not gone.exists() and all(place.exists() for place in (*kept, moved))
    _age(moved)
    orphaned_buffers.remove_places_of_the_dead()
    assert not moved.exists() and all(place.exists() for place in kept)


def test_sheets_of_a_killed_server_go_and_a_copied_folder_takes_nothing_along(
    shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folders, "SHARED", shared)
    monkeypatch.setattr(folders, "SHARED_MEMORY_MIN_BYTES", 0)
    first = folders.DataFolder(tmp_path / "first")
    lock = folders.FolderLock(first)
    folders.place_sheets(first, "local[2]")
    places = [Path(os.readlink(link)) for link in (first.buffers, first.sheets)]
    shutil.copytree(first.root, tmp_path / "copy", symlinks=True)
    folders.FolderLock(folders.DataFolder(tmp_path / "copy")).release()
    assert all(place.exists() for place in places)
    dead = subprocess.Popen(["true"])
    dead.wait()
    (first.root / "lock").write_text(f"{dead.pid}\n")
    orphaned_buffers.remove_places_of_the_dead()
    assert not any(place.exists() for place in places)
    lock.release()


def test_a_folder_of_the_same_path_says_nothing_of_another_ones_place(shared: Path, tmp_path: Path) -> None:
    root = tmp_path / "data"
    root.mkdir()
    (root / "folder_id").write_text("first\n")
    place = _server(shared, root, os.getpid())
    _age(place)
    (root / "folder_id").write_text("second\n")
    (root / "tmp" / "buffers").unlink()
    orphaned_buffers.remove_places_of_the_dead()
    assert place.exists() and not orphaned_buffers.is_of(place, root), "its server lives"
    owner = place / orphaned_buffers.OWNER
    told = owner.read_text()
    owner.write_text(told.replace(orphaned_buffers._here(), "elsewhere pid:[1]"))
    _age(place)
    (root / "folder_id").write_text("first\n")
    orphaned_buffers.remove_places_of_the_dead()
    assert place.exists(), "its folder is in another container"
    dead = subprocess.Popen(["true"])
    dead.wait()
    owner.write_text(told.replace(str(os.getpid()), str(dead.pid)))
    (root / "folder_id").write_text("second\n")
    orphaned_buffers.remove_places_of_the_dead()
    assert not place.exists()


def test_half_written_runs_go_after_a_while(tmp_path: Path) -> None:
    (tmp_path / "stream").mkdir()
    young, old = tmp_path / "stream" / ".young.run", tmp_path / "stream" / ".old.run"
    young.touch()
    old.touch()
    _age(old)
    orphaned_buffers.remove_half_written(tmp_path)
    assert young.exists() and not old.exists()


def _age(path: Path) -> None:
    long_ago = time.time() - 2 * orphaned_buffers.HALF_WRITTEN_S
    os.utime(path, (long_ago, long_ago))
