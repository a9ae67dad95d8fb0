"""Sheets and lists by themselves: what is written is read, what is lost is said, what is merged stays."""

from __future__ import annotations

import os
import random
from dataclasses import replace
from pathlib import Path

import numpy as np
from pyroaring import BitMap
from pytest import MonkeyPatch

from penstock.expr.bits import pack
from penstock.operators.select import bit_matrix
from penstock.operators.select import match_store as shelves
from penstock.operators.select.bit_matrix import BitMatrix, BitMatrixRef, map_matrix, name_from_bytes, write_matrix
from penstock.operators.select.match_store import MatchStore
from penstock.operators.select.position_lists import PositionLists, lists_from_bytes, merge_lists


def sheet(first: int, end: int, chosen: dict[int, list[int]]) -> BitMatrix:
    rows = end - first
    words = np.stack([pack(np.isin(np.arange(first, end), positions)) for positions in chosen.values()])
    times = np.arange(first, end, dtype=np.int64) * 10
    queries = np.array(sorted(chosen), np.int64)
    return BitMatrix(
        1, first, end, queries, np.arange(len(chosen), dtype=np.int32), times, np.zeros(rows, np.int32), words
    )


def named(folder: Path, found: BitMatrix) -> BitMatrixRef:
    low, high = int(found.times.min()), int(found.times.max())
    file = write_matrix(folder, found)
    return BitMatrixRef(1, found.first, found.end, low, high, file, BitMap(found.queries.tolist()))


def test_a_sheet_is_read_as_it_was_written_and_a_torn_one_is_none(tmp_path: Path) -> None:
    found = sheet(100, 231, {3: [100, 163, 164, 230], 8: []})
    name = named(tmp_path, found)
    again = name_from_bytes(1, 100, name.to_bytes())
    assert again == name
    assert again.file is not None
    read = map_matrix(tmp_path / again.file)
    assert read is not None
    assert read.positions(read.row(3)).tolist() == [100, 163, 164, 230]
    assert read.positions(read.row(8)).tolist() == []
    assert (read.row(4), read.nbytes) == (-1, found.nbytes)
    path = tmp_path / again.file
    path.write_bytes(path.read_bytes()[:-8])
    assert map_matrix(path) is None
    path.write_bytes(b"")
    assert map_matrix(path) is None


def test_of_a_large_matrix_only_the_rows_that_are_meant_are_written(tmp_path: Path, monkeypatch: MonkeyPatch) -> None:
    monkeypatch.setattr(bit_matrix, "_WRITE_BYTES", 40)  # two rows of 131 bits at a time
    matrix = sheet(100, 231, {query: list(range(100 + query, 231, query)) for query in range(1, 8)})
    used = np.array([1, 2, 4, 5, 6])
    queries, row_of = matrix.queries[used], np.arange(len(used), dtype=np.int32)
    found = replace(matrix, queries=queries, row_of=row_of, chosen=used)
    name = named(tmp_path, found)
    assert name.file is not None
    read = map_matrix(tmp_path / name.file)
    assert read is not None and read.words.shape[0] == 5
    for query in range(1, 8):
        if query in queries:
            assert read.positions(read.row(query)).tolist() == list(range(100 + query, 231, query))
        else:
            assert read.row(query) == -1


def test_sheets_keep_no_file_descriptor_and_are_there_after_their_file(tmp_path: Path) -> None:
    shelf = MatchStore(tmp_path)
    before = len(os.listdir("/proc/self/fd"))
    for first in range(0, 64 * 50, 64):
        shelf.put(named(tmp_path, sheet(first, first + 64, {5: [first + 1]})))
    assert len(shelf.sheets) == 50
    assert len(os.listdir("/proc/self/fd")) < before + 10
    for path in tmp_path.iterdir():
        path.unlink()
    assert [found.tolist() for found in shelf.view().positions(5, 64, 192)] == [[65], [129]]


def test_a_folder_without_room_gives_no_name(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert write_matrix(tmp_path / "file", sheet(0, 64, {1: [1]})) is None


def test_what_is_given_up_is_missed_by_its_members_only(tmp_path: Path) -> None:
    shelf = MatchStore(tmp_path)
    for first in (0, 64, 128):
        shelf.put(named(tmp_path, sheet(first, first + 64, {5: [first], 6: [first + 1]})))
    before = shelf.view()
    shelf.give_up(shelf.sheets[1:2])
    after = shelf.view()
    assert after.missing(5, 0, 192) == [(64, 128)]
    assert after.missing(7, 0, 192) == []
    assert [p.tolist() for p in after.positions(5, 0, 192)] == [[0], [128]]
    assert [p.tolist() for p in before.positions(5, 0, 192)] == [[0], [64], [128]]
    for path in shelf.take_files():
        path.unlink()
    assert len(list(tmp_path.glob("*.sheet"))) == 2
    assert shelf.nbytes == sum(k.sheet.nbytes for k in shelf.sheets)


def test_many_lost_sheets_are_told_in_few_words_and_none_is_forgotten(tmp_path: Path) -> None:
    shelf = MatchStore(tmp_path)
    for first in range(0, 10 * shelves.MOST_LOST, 10):
        shelf.put(BitMatrixRef(1, first, first + 10, 0, 0, None, BitMap([first % 7])))
    assert len(shelf.lost) <= shelves.MOST_LOST
    for first in range(0, 10 * shelves.MOST_LOST, 10):
        assert any(low <= first < high for low, high in shelf.view().missing(first % 7, 0, 1 << 40))


def test_a_sheet_that_is_lost_within_a_range_lost_before_takes_nothing_from_it(tmp_path: Path) -> None:
    shelf, sheets = MatchStore(tmp_path), 2 * shelves.MOST_LOST + 40
    for number in [*range(0, sheets, 2), *range(1, sheets, 2)]:
        shelf.put(BitMatrixRef(1, number * 10, number * 10 + 10, 0, 0, None, BitMap([7])))
    assert len(shelf.lost) <= shelves.MOST_LOST
    missing = shelf.view().missing(7, 0, sheets * 10)
    assert {row for low, high in missing for row in range(low, high)} == set(range(sheets * 10))


def test_merged_lists_hold_what_their_parts_held_from_where_a_query_reaches_on() -> None:
    chance = random.Random(4)
    for _ in range(200):
        parts, truth = [], {}
        for first in range(0, 400, 100):
            chosen = {q: sorted(chance.sample(range(first, first + 100), chance.randint(1, 5))) for q in range(1, 6)}
            chosen = {q: p for q, p in chosen.items() if chance.random() < 0.6}
            for q, positions in chosen.items():
                truth.setdefault(q, []).extend(positions)
            counts = [len(p) for p in chosen.values()]
            offsets = [p - first for positions in chosen.values() for p in positions]
            lists = PositionLists(
                first,
                first + 100,
                np.array(list(chosen), np.int64),
                np.append(0, np.cumsum(counts)).astype(np.int64),
                np.array(offsets, np.uint32),
            )
            parts.append(lists_from_bytes(first, lists.to_bytes()))
        chance.shuffle(parts)
        keep = {q: chance.randint(0, 400) for q in (1, 2, 3, 4)} if chance.random() < 0.7 else None
        merged = merge_lists(parts, keep)
        for q in range(1, 7):
            kept = truth.get(q, []) if keep is None else [p for p in truth.get(q, []) if q in keep and p >= keep[q]]
            found = merged.positions(q) if merged is not None else None
            assert ([] if found is None else found.tolist()) == kept


def test_a_querys_share_is_what_is_there_for_it(tmp_path: Path) -> None:
    shelf = MatchStore(tmp_path)
    shelf.put(named(tmp_path, sheet(0, 64, {5: [1], 6: [2]})))
    shelf.put(named(tmp_path, sheet(64, 128, {6: [70], 7: []})))
    half = shelf.sheets[0].sheet.nbytes // 2
    assert [shelf.share(q) for q in (4, 5, 6, 7)] == [0, half, 2 * half, half]
    for first in (0, 100, 200):
        found = np.array([5, 9], np.uint32)
        shelf.put_lists(PositionLists(first, first + 100, np.array([6, 8]), np.array([0, 1, 2]), found))
    assert [shelf.share(q) for q in (5, 6, 8)] == [half, 2 * half + 60, 60]
    shelf.merge(None)
    assert shelf.share(8) == sum(4 * len(p) + 16 for part in shelf.lists if (p := part.positions(8)) is not None)
    shelf.merge({5: 0, 6: 0, 7: 0})
    assert [shelf.share(q) for q in (5, 6, 8)] == [half, 2 * half + 3 * 4 + 16, 0]
    shelf.give_up(shelf.sheets[:1])
    shelf.forget_below(1 << 40)
    shelf.merge({})
    assert [shelf.share(q) for q in (5, 6, 7, 8)] == [0, 0, 0, 0] and len(shelf._shares._queries) == 0


def test_lists_are_merged_however_long_the_log_is(tmp_path: Path) -> None:
    shelf = MatchStore(tmp_path)
    firsts = [0, 500, *(2**32 + 100 * n for n in range(200)), 3 * 2**32]
    for number, first in enumerate(firsts):
        shelf.put_lists(PositionLists(first, first + 100, np.array([7]), np.array([0, 1]), np.array([5], np.uint32)))
        if number % 20 == 19:
            shelf.merge(None)
    assert len(shelf.lists) < 10
    found = np.sort(np.concatenate(shelf.view().positions(7, 0, 2**40)))
    assert found.tolist() == [first + 5 for first in firsts]
    shelf.merge({7: 2**32})
    found = np.sort(np.concatenate(shelf.view().positions(7, 0, 2**40)))
    assert found.tolist() == [first + 5 for first in firsts[2:]]
