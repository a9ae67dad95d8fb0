"""The report of damaged files: bounded, kept across restarts, and never silent about what still harms."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock import damage
from penstock.damage import DamageReport


@pytest.fixture
def report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DamageReport:
    monkeypatch.setattr(damage, "ROWS_MAX", 3)
    return DamageReport(tmp_path)


def listed(report: DamageReport) -> list[str]:
    return [row.file for row in report.rows()]


def test_a_full_report_gives_up_the_oldest_row_that_is_healed(report: DamageReport) -> None:
    report.note("log/1/a", "log", "rotten")
    report.note("log/1/b", "log", "rotten", healed=True)
    report.note("log/1/c", "log", "rotten", healed=True)
    report.note("log/1/d", "log", "rotten")
    assert listed(report) == ["log/1/a", "log/1/c", "log/1/d"]


def test_damage_that_does_not_fit_is_counted_until_it_heals(report: DamageReport, tmp_path: Path) -> None:
    for number in range(3):
        report.note(f"log/1/{number}", "log", "rotten")
    report.note("corrupt/whole", "snapshot", "covered", healed=True)
    assert listed(report) == ["log/1/0", "log/1/1", "log/1/2"], "what is healed takes no place of what is open"
    for name in ("journal entry 4", "log/1/4", "log/1/4"):
        report.note(name, "journal" if "entry" in name else "log", "rotten")
    for read in (report, DamageReport(tmp_path)):
        *rows, more = read.open_rows()
        assert [row.file for row in rows] == ["log/1/0", "log/1/1", "log/1/2"]
        assert more.file == "2 more" and more.kind == "unlisted"
        assert read.open_kinds() == {"log", "journal"}
    report.heal("log/1/4")
    assert listed(report)[-1] == "1 more"
    report.heal("log/1/0")
    report.note("journal entry 4", "journal", "rotten")
    assert listed(report) == ["log/1/1", "log/1/2", "journal entry 4"]


def test_a_report_of_an_older_version_is_read(tmp_path: Path) -> None:
    (tmp_path / "corrupt").mkdir()
    row = b'{"file":"log/1/a","kind":"log","detail":"rotten","since_us":7,"healed":false}'
    (tmp_path / "corrupt" / "damage.json").write_bytes(b"[" + row + b"]")
    (found,) = DamageReport(tmp_path).open_rows()
    assert (found.file, found.since_us) == ("log/1/a", 7)


def test_accepted_damage_stays_accepted_until_something_else_is_found(report: DamageReport, tmp_path: Path) -> None:
    report.note("journal entry 4", "journal", "lost")
    report.note("log/1/a", "log", "rotten", healed=True)
    assert [row.file for row in report.accept()] == ["journal entry 4"] and report.accept() == []
    for read in (report, DamageReport(tmp_path)):
        assert read.open_rows() == [] and read.open_kinds() == set()
        assert [(row.file, row.accepted) for row in read.rows()] == [("journal entry 4", True), ("log/1/a", False)]
    report.note("journal entry 4", "journal", "lost")
    assert report.open_rows() == []
    report.note("journal entry 4", "journal", "lost, and a table with it")
    assert [row.file for row in report.open_rows()] == ["journal entry 4"]


def test_damage_that_did_not_fit_is_accepted_with_the_rest(report: DamageReport) -> None:
    for number in range(5):
        report.note(f"log/1/{number}", "log", "rotten")
    assert [row.file for row in report.accept()] == ["log/1/0", "log/1/1", "log/1/2", "2 more"]
    assert report.open_rows() == [] and report.open_kinds() == set()
