"""Joins over long lives: hot keys, merged result files, restarts, files that are missing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from penstock.clock import WallClock
from penstock.database.database import Database
from penstock.errors import PenstockError
from penstock.operators.join import result_files
from penstock.operators.join.steps.results import write_results
from penstock.settings import Settings
from penstock.views.standing_queries import Intervals
from tests.support.local_engine import LocalEngine

ORIGIN = 1_700_000_000_000_000
QUERY = (
    "CREATE QUERY pairs AS SELECT {} a.n AS a, b.n AS b FROM t a, t b DWINDOW(a,b) = 1 MS WHERE a.k = b.k AND a.n < b.n"
)


class Life:
    """One data folder, opened again and again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._intervals = Intervals()
        self.rows: list[tuple[int, int, int]] = []
        self.open()

    def open(self) -> None:
        def engine(*arguments: object) -> LocalEngine:
            self.engine = LocalEngine(*arguments, parallelism=2)  # type: ignore[arg-type]
            return self.engine

        settings = Settings(data=str(self.folder), group_commit_ms=0, cycles_keep=4)
        self.db = Database(settings, WallClock(), engine, self._intervals)  # type: ignore[arg-type]
        self.db.start()

    def snapshot_every(self, cycles: int) -> None:
        self._intervals = self.db.standing.intervals = Intervals(snapshot_cycles=cycles)

    def create(self, hint: str = "") -> None:
        self.db.execute(
            "CREATE TABLE t (id INT PRIMARY KEY, r STREAM (k INT, n INT)) WITH (time = 'valid', out_of_order = 'accept')"
        )
        self.db.execute("INSERT INTO t VALUES (1, NULL)")
        self.db.execute(QUERY.format(hint))
        self.engine.drain()

    def push(self, count: int, hot: float, rng: np.random.Generator, step_us: int = 20) -> None:
        first = len(self.rows)
        made = [
            (ORIGIN + (first + i) * step_us, 7 if rng.random() < hot else int(rng.integers(100, 10_000)), first + i)
            for i in range(count)
        ]
        self.rows += made
        self.db.push("t", [{"id": 1, "ts": ts, "k": k, "n": n} for ts, k, n in made])

    def expected(self) -> Counter[tuple[int, int]]:
        found: Counter[tuple[int, int]] = Counter()
        for at, (ts, k, n) in enumerate(self.rows):
            for other_ts, other_k, other_n in self.rows[at + 1 :]:
                if other_ts - ts > 1_000:
                    break
                if k == other_k:
                    found[n, other_n] += 1
        return found

    def check(self) -> None:
        table = self.db.standing.invoke("pairs").table
        assert Counter(zip(*(c.to_pylist() for c in table.columns), strict=True)) == self.expected()


@pytest.fixture
def life(tmp_path: Path) -> Iterator[Life]:
    made = Life(tmp_path / "data")
    yield made
    made.db.stop()


@pytest.mark.parametrize("hint", ["", "/*+ JOIN(hash) */", "/*+ JOIN(lca) */", "/*+ JOIN(scan) */"])
def test_a_hot_key_is_joined_once(life: Life, hint: str) -> None:
    rng = np.random.default_rng(3)
    life.create(hint)
    for _ in range(3):
        life.push(6_000, hot=0.5, rng=rng)
        life.engine.drain()
    life.check()


def test_results_outlive_merging_pruning_and_restarts(life: Life, monkeypatch: pytest.MonkeyPatch) -> None:
    life.snapshot_every(5)
    monkeypatch.setattr(result_files, "MOST_CHUNKS", 2)
    monkeypatch.setattr(result_files, "INLINE_ROWS", 3)
    rng = np.random.default_rng(4)
    life.create()
    for turn in range(40):
        life.push(60, hot=0.3, rng=rng)
        life.engine.drain()
        if turn % 7 == 6:
            life.db.stop()
            life.open()
            life.check()
    life.check()
    files = len(list((life.folder / "results").glob("*.arrow")))
    assert files <= 6, "files that nothing names are removed"


def test_files_of_a_cycle_that_was_never_committed_are_removed(life: Life) -> None:
    life.create()
    life.push(50, hot=0.5, rng=np.random.default_rng(5))
    life.engine.drain()
    orphan = write_results(life.db.folder, 1, life.db.standing.invoke("pairs").table)
    life.db.stop()
    life.open()
    assert not (life.folder / "results" / orphan).exists()
    life.check()


def test_a_join_names_the_file_that_it_misses(life: Life) -> None:
    life.create()
    rng = np.random.default_rng(6)
    life.push(50, hot=0.5, rng=rng)
    life.engine.drain()
    life.push(50, hot=0.5, rng=rng)
    newest = max((life.folder / "log").rglob("*.arrow"))
    newest.rename(newest.with_suffix(".lost"))
    life.push(50, hot=0.5, rng=rng)
    life.engine.drain()
    with pytest.raises(PenstockError) as failed:
        life.db.standing.invoke("pairs")
    assert failed.value.condition == "corrupt_segment"


def test_two_folders_never_share_buffers(life: Life, tmp_path: Path) -> None:
    other = Life(tmp_path / "other")
    try:
        assert life.db.folder.buffers.resolve() != other.db.folder.buffers.resolve()
    finally:
        other.db.stop()
    assert not other.db.folder.buffers.resolve().exists() or not other.db.folder.buffers.is_symlink()
