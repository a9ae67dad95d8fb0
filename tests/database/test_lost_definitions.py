"""A journal that has lost acknowledged entries at its end: the server starts, names the loss, and mixes nothing up."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.catalog.journal import journal_file
from penstock.cycle import definitions
from penstock.errors import PenstockError
from tests.support.pipe import Pipe


def lose_last_entry(folder: Path, how: str) -> None:
    for path in (folder / "journal").iterdir():
        if path.name.startswith("snapshot") or not path.stat().st_size:
            path.unlink()  # as if the server had been killed: a snapshot would cover the loss
    file = journal_file(folder)
    lines = file.read_bytes().splitlines(keepends=True)
    if how == "gone":
        lines.pop()
    else:
        lines[-1] = lines[-1][:-2] + bytes([lines[-1][-2] ^ 1]) + lines[-1][-1:]
    file.write_bytes(b"".join(lines))
    # Workers of a new server read the journal anew; here they are this process.
    definitions._CACHE.clear()
    definitions._AHEAD.clear()


def unhealed(pipe: Pipe) -> list[tuple[str, str]]:
    return [(row.file, row.kind) for row in pipe.db.damage.open_rows()]


@pytest.mark.parametrize("how", ["gone", "flipped"])
@pytest.mark.parametrize("committed", [True, False])
def test_versions_of_a_lost_insert_are_not_given_again(pipe: Pipe, how: str, committed: bool) -> None:
    pipe.probes()
    pipe.db.execute("CREATE QUERY seen AS SELECT id, value FROM probes BEGIN (NOW - 1 HOUR) END (NOW)")
    pipe.push(1.0)
    pipe.engine.drain()
    pipe.db.execute("INSERT INTO probes VALUES (3, 'west', NULL)")
    pipe.push(3.0, sensor=3)
    if committed:
        pipe.engine.drain()
    pipe.db.stop()
    lose_last_entry(pipe.folder, how)
    pipe.open()
    pipe.engine.drain()
    assert ("journal entry 4", "journal") in unhealed(pipe)
    pipe.db.execute("INSERT INTO probes VALUES (4, 'east', NULL)")
    pipe.push(4.0, sensor=4)
    pipe.engine.drain()
    rows = {(row["id"], row["value"]) for row in pipe.db.invoke("seen").table.to_pylist()}
    assert rows == {(1, 1.0), (None, 3.0), (4, 4.0)}
    pipe.restart()
    rows = {(row["id"], row["value"]) for row in pipe.db.invoke("seen").table.to_pylist()}
    assert rows == {(1, 1.0), (None, 3.0), (4, 4.0)}


def test_readings_of_a_lost_table_are_kept_aside_and_its_number_is_not_given_again(pipe: Pipe) -> None:
    pipe.probes()
    pipe.db.execute("CREATE TABLE solo (reading STREAM (value DOUBLE))")
    number = pipe.db.catalog.state.tables["solo"].id
    assert pipe.db.catalog.state.position == 4
    pipe.db.push("solo", [{"value": 7.0}])
    pipe.db.stop()
    lose_last_entry(pipe.folder, "gone")
    lose_last_entry(pipe.folder, "gone")
    pipe.open()
    assert "solo" not in pipe.db.catalog.state.tables
    assert list((pipe.folder / "corrupt" / f"log-{number}").glob("*.arrow"))
    assert any(kind == "journal" for _, kind in unhealed(pipe))
    pipe.db.execute("CREATE TABLE other (id INT PRIMARY KEY, reading STREAM (value DOUBLE))")
    assert pipe.db.catalog.state.tables["other"].id > number


def test_readings_of_a_lost_table_do_not_wait_for_a_cycle(pipe: Pipe) -> None:
    pipe.probes()
    pipe.db.execute("CREATE TABLE solo (reading STREAM (value DOUBLE))")
    pipe.db.push("solo", [{"value": 7.0}])
    pipe.db.stop()
    lose_last_entry(pipe.folder, "gone")
    lose_last_entry(pipe.folder, "gone")
    pipe.open()
    pipe.engine.drain()
    assert not pipe.db._is_waiting()


def test_a_worker_that_cannot_read_all_entries_of_a_cycle_does_not_run_it(pipe: Pipe) -> None:
    pipe.probes()
    position = pipe.db.catalog.state.position
    definitions._CACHE.clear()
    line = journal_file(pipe.folder).read_bytes().splitlines(keepends=True)
    journal_file(pipe.folder).write_bytes(b"".join(line[:-1]))
    try:
        with pytest.raises(PenstockError) as caught:
            definitions.definitions_at(str(pipe.folder), position)
        assert caught.value.condition == "corrupt_journal"
    finally:
        journal_file(pipe.folder).write_bytes(b"".join(line))
    assert definitions.definitions_at(str(pipe.folder), position).state.position == position


def test_lost_entries_that_an_admin_accepts_are_named_no_more_and_rollups_are_swept_again(
    pipe: Pipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipe.probes()
    pipe.push(1.0)
    pipe.engine.drain()
    pipe.db.execute("INSERT INTO probes VALUES (3, 'west', NULL)")
    pipe.push(3.0, sensor=3)
    pipe.engine.drain()
    pipe.db.stop()
    lose_last_entry(pipe.folder, "gone")
    swept: list[float] = []
    look, strays = Path.glob, list[Path]()

    def note_last() -> None:
        """A sweep removes a file that it sees for the first time only where it gives no grace."""
        swept.extend(1.0 if stray.exists() else 0 for stray in strays[-1:])

    def noted(folder: Path, pattern: str) -> Iterator[Path]:
        if (folder, pattern) == (pipe.folder / "rollups", "*/*/*"):  # only sweeps look for files so
            note_last()
            strays.append(folder / "99" / "60" / f"stray{len(strays)}")
            strays[-1].parent.mkdir(parents=True, exist_ok=True)
            strays[-1].touch()
        return look(folder, pattern)

    (pipe.folder / "rollups").mkdir(exist_ok=True)
    monkeypatch.setattr(Path, "glob", noted)
    pipe.open()
    pipe.db._tidy()
    assert swept == [] and pipe.db.health().details["damage"]
    result = pipe.db.execute("ALTER SYSTEM ACCEPT DAMAGE")
    assert result.done == "ALTER SYSTEM ACCEPT DAMAGE"
    assert result.notices == ("accepted: journal entry 3",)
    assert pipe.db.execute("ALTER SYSTEM ACCEPT DAMAGE").notices == ("no damage is open",)
    for _ in range(2):
        assert "damage" not in pipe.db.health().details
        *_, row = pipe.db.system.table("penstock.damage").to_pylist()
        assert (row["file"], row["kind"], row["healed"], row["accepted"]) == ("journal entry 3", "journal", False, True)
        pipe.db._tidy()
        pipe.restart()
    note_last()
    assert swept == [1.0, 0, 1.0, 0]
    audit = (pipe.folder / "audit" / "audit.jsonl").read_text()
    assert audit.count('"action":"ALTER SYSTEM ACCEPT DAMAGE"') == 2
