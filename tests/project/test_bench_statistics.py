"""The workload of windowed aggregates: what the benchmark registers is covered, and what it calls right is right."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from bench.statistics_windows import second_of, sql_of, windows
from bench.statistics_workload import (
    CALLS,
    GROUPINGS,
    HOUR_S,
    KINDS,
    SENSORS,
    TABLE,
    aggregates,
    as_frame,
    expected,
    history,
    inserts,
    push_batch,
)
from penstock.sql.plan import AggregatePlan, plan_from_json
from tests.support.pipe import BEGAN_US, Pipe


def test_a_thousand_aggregates_have_four_groupings_and_windows_of_a_second_to_an_hour() -> None:
    chosen = aggregates(1_000, seed=1)
    assert len(chosen) == 1_000 and chosen == aggregates(1_000, seed=1)
    assert {a.grouping for a in chosen} == set(GROUPINGS) and {a.call for a in chosen} == set(range(len(CALLS)))
    lengths = [a.window_s for a in chosen]
    assert min(lengths) == 1 and 3_000 < max(lengths) <= HOUR_S
    assert 0.7 < np.mean([a.step_s is None for a in chosen]) < 0.9
    assert all(a.step_s is None or a.window_s % a.step_s == 0 for a in chosen)


def test_history_has_every_group_in_every_second() -> None:
    batch = history(3, 5_000_000, first_s=2, seconds=3)
    us = batch.column("ts").cast(pa.int64()).to_numpy()
    assert us[0] == 7_000_000 and us[-1] < 10_000_000 and (np.diff(us) > 0).all()
    sensors, kinds = batch.column("sensor_id").to_pylist(), batch.column("d").to_pylist()
    groups = set(zip((us // 1_000_000).tolist(), sensors, kinds, strict=True))
    assert len(groups) == 3 * SENSORS * KINDS


def test_the_pipeline_answers_what_the_benchmark_calls_right(tmp_path: Path) -> None:
    pipe = Pipe(tmp_path)
    pipe.db.execute(TABLE)
    pipe.db.execute(inserts())
    chosen = {f"q{number}": asked for number, asked in enumerate(aggregates(60, seed=2))}
    pipe.db.register([(name, asked.sql()) for name, asked in chosen.items()])
    for name in chosen:
        plan = plan_from_json(pipe.db.definition(name).plan)
        assert isinstance(plan, AggregatePlan), chosen[name].sql()
    task = {"seed": 4, "interval_s": 0.05, "origin_us": BEGAN_US}
    pushed = [history(3, BEGAN_US - HOUR_S * 1_000_000, first, 60) for first in range(3_000, HOUR_S, 60)]
    pushed += [push_batch(task, index, 300, 7) for index in range(20)]
    for batch in pushed:
        receipt = pipe.db.push("readings", pa.Table.from_batches([batch]))
        assert receipt.accepted == batch.num_rows, receipt
    pipe.clock.advance(2_000_000)
    pipe.engine.drain()
    rows = as_frame(pushed)
    for name, asked in chosen.items():
        found = pipe.db.standing.invoke(name)
        assert found.now_us == int(rows.us.max())
        if asked.step_s is None:
            right = expected(asked, rows, found.now_us)
            ours = {row.get("k"): row["v"] for row in found.table.to_pylist()}
            assert ours == {key: pytest.approx(value, rel=1e-9) for key, value in right.items()}, asked
        else:
            assert found.table.num_rows > 0
    pipe.db.stop()


def test_sliding_averages_differ_in_width_and_are_covered(tmp_path: Path) -> None:
    assert windows(1) == [(10, 1)] and len(set(windows(10))) == 10 and len(set(windows(100))) == 100
    pipe = Pipe(tmp_path)
    pipe.db.execute(TABLE)
    pipe.db.execute(inserts())
    pipe.db.register([(f"q{n}", sql_of(*asked)) for n, asked in enumerate(windows(10))])
    for n in range(10):
        assert isinstance(plan_from_json(pipe.db.definition(f"q{n}").plan), AggregatePlan)
    batch = second_of(BEGAN_US - 2_000_000, 0)
    assert pipe.db.push("readings", pa.Table.from_batches([batch])).accepted == batch.num_rows
    pipe.engine.drain()
    found = pipe.db.standing.invoke("q0").table
    assert set(found["sensor_id"].to_pylist()) == set(range(SENSORS)) and found.num_rows == 10 * SENSORS
    pipe.db.stop()
