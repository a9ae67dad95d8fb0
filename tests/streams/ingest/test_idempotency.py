"""Pushes that come again, by idempotency key or by the fields that tell readings apart, are stored once."""

from __future__ import annotations

import threading

import numpy as np
import pyarrow as pa
import pytest

from penstock.catalog.model import Deduplicate
from penstock.errors import PenstockError
from tests.support.ingest_bench import NOW, SECOND, Make, refusals


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
    bench.crash_point = lambda step: None if step != "log:begin" else (gate.wait(60), None)[1]
    rows = [{"sensor_id": 1, "ppm": 1.0, "seq": 1}]
    futures = [bench.ingest.push("probes", rows, "k") for _ in range(3)]
    gate.set()
    assert {future.result(60).position for future in futures} == {1}
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
        keys = bench.ingest.tables.of(bench.table).order.keys
        assert keys is not None
        assert len(keys) <= 130_000
    assert len(keys) < 70_000


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
