"""Replay: exact rows in order, at the pace that was asked for, and an end."""

from __future__ import annotations

import csv
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from penstock.clock import SECOND, parse_timestamp
from penstock.errors import PenstockError
from penstock.sensors import recording_files
from penstock.sensors.address_rules import AddressRules, SensorFiles
from penstock.sensors.base import ReadResult, Sensor
from penstock.sensors.registry import create_sensor
from penstock.types import BIGINT, DOUBLE, TEXT, Field
from tests.support.manual_clock import ManualClock

NAB = Path(__file__).parents[1] / "data" / "nab"
VALUE = (Field("value", DOUBLE),)


def beside(address: str | Path) -> AddressRules:
    """Rules under which the folder of a file is the one that addresses may name."""
    return AddressRules(SensorFiles(Path(str(address).partition("?")[0]).parent))


def open_replay(address: str | Path, clock: ManualClock, fields: Any = VALUE, **options: str) -> Sensor:
    sensor = create_sensor("replay", str(address), fields, options, clock, beside(address))
    assert isinstance(sensor, Sensor)
    sensor.init()
    return sensor


def read_all(sensor: Sensor) -> tuple[list[Any], int]:
    """(time, values...) of everything until the end, and what was bad."""
    rows: list[Any] = []
    bad = 0
    while (reading := sensor.read()).answer is not ReadResult.END:
        bad += reading.bad
        if reading.batch is not None:
            times = reading.times_us if reading.times_us is not None else [None] * reading.count
            rows += zip(list(times), *(c.to_pylist() for c in reading.batch.columns), strict=True)
    sensor.close()
    return rows, bad


@pytest.mark.parametrize("name", ["speed_t4013.csv", "occupancy_t4013.csv"])
def test_a_recording_at_full_speed_gives_exactly_its_rows_in_order_and_ends(name: str) -> None:
    rows, bad = read_all(open_replay(NAB / name, ManualClock(), speed="max"))
    with (NAB / name).open() as file:
        expected = [(parse_timestamp(line["timestamp"]), line["value"]) for line in csv.DictReader(file)]
    assert rows == expected and bad == 0


def test_at_its_own_pace_a_row_comes_when_it_is_due(tmp_path: Path) -> None:
    file = tmp_path / "r.csv"
    file.write_text("ts,value\n" + "".join(f"2026-01-01T00:00:{s:02d}Z,{s}\n" for s in (0, 1, 5, 5, 20)))
    clock = ManualClock(1000 * SECOND)
    sensor = open_replay(file, clock, speed="2x")
    came: list[tuple[float, str]] = []
    while (reading := sensor.read()).answer is not ReadResult.END:
        if reading.batch is not None:
            came += [((clock.now_us() / SECOND - 1000), v) for v in reading.batch.column(0).to_pylist()]
        if reading.next_due_us is not None:
            clock.set(reading.next_due_us)
    assert [(round(at, 3), v) for at, v in came] == [(0, "0"), (0.5, "1"), (2.5, "5"), (2.5, "5"), (10, "20")]


def test_an_address_chooses_one_sensor_of_a_file_that_holds_many(tmp_path: Path) -> None:
    file = tmp_path / "many.csv"
    file.write_text("time,sensor,speed,lane\n1,a,10,1\n2,b,20,1\n3,a,30,2\n4,a,40,1\n")
    fields = (Field("lane", BIGINT), Field("speed", DOUBLE))
    rows, _ = read_all(open_replay(f"{file}?sensor=a&lane=1", ManualClock(), fields, speed="max"))
    assert rows == [(1 * SECOND, "1", "10"), (4 * SECOND, "1", "40")]


def test_a_parquet_file_is_replayed_with_its_own_types(tmp_path: Path) -> None:
    file = tmp_path / "r.parquet"
    times = pa.array(range(20_000), pa.timestamp("ms"))
    parquet.write_table(
        pa.table({"at": times, "v": pa.array(range(20_000), pa.float32()), "s": pa.array(["a", "b"] * 10_000)}), file
    )
    fields = (Field("speed", DOUBLE), Field("s", TEXT))
    rows, _ = read_all(open_replay(f"{file}?s=b", ManualClock(), fields, speed="max", time="at", columns="speed=v"))
    assert rows == [(i * 1000, float(i), "b") for i in range(1, 20_000, 2)]


def test_bad_lines_are_counted_and_the_others_replayed(tmp_path: Path) -> None:
    file = tmp_path / "r.csv"
    file.write_text(
        "ts,value\n2026-01-01T00:00:00Z,1\nyesterday,2\n2026-01-01T00:00:02Z,3,4\n\n2026-01-01 00:00:03,5\n"
    )
    rows, bad = read_all(open_replay(file, ManualClock(), speed="max"))
    assert [row[1] for row in rows] == ["1", "5"] and bad == 2


def test_a_loop_goes_on_with_times_from_where_the_file_ended(tmp_path: Path) -> None:
    file = tmp_path / "r.csv"
    file.write_text("ts,value\n10,1\n11,2\n12,3\n")
    sensor = open_replay(file, ManualClock(), speed="max", loop="true")
    rows: list[Any] = []
    for _ in range(3):
        reading = sensor.read()
        assert reading.batch is not None and reading.times_us is not None
        rows += zip(list(reading.times_us), reading.batch.column(0).to_pylist(), strict=True)
    assert [(t // SECOND, v) for t, v in rows] == [(t, str((t - 10) % 3 + 1)) for t in range(10, 19)]


def test_a_replay_resumes_after_what_the_log_holds(tmp_path: Path) -> None:
    file = tmp_path / "r.csv"
    file.write_text("ts,value\n" + "".join(f"{t},{t}\n" for t in range(100, 200)))
    clock = ManualClock()
    sensor = create_sensor("replay", str(file), VALUE, {"speed": "1x"}, clock, beside(file))
    assert isinstance(sensor, Sensor)
    sensor.resume(150 * SECOND)
    sensor.init()
    reading = sensor.read()
    assert reading.batch is not None and reading.batch.column(0).to_pylist() == ["151"]


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_rows_of_one_time_come_together_so_that_a_resumed_replay_misses_none(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever piece was the last that the log took, the rows after its newest time are the rest.

    pieces of 4:  1 1 2 2 | 2 2 2 2 | 2 3 3 3 | 3 4 4 5
    """
    monkeypatch.setattr(recording_files, "_BATCH_ROWS", 4)
    times = [1, 1, 2, 2, 2, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 5]
    values = [float(i) for i in range(len(times))]
    file = tmp_path / f"r.{kind}"
    if kind == "csv":
        file.write_text("ts,value\n" + "".join(f"{t},{v}\n" for t, v in zip(times, values, strict=True)))
    else:
        parquet.write_table(pa.table({"ts": pa.array(times, pa.timestamp("s")), "value": values}), file)

    def pieces(stored: int | None) -> list[list[float]]:
        sensor = create_sensor("replay", str(file), VALUE, {"speed": "max"}, ManualClock(), beside(file))
        assert isinstance(sensor, Sensor)
        if stored is not None:
            sensor.resume(stored * SECOND)
        sensor.init()
        found = []
        while (reading := sensor.read()).answer is not ReadResult.END:
            assert reading.batch is not None
            found.append([float(v) for v in reading.batch.column(0).to_pylist()])
        sensor.close()
        return found

    whole = pieces(None)
    assert list(chain(*whole)) == values and len(whole) > 2
    for count in range(1, len(whole)):
        newest = max(times[int(v)] for v in chain(*whole[:count]))
        assert list(chain(*whole[:count], *pieces(newest))) == values


def test_times_can_be_those_of_the_replay(tmp_path: Path) -> None:
    file = tmp_path / "r.csv"
    file.write_text("ts,value\n10,1\n")
    rows, _ = read_all(open_replay(file, ManualClock(5), speed="max", times="now"))
    assert rows == [(None, "1")]


def test_a_long_file_is_read_piece_by_piece(tmp_path: Path) -> None:
    file = tmp_path / "long.csv"
    file.write_text("ts,value\n" + "".join(f"{t},{t % 97}\n" for t in range(100_000)))
    sensor = open_replay(file, ManualClock(), speed="max")
    before = pa.total_allocated_bytes()
    first = sensor.read()
    assert 0 < first.count <= 8192
    assert pa.total_allocated_bytes() - before < 4 << 20
    rows, _ = read_all(sensor)
    assert first.count + len(rows) == 100_000


@pytest.mark.parametrize(
    ("text", "options", "condition"),
    [
        ("a,b\n1,2\n", {"speed": "max"}, "column_not_found"),
        ("a,value\n1,2\n", {}, "invalid_option"),
        ("ts,value\n1,2\n", {"time": "tss"}, "column_not_found"),
    ],
)
def test_a_file_that_does_not_fit_says_so(tmp_path: Path, text: str, options: dict[str, str], condition: str) -> None:
    file = tmp_path / "r.csv"
    file.write_text(text)
    with pytest.raises(PenstockError) as caught:
        open_replay(file, ManualClock(), **options)
    assert caught.value.condition == condition and caught.value.hint


def test_a_file_with_nothing_but_a_header_ends_at_once(tmp_path: Path) -> None:
    file = tmp_path / "r.csv"
    file.write_text("ts,value\n")
    assert read_all(open_replay(file, ManualClock())) == ([], 0)


def test_a_file_that_is_not_there_is_an_error_with_its_name(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nowhere"):
        open_replay(tmp_path / "nowhere.csv", ManualClock())
