"""The workload of standing queries and the arithmetic of its benchmark: whoever pushes and whoever checks must agree."""

from __future__ import annotations

import numpy as np
import pytest

from bench.queries_server import cycle_figures, table_sql
from bench.queries_unshared import VERSIONS, answer, batch, each, whole
from bench.query_workload import ATTRIBUTES, Range, Selection, expected_rows, push_batch, readings, selections
from bench.real_memory import parse_rollup
from bench.tables import lines_of
from penstock.expr.expression import Call, Column, Expr, Literal
from penstock.types import BOOLEAN, INT


def test_the_workload_is_the_designs() -> None:
    chosen = selections(4_000, seed=1)
    assert {s.factors for s in chosen} == set(range(1, 9))
    assert {s.window_tuples for s in chosen} == {2**n for n in range(7, 17)}
    lows = [r.low for s in chosen for r in s.ranges if r.low is not None]
    rounded = np.mean([low % 32 == 0 for low in lows])
    assert rounded == pytest.approx(0.2 + 0.8 / 32, abs=0.02)
    assert all(len({r.attribute for r in s.ranges}) == len(s.ranges) for s in chosen)


def test_a_row_matches_about_an_eighth_of_the_queries() -> None:
    columns = readings(seed=1, index=0, rows=500)
    shares = [s.selects(columns).mean() for s in selections(2_000, seed=2)]
    assert 0.12 < float(np.mean(shares)) < 0.19


def test_the_same_seed_gives_the_same_queries_and_readings() -> None:
    assert selections(50, seed=3) == selections(50, seed=3)
    assert selections(50, seed=3) != selections(50, seed=4)
    for name, values in readings(5, 6, 100).items():
        assert np.array_equal(values, readings(5, 6, 100)[name])


def test_a_selection_says_the_same_in_sql_and_to_the_oracle() -> None:
    chosen = Selection((Range("a", 10, 20), Range("b", None, 5)), 2_000)
    assert chosen.where() == "a >= 10 AND a < 20 AND b < 5"
    assert "BEGIN (NOW - 100000 MICROSECONDS) END (NOW)" in chosen.sql(20_000)
    columns = {"a": np.array([10, 19, 20]), "b": np.array([4, 5, 4])}
    assert chosen.selects(columns).tolist() == [True, False, False]


def test_the_oracle_counts_what_lies_in_the_window_both_ends_included() -> None:
    task = {"seed": 9, "rate": 1_000, "interval_s": 0.01, "origin_us": 5_000_000}
    everything = Selection((Range("a", 0, None),), 0)
    pushed = [push_batch(task, index, 10, marker=1) for index in range(5)]
    times = np.concatenate([p.column("ts").cast("int64").to_numpy() for p in pushed])
    assert np.array_equal(times, 5_000_000 + np.arange(50) * 1_000)
    found = expected_rows(everything, task, now_us=5_000_000 + 49_000, window_us=14_000)
    rows = [tuple(r[n] for n in ("sensor_id", *ATTRIBUTES)) for p in pushed for r in p.to_pylist()]
    assert found == sorted(rows[35:50])


def test_a_cycle_lasts_from_its_now_to_the_next_ones_where_both_had_rows() -> None:
    cycles = [
        {"now": f"2026-01-01T00:00:0{second}Z", "rows": rows, "ms": 10.0 * second}
        for second, rows in ((0, 5), (1, 5), (3, 5), (4, 0), (9, 5))
    ]
    found = cycle_figures(cycles)
    assert (found["cycles"], found["cycle_p50_ms"], found["cycle_p99_ms"]) == (2, 2_000, 2_000)
    assert found["job_p99_ms"] == 90


def test_one_index_for_all_and_one_for_each_find_the_same() -> None:
    predicates: list[Expr | None] = [Call("lt", (Column("a", INT), Literal(n, INT)), BOOLEAN) for n in (3, 100, 200)]
    columns, vids = batch(300)
    for indices in (whole(predicates), each(predicates)):
        answer(indices[0], columns, vids)
    shared = dict(whole(predicates)[0].match(columns, vids, VERSIONS))
    single = {q: rows for index in each(predicates) for q, rows in index.match(columns, vids, VERSIONS)}
    assert shared == single


def test_shared_pages_are_read_from_the_kernels_summary() -> None:
    text = "55d0-7ffe ---p 0 00:00 0 [rollup]\nRss:  100 kB\nPss:   40 kB\nPss_Shmem:  8 kB\n"
    assert parse_rollup(text) == {"Rss": 102_400, "Pss": 40_960, "Pss_Shmem": 8_192}


def test_lines_of_a_plot_leave_out_what_was_not_measured() -> None:
    table = [{"way": "x", "n": 1, "ms": 2.0}, {"way": "x", "n": 2, "ms": None}, {"way": "y", "n": 1, "ms": 3.0}]
    assert lines_of(table, "way", "n", "ms") == {"x": ([1], [2.0]), "y": ([1], [3.0])}


def test_readings_carry_times_of_their_own_only_where_the_task_says_when_they_begin() -> None:
    task = {"seed": 1, "interval_s": 0.05}
    assert "ts" not in push_batch(task, 0, 5, 7).schema.names
    assert "time = 'valid'" in table_sql(own_times=True) and "valid" not in table_sql(own_times=False)
