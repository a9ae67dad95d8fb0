"""Merging changes files, never rows."""

from __future__ import annotations

import random
import threading
import time
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.clock import WallClock
from penstock.errors import PenstockError
from penstock.settings import Settings
from penstock.streams.ingest.ingest import Ingest
from penstock.streams.log.compaction import Compactor, choose_run, merge
from penstock.streams.log.segment_rows import read_slice
from penstock.streams.log.segments import Segment, list_files, list_segments, list_what_is_there, slices
from penstock.streams.log.stream_log import StreamLog
from penstock.streams.maintenance import LogMaintenance, RetentionControl, retention_position
from penstock.types import DOUBLE, INT, TEXT, Field
from tests.streams.doubles import StateDouble, make_table
from tests.support.examples import examples
from tests.support.ingest_bench import NOW, Bench
from tests.support.log_rows import batch, log_heads, stored
from tests.support.manual_clock import ManualClock
from tests.support.pipe import Pipe

SECOND = 1_000_000
TABLE = make_table(time="transaction")


def carry_nothing(table_id: int, paths: list[Path]) -> None:
    """For logs without keys."""


def log_of(folder: Path, count: int, **options: int) -> StreamLog:
    log = StreamLog(folder, Settings(**options), ManualClock(1_000))  # type: ignore[arg-type]
    for i in range(count):
        log.append(TABLE, batch(float(2 * i), float(2 * i + 1))).result(60)
    return log


def test_hot_segments_become_one_parquet_file_with_the_same_rows(tmp_path: Path) -> None:
    log = log_of(tmp_path, 9, compact_after_segments=8)
    compactor = Compactor(log, carry_nothing, grace_s=0.0)
    assert compactor.compact(3)
    (segment,) = list_files(log.folder / "3")
    assert (segment.first, segment.end, segment.format) == (0, 18, "parquet")
    assert stored(tmp_path, 3) == [float(i) for i in range(18)]
    assert log.append(TABLE, batch(18.0)).result(60) == 19
    assert not compactor.compact(3)
    log.close()
    assert log_heads(log.folder) == {3: 19}
    assert stored(tmp_path, 3) == [float(i) for i in range(19)]


def test_columns_of_arrays_and_structs_are_read_after_merging_once_and_twice(tmp_path: Path) -> None:
    pipe = Pipe(tmp_path, compact_after_segments=2)
    shape = "xs ARRAY<INT>, nested ARRAY<STRUCT<a: ARRAY<DOUBLE>, b: TEXT>>"
    pipe.db.execute(f"CREATE TABLE probes (id INT PRIMARY KEY, r STREAM ({shape}))")
    pipe.db.execute("INSERT INTO probes VALUES (1, NULL)")
    table = pipe.db.catalog.state.tables["probes"]
    compactor = Compactor(pipe.db.log, carry_nothing, grace_s=0.0)
    for number in range(72):
        nested = [{"a": [number / 2], "b": "x"}, {"a": [], "b": None}]
        assert pipe.db.push("probes", [{"id": 1, "xs": [number, 1], "nested": nested}]).accepted == 1
        compactor.compact(table.id)
    pipe.restart()
    (segment, *_) = list_segments(pipe.db.log.folder, table.id)
    assert (segment.format, segment.rows) == ("parquet", 24)  # eight files of three rows were merged again
    for each in slices(list_segments(pipe.db.log.folder, table.id), 0, 72):
        rows = read_slice(each)
        (column,) = [name for name in rows.column_names if name.endswith("xs")]
        assert rows.column(column).to_pylist() == [[i, 1] for i in range(each.first, each.first + each.rows)]
        (column,) = [name for name in rows.column_names if name.endswith("nested")]
        assert [row[0]["a"] for row in rows.column(column).to_pylist()] == [
            [i / 2] for i in range(each.first, each.first + each.rows)
        ]
    pipe.db.stop()


def test_replaced_files_stay_for_readers_that_may_have_named_them(tmp_path: Path) -> None:
    log = log_of(tmp_path, 9, compact_after_segments=8)
    now = [0.0]
    compactor = Compactor(log, carry_nothing, grace_s=10.0, now_s=lambda: now[0])
    compactor.compact(3)
    assert len(list_files(log.folder / "3")) == 10
    now[0] += 9
    compactor.compact(3)
    assert len(list_files(log.folder / "3")) == 10
    now[0] += 1
    compactor.compact(3)
    assert len(list_files(log.folder / "3")) == 1
    log.close()


def test_a_field_that_came_later_is_null_in_the_older_part_of_a_merged_file(tmp_path: Path) -> None:
    log = log_of(tmp_path, 3)
    wider = make_table(time="transaction", fields=(Field("ppm", DOUBLE), Field("seq", INT), Field("unit", TEXT)))
    more = batch(9.0).append_column("unit", pa.array(["C"]))
    log.append(wider, more).result(60)
    log.close()
    merge(list_segments(log.folder, 3), log.temporary)
    (segment,) = list_segments(log.folder, 3)
    table = read_slice(slices([segment], 4, 7)[0], ["ppm", "unit"])
    assert table.to_pylist() == [{"ppm": 4.0, "unit": None}, {"ppm": 5.0, "unit": None}, {"ppm": 9.0, "unit": "C"}]


def test_a_damaged_segment_stops_its_merge_and_keeps_every_file(tmp_path: Path) -> None:
    log = log_of(tmp_path, 9, compact_after_segments=8)
    log.close()
    files = list_segments(log.folder, 3)
    files[4].path.write_bytes(b"no")
    with pytest.raises(PenstockError, match=files[4].path.name):
        Compactor(log, carry_nothing, grace_s=0.0).compact(3)
    assert len(list_files(log.folder / "3")) == 9
    assert list(log.temporary.iterdir()) == []


@given(st.lists(st.sampled_from([1, 1, 1, 2, 10, 300, 5_000]), min_size=1, max_size=400), st.integers(0, 3))
@settings(max_examples=examples(30), deadline=None)
def test_however_sizes_come_merging_ends_and_keeps_the_count_of_files_low(sizes: list[int], seed: int) -> None:
    random.Random(seed).shuffle(sizes)
    segments: list[Segment] = []
    written = position = 0
    for size in sizes:
        segments.append(Segment(Path("x"), position, position + size * 1_000, 0, 0, "arrow"))
        position += size * 1_000
        while run := choose_run(segments, 16, 200):
            assert len(run) > 1
            at = segments.index(run[0])
            whole = Segment(Path("x"), run[0].first, run[-1].end, 0, 0, "parquet")
            written += whole.rows
            segments[at : at + len(run)] = [whole]
        assert len(segments) <= 16 + 50
    assert written <= 12 * position


def test_readers_never_notice_while_segments_are_written_merged_and_removed(tmp_path: Path) -> None:
    log = StreamLog(tmp_path, Settings(group_commit_ms=0, compact_after_segments=8), WallClock())
    compactor = Compactor(log, carry_nothing, grace_s=0.0)
    stop = threading.Event()
    problems: list[BaseException] = []

    def read() -> None:
        chooser = random.Random(1)
        try:
            while not stop.is_set():
                head = log_heads(log.folder).get(3, 0)
                start = chooser.randrange(head + 1)
                pieces = slices(list_segments(log.folder, 3), start, head)
                time.sleep(0.002)  # time for a merge to take the files away
                values = [v for piece in pieces for v in read_slice(piece, ["ppm"]).column("ppm").to_pylist()]
                assert values == [float(v) for v in range(start, head)]
        except BaseException as problem:
            problems.append(problem)

    def tend() -> None:
        while not stop.is_set():
            compactor.compact(3)

    threads = [threading.Thread(target=read), threading.Thread(target=read), threading.Thread(target=tend)]
    for thread in threads:
        thread.start()
    for i in range(300):
        log.append(TABLE, batch(float(2 * i), float(2 * i + 1))).result(60)
    stop.set()
    for thread in threads:
        thread.join()
    log.close()
    assert problems == []
    assert compactor.merges > 5
    assert stored(tmp_path, 3) == [float(i) for i in range(600)]


def test_keys_outlive_the_segments_that_carried_them(tmp_path: Path) -> None:
    bench = Bench(tmp_path, make_table())
    row = {"sensor_id": 1, "ppm": 1.0, "seq": 1}
    receipts = [bench.push([row, {"sensor_id": 9}], f"k{i}") for i in range(5)]
    key_file = bench.ingest.tables.key_file(3)
    compactor = Compactor(bench.log, lambda t, paths: key_file.carry(paths, bench.clock.now_us()), grace_s=0.0)
    for _ in range(2):
        merge(list_segments(bench.log.folder, 3), bench.log.temporary)
        compactor.remove(3, 0)
        assert [s.format for s in list_files(bench.log.folder / "3")] == ["parquet"]
        bench.restart()
        assert [bench.push([row], f"k{i}") for i in range(5)] == receipts
        bench.push([row])
        receipts = receipts[:5]
    bench.log.close()


def test_order_and_keys_survive_a_restart_from_the_sidecar_after_old_files_are_gone(tmp_path: Path) -> None:
    bench = Bench(tmp_path, make_table())
    bench.push([{"sensor_id": 1, "ppm": 1.0, "seq": 1, "ts": NOW + 10}])
    bench.push([{"sensor_id": 2, "ppm": 1.0, "seq": 1, "ts": NOW}])
    bench.ingest.tables.remember(bench.table, at_least_rows=1)
    Compactor(bench.log, carry_nothing, grace_s=0.0).remove(3, 1)
    assert bench.log.floor(3) == 1
    bench.restart()
    receipt = bench.push([{"sensor_id": 1, "ppm": 1.0, "seq": 1, "ts": NOW + 5}])
    assert receipt.refused[0].condition == "out_of_order"
    bench.log.close()


def test_retention_counts_from_the_tables_own_now_and_never_passes_what_is_needed(tmp_path: Path) -> None:
    table = make_table(retention_us=100)
    bench = Bench(tmp_path, table)
    for ts in (NOW - 500, NOW - 300, NOW - 200, NOW):
        bench.push([{"sensor_id": 1, "ppm": 1.0, "seq": 1, "ts": ts}])
    assert retention_position(table, bench.log, bench.clock, lambda t: 10) == 3
    assert retention_position(table, bench.log, bench.clock, lambda t: 2) == 2
    assert retention_position(table, bench.log, bench.clock, lambda t: 0) is None
    assert retention_position(make_table(), bench.log, bench.clock, lambda t: 10) is None
    by_clock = make_table(time="transaction", retention_us=100)
    bench.clock.advance(10_000)
    assert retention_position(by_clock, bench.log, bench.clock, lambda t: 10) == 3  # the newest file stays
    compactor = Compactor(bench.log, carry_nothing, grace_s=0.0)
    assert compactor.remove(3, 3) == 3
    assert bench.log.floor(3) == 3
    bench.restart()
    assert bench.log.heads() == {3: 4}
    receipt = bench.push([{"sensor_id": 2, "ppm": 1.0, "seq": 1, "ts": NOW - 101}])
    assert receipt.refused[0].condition == "before_retention"
    bench.log.close()


def test_the_housekeeper_keeps_the_count_of_files_bounded_under_a_stream_of_small_pushes(tmp_path: Path) -> None:
    settings = Settings(group_commit_ms=1, compact_after_segments=16, files_max_per_table=60)
    table = make_table(time="transaction", retention_us=10)
    clock, state = WallClock(), StateDouble(table)
    log = StreamLog(tmp_path, settings, clock)
    ingest = Ingest(log, lambda: state, clock, settings)
    floors: dict[int, int] = {}
    keeper = LogMaintenance(
        log,
        ingest,
        lambda: state,
        clock,
        RetentionControl(floors.__setitem__, lambda t: floors.get(t, 0), log.head),
        grace_s=0.1,
    )
    ingest.restore([table])
    most = 0
    futures = []
    # Counted in merges, not in seconds: a busy machine may push once where an idle one pushes a thousand times.
    deadline = time.monotonic() + 60
    while keeper.compactor.merges < 2 and time.monotonic() < deadline:
        futures.append(ingest.push("probes", [{"sensor_id": 1, "ppm": 1.0, "seq": 1}]))
        most = max(most, len(list_files(log.folder / "3")))
    assert [future.result(60).position for future in futures] == list(range(1, len(futures) + 1))
    keeper.close()
    # One round by hand, now that its thread is gone: the table's files belong to one thread at a time.
    for _ in range(2):
        ingest.push("probes", [{"sensor_id": 1, "ppm": 1.0, "seq": 1}]).result(60)
    keeper.tend(3)
    log.close()
    assert keeper.failures == 0
    assert most <= 60
    assert keeper.compactor.merges >= 2
    assert floors[3] > 0


def test_around_a_missing_file_merging_and_retention_go_on(tmp_path: Path) -> None:
    log = log_of(tmp_path, 20, compact_after_segments=4)
    list_segments(log.folder, 3)[7].path.unlink()
    compactor = Compactor(log, carry_nothing, grace_s=0.0)
    while compactor.compact(3):
        pass
    assert [(s.first, s.end) for s in list_what_is_there(log.folder, 3)] == [(0, 14), (16, 40)]
    assert len(list_files(log.folder / "3")) == 2
    table = make_table(time="transaction", retention_us=10)
    log.append(TABLE, batch(1.0)).result(60)
    position = retention_position(table, log, ManualClock(1_000_000), lambda _: 1_000)
    assert position == 40
    assert compactor.remove(3, 40) == 2
    assert [(s.first, s.end) for s in list_segments(log.folder, 3)] == [(40, 41)], "and with it the damage is gone"
    log.close()
