"""The scrubber finds rot in files that no query reads, and `penstock check` finds it in a folder at rest."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from penstock.cli.main import app
from penstock.database import verification
from penstock.database.verification import files_of, verify_folder
from penstock.operators.join.steps import results
from penstock.views.standing_queries import Intervals
from tests.support.pipe import Pipe

SEEN = "CREATE QUERY seen AS SELECT value FROM probes BEGIN (NOW - 1 HOUR) END (NOW)"
PAIRS = (
    "CREATE QUERY pairs AS SELECT a.value FROM probes a, probes b WINDOW(a,b) = 1 MINUTE"
    " WHERE a.id = b.id AND a.value < b.value BEGIN (NOW - 1 HOUR) END (NOW)"
)


@pytest.fixture
def filled(pipes: Callable[..., Pipe], monkeypatch: pytest.MonkeyPatch) -> Pipe:
    monkeypatch.setattr(results, "INLINE_ROWS", 0)
    pipe = pipes(intervals=Intervals(snapshot_cycles=5), compact_after_segments=2)
    pipe.probes()
    pipe.db.execute(SEEN)
    pipe.db.execute(PAIRS)
    pipe.engine.drain()
    for number in range(8):
        pipe.db.push("probes", [{"id": 1, "value": float(number)}], idempotency_key=f"key {number}")
        pipe.engine.cycle()
        if number == 4:
            for _ in range(2):
                pipe.db.housekeeper.tend(1)
    return pipe


def scrub(pipe: Pipe) -> None:
    """One whole round, at once."""
    scrubber = pipe.db.scrubber
    scrubber._begin(pipe.db.clock.now_us())
    while scrubber._waiting:
        scrubber._look_at(*scrubber._waiting.pop())


def damage(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


KINDS = {
    "log/1/*.arrow": "log",
    "log/1/*.parquet": "log",
    "results/*.arrow": "results",
    "commits/0*.arrow": "commit_record",
    "commits/snapshot-*": "commit_record",
    "streams/1/keys.jsonl": "keys",
}


def test_a_round_finds_every_damaged_file_and_only_those(filled: Pipe) -> None:
    scrub(filled)
    assert filled.db.damage.rows() == []
    answers = sorted(filled.answer("seen"))
    victims = {next(iter(sorted(filled.folder.glob(pattern)))): kind for pattern, kind in KINDS.items()}
    for path in victims:
        damage(path)
    scrub(filled)
    found = {row.file: row for row in filled.db.damage.rows()}
    assert {name: row.kind for name, row in found.items()} == {
        str(path.relative_to(filled.folder)): kind for path, kind in victims.items()
    }
    healed = {row.kind for row in found.values() if row.healed}
    assert healed == {"commit_record"}, "a new snapshot covers records"
    for path in victims:
        if "commits" not in path.parts:
            damage(path)  # put back
    scrub(filled)
    assert filled.db.damage.open_rows() == []
    filled.restart()
    assert sorted(filled.answer("seen")) == answers


def test_damage_of_the_journal_is_covered_at_once(filled: Pipe) -> None:
    damage(filled.folder / "journal" / "journal.jsonl")
    scrub(filled)
    (row,) = filled.db.damage.rows()
    assert (row.file, row.healed) == ("journal/journal.jsonl", True)
    answers = sorted(filled.answer("seen"))
    filled.restart()
    assert sorted(filled.answer("seen")) == answers


def test_steps_are_spread_by_size_and_a_restart_goes_on_where_it_stopped(
    filled: Pipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verification, "SAVE_EVERY", 1)
    seen: list[str] = []
    drop = os.posix_fadvise

    def noted(descriptor: int, *arguments: int) -> None:  # once for each file that is read
        seen.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        drop(descriptor, *arguments)

    monkeypatch.setattr(os, "posix_fadvise", noted)
    total = sum(path.stat().st_size for path, _ in files_of(filled.folder))
    made = verification.Scrubber(filled.folder, filled.db.damage, filled.clock, 7)
    waits = [made.step() for _ in range(5)]
    made = verification.Scrubber(filled.folder, filled.db.damage, filled.clock, 7)
    while made.step() < 60:
        waits.append(0.0)
    assert len(seen) == len(set(seen)) == len(list(files_of(filled.folder)))
    assert made.step() > 60, "the next round is a week away"
    assert sum(waits) <= total / verification.BYTES_PER_S + 0.001 * len(seen)
    filled.clock.advance(8 * 86_400_000_000)
    made.step()
    assert len(seen) == len(set(seen)) + 1, "and begins anew then"


def test_check_names_what_is_damaged_and_ends_with_status_one(filled: Pipe) -> None:
    filled.db.stop()
    runner = CliRunner()
    found = runner.invoke(app, ["check", str(filled.folder)])
    assert found.exit_code == 0 and "no file is damaged" in found.stderr
    victims = [next(iter(sorted(filled.folder.glob(pattern)))) for pattern in KINDS]
    for path in victims:
        damage(path)
    found = runner.invoke(app, ["check", str(filled.folder), "--format", "json"])
    assert found.exit_code == 1
    named = {row["file"] for row in json.loads(found.stdout)}
    assert named >= {str(path.relative_to(filled.folder)) for path in victims}
    for path in victims:
        damage(path)
    assert verify_folder(filled.folder) == []
    next(iter(sorted((filled.folder / "log" / "1").glob("*.arrow")))).unlink()
    (missing,) = verify_folder(filled.folder)
    assert missing.kind == "log" and "missing" in missing.detail


def test_check_refuses_a_folder_that_a_server_uses_and_one_that_is_none(filled: Pipe, tmp_path: Path) -> None:
    found = CliRunner().invoke(app, ["check", str(filled.folder)])
    assert found.exit_code == 1 and "folder_in_use" in found.stderr and "penstock.damage" in found.stderr
    found = CliRunner().invoke(app, ["check", str(tmp_path)])
    assert found.exit_code == 1 and "neither a data folder nor a backup" in found.stderr


def test_check_verifies_a_backup_against_its_manifest(filled: Pipe, tmp_path: Path) -> None:
    filled.db.backup(tmp_path / "copy")
    assert verify_folder(tmp_path / "copy") == []
    (tmp_path / "copy" / "format_version").write_text("3 \n")
    (problem,) = verify_folder(tmp_path / "copy")
    assert problem.kind == "backup" and "format_version" in problem.detail


def test_a_restart_after_known_damage_was_read_leaves_no_file_out(filled: Pipe) -> None:
    path = sorted((filled.folder / "streams").rglob("keys.jsonl"))[0]
    damage(path)
    scrub(filled)
    filled.clock.advance(8 * 86_400_000_000)
    filled.db.scrubber.step()  # known damage comes first
    filled.db.scrubber.close()
    again = verification.Scrubber(filled.folder, filled.db.damage, filled.clock, 7)
    again._begin(filled.clock.now_us())
    assert {path for path, _ in files_of(filled.folder)} <= {path for path, _ in again._waiting}
