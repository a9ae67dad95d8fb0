"""The journal survives torn ends, refuses damage, and never shows half a batch."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from penstock.catalog import journal
from penstock.catalog.journal import JournalReader, JournalWriter, journal_file
from penstock.errors import PenstockError

pytestmark = pytest.mark.usefixtures("unsynced")


def write(folder: Path, *kinds: str) -> None:
    writer = JournalWriter(folder)
    for kind in kinds:
        writer.append([(kind, {"name": kind})], {3: 7}, 5)
    writer.close()


def kinds(folder: Path) -> list[str]:
    return [e.kind for e in JournalReader(folder).read()]


def test_entries_come_back_as_they_were_written_with_positions_from_one(tmp_path: Path) -> None:
    write(tmp_path, "a", "b")
    first, second = JournalReader(tmp_path).read()
    assert (first.pos, first.kind, first.heads, first.at_us, first.body) == (1, "a", {3: 7}, 5, {"name": "a"})
    assert second.pos == 2


def test_a_reader_gets_each_entry_once_and_waits_at_the_position_it_was_told(tmp_path: Path) -> None:
    reader = JournalReader(tmp_path)
    assert (reader.read(), reader.head()) == ([], 0)
    write(tmp_path, "a", "b", "c")
    assert [e.kind for e in reader.read(upto=2)] == ["a", "b"]
    assert reader.read(upto=2) == []
    assert reader.head() == 3
    write(tmp_path, "d")
    assert [e.kind for e in reader.read()] == ["c", "d"]


def test_entries_that_are_decoded_one_by_one_are_those_that_are_read_at_once(tmp_path: Path) -> None:
    write(tmp_path, "a", "b", "c", "d", "e")
    whole = JournalReader(tmp_path).read()
    reader = JournalReader(tmp_path)
    two, rest = reader.entries(upto=2), reader.entries()
    assert (list(two), list(rest), rest[-1]) == (whole[:2], whole[2:], whole[-1])
    assert list(two) + list(rest) == whole and not list(reader.entries(upto=9))


def test_a_tail_torn_at_any_byte_is_cut_off_and_written_over(tmp_path: Path) -> None:
    write(tmp_path, "a", "b", "last")
    whole = journal_file(tmp_path).read_bytes()
    good = whole[: whole.rstrip(b"\n").rfind(b"\n") + 1]
    for end in range(len(good), len(whole)):
        journal_file(tmp_path).write_bytes(whole[:end])
        assert kinds(tmp_path) == ["a", "b"]
        write(tmp_path, "anew")
        assert kinds(tmp_path) == ["a", "b", "anew"]


def test_a_batch_torn_at_any_byte_goes_as_a_whole(tmp_path: Path) -> None:
    write(tmp_path, "a")
    good = journal_file(tmp_path).stat().st_size
    writer = JournalWriter(tmp_path)
    writer.append([("x", {}), ("y", {}), ("z", {})], {}, 1)
    writer.close()
    whole = journal_file(tmp_path).read_bytes()
    for end in range(good, len(whole)):
        journal_file(tmp_path).write_bytes(whole[:end])
        reader = JournalReader(tmp_path)
        assert [e.kind for e in reader.read()] == ["a"]
        writer = JournalWriter(tmp_path)
        assert (writer.position, journal_file(tmp_path).stat().st_size) == (1, good)
        writer.close()
    journal_file(tmp_path).write_bytes(whole)
    assert kinds(tmp_path) == ["a", "x", "y", "z"]


def test_a_reader_sees_a_batch_only_when_all_of_it_is_there(tmp_path: Path) -> None:
    writer = JournalWriter(tmp_path)
    writer.append([("x", {}), ("y", {})], {}, 1)
    writer.close()
    whole = journal_file(tmp_path).read_bytes()
    reader = JournalReader(tmp_path)
    for end in range(len(whole)):
        journal_file(tmp_path).write_bytes(whole[:end])
        assert reader.read() == []
    journal_file(tmp_path).write_bytes(whole)
    assert [e.kind for e in reader.read()] == ["x", "y"]


def test_a_bad_byte_before_the_last_line_is_named_by_its_entry(tmp_path: Path) -> None:
    write(tmp_path, "a", "b", "c")
    whole = journal_file(tmp_path).read_bytes()
    begin = whole.find(b"\n") + 1
    end = whole.find(b"\n", begin)
    for at in (begin, begin + 8, begin + 12, end - 1):
        journal_file(tmp_path).write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        for opening in (JournalWriter, kinds):
            with pytest.raises(PenstockError, match="entry 2") as caught:
                opening(tmp_path)
            assert caught.value.condition == "corrupt_journal"


def test_a_line_that_is_missing_or_doubled_is_damage(tmp_path: Path) -> None:
    write(tmp_path, "a", "b", "c")
    lines = journal_file(tmp_path).read_bytes().splitlines(keepends=True)
    for wrong in (lines[:1] + lines[2:], lines[:2] + lines[1:]):
        journal_file(tmp_path).write_bytes(b"".join(wrong))
        with pytest.raises(PenstockError, match=r"stands in its place"):
            kinds(tmp_path)


def test_a_journal_that_got_shorter_under_a_reader_is_damage(tmp_path: Path) -> None:
    write(tmp_path, "a", "b")
    reader = JournalReader(tmp_path)
    reader.read()
    journal_file(tmp_path).write_bytes(b"")
    with pytest.raises(PenstockError, match="shorter"):
        reader.read()


class Disk:
    """Takes so many bytes, then has no room; `sync` may fail too."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.room = 1 << 40
        self.sync_fails = self.cut_fails = False
        real = {name: getattr(os, name) for name in ("write", "fsync", "ftruncate")}

        def write(descriptor: int, data: bytes) -> int:
            if not self.room:
                raise OSError(errno.ENOSPC, "No space left on device")
            written = real["write"](descriptor, data[: self.room])
            self.room -= written
            return int(written)

        def fsync(descriptor: int) -> None:
            if self.sync_fails:
                raise OSError(errno.EIO, "Input/output error")
            real["fsync"](descriptor)

        def ftruncate(descriptor: int, size: int) -> None:
            if self.cut_fails:
                raise OSError(errno.EIO, "Input/output error")
            real["ftruncate"](descriptor, size)

        fake: dict[str, Any] = {"write": write, "fsync": fsync, "ftruncate": ftruncate}
        for name, function in fake.items():
            monkeypatch.setattr(journal.os, name, function)


@pytest.mark.parametrize("room", [0, 1, 60, 130, 200])
def test_a_full_disk_refuses_the_batch_and_leaves_nothing_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    disk = Disk(monkeypatch)
    writer = JournalWriter(tmp_path)
    writer.append([("a", {})], {}, 1)
    before = journal_file(tmp_path).read_bytes()
    disk.room = room
    with pytest.raises(PenstockError) as caught:
        writer.append([("x", {"text": "x" * 40}), ("y", {"text": "y" * 40})], {}, 1)
    assert caught.value.condition == "disk_full"
    assert (journal_file(tmp_path).read_bytes(), writer.position) == (before, 1)
    disk.room = 1 << 40
    assert writer.append([("b", {})], {}, 1)[0].pos == 2
    assert kinds(tmp_path) == ["a", "b"]


def test_what_could_not_be_synced_is_taken_back_even_if_only_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk(monkeypatch)
    writer = JournalWriter(tmp_path)
    disk.sync_fails = disk.cut_fails = True
    with pytest.raises(PenstockError, match="Input/output error"):
        writer.append([("lost", {})], {}, 1)
    disk.sync_fails = disk.cut_fails = False
    assert writer.append([("kept", {})], {}, 1)[0].pos == 1
    assert kinds(tmp_path) == ["kept"]


def test_what_cannot_be_written_as_json_changes_nothing(tmp_path: Path) -> None:
    writer = JournalWriter(tmp_path)
    with pytest.raises(TypeError):
        writer.append([("a", {"value": object()})], {}, 1)
    assert (writer.position, journal_file(tmp_path).stat().st_size) == (0, 0)


def test_a_tail_that_is_cut_off_is_kept_aside(tmp_path: Path) -> None:
    write(tmp_path, "a", "b")
    whole = journal_file(tmp_path).read_bytes()
    journal_file(tmp_path).write_bytes(whole[:-5])
    write(tmp_path, "c")
    assert kinds(tmp_path) == ["a", "c"]
    (kept,) = (tmp_path / "corrupt" / "journal").iterdir()
    assert kept.read_bytes() == whole[whole.index(b"\n") + 1 : -5]


def test_after_a_failed_sync_the_writer_refuses_until_the_file_was_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk(monkeypatch)
    writer = JournalWriter(tmp_path)
    writer.append([("a", {})], {}, 1)
    disk.sync_fails = True
    with pytest.raises(PenstockError):
        writer.append([("lost", {})], {}, 1)
    disk.sync_fails = False
    # The page cache has lost what the disk has not taken: the file is shorter than the writer knows.
    journal_file(tmp_path).write_bytes(b"")
    with pytest.raises(PenstockError) as caught:
        writer.append([("b", {})], {}, 1)
    assert caught.value.condition == "corrupt_journal"
    assert journal_file(tmp_path).read_bytes() == b""


@pytest.mark.parametrize("hole", [(300, 400), (300, 1500), (500, 501)])
def test_a_batch_with_a_hole_is_a_tail_that_was_never_stored(tmp_path: Path, hole: tuple[int, int]) -> None:
    """A power cut during the sync of a large batch: later pages are on disk, earlier ones are not."""
    journal = JournalWriter(tmp_path)
    journal.append([("note", {"n": 0})], {}, 1)
    size = journal_file(tmp_path).stat().st_size
    journal.append([("note", {"n": n}) for n in range(1, 30)], {}, 2)
    journal.close()
    data = bytearray(journal_file(tmp_path).read_bytes())
    data[size + hole[0] : size + hole[1]] = bytes(hole[1] - hole[0])
    journal_file(tmp_path).write_bytes(data)
    again = JournalWriter(tmp_path)
    assert again.position == 1
    again.append([("note", {"n": 99})], {}, 3)
    again.close()
    assert [entry.body["n"] for entry in JournalReader(tmp_path).read()] == [0, 99]
