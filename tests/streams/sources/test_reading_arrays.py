"""Readings of many sensors, packed for ingest: in the order of their times, each sensor's own as it gave them."""

from __future__ import annotations

import random
from concurrent.futures import Future
from typing import Any, Literal

import pytest

from penstock.catalog.model import TableOptions
from penstock.sensors.base import Reading, ReadResult
from penstock.streams.ingest.readings import IngestReceipt
from penstock.streams.sources import push_delivery
from penstock.streams.sources.sensor_forwarder import Outbox, ReadChunk, pack
from penstock.streams.sources.sensor_state import OpenedSensor
from penstock.types import DOUBLE, Field
from tests.sensors.world import table

VALUE = (Field("value", DOUBLE),)


class FailingIngest:
    """Fails for a reason of its own a few times, then stores."""

    def __init__(self, failures: int) -> None:
        self.failures = failures
        self.stored: list[list[int]] = []

    def push_resolved(self, table: Any, sids: Any, ts_us: Any, columns: Any) -> Future[IngestReceipt]:
        self.failures -= 1
        if self.failures >= 0:
            raise TypeError("a bug")
        self.stored.append(sids.tolist())
        future: Future[IngestReceipt] = Future()
        future.set_result(IngestReceipt(len(sids)))
        return future


def test_readings_that_ingest_could_not_take_are_stored_once_and_the_log_says_so(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(push_delivery, "_RETRY_S", 0.0)
    plant, ingest = table(fields=VALUE), FailingIngest(2)
    outbox = Outbox(plant, ingest, lambda: None, 100)  # type: ignore[arg-type]
    outbox.add(ReadChunk(OpenedSensor(plant, 7, "7"), Reading(ReadResult.NEW_VALUE, [(1.0,)], [10]), 0))
    while not outbox.is_empty:
        outbox.send()
    assert ingest.stored == [[7]]
    assert "tried again" in caplog.text and "a bug" in caplog.text


Given = list[tuple[int, list[int]]]  # sensor, times of one read


def packed(given: Given, time: Literal["valid", "transaction"] = "valid") -> list[tuple[int, int, float]]:
    """(sensor, time, number of the reading) in the order that ingest gets."""
    plant = table(fields=VALUE, options=TableOptions(time=time))
    sensors = {sid: OpenedSensor(plant, sid, str(sid)) for sid, _ in given}
    chunks, number = [], 0
    for sid, times in given:
        rows = [(float(number + i),) for i in range(len(times))]
        number += len(times)
        chunks.append(ReadChunk(sensors[sid], Reading(ReadResult.NEW_VALUE, rows, times), 0))
    parcel = pack(plant, chunks)
    assert parcel is not None
    stored = parcel.ts_us.tolist() if parcel.ts_us is not None else [0] * len(parcel.sids)
    return list(zip(parcel.sids.tolist(), stored, parcel.columns[0].to_pylist(), strict=True))


def test_who_was_asked_first_does_not_make_the_other_late() -> None:
    #     1: 10    30
    #     2:    20    40
    assert packed([(1, [10, 30]), (2, [20, 40])]) == [(1, 10, 0.0), (2, 20, 2.0), (1, 30, 1.0), (2, 40, 3.0)]


def test_a_sensor_that_is_out_of_order_stays_so() -> None:
    assert [(s, t) for s, t, _ in packed([(1, [30, 10]), (2, [20])])] == [(2, 20), (1, 30), (1, 10)]


def test_where_times_are_given_later_nothing_is_moved() -> None:
    assert [n for _, _, n in packed([(1, [30, 10]), (2, [20])], time="transaction")] == [0.0, 1.0, 2.0]


@pytest.mark.parametrize("seed", range(40))
def test_nothing_is_lost_and_only_readings_that_must_be_are_late(seed: int) -> None:
    drawn = random.Random(seed)
    given = [
        (drawn.randrange(4), [drawn.randrange(60) for _ in range(drawn.randrange(1, 5))])
        for _ in range(drawn.randrange(1, 8))
    ]
    if drawn.random() < 0.5:
        given = [(sid, sorted(times)) for sid, times in given]
    found = packed(given)
    order = [n for _, _, n in found]
    read = [(sid, t) for sid, times in given for t in times]
    assert sorted(order) == [float(n) for n in range(len(read))], f"seed {seed}"
    assert [(s, t) for s, t, _ in found] == [read[int(n)] for n in order], f"seed {seed}"
    for sid in {s for s, _ in read}:
        own = [n for s, _, n in found if s == sid]
        assert own == sorted(own), f"seed {seed}"
    # In order for its own sensor, and older than what stands before it: nobody.
    newest: dict[int, int] = {}
    for sid, t, _ in found:
        if t >= newest.get(sid, t):
            assert t >= max(newest.values(), default=t), f"seed {seed}"
        newest[sid] = max(t, newest.get(sid, t))
