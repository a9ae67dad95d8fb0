"""Definitions that come between cycles, and a journal that is damaged or cut below them: answers stay what they were."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.catalog import catalog
from penstock.catalog.journal import journal_file, journal_files
from penstock.catalog.snapshot import list_snapshots
from penstock.cycle import definitions
from penstock.views.standing_queries import Intervals
from tests.support.pipe import BEGAN_US, Pipe

NAMES = ("first", "second", "joined", "third")


class Later(Pipe):
    """Opened on a clock after all readings, by workers that have read nothing yet."""

    def open(self) -> None:
        self.clock.set(max(self.clock.now_us(), BEGAN_US + 60_000_000))
        definitions._CACHE.clear()
        definitions._AHEAD.clear()
        super().open()


def answers(pipe: Pipe) -> dict[str, list[float]]:
    return {name: sorted(pipe.answer(name)) for name in NAMES}


def fill(pipe: Pipe) -> None:
    """Four queries, each defined after the cycles of the one before; a sensor comes in between."""
    pipe.probes()
    window = "BEGIN (NOW - 1 HOUR) END (NOW)"
    definitions_ = [
        f"CREATE QUERY first AS SELECT value FROM probes {window}",
        f"CREATE QUERY second AS SELECT value FROM probes WHERE value > 3 {window}",
        "CREATE QUERY joined AS SELECT a.value FROM probes a, probes b WINDOW(a,b) = 1 MINUTE"
        f" WHERE a.id = b.id AND a.value < b.value {window}",
        "INSERT INTO probes VALUES (3, 'west', NULL)",
        f"CREATE QUERY third AS SELECT AVG(value) AS value FROM probes {window}",
    ]
    for number, sql in enumerate(definitions_):
        pipe.db.execute(sql)
        for more in range(2):
            pipe.push(float(2 * number + more), sensor=3 if number > 3 else 1)
            pipe.engine.drain()


@pytest.mark.parametrize("position", range(1, 8))
def test_a_damaged_entry_that_kept_cycles_name_is_covered_by_the_snapshot(
    pipes: Callable[..., Pipe], tmp_path: Path, position: int
) -> None:
    pipe = pipes()
    fill(pipe)
    before = answers(pipe)
    cycle = pipe.db.standing.store.cycle
    pipe.db.stop()
    lines = journal_file(pipe.folder).read_bytes().splitlines(keepends=True)
    assert len(lines) == 7
    line = lines[position - 1]
    lines[position - 1] = line[:20] + bytes([line[20] ^ 1]) + line[21:]
    journal_file(pipe.folder).write_bytes(b"".join(lines))
    again = Later(pipe.folder)
    again.engine.drain()
    assert answers(again) == before
    assert again.db.standing.store.cycle > cycle
    again.push(50.0)
    again.engine.drain()
    assert 50.0 in again.answer("second")
    after = answers(again)
    again.restart()
    assert answers(again) == after
    again.db.stop()


@pytest.mark.parametrize("lost", [False, True])
def test_a_journal_without_its_first_lines_starts_also_where_no_commit_record_is_left(
    pipes: Callable[..., Pipe], monkeypatch: pytest.MonkeyPatch, lost: bool
) -> None:
    monkeypatch.setattr(catalog, "SNAPSHOT_ENTRIES", 2)
    pipe = pipes(intervals=Intervals(snapshot_cycles=4), cycles_keep=2)
    fill(pipe)
    pipe.db._tidy()
    before = answers(pipe)
    pipe.db.stop()
    assert journal_files(pipe.folder)[0][0] > 1 and len(list_snapshots(pipe.folder)) >= 2
    if lost:
        shutil.rmtree(pipe.folder / "commits")
    again = Later(pipe.folder, cycles_keep=2)
    again.engine.drain()
    assert answers(again) == before
    again.push(50.0, sensor=3)
    again.engine.drain()
    assert 50.0 in again.answer("second")
    again.db.stop()


@pytest.mark.parametrize("position", [2, 5])
def test_rows_that_were_logged_among_lost_entries_never_meet_older_definitions(
    pipes: Callable[..., Pipe], position: int
) -> None:
    """More of them than a cycle takes: the cycles up to the snapshot would not know their sensors."""
    pipe = pipes(cycle_max_rows=2, fill_max_rows=2)
    pipe.probes()
    pipe.db.execute(
        "CREATE QUERY placed AS SELECT value FROM probes WHERE place LIKE 'p%' BEGIN (NOW - 1 HOUR) END (NOW)"
    )
    for sensor in range(3, 9):
        pipe.db.execute(f"INSERT INTO probes VALUES ({sensor}, 'p{sensor}', NULL)")
        pipe.push(float(sensor), sensor=sensor)
        pipe.engine.drain()
    pipe.db.execute("INSERT INTO probes VALUES (9, 'p9', NULL)")  # no cycle names this entry, which the snapshot is of
    before = pipe.answer("placed")
    pipe.db.stop()
    lines = journal_file(pipe.folder).read_bytes().splitlines(keepends=True)
    line = lines[position - 1]
    lines[position - 1] = line[:20] + bytes([line[20] ^ 1]) + line[21:]
    journal_file(pipe.folder).write_bytes(b"".join(lines))
    again = Later(pipe.folder, cycle_max_rows=2, fill_max_rows=2)
    for _ in range(2):
        again.engine.drain()
        assert sorted(again.answer("placed")) == before
        again.restart()
    assert again.engine.commits.last is not None and again.engine.commits.last.end.data == {1: 6}
    again.db.stop()
