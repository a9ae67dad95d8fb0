"""Simulators: seeds reproduce, restarts continue, every kind does what it is called."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.clock import SECOND
from penstock.sensors.base import ReadResult, Sensor
from penstock.sensors.registry import create_sensor
from penstock.sensors.signals import gaussian, uniform, walk
from penstock.types import BIGINT, BINARY, BOOLEAN, DOUBLE, INT, TEXT, TIMESTAMP, Field, parse_type
from tests.sensors.world import GAS
from tests.support.manual_clock import ManualClock

NOON = 1_763_190_000 * SECOND


def simulate(seconds: float, address: str = "s1", start: int = NOON, fields: Any = GAS, **options: str) -> list[Any]:
    """(time handed over, time, row) of everything that a simulator says while a clock runs."""
    clock = ManualClock(start)
    sensor = create_sensor("simulator", address, fields, options, clock)
    assert isinstance(sensor, Sensor)
    sensor.init()
    said: list[Any] = []
    while clock.now_us() <= start + seconds * SECOND:
        reading = sensor.read()
        if reading.answer is ReadResult.END:
            said.append("end")
            break
        assert reading.times_us is not None or not reading.count
        said += [(clock.now_us(), t, row) for t, row in zip(reading.times_us or (), reading.rows, strict=True)]
        assert reading.next_due_us is not None
        clock.set(
            max(clock.now_us(), reading.next_due_us) if reading.next_due_us > clock.now_us() else clock.now_us() + 1
        )
    return said


@pytest.mark.parametrize("kind", ["plume", "walk", "periodic", "bursty", "lagging", "out_of_order"])
def test_the_same_seed_address_and_time_give_the_same_readings(kind: str) -> None:
    assert simulate(60, kind=kind) == simulate(60, kind=kind) != []
    assert simulate(60, kind=kind, seed="2") != simulate(60, kind=kind, seed="1")
    assert simulate(60, kind=kind, address="s2") != simulate(60, kind=kind)


@pytest.mark.parametrize("kind", ["plume", "walk", "periodic", "bursty", "lagging"])
def test_a_simulator_that_is_opened_later_continues_as_if_it_had_never_been_closed(kind: str) -> None:
    whole = [said for said in simulate(120, kind=kind, rate="4") if said[0] > NOON + 47 * SECOND]
    later = simulate(73, kind=kind, rate="4", start=NOON + 47 * SECOND)
    assert [said for said in later if said[0] > NOON + 47 * SECOND] == whole


def test_a_poll_that_comes_late_gets_everything_that_was_due() -> None:
    clock = ManualClock(NOON)
    sensor = create_sensor("simulator", "s", GAS, {"rate": "10"}, clock)
    assert isinstance(sensor, Sensor)
    sensor.init()
    clock.advance(100 * SECOND)
    times: list[int] = []
    while (reading := sensor.read()).count:
        times += list(reading.times_us or ())
    assert len(times) == 1000
    assert np.all(np.diff(times) == 100_000)


def test_the_rate_is_kept_and_readings_are_handed_over_at_their_time() -> None:
    said = simulate(60, rate="5", kind="walk")
    assert len(said) in (300, 301)
    assert all(handed == time for handed, time, _ in said)


def test_a_bursty_sensor_speaks_in_bursts_at_the_same_mean_rate() -> None:
    times = [time for _, time, _ in simulate(600, kind="bursty", rate="2", burst="20")]
    gaps = np.diff(times)
    assert 1100 <= len(times) <= 1260
    assert np.mean(gaps < 100_000) > 0.9 and gaps.max() > 3 * SECOND


def test_a_silent_sensor_says_nothing() -> None:
    assert simulate(5000, kind="silent") == []


def test_a_lagging_sensor_hands_over_late_but_in_order() -> None:
    said = simulate(30, kind="lagging", lag="7s")
    assert said and all(handed - time == 7 * SECOND for handed, time, _ in said)


def test_an_out_of_order_sensor_hands_over_some_readings_after_newer_ones() -> None:
    times = [time for _, time, _ in simulate(300, kind="out_of_order", rate="5", disorder="0.2")]
    backwards = np.diff(times) < 0
    assert 0.05 < backwards.mean() < 0.3
    inside = sorted(t for t in times if NOON + 5 * SECOND < t < NOON + 290 * SECOND)  # none missing, none twice
    assert len(inside) > 1400 and np.all(np.diff(inside) == 200_000)


def test_a_start_in_the_past_brings_the_past_first() -> None:
    clock = ManualClock(NOON)
    sensor = create_sensor("simulator", "s1", GAS, {"start": "1h"}, clock)
    assert isinstance(sensor, Sensor)
    sensor.init()
    said: list[Any] = []
    for _ in range(6):
        while (reading := sensor.read()).count:
            said += zip(reading.times_us or (), reading.rows, strict=True)
        clock.advance(SECOND)
    live = [(time, row) for _, time, row in simulate(5)]
    assert len(said) == 3600 + 5 and said[3600:] == live[:5]
    assert [t for t, _ in said] == sorted(t for t, _ in said)


def test_a_simulator_with_a_past_resumes_after_what_the_log_holds() -> None:
    clock = ManualClock(NOON)
    sensor = create_sensor("simulator", "s1", GAS, {"start": "1h"}, clock)
    assert isinstance(sensor, Sensor)
    sensor.resume(NOON - 60 * SECOND)
    sensor.init()
    reading = sensor.read()
    assert reading.times_us is not None and NOON - 60 * SECOND < reading.times_us[0] <= NOON - 59 * SECOND


def test_a_count_ends_the_sensor() -> None:
    said = simulate(60, count="7", rate="1")
    assert len(said) == 8 and said[-1] == "end"


def test_fields_get_values_of_their_types_that_suit_their_names() -> None:
    fields = (
        Field("seq", BIGINT),
        Field("gas_id", INT),
        Field("gas_name", TEXT),
        Field("temperature", DOUBLE),
        Field("pressure_hpa", parse_type("DECIMAL(10, 2)")),
        Field("level", INT),
        Field("alarm", BOOLEAN),
        Field("measured_at", TIMESTAMP),
        Field("raw", BINARY),
        Field("history", parse_type("ARRAY<DOUBLE>")),
        Field("wind", parse_type("STRUCT<speed: DOUBLE, n: INT>")),
    )
    rows = [row for _, _, row in simulate(120, fields=fields, rate="2")]
    columns = list(zip(*rows, strict=True))
    for field, column in zip(fields, columns, strict=True):
        assert pa.array(column, field.type.to_arrow()).null_count == 0
    assert list(np.diff(columns[0])) == [1] * (len(rows) - 1)
    assert len(set(columns[1])) == 1 and columns[2][0] in ("methane", "ammonia", "chlorine", "hydrogen sulfide")
    assert all(0 < t < 45 for t in columns[3]) and all(950 < p < 1080 for p in columns[4])


def test_a_walk_moves_little_in_a_second_and_much_in_an_hour() -> None:
    times = NOON + np.arange(0, 20 * 3600, dtype=np.int64) * SECOND
    values = walk(5, times)
    assert 0.6 < values.std() < 1.4
    assert np.diff(values).std() < 0.1 * values.std()


def test_hashed_numbers_are_spread_evenly() -> None:
    index = np.arange(20_000)
    assert abs(uniform(1, index).mean() - 0.5) < 0.01
    assert abs(gaussian(1, index).mean()) < 0.03 and abs(gaussian(1, index).std() - 1) < 0.03
    assert abs(np.corrcoef(uniform(1, index), uniform(2, index))[0, 1]) < 0.03
