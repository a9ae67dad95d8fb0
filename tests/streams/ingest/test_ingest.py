"""Pushes, good and bad, as people send them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.catalog.model import Table
from penstock.errors import PenstockError
from penstock.streams.ingest.readings import IngestReceipt
from penstock.streams.ingest.rules import NO_TIME
from penstock.streams.log.segments import list_segments
from penstock.types import DOUBLE, INT, TEXT, Field
from tests.streams.doubles import make_table
from tests.support.ingest_bench import NOW, SECOND, Make, refusals


def test_readings_are_stored_with_their_sensors_version(make: Make) -> None:
    bench = make()
    receipt = bench.push([{"sensor_id": 2, "ppm": 37.5, "seq": 1}, {"sensor_id": 1, "ppm": None, "seq": 2}])
    assert receipt == IngestReceipt(2, (), 2)
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
    assert bench.push([]) == IngestReceipt(0, (), 0)
    assert bench.push([{"sensor_id": 9, "ppm": 1.0, "seq": 1}]).accepted == 0
    assert bench.push(pa.table({"sensor_id": [1], "ppm": [1.0], "seq": [1]})).position == 1


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
    receipt = bench.ingest.push_resolved(bench.table, sids, times, columns).result(60)
    assert refusals(receipt) == [(2, "sensor_not_found")]
    assert bench.stored("_vid", "seq") == [(0, 1), (4, 2)]
    assert bench.ingest.push_resolved(bench.table, sids[:1], None, [pa.array([1.0])]).result(60).accepted == 1


def test_per_sensor_figures_are_kept(make: Make) -> None:
    bench = make()
    row = {"sensor_id": 2, "ppm": 1.0, "seq": 1}
    bench.push([{**row, "ts": NOW}, {**row, "ts": NOW - 1}, {**row, "sensor_id": 1, "ts": NOW - 2}])
    sensors = bench.ingest.sensors("probes")
    assert sensors["newest"][:3].tolist() == [NOW - 2, NOW, NO_TIME]
    assert sensors["accepted"][:2].tolist() == [1, 1]
    assert sensors["refused"][:2].tolist() == [0, 1]
    assert sensors["late"][:2].tolist() == [1, 0]


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
    bench.ingest.tables.remember(bench.table, at_least_rows=1)
    assert (tmp_path / "streams" / "3").exists()
    bench.ingest.tables.forget(3)
    assert not (tmp_path / "streams" / "3").exists()
