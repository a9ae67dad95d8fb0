"""Snapshots of the catalog: with the lines after one, the state is that of the whole journal, whatever became of the lines before."""

from __future__ import annotations

import os
import random
import re
import resource
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.catalog import catalog
from penstock.catalog.folder_format import FORMAT_VERSION, read_format
from penstock.catalog.journal import JournalMoved, JournalReader, JournalWriter, journal_file, journal_files
from penstock.catalog.model import Table
from penstock.catalog.snapshot import (
    list_snapshots,
    read_snapshot,
    snapshot_path,
    write_snapshot,
)
from penstock.catalog.state import CatalogState, load_state, snapshot_of
from penstock.database.verification import verify_file
from penstock.errors import PenstockError
from penstock.types import INT, Field
from tests.catalog.bench import CatalogBench
from tests.catalog.test_histories import STEPS, plain
from tests.support.examples import examples

pytestmark = pytest.mark.usefixtures("unsynced")


def live(bench: CatalogBench, draw: st.DataObject, most: int = 25) -> dict[int, str]:
    """A random history; the state after each step by its position."""
    states = {0: plain(CatalogState())}
    for _ in range(draw.draw(st.integers(5, most))):
        try:
            draw.draw(st.sampled_from(STEPS))(bench, draw)
        except PenstockError:
            pass
        states[bench.state.position] = plain(bench.state)
    return states


@settings(max_examples=examples(30), deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_a_snapshot_and_the_lines_after_it_give_the_state_of_the_whole_journal(draw: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as name:
        bench = CatalogBench(Path(name))
        states = live(bench, draw)
        bench.close()
        middle = draw.draw(st.sampled_from(sorted(states)))
        path = write_snapshot(Path(name), snapshot_of(load_state(Path(name), upto=middle), "0" * 16))
        restored = CatalogState()
        restored.restore(read_snapshot(path))
        assert plain(restored) == states[middle]
        reader = JournalReader(Path(name))
        reader.entries(upto=middle)
        for entry in reader.entries():
            restored.apply_many([entry])
            if entry.pos in states:
                assert plain(restored) == states[entry.pos]
        whole = load_state(Path(name))
        options = orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS
        assert orjson.dumps(snapshot_of(restored, ""), option=options) == orjson.dumps(
            snapshot_of(whole, ""), option=options
        )


@settings(max_examples=examples(30), deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_any_covered_prefix_may_be_removed_or_damaged(draw: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        patch.setattr(catalog, "SNAPSHOT_ENTRIES", draw.draw(st.integers(1, 5)))
        folder = Path(name)
        bench = CatalogBench(folder)
        states = live(bench, draw)
        needed = draw.draw(st.integers(0, bench.state.position))
        bench.catalog.forget_before(needed)
        for position, state in states.items():
            if position >= needed:
                assert plain(load_state(folder, upto=position)) == state
        bench.close()
        victim = draw.draw(st.sampled_from(sorted((folder / "journal").iterdir())))
        data = bytearray(victim.read_bytes())
        if data:
            data[draw.draw(st.integers(0, len(data) - 1))] ^= 1 << draw.draw(st.integers(0, 7))
            victim.write_bytes(data)
        expected = states[max(states)]
        assert plain(load_state(folder)) == expected
        bench.open()
        assert plain(bench.state) == expected
        bench.catalog.create_table(Table(0, "after", (Field("k", INT),), ("k",)))
        after = plain(bench.state)
        bench.reopen()
        assert plain(bench.state) == after == plain(load_state(folder))
        bench.close()


def test_every_flipped_byte_of_journal_and_snapshot_is_survived(tmp_path: Path) -> None:
    bench = CatalogBench(tmp_path)
    bench.make_sensors()
    bench.catalog.insert_rows("sensors", [(1, "north", None), (2, "south", "here")])
    bench.reopen()
    bench.catalog.insert_rows("sensors", [(3, "west", None)])
    expected = plain(bench.state)
    bench.close()
    for path in sorted((tmp_path / "journal").iterdir()):
        whole = path.read_bytes()
        for place in range(len(whole)):
            path.write_bytes(whole[:place] + bytes([whole[place] ^ (1 << place % 8)]) + whole[place + 1 :])
            assert plain(load_state(tmp_path)) == expected
        path.write_bytes(whole[:-20])
        assert plain(load_state(tmp_path)) == expected
        path.unlink()
        if path != journal_file(tmp_path):
            assert plain(load_state(tmp_path)) == expected
        path.write_bytes(whole)


def test_damage_that_a_snapshot_covers_is_noted_and_harms_nothing(tmp_path: Path) -> None:
    bench = CatalogBench(tmp_path)
    bench.make_sensors()
    bench.make_sensors("others")
    bench.close()
    lines = journal_file(tmp_path).read_bytes()
    journal_file(tmp_path).write_bytes(lines[:30] + b"?" + lines[31:])
    bench.open()
    (row,) = bench.damage.rows()
    assert (row.file, row.kind, row.healed) == ("journal entry 1", "journal", True)
    assert set(bench.state.tables) == {"sensors", "others"}
    bench.close()


def test_a_snapshot_under_the_name_of_another_one_is_found(tmp_path: Path) -> None:
    bench = CatalogBench(tmp_path)
    bench.make_sensors()
    bench.close()
    path, other = snapshot_path(tmp_path, bench.state.position), snapshot_path(tmp_path, 77)
    assert verify_file(tmp_path, path) is None
    path.rename(other)
    assert f"it is the snapshot of entry {bench.state.position}" in str(verify_file(tmp_path, other))


def test_damage_that_no_snapshot_covers_is_named_by_its_entry(tmp_path: Path) -> None:
    bench = CatalogBench(tmp_path)
    bench.make_sensors()
    bench.make_sensors("others")
    bench.close()
    for position in list_snapshots(tmp_path):
        snapshot_path(tmp_path, position).unlink()
    lines = journal_file(tmp_path).read_bytes()
    journal_file(tmp_path).write_bytes(lines[:30] + b"?" + lines[31:])
    with pytest.raises(PenstockError, match="entry 1") as caught:
        JournalWriter(tmp_path)
    assert caught.value.condition == "corrupt_journal"


def test_lines_of_a_server_that_was_killed_are_covered_from_the_next_start_on(tmp_path: Path) -> None:
    bench = CatalogBench(tmp_path)
    bench.make_sensors()
    bench.make_sensors("others")
    expected = plain(bench.state)
    bench.open()  # the one before was never closed
    lines = journal_file(tmp_path).read_bytes()
    journal_file(tmp_path).write_bytes(lines[:30] + b"?" + lines[31:])
    for _ in range(2):
        bench.open()
        assert plain(bench.state) == expected == plain(load_state(tmp_path))
        assert list_snapshots(tmp_path) == [2], "an open that finds nothing new writes none"
    bench.close()


def test_the_journal_stops_growing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalog, "SNAPSHOT_ENTRIES", 10)
    bench = CatalogBench(tmp_path)
    bench.make_sensors()
    reader, behind = JournalReader(tmp_path), JournalReader(tmp_path)
    follower = CatalogState()
    behind.read()
    sizes = []
    for number in range(300):
        bench.catalog.retain(1, number + 1)
        bench.catalog.forget_before(bench.state.position)
        sizes.append(sum(path.stat().st_size for path in (tmp_path / "journal").iterdir()))
        follower.apply_many(reader.entries())
    assert plain(follower) == plain(bench.state) == plain(load_state(tmp_path))
    assert max(sizes[100:]) < 2 * max(sizes[:100])
    with pytest.raises(JournalMoved):
        behind.read()
    bench.reopen()
    assert plain(bench.state) == plain(follower)
    bench.close()


def test_a_line_that_was_exchanged_for_an_older_one_is_damage(tmp_path: Path) -> None:
    for other in (False, True):
        writer_ = JournalWriter(tmp_path / str(other))
        for kind in ("a", "b" if other else "x", "c"):
            writer_.append([(kind, {})], {}, 1)
        writer_.close()
    mine, theirs = (journal_file(tmp_path / str(other)).read_bytes().splitlines(True) for other in (False, True))
    journal_file(tmp_path / "False").write_bytes(mine[0] + theirs[1] + mine[2])
    with pytest.raises(PenstockError, match="entry 3: it follows other lines"):
        JournalReader(tmp_path / "False").read()


def test_a_journal_of_format_1_keeps_its_lines_and_is_of_this_format_from_the_next_one_on(tmp_path: Path) -> None:
    bench = CatalogBench(tmp_path)
    bench.make_sensors()
    bench.catalog.insert_rows("sensors", [(1, "north", None)])
    expected = plain(bench.state)
    bench.close()
    for path in (tmp_path / "journal").iterdir():
        if path != journal_file(tmp_path):
            path.unlink()
    texts = [
        re.sub(rb'"chain":"[0-9a-f]+",', b"", line[9:]) for line in journal_file(tmp_path).read_bytes().splitlines()
    ]
    old = b"".join(b"%08x %s\n" % (zlib.crc32(text), text) for text in texts)
    journal_file(tmp_path).write_bytes(old)
    (tmp_path / "format_version").write_text("1\n")
    bench = CatalogBench(tmp_path)
    assert plain(bench.state) == expected and read_format(tmp_path) == 1
    bench.catalog.insert_rows("sensors", [(2, "south", None)])
    assert read_format(tmp_path) == FORMAT_VERSION
    assert journal_file(tmp_path).read_bytes().startswith(old)
    bench.reopen()
    assert plain(bench.state) == plain(load_state(tmp_path))
    assert len(journal_files(tmp_path)) == 3
    bench.close()


def test_random_positions_of_damage_in_a_long_journal(tmp_path: Path) -> None:
    bench = CatalogBench(tmp_path)
    bench.make_sensors()
    for number in range(200):
        bench.catalog.insert_rows("sensors", [(number, "here", None)])
        if number % 50 == 49:
            bench.reopen()
    expected = plain(bench.state)
    bench.close()
    chance = random.Random(7)
    for path in sorted((tmp_path / "journal").iterdir()):
        whole = path.read_bytes()
        for _ in range(5 if whole else 0):
            at, length = chance.randrange(len(whole)), chance.choice([1, 512])
            path.write_bytes(whole[:at] + bytes(len(whole[at : at + length])) + whole[at + length :])
            assert plain(load_state(tmp_path)) == expected
        path.write_bytes(whole)


@contextmanager
def few_descriptors(count: int) -> Iterator[None]:
    """The process may open so many more files, and no other."""
    free = [os.open(os.devnull, os.O_RDONLY) for _ in range(count + 1)]
    for descriptor in free:
        os.close(descriptor)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(free), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize("step", ["open", "sync"])
def test_a_new_file_that_cannot_be_made_leaves_the_old_one_in_use(tmp_path: Path, step: str) -> None:
    written = JournalWriter(tmp_path)
    written.append([("note", {"n": 1})], {}, 1)
    reader = JournalReader(tmp_path)

    # The new file needs one more descriptor, and its folder another one while it is synced.
    with few_descriptors(0 if step == "open" else 1), pytest.raises(OSError, match="Too many"):
        written.rotate()
    written.append([("note", {"n": 2})], {}, 2)
    assert [entry.body["n"] for entry in reader.read()] == [1, 2]
    written.rotate()
    written.append([("note", {"n": 3})], {}, 3)
    written.close()
    assert [entry.body["n"] for entry in reader.read()] == [3]
    assert [entry.body["n"] for entry in JournalReader(tmp_path).read()] == [1, 2, 3]
    assert [first for first, _ in journal_files(tmp_path)] == [1, 3]


def test_a_reader_that_is_overtaken_by_a_snapshot_reads_the_lines_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = CatalogBench(tmp_path)
    bench.catalog.create_table(Table(0, "first", [Field("id", INT)], ("id",)))
    reader = JournalReader(tmp_path)
    look = os.stat
    overtaken = []

    def write_afterwards(path: Any, *arguments: Any, **named: Any) -> os.stat_result:
        found = look(path, *arguments, **named)
        if not overtaken and reader.rest == (path, found.st_size):  # the reader takes the file for read to its end
            overtaken.append(bench.catalog.create_table(Table(0, "second", [Field("id", INT)], ("id",))))
            overtaken.append(bench.catalog.create_table(Table(0, "third", [Field("id", INT)], ("id",))))
            bench.catalog.write_snapshot()
        return found

    monkeypatch.setattr(os, "stat", write_afterwards)
    head = bench.state.position
    assert [entry.pos for entry in reader.read(upto=head + 1)] == list(range(1, head + 2))
    assert [entry.kind for entry in reader.read()] == ["create_table"]
    bench.close()
