"""The workloads of `bench.scale`: what it registers runs in slices, and what it calls right is right."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from bench import report as report_module
from bench.local_database import local_database
from bench.query_workload import Selection, expected_rows, push_batch
from bench.report import Report
from bench.scale import sensors as scale_sensors
from bench.scale import sparse as scale_sparse
from bench.scale.__main__ import PARTS, measure, parsed
from bench.scale.month import QUERY, cells_of, wrong
from bench.scale.others import START, figures_of
from bench.scale.selections import RATE, SENSORS, Alarm, workload
from bench.scale.sensors_folder import make_folder
from bench.scale.workload import DAY_MINUTES, MINUTE_US, TABLE, Minutely, site_of
from penstock.database.database import Database
from penstock.errors import error
from tests.support.pipe import BEGAN_US, Pipe

Make = Callable[..., Pipe]


def rows_of(database: Database, name: str) -> list[tuple[Any, ...]]:
    """Times as microseconds."""
    columns = database.standing.invoke(name).table.columns
    numbers = (c.cast(pa.int64()) if pa.types.is_timestamp(c.type) else c for c in columns)
    return list(zip(*(column.to_pylist() for column in numbers), strict=True))


def minutely(pipe: Pipe, sensors: int, minutes: int) -> Minutely:
    """A database with readings that end at its NOW."""
    data = Minutely(sensors, BEGAN_US - minutes * MINUTE_US)
    for statement in (TABLE, *data.inserts()):
        pipe.db.execute(statement)
    readings = pa.Table.from_batches([data.readings(0, sensors * minutes)])
    assert pipe.db.push("m", readings).accepted == sensors * minutes
    pipe.engine.drain()
    return data


def test_sums_of_a_window_are_those_of_the_readings_inside() -> None:
    data, sent = Minutely(7, 1_000_000_000), 7 * 90 + 3
    rows = pa.Table.from_batches([data.readings(0, sent)]).to_pandas()
    us = rows.ts.astype("int64").to_numpy()
    assert (np.diff(us) > 0).all() and us[-1] == data.newest_us(sent) and not (us % 1000).any()
    rng = np.random.default_rng(1)
    for _ in range(50):
        low, high = np.sort(rng.integers(us[0] - MINUTE_US, us[-1] + MINUTE_US, 2)).tolist()
        low = int(rng.choice(us)) if rng.random() < 0.3 else low
        sensors = range(int(rng.integers(7)), 7)
        inside = rows[(us >= low) & (us <= high) & (rows.sid >= sensors.start)].x
        found = data.sums(sensors, low, high, sent)
        assert found.count == len(inside) and found.total == pytest.approx(inside.sum(), rel=1e-12)
        assert not len(inside) or found.highest == inside.max()


def test_a_month_is_answered_as_the_benchmark_says_and_explain_tells_its_cells(pipe: Pipe) -> None:
    data = minutely(pipe, 6, 2 * DAY_MINUTES)
    pipe.db.execute(f"CREATE QUERY m30 AS {QUERY}")
    pipe.engine.drain()
    rows, sent = rows_of(pipe.db, "m30"), 6 * 2 * DAY_MINUTES
    assert wrong(data, sent, rows) == 0 and wrong(data, sent - 1, rows) > 0
    lines = pipe.db.execute("EXPLAIN m30").table.column(0).to_pylist()
    assert 0 < cells_of("\n".join(lines)) <= sent


def test_aggregates_of_many_sensors_are_answered_as_the_benchmark_says(pipe: Pipe) -> None:
    data, sent = minutely(pipe, 45, 300), 45 * 300
    chosen = {f"q{number}": asked for number, asked in enumerate(scale_sensors.aggregates(24))}
    lengths = [asked.window_s for asked in scale_sensors.aggregates()]
    assert len(lengths) == 100 and (min(lengths), max(lengths)) == (3_600, 30 * 86_400)
    pipe.db.register([(name, asked.sql()) for name, asked in chosen.items()])
    pipe.engine.drain()
    for name, asked in chosen.items():
        groups = range(45) if asked.key == "sid" else range(20)
        right = {
            g if asked.key == "sid" else site_of(g): asked.expected(data, g, data.newest_us(sent), sent) for g in groups
        }
        assert dict(rows_of(pipe.db, name)) == pytest.approx(right, rel=1e-9), asked


def test_90_different_aggregates_of_a_year_of_hourly_readings_take_some_megabytes_and_none_fails(pipes: Make) -> None:
    chosen = {f"q{number}": asked for number, asked in enumerate(scale_sparse.aggregates())}
    assert len({asked.sql() for asked in chosen.values()}) == 90
    rows = scale_sparse.hourly(BEGAN_US - scale_sparse.HOURS * scale_sparse.HOUR_US)
    assert len(rows) == 26_115
    pipe = pipes()
    pipe.db.execute(scale_sparse.TABLE)
    pipe.db.execute("INSERT INTO h VALUES (0, NULL), (1, NULL), (2, NULL)")
    assert pipe.db.push("h", pa.Table.from_batches([scale_sparse.as_batch(rows)])).accepted == len(rows)
    pipe.engine.drain()
    pipe.db.register([(name, asked.sql()) for name, asked in chosen.items()])
    pipe.engine.drain()
    for name, asked in chosen.items():
        answer = rows_of(pipe.db, name)
        assert scale_sparse.same(answer, asked.expected(rows, int(rows.us.max()))), asked.sql()
        assert not scale_sparse.same(answer[1:], asked.expected(rows, int(rows.us.max())))
    memory = [pipe.db.query(name)["memory"] for name in chosen]
    assert 0 < sum(memory) < 50e6


def test_times_of_an_answer_are_microseconds_whatever_form_they_have() -> None:
    moment = pd.Timestamp("2026-01-05 12:00", tz="UTC")
    assert (
        scale_sparse.number_of("2026-01-05T12:00:00.000000Z")
        == moment.value // 1000
        == scale_sparse.number_of(moment.value // 1000)
    )


def test_nine_of_ten_selections_are_alarms_and_an_alarm_says_the_same_in_sql_and_to_the_oracle() -> None:
    chosen = workload(1_000)
    alarms = [asked for asked in chosen if isinstance(asked, Alarm)]
    assert len(alarms) == 900 and all(isinstance(asked, Alarm | Selection) for asked in chosen)
    assert len({alarm.sensor for alarm in alarms}) > 800 and chosen == workload(1_000)
    task = {"seed": 3, "rate": RATE, "interval_s": 0.05, "origin_us": 0, "sensors": SENSORS}
    rows = pd.concat([push_batch(task, index, 5_000, 1).to_pandas() for index in range(4)])
    alarm = Alarm(int(rows.sensor_id.iloc[100]), 0)
    assert f"WHERE sensor_id = {alarm.sensor} AND a >= 0 BEGIN" in alarm.sql(RATE)
    right = rows[rows.sensor_id == alarm.sensor][["sensor_id", "a", "b", "c", "d"]]
    found = expected_rows(alarm, task, 200_000, alarm.window_us(RATE))  # type: ignore[arg-type]
    assert set(map(tuple, right.to_numpy().tolist())) <= set(found) and rows.sensor_id.max() > 9_000


def test_a_figure_is_the_median_of_its_runs_with_their_origin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report_module, "RESULTS", tmp_path)
    origin = {"commit": "c", "command": "python -m bench.scale"}
    report = Report("scale_test", "no run", keep=True)
    report.put_runs("month_fetch_ms", [3.0, 1.0], [0.5, 0.6], **origin)
    report.put_runs("groups_1e6_fold_p99_ms", [None])
    report.save()
    again = Report("scale_test", "no run", keep=True)
    again.put_runs("month_fetch_ms", [2.0], [0.7], **origin)
    assert again.values["month_fetch_ms"] == 2.0 and again.values["groups_1e6_fold_p99_ms"] is None
    together = {"runs": [3.0, 1.0, 2.0], "load_before": [0.5, 0.6, 0.7], **origin}
    assert again.runs["month_fetch_ms"] == together
    again.put_runs("month_fetch_ms", [7.0], [0.1], **{**origin, "commit": "d"})
    assert again.values["month_fetch_ms"] == 7.0 and again.runs["month_fetch_ms"]["earlier"] == [together]


def test_a_run_that_fails_is_noted_and_the_other_parts_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> dict[str, float | None]:
        raise error("over_budget", detail="too many cells")

    monkeypatch.setattr(report_module, "RESULTS", tmp_path)
    monkeypatch.setitem(PARTS, "month", fail)
    monkeypatch.setitem(PARTS, "sparse", lambda *_: {"sparse_failed": 0.0})
    report = Report("scale_test", "no run", keep=True)
    assert measure(report, ["month", "sparse"], parsed(["--runs", "2"])) == ["month", "month"]
    saved = Report("scale_test", "no run", keep=True)
    assert [each["error"].endswith("too many cells") for each in saved.failures["month"]] == [True, True]
    assert saved.values["sparse_failed"] == 0.0 and len(saved.runs["sparse_failed"]["runs"]) == 2


def test_all_runs_of_a_figure_that_another_benchmark_has_measured_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report_module, "RESULTS", tmp_path)
    theirs = Report("start", "two starts")
    theirs.put_runs("start_s_empty", [3.0, 4.0])
    theirs.put_runs("console_open_s", [None, None])
    theirs.put("start_s_history", 5.0)
    found = figures_of(json.loads(theirs.save().read_text()), START)
    monkeypatch.setitem(PARTS, "start", lambda *_: found)
    report = Report("scale_test", "no run", keep=True)
    assert measure(report, ["start"], parsed([])) == []
    assert report.values["start_s_empty"] == 3.5 and report.runs["start_s_empty"]["runs"] == [3.0, 4.0]
    assert report.runs["console_open_s"]["runs"] == [None, None]
    assert report.runs["start_s_history"]["runs"] == [5.0]
    assert report.values["start_first_answer_s_history"] is None


def test_parts_are_chosen_by_name_and_an_unknown_one_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert parsed([]).names == list(PARTS) and parsed(["--only", "sparse,month"]).names == ["sparse", "month"]
    with pytest.raises(SystemExit):
        parsed(["--only", "sparse,nothing"])
    assert "no such part: nothing" in capsys.readouterr().err


def test_the_folder_of_many_sensors_has_their_cells_and_answers_at_once_after_a_start(tmp_path: Path) -> None:
    data, folder = Minutely(30, (int(time.time()) // 60 - 2 * DAY_MINUTES) * MINUTE_US), tmp_path / "data"
    chosen = {f"q{number}": asked for number, asked in enumerate(scale_sensors.aggregates(8))}
    queries = {name: asked.sql() for name, asked in chosen.items()}
    found, sent = make_folder(lambda _: None, folder, data, queries, 30 * 600, 100)
    assert sent > 30 * 600 and "sensors10k_answer_process_p50_ms" in found
    with local_database(folder=folder) as (database, engine):
        tasks = engine.tasks_run
        for name, asked in chosen.items():
            group = 3 if asked.key == "sid" else site_of(3)
            right = asked.expected(data, 3, data.newest_us(sent), sent)
            assert dict(rows_of(database, name))[group] == pytest.approx(right, rel=1e-9), asked
        assert engine.tasks_run == tasks
