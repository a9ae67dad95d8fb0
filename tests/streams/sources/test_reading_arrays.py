"""Readings of many sensors, packed for ingest: in the order of their times, each sensor's own as it gave them."""

from __future__ import annotations

import random
from typing import Literal

import pytest

from penstock.catalog.model import TableOptions
from penstock.sensors.base import Reading, ReadResult
from penstock.streams.sources.sensor_forwarder import ReadChunk, pack
from penstock.streams.sources.sensor_state import OpenedSensor
from penstock.types import DOUBLE, Field
from tests.sensors.world import table

VALUE = (Field("value", DOUBLE),)
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
