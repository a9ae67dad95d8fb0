"""Reading the log by file names alone."""

from __future__ import annotations

import itertools
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import PenstockError
from penstock.streams.log.segment_rows import read_slice
from penstock.streams.log.segments import Segment, cover, list_segments, parse_segment, segment_name, slices

UTC = pa.timestamp("us", tz="UTC")


def put(folder: Path, first: int, values: list[int], format: str = "arrow", group: int = 4, low: int = 0) -> Path:
    """A segment whose row at position p has ts = p and x = values[...]."""
    folder.mkdir(parents=True, exist_ok=True)
    end = first + len(values)
    table = pa.table(
        {
            "_vid": pa.array([0] * len(values), pa.int32()),
            "ts": pa.array(range(first, end), pa.int64()).cast(UTC),
            "x": pa.array(values, pa.int64()),
        }
    )
    path = folder / segment_name(first, end, first + low, end - 1, "arrow" if format == "arrow" else "parquet")
    if format == "arrow":
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table, max_chunksize=3)
    else:
        pq.write_table(table, path, row_group_size=group)
    return path


@given(
    st.integers(0, 10**15),
    st.integers(1, 10**6),
    st.integers(-(2**62), 2**62),
    st.integers(-(2**62), 2**62),
    st.sampled_from(["arrow", "parquet"]),
)
def test_a_name_says_exactly_what_a_segment_holds(first: int, rows: int, low: int, high: int, format: str) -> None:
    kind = "arrow" if format == "arrow" else "parquet"
    path = Path("7") / segment_name(first, first + rows, low, high, kind)
    assert parse_segment(path) == Segment(path, first, first + rows, low, high, kind)


@pytest.mark.parametrize("name", ["x", "1-2-3-4.arrow", "0000000000000000-0000000000000001-1-2.csv", "keys.jsonl"])
def test_other_files_are_no_segments(name: str) -> None:
    assert parse_segment(Path(name)) is None


@given(st.data())
def test_a_cover_holds_every_position_once_however_far_merging_came(data: st.DataObject) -> None:
    """Merge random neighbours again and again, keep some of what was replaced, and look at the cover."""
    sizes = data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=12))
    start = data.draw(st.integers(0, 9))
    bounds = [start]
    for size in sizes:
        bounds.append(bounds[-1] + size)
    current = [(a, b, "arrow") for a, b in itertools.pairwise(bounds)]
    files = set(current)
    for _ in range(data.draw(st.integers(0, 4))):
        low = data.draw(st.integers(0, len(current) - 1))
        high = data.draw(st.integers(low + 1, len(current)))
        merged = (current[low][0], current[high - 1][1], "parquet")
        replaced = [f for f in files if merged[0] <= f[0] and f[1] <= merged[1] and f != merged]
        files -= set(data.draw(st.lists(st.sampled_from(replaced)))) if replaced else set()
        files.add(merged)
        current[low:high] = [merged]
    segments = [Segment(Path(f"{a}-{b}"), a, b, 0, 0, "arrow" if f == "arrow" else "parquet") for a, b, f in files]
    chosen, gap = cover(segments)
    assert gap is None
    assert [(s.first, s.end, s.format) for s in chosen] == current


def test_a_missing_file_in_the_middle_is_an_error_that_names_it(tmp_path: Path) -> None:
    put(tmp_path / "3", 0, [1, 2])
    put(tmp_path / "3", 5, [1, 2])
    with pytest.raises(PenstockError, match="3/0000000000000002") as caught:
        list_segments(tmp_path, 3)
    assert caught.value.condition == "corrupt_segment"


def test_a_folder_without_files_and_none_at_all_list_nothing(tmp_path: Path) -> None:
    (tmp_path / "9").mkdir()
    assert list_segments(tmp_path, 9) == list_segments(tmp_path, 4) == []


@pytest.mark.parametrize("format", ["arrow", "parquet"])
@given(start=st.integers(0, 12), size=st.integers(0, 12))
@settings(deadline=None)  # syncs and mappings take what the disk takes
def test_a_slice_reads_exactly_its_rows(
    tmp_path_factory: pytest.TempPathFactory, format: str, start: int, size: int
) -> None:
    folder = tmp_path_factory.mktemp("log")
    put(folder / "3", 0, list(range(10)), format)
    put(folder / "3", 10, list(range(10, 14)))
    found = slices(list_segments(folder, 3), start, start + size)
    rows = [x for piece in found for x in read_slice(piece, ["x"]).column("x").to_pylist()]
    assert rows == list(range(14))[start : start + size]
    positions = [p for piece in found for p in read_slice(piece, ["_pos"]).column("_pos").to_pylist()]
    assert positions == rows


def test_files_outside_the_asked_time_are_left_out(tmp_path: Path) -> None:
    put(tmp_path / "3", 0, [0] * 10)
    put(tmp_path / "3", 10, [0] * 10)
    segments = list_segments(tmp_path, 3)
    assert [s.first for s in slices(segments, 0, 20, min_ts=10)] == [10]
    assert [s.first for s in slices(segments, 0, 20, max_ts=9)] == [0]
    assert [s.first for s in slices(segments, 0, 20, min_ts=9, max_ts=10)] == [0, 10]


def test_row_groups_outside_the_asked_time_are_left_out_and_positions_stay_right(tmp_path: Path) -> None:
    put(tmp_path / "3", 0, list(range(20)), "parquet", group=4)
    (piece,) = slices(list_segments(tmp_path, 3), 1, 19)
    table = read_slice(piece, ["_pos", "x"], min_ts=9, max_ts=12)
    assert table.column("x").to_pylist() == list(range(8, 16))
    assert table.column("_pos").to_pylist() == list(range(8, 16))
    assert read_slice(piece, ["x"], min_ts=100).num_rows == 0


@pytest.mark.parametrize("format", ["arrow", "parquet"])
def test_a_column_that_is_newer_than_the_file_reads_as_null(tmp_path: Path, format: str) -> None:
    put(tmp_path / "3", 0, [5, 6], format)
    (piece,) = slices(list_segments(tmp_path, 3), 0, 2)
    schema = pa.schema([("x", pa.int64()), ("later", pa.string())])
    table = read_slice(piece, schema=schema)
    assert table.schema == schema
    assert table.to_pylist() == [{"x": 5, "later": None}, {"x": 6, "later": None}]
    assert read_slice(piece, schema=pa.schema([("later", pa.string())])).num_rows == 2


def test_a_slice_of_a_file_that_compaction_replaced_is_read_from_the_new_one(tmp_path: Path) -> None:
    old = [put(tmp_path / "3", i * 5, list(range(i * 5, i * 5 + 5))) for i in range(3)]
    planned = slices(list_segments(tmp_path, 3), 3, 12)
    put(tmp_path / "3", 0, list(range(15)), "parquet")
    for path in old:
        path.unlink()
    assert [x for piece in planned for x in read_slice(piece, ["x"]).column("x").to_pylist()] == list(range(3, 12))


def test_a_slice_of_a_file_that_is_gone_for_good_is_an_error(tmp_path: Path) -> None:
    path = put(tmp_path / "3", 0, [1])
    (piece,) = slices(list_segments(tmp_path, 3), 0, 1)
    path.unlink()
    with pytest.raises(PenstockError) as caught:
        read_slice(piece)
    assert caught.value.condition == "corrupt_segment"


@pytest.mark.parametrize("format", ["arrow", "parquet"])
def test_a_damaged_file_is_named_and_never_skipped(tmp_path: Path, format: str) -> None:
    path = put(tmp_path / "3", 0, [1, 2, 3], format)
    path.write_bytes(path.read_bytes()[:-20])
    (piece,) = slices(list_segments(tmp_path, 3), 0, 3)
    with pytest.raises(PenstockError, match=path.name) as caught:
        read_slice(piece, ["x"])
    assert caught.value.condition == "corrupt_segment"


def test_arrow_rows_are_mapped_not_copied(tmp_path: Path) -> None:
    put(tmp_path / "3", 0, list(range(3)))
    (piece,) = slices(list_segments(tmp_path, 3), 0, 3)
    before = pa.total_allocated_bytes()
    table = read_slice(piece, ["x"])
    assert table.num_rows == 3
    assert pa.total_allocated_bytes() - before < 1024
