"""Pushes, good and bad, as people send them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.catalog.model import Deduplicate, StreamColumn, Table
from penstock.clock import ManualClock
from penstock.errors import PenstockError
from penstock.settings import Settings
from penstock.streams.ingest import Ingest
from penstock.streams.log import StreamLog
from penstock.streams.receipt import Receipt
from penstock.streams.rules import NO_TIME
from penstock.streams.segment_rows import read_slice
from penstock.streams.segments import list_segments, slices
from penstock.types import BINARY, BOOLEAN, DOUBLE, INT, TEXT, TIMESTAMP, Field, parse_type
from tests.streams.doubles import StateDouble, make_table

SECOND = 1_000_000
NOW = 1_763_190_000_000_000


class Bench:
    """A log and an ingest over one table, restartable."""

    def __init__(self, folder: Path, table: Table) -> None:
        self.folder, self.table = folder, table
        self.clock = ManualClock(NOW)
        self.state = StateDouble(table)
        self.crash_point: Callable[[str], None] = lambda step: None
        self.open()

    def open(self) -> None:
        self.log = StreamLog(self.folder, Settings(), self.clock, lambda step: self.crash_point(step))
        self.ingest = Ingest(self.log, lambda: self.state, self.clock, Settings())

    def restart(self) -> None:
        self.log.close()
        self.open()

    def push(self, data: Any, key: str | None = None) -> Receipt:
        return self.ingest.push("probes", data, key).result(5)

    def stored(self, *columns: str) -> list[tuple[Any, ...]]:
        segments = list_segments(self.log.folder, self.table.id)
        rows: list[tuple[Any, ...]] = []
        for piece in slices(segments, 0, 2**60):
            table = read_slice(piece, list(columns))
            if "ts" in columns:
                at = columns.index("ts")
                table = table.set_column(at, "ts", table.column("ts").cast(pa.int64()))
            rows.extend(zip(*(column.to_pylist() for column in table.columns), strict=True))
        return rows


Make = Callable[..., Bench]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    benches: list[Bench] = []

    def build(**options: Any) -> Bench:
        benches.append(Bench(tmp_path, make_table(**options)))
        return benches[-1]

    yield build
    for bench in benches:
        bench.log.close()


def refusals(receipt: Receipt) -> list[tuple[int, str]]:
    return [(refusal.index, refusal.condition) for refusal in receipt.refused]


def test_readings_are_stored_with_their_sensors_version(make: Make) -> None:
    bench = make()
    receipt = bench.push([{"sensor_id": 2, "ppm": 37.5, "seq": 1}, {"sensor_id": 1, "ppm": None, "seq": 2}])
    assert receipt == Receipt(2, (), 2)
    assert bench.stored("_vid", "ts", "ppm", "seq") == [(1, NOW, 37.5, 1), (0, NOW, None, 2)]


def test_good_readings_are_stored_whatever_is_wrong_with_the_others(make: Make) -> None:
    bench = make()
    good = {"sensor_id": 1, "ppm": 1.0, "seq": 1}
    receipt = bench.push(
        [
            good,
            {"sensor_id": 1, "ppm": 1.0},
            {**good, "pmp": 2},
            {**good, "ppm": "high"},
            {**good, "seq": 2**31},
            {**good, "sensor_id": 77},
            {**good, "ts": "yesterday"},
            {**good, "ts": NOW + 61 * SECOND},
            {**good, "seq": True},
            {**good, "sensor_id": None},
            {**good, "reading.ppm": 1.0},
            "what",
            good,
        ]
    )
    assert receipt.accepted == 2
    assert refusals(receipt) == [
        (1, "missing_field"),
        (2, "unknown_field"),
        (3, "invalid_value"),
        (4, "invalid_value"),
        (5, "sensor_not_found"),
        (6, "invalid_value"),
        (7, "too_far_ahead"),
        (8, "invalid_value"),
        (9, "sensor_not_found"),
        (10, "invalid_value"),
        (11, "invalid_body"),
    ]
    messages = {refusal.index: refusal.message for refusal in receipt.refused}
    assert messages[1] == 'the reading has no field "seq"'
    assert messages[2] == 'table "probes" has no field "pmp"; did you mean "ppm"?'
    assert messages[3] == 'field "ppm": "high" is not a number'
    assert messages[4] == 'field "seq": 2147483648 lies outside INT'
    assert messages[5] == 'table "probes" has no sensor with sensor_id = 77'
    assert "1m past the wall clock" in messages[7]
    counters = bench.ingest.counters("probes")
    assert counters["accepted"] == 2
    assert counters["refused"] == {
        "missing_field": 1,
        "unknown_field": 1,
        "invalid_value": 5,
        "sensor_not_found": 2,
        "too_far_ahead": 1,
        "invalid_body": 1,
    }


def test_a_push_of_nothing_or_of_nothing_good_is_answered(make: Make) -> None:
    bench = make()
    assert bench.push([]) == Receipt(0, (), 0)
    assert bench.push([{"sensor_id": 9, "ppm": 1.0, "seq": 1}]).accepted == 0
    assert bench.push(pa.table({"sensor_id": [1], "ppm": [1.0], "seq": [1]})).position == 1


@pytest.mark.parametrize(
    "ts",
    [
        NOW - 5,
        float(NOW - 6),
        "2025-11-15T06:59:59.999995Z",
        "2025-11-15 06:59:59.999995",
        "2025-11-15T07:59:59.999995+01:00",
        datetime(2025, 11, 15, 6, 59, 59, 999995, tzinfo=UTC),
    ],
)
def test_a_time_may_be_text_or_microseconds(make: Make, ts: Any) -> None:
    bench = make()
    receipt = bench.push([{"sensor_id": 1, "ppm": 1.0, "seq": 1, "ts": ts}])
    assert receipt.accepted == 1, receipt
    assert bench.stored("ts")[0][0] in (NOW - 5, NOW - 6)


def test_a_reading_without_a_time_gets_the_wall_clock_and_is_never_out_of_order(make: Make) -> None:
    bench = make()
    row = {"sensor_id": 1, "ppm": 1.0, "seq": 1}
    bench.push([{**row, "ts": NOW + 30 * SECOND}])
    receipt = bench.push([row, {**row, "ts": None}, {**row, "ts": NOW}])
    assert refusals(receipt) == [(2, "out_of_order")]
    assert [ts for (ts,) in bench.stored("ts")] == [NOW + 30 * SECOND] * 3


def test_a_time_sent_to_a_transaction_time_table_is_refused_not_lost(make: Make) -> None:
    bench = make(time="transaction")
    row = {"sensor_id": 1, "ppm": 1.0, "seq": 1}
    receipt = bench.push([row, {**row, "ts": NOW}, {**row, "ts": None}])
    assert refusals(receipt) == [(1, "invalid_value")]
    assert "WITH (time = 'valid')" in receipt.refused[0].message
    with pytest.raises(PenstockError) as caught:
        bench.push(pa.table({"sensor_id": [1], "ppm": [1.0], "seq": [1], "ts": [NOW]}))
    assert caught.value.condition == "invalid_value"


def test_fields_may_be_named_in_full_and_must_be_where_a_static_column_has_the_name(tmp_path: Path) -> None:
    table = Table(3, "probes", (Field("id", INT),), ("id",), StreamColumn("reading", (Field("id", INT),)))
    bench = Bench(tmp_path, table)
    assert bench.push([{"id": 2, "reading.id": 7}]).accepted == 1
    assert refusals(bench.push([{"id": 2}])) == [(0, "missing_field")]
    bench.log.close()
    assert bench.stored("_vid", "id") == [(1, 7)]


def test_an_unknown_table_is_suggested_and_one_without_a_stream_refused(make: Make) -> None:
    bench = make()
    with pytest.raises(PenstockError) as caught:
        bench.ingest.push("prob", [])
    assert caught.value.condition == "table_not_found"
    assert caught.value.hint == 'did you mean "probes"?'
    bench.state.tables["plain"] = Table(9, "plain", (Field("a", INT),), ("a",))
    bench.state.tables_by_id[9] = bench.state.tables["plain"]
    with pytest.raises(PenstockError) as caught:
        bench.ingest.push("plain", [{"a": 1}])
    assert caught.value.condition == "not_supported"


def test_an_arrow_table_with_the_wrong_columns_is_refused_as_a_whole(make: Make) -> None:
    bench = make()
    with pytest.raises(PenstockError, match="ppn") as caught:
        bench.push(pa.table({"sensor_id": [1], "ppn": [1.0], "seq": [1]}))
    assert (caught.value.condition, caught.value.hint) == ("unknown_field", 'did you mean "ppm"?')
    with pytest.raises(PenstockError) as caught:
        bench.push(pa.table({"sensor_id": [1], "ppm": [1.0]}))
    assert caught.value.condition == "missing_field"


def test_arrow_values_that_do_not_fit_are_refused_one_by_one(make: Make) -> None:
    bench = make()
    receipt = bench.push(
        pa.table({"sensor_id": [1, 1, 1], "ppm": [1, float("nan"), float("inf")], "seq": [1, 2**40, 3]})
    )
    assert refusals(receipt) == [(1, "invalid_value")]
    assert bench.stored("ppm", "seq") == [(1.0, 1), (float("inf"), 3)]


def test_text_columns_as_csv_gives_them_are_read_by_the_tables_types(make: Make) -> None:
    bench = make()
    receipt = bench.push(
        pa.table(
            {
                "sensor_id": ["1", "2", "x", "1"],
                "ppm": ["1.5", None, "2", "high"],
                "seq": ["1", "2", "3", "4"],
                "ts": ["2025-11-15T06:00:00Z"] * 4,
            }
        )
    )
    assert refusals(receipt) == [(2, "invalid_value"), (3, "invalid_value")]
    assert bench.stored("_vid", "ppm", "seq") == [(0, 1.5, 1), (1, None, 2)]


FIELDS = (
    Field("b", BOOLEAN),
    Field("t", TEXT),
    Field("at", TIMESTAMP),
    Field("raw", BINARY),
    Field("price", parse_type("DECIMAL(6, 2)")),
    Field("list", parse_type("ARRAY<INT>")),
    Field("pair", parse_type("STRUCT<x: INT, y: DOUBLE>")),
)
WHOLE = {
    "sensor_id": 1,
    "b": True,
    "t": "ä",
    "at": "2025-01-01T00:00:00Z",
    "raw": "aGk=",
    "price": 12.345,
    "list": [1, None],
    "pair": {"x": 1, "y": 2},
}


def test_every_type_is_read_from_json(make: Make) -> None:
    bench = make(fields=FIELDS)
    assert bench.push([WHOLE, {name: (1 if name == "sensor_id" else None) for name in WHOLE}]).accepted == 2
    first, second = bench.stored(*(field.name for field in FIELDS))
    at = datetime(2025, 1, 1, tzinfo=UTC)
    assert first == (True, "ä", at, b"hi", Decimal("12.35"), [1, None], {"x": 1, "y": 2.0})
    assert second == (None,) * 7


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("b", 1),
        ("t", 5),
        ("t", "\ud800"),
        ("at", "soon"),
        ("at", 10**18),
        ("raw", "%%"),
        ("price", 10_000),
        ("price", "NaN"),
        ("list", 5),
        ("list", ["x"]),
        ("pair", {"x": 1}),
        ("pair", {"x": 1, "y": 2, "z": 3}),
    ],
)
def test_a_value_of_the_wrong_type_refuses_its_reading_only(make: Make, name: str, value: Any) -> None:
    bench = make(fields=FIELDS)
    receipt = bench.push([WHOLE, {**WHOLE, name: value}, WHOLE])
    assert refusals(receipt) == [(1, "invalid_value")]
    assert receipt.refused[0].message.startswith(f'field "{name}": ')


def test_a_sensors_new_version_is_used_from_the_moment_it_is_journalled(make: Make) -> None:
    bench = make()
    bench.push([{"sensor_id": 1, "ppm": 1.0, "seq": 1}])
    with bench.log.still() as heads:
        assert heads == {3: 1}
        bench.state.rows(3).update(0)
        bench.state.position += 1
    bench.push([{"sensor_id": 1, "ppm": 1.0, "seq": 2}])
    assert bench.stored("_vid") == [(0,), (4,)]


def test_a_push_that_crosses_a_journal_entry_looks_again(make: Make) -> None:
    """The entry comes after the push has looked at the catalog and before it reaches the log."""
    bench = make()
    rows = bench.state.rows(3)
    find = rows.find
    once = iter([True])

    def find_then_move(keys: list[pa.Array], count: int | None = None) -> Any:
        found = find(keys, count)
        if next(once, False):
            with bench.log.still():
                rows.update(0)
                bench.state.position += 1
        return found

    rows.find = find_then_move  # type: ignore[method-assign]
    assert bench.push([{"sensor_id": 1, "ppm": 1.0, "seq": 1, "ts": NOW}]).accepted == 1
    assert bench.stored("_vid") == [(4,)]
    assert bench.ingest.counters("probes")["accepted"] == 1


def test_an_added_field_is_asked_for_from_then_on(make: Make) -> None:
    bench = make()
    bench.push([{"sensor_id": 1, "ppm": 1.0, "seq": 1}])
    wider = make_table(fields=(Field("ppm", DOUBLE), Field("seq", INT), Field("unit", TEXT)))
    with bench.log.still():
        bench.state.tables["probes"] = bench.state.tables_by_id[3] = wider
    assert refusals(bench.push([{"sensor_id": 1, "ppm": 1.0, "seq": 2}])) == [(0, "missing_field")]
    bench.push([{"sensor_id": 1, "ppm": 1.0, "seq": 2, "unit": "C"}])
    assert bench.stored("seq", "unit") == [(1, None), (2, "C")]


def test_opened_sensors_push_by_sid(make: Make) -> None:
    bench = make()
    bench.state.rows(3).update(1)
    bench.state.rows(3).delete(2)
    columns = [pa.array([1.0, 2.0, 3.0]), pa.array([1, 2, 3], pa.int32())]
    sids = np.array([0, 1, 2], np.int32)
    times = np.array([NOW, NO_TIME, NOW], np.int64)
    receipt = bench.ingest.push_resolved(bench.table, sids, times, columns).result(5)
    assert refusals(receipt) == [(2, "sensor_not_found")]
    assert bench.stored("_vid", "seq") == [(0, 1), (4, 2)]
    assert bench.ingest.push_resolved(bench.table, sids[:1], None, [pa.array([1.0])]).result(5).accepted == 1


def test_per_sensor_figures_are_kept(make: Make) -> None:
    bench = make()
    row = {"sensor_id": 2, "ppm": 1.0, "seq": 1}
    bench.push([{**row, "ts": NOW}, {**row, "ts": NOW - 1}, {**row, "sensor_id": 1, "ts": NOW - 2}])
    sensors = bench.ingest.sensors("probes")
    assert sensors["newest"][:3].tolist() == [NOW - 2, NOW, NO_TIME]
    assert sensors["accepted"][:2].tolist() == [1, 1]
    assert sensors["refused"][:2].tolist() == [0, 1]
    assert sensors["late"][:2].tolist() == [1, 0]


def test_a_repeated_key_gets_its_first_receipt_also_after_a_restart(make: Make) -> None:
    bench = make()
    rows = [{"sensor_id": 1, "ppm": 1.0, "seq": 1}, {"sensor_id": 9, "ppm": 1.0, "seq": 1}]
    first = bench.push(rows, "k1")
    assert bench.push(rows, "k1") == first
    bench.push(rows, "k2")
    bench.restart()
    assert bench.push(rows, "k1") == first
    assert bench.stored("seq") == [(1,), (1,)]
    bench.clock.advance(25 * 3_600 * SECOND)
    assert bench.push(rows, "k1").position == 3


def test_two_pushes_with_one_key_at_the_same_time_are_stored_once(make: Make) -> None:
    bench = make()
    gate = threading.Event()
    bench.crash_point = lambda step: None if step != "log:begin" else (gate.wait(5), None)[1]
    rows = [{"sensor_id": 1, "ppm": 1.0, "seq": 1}]
    futures = [bench.ingest.push("probes", rows, "k") for _ in range(3)]
    gate.set()
    assert {future.result(5).position for future in futures} == {1}
    assert bench.stored("seq") == [(1,)]


def test_a_push_that_failed_may_be_repeated_with_its_key_and_leaves_no_trace(make: Make) -> None:
    bench = make()
    bench.push([{"sensor_id": 1, "ppm": 1.0, "seq": 1, "ts": NOW - 10}])

    def full(step: str) -> None:
        if step == "log:written":
            raise OSError(28, "No space left on device")

    bench.crash_point = full
    rows = [{"sensor_id": 1, "ppm": 1.0, "seq": 2, "ts": NOW}]
    with pytest.raises(PenstockError) as caught:
        bench.push(rows, "k")
    assert caught.value.condition == "disk_full"
    bench.crash_point = lambda step: None
    # Were the failed reading still the sensor's newest, this one would be out of order.
    assert bench.push([{"sensor_id": 1, "ppm": 1.0, "seq": 3, "ts": NOW - 5}]).accepted == 1
    assert bench.push(rows, "k").accepted == 1
    assert bench.stored("seq") == [(1,), (3,), (2,)]
    counters = bench.ingest.counters("probes")
    assert (counters["accepted"], counters["failed"], counters["late"]) == (3, 1, 0)


def test_a_retried_push_is_dropped_by_its_key_fields_and_counted(make: Make) -> None:
    bench = make(deduplicate=Deduplicate(("seq",), 60 * SECOND))
    rows = [{"sensor_id": 1, "ppm": 1.0, "seq": i, "ts": NOW + i} for i in range(3)]
    bench.push(rows)
    again = bench.push(rows)
    assert refusals(again) == [(i, "duplicate_reading") for i in range(3)]
    assert again.refused[1].message == "a reading with seq = 1 was accepted within 1m"
    bench.restart()
    assert bench.push(rows).accepted == 0
    assert bench.push([{**rows[0], "sensor_id": 2}]).accepted == 1
    assert bench.ingest.counters("probes") == {
        "accepted": 1,
        "refused": {},
        "late": 1,
        "clamped": 0,
        "unordered": 0,
        "deduplicated": 3,
        "discovered": 0,
        "failed": 0,
    }


def test_thousands_of_keys_are_remembered_across_a_restart(make: Make) -> None:
    bench = make(deduplicate=Deduplicate(("seq", "ts"), 60 * SECOND))
    size = 5_000
    ids, seq = pa.array(np.ones(size), pa.int32()), pa.array(np.arange(size), pa.int32())
    rows = pa.table({"sensor_id": ids, "ppm": np.zeros(size), "seq": seq, "ts": pa.array(np.arange(size) + NOW)})
    assert bench.push(rows).accepted == size
    bench.restart()
    assert bench.push(rows).accepted == 0


def test_remembered_keys_do_not_grow_for_ever(make: Make) -> None:
    bench = make(deduplicate=Deduplicate(("seq",), 1_000))
    for k in range(3):
        size = 60_000
        ids = pa.array(np.ones(size), pa.int32())
        seq = pa.array(np.arange(size) + k * size, pa.int32())
        ts = pa.array(np.arange(size) + k * size + NOW)
        bench.push(pa.table({"sensor_id": ids, "ppm": np.zeros(size), "seq": seq, "ts": ts}))
        keys = bench.ingest._tables.of(bench.table).order.keys
        assert keys is not None
        assert len(keys) <= 130_000
    assert len(keys) < 70_000


@pytest.mark.parametrize("damage", ["broken", "missing"])
def test_a_damaged_old_segment_does_not_stop_new_readings(make: Make, damage: str) -> None:
    bench = make()
    for ts in range(3):
        bench.push([{"sensor_id": 1 + ts, "ppm": 1.0, "seq": 1, "ts": NOW + ts}])
    middle = list_segments(bench.log.folder, 3)[1].path
    if damage == "broken":
        middle.write_bytes(b"no")
    else:
        middle.unlink()
    bench.restart()
    receipt = bench.push([{"sensor_id": s, "ppm": 1.0, "seq": 2, "ts": NOW - 5} for s in (1, 2, 3)])
    assert refusals(receipt) == [(0, "out_of_order"), (2, "out_of_order")]
    with pytest.raises(PenstockError, match="0000000000000001"):
        bench.stored("seq")


def test_a_dropped_table_leaves_no_sidecars(make: Make, tmp_path: Path) -> None:
    bench = make()
    bench.push([{"sensor_id": 1, "ppm": 1.0, "seq": 1}])
    bench.ingest.remember(bench.table, at_least_rows=1)
    assert (tmp_path / "streams" / "3").exists()
    bench.ingest.forget(3)
    assert not (tmp_path / "streams" / "3").exists()


@pytest.mark.parametrize("restarts", [False, True])
def test_a_clock_that_steps_back_makes_nothing_late_and_no_repeat_new(make: Make, restarts: bool) -> None:
    """Rows are stored at the table's newest time meanwhile, and that is the time that repeats are judged by."""
    bench = make(time="transaction", deduplicate=Deduplicate(("seq",), 10 * SECOND))
    assert bench.push([{"sensor_id": 1, "ppm": 1.0, "seq": 1}]).accepted == 1
    accepted = []
    for back_s in (3600, 3000, 20):
        bench.clock.set(NOW - back_s * SECOND)
        if restarts:
            bench.restart()
        accepted.append(bench.push([{"sensor_id": 2, "ppm": 1.0, "seq": 7}]).accepted)
    bench.clock.set(NOW + 11 * SECOND)
    accepted.append(bench.push([{"sensor_id": 2, "ppm": 1.0, "seq": 7}]).accepted)
    assert accepted == [1, 0, 0, 1]
    assert [ts - NOW for (ts,) in bench.stored("ts")] == [0, 0, 11 * SECOND]
    assert bench.ingest.counters("probes")["late"] == 0
    assert bench.ingest.sensors("probes")["newest"][:2].tolist() == [NOW, NOW + 11 * SECOND]


def test_a_reading_without_a_value_where_one_must_be_is_refused_and_counted(make: Make) -> None:
    bench = make(fields=(Field("ppm", DOUBLE, required=True), Field("seq", INT)))
    good = {"sensor_id": 1, "ppm": 1.0, "seq": None}
    receipt = bench.push([good, {**good, "ppm": None}, {**good, "ppm": "high"}, good])
    assert refusals(receipt) == [(1, "not_null_violation"), (2, "invalid_value")]
    assert receipt.refused[0].message == 'column "ppm" of "probes" cannot be NULL'
    ids, seqs = pa.array([1, 2, 1], pa.int32()), pa.array([1, 2, 3], pa.int32())
    sent = pa.table({"sensor_id": ids, "ppm": pa.array([None, 2.0, None]), "seq": seqs})
    assert refusals(bench.push(sent)) == [(0, "not_null_violation"), (2, "not_null_violation")]
    columns = [pa.array([None, 4.0]), pa.array([1, 2], pa.int32())]
    resolved = bench.ingest.push_resolved(bench.table, np.array([0, 1], np.int32), None, columns).result(5)
    assert refusals(resolved) == [(0, "not_null_violation")]
    assert bench.stored("ppm") == [(1.0,), (1.0,), (2.0,), (4.0,)]
    assert bench.ingest.counters("probes")["refused"] == {"not_null_violation": 4, "invalid_value": 1}
