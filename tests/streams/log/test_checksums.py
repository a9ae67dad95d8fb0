"""A flipped bit anywhere in a file of the log is an error that names the file, never another reading."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from penstock.database.verification import verify_data
from penstock.errors import PenstockError
from penstock.streams.log import checksums
from penstock.streams.log.atomic_file import no_crash
from penstock.streams.log.checksums import forget_whole, read_sealed, sealed_file
from penstock.streams.log.compaction import merge
from penstock.streams.log.segment_rows import read_slice
from penstock.streams.log.segments import Segment, Slice
from penstock.streams.log.table_log import write_hot
from tests.support.watched import watched

ROWS = 500


class Append:
    key = receipt = None
    at_us = 0

    def __init__(self, batch: pa.RecordBatch) -> None:
        self.batch = batch


def segment(folder: Path, first: int) -> Segment:
    chance = np.random.default_rng(first)
    batch = pa.record_batch(
        {
            "_vid": pa.array(chance.integers(0, 9, ROWS), pa.int32()),
            "ts": pa.array(np.arange(ROWS) + first, pa.timestamp("us", tz="UTC")),
            "ppm": pa.array(chance.random(ROWS)),
            "label": pa.array([None if i % 5 == 0 else f"word {i % 7}" for i in range(ROWS)]),
        }
    )
    return write_hot(folder, folder.parent / "tmp", first, [Append(batch)], no_crash)


def make(folder: Path, format: str) -> Segment:
    (folder / "1").mkdir()
    parts = [segment(folder / "1", 0), segment(folder / "1", ROWS)]
    return parts[0] if format == "arrow" else merge(parts, folder / "tmp")


def read(found: Segment) -> pa.Table:
    rows = read_slice(Slice(found.path, found.format, found.first, 0, found.end - found.first))
    # A copy: what is mapped from the file would change with it.
    return pa.Table.from_pylist(rows.to_pylist(), rows.schema)


@pytest.mark.parametrize("format", ["arrow", "parquet"])
def test_every_flipped_bit_of_a_file_is_noticed_or_harmless(tmp_path: Path, format: str) -> None:
    found = make(tmp_path, format)
    whole, rows = found.path.read_bytes(), read(found)
    chance = random.Random(1)
    noticed = 0
    for _ in range(500):
        damaged = bytearray(whole)
        damaged[chance.randrange(len(whole))] ^= 1 << chance.randrange(8)
        found.path.write_bytes(damaged)
        try:
            assert read(found).equals(rows), "another reading came back"
        except PenstockError as problem:
            assert problem.condition == "corrupt_segment" and found.path.name in problem.message
            noticed += 1
    assert noticed > 250
    found.path.write_bytes(whole)
    assert read(found).equals(rows)


def test_few_files_are_remembered_as_whole_and_the_newest_among_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checksums, "_REMEMBERED", 3)
    (tmp_path / "1").mkdir()
    files = [segment(tmp_path / "1", number * ROWS) for number in range(8)]
    for found in files:
        read(found)
        assert len(checksums._seen) <= 3
    looked: list[object] = []
    with watched(checksums._sums, tell=looked.append):
        for found in files[-3:]:
            read(found)
        assert not looked
        read(files[0])
    assert len(looked) == 1


def test_every_flipped_byte_of_a_footer_is_noticed_or_harmless_to_a_search_by_time(tmp_path: Path) -> None:
    found = make(tmp_path, "parquet")
    whole = found.path.read_bytes()
    part = Slice(found.path, found.format, found.first, 0, found.end - found.first)
    rows = read_slice(part, ["ts", "ppm"], min_ts=0, max_ts=2 * ROWS)
    begin = len(whole) - 8 - int.from_bytes(whole[-8:-4], "little")
    for place in range(begin, len(whole)):
        found.path.write_bytes(whole[:place] + bytes([whole[place] ^ (1 << place % 8)]) + whole[place + 1 :])
        try:
            assert read_slice(part, ["ts", "ppm"], min_ts=0, max_ts=2 * ROWS).equals(rows)
        except PenstockError as problem:
            assert problem.condition == "corrupt_segment"


@pytest.mark.parametrize("place", [0, 1])
def test_a_seal_with_a_damaged_name_is_not_taken_for_none(tmp_path: Path, place: int) -> None:
    """The seal stands at the beginning of a file and in its footer."""
    found = make(tmp_path, "arrow")
    whole = found.path.read_bytes()
    at = whole.find(checksums.SEAL) if place == 0 else whole.rfind(checksums.SEAL)
    damaged = bytearray(whole)
    damaged[at] ^= 1
    found.path.write_bytes(damaged)
    checksums.forget_whole(found.path)
    with pytest.raises((PenstockError, pa.ArrowException)):
        verify_data(found.path)


def test_no_flipped_bit_of_a_small_file_gives_other_rows(tmp_path: Path) -> None:
    """One byte says in which order the bytes of numbers stand: it is under no checksum, so it is not believed."""
    table = pa.table({"a": pa.array([1, 2, 3], pa.int64())})
    path = tmp_path / "small.arrow"
    sealed_file(table.schema, table.to_batches())(path)
    data = path.read_bytes()
    for place in range(len(data)):
        for bit in range(8):
            changed = bytearray(data)
            changed[place] ^= 1 << bit
            path.write_bytes(changed)
            forget_whole(path)
            try:
                with pa.memory_map(str(path)) as source:
                    found = read_sealed(path, source)
            except (pa.ArrowException, OSError, ValueError):
                continue
            assert found.column(0).to_pylist() == [1, 2, 3], (place, bit)
