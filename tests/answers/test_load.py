"""The load of the cycle: its fit, its units by what workers reported, and what CREATE QUERY and EXPLAIN say of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pytest

from penstock.answers.load import CycleFit, Load, fit_cycles
from penstock.answers.units import reported_work
from penstock.cycle.commits import RESULT_SCHEMA, CommitRecord
from penstock.cycle.offset import Offset
from penstock.errors import PenstockError
from penstock.settings import Settings
from tests.support.pipe import Pipe

WINDOW = "BEGIN (NOW - 1 HOUR) END (NOW)"
ODD = "CREATE FUNCTION odd(x DOUBLE) RETURNS BOOLEAN LANGUAGE python AS $$ x % 2 == 1 $$"
BASE_S, ROW_S = 0.1, 2e-6


class Cycles:
    """Commits cycles with exact times to a Load: each lasts a + b n, and reads what came since the one before."""

    def __init__(self, settings: Settings = Settings(), table: int = 1) -> None:
        self.now_s = 1000.0
        self.load = Load(settings, lambda: self.now_s)
        self._table = table
        self._read = 0
        self._number = 0

    def run(self, rows: int, seconds: float, units: list[list[Any]] | None = None) -> None:
        start = self._offset()
        self._read += rows
        self._number += 1
        self.now_s += seconds
        told = [[self._table, "spent", 0, 0, orjson.dumps({"units": units or []})]]
        results = pa.Table.from_arrays([pa.array(c) for c in zip(*told, strict=True)], schema=RESULT_SCHEMA)
        info = {"ms": (seconds - 0.02) * 1000, "between_ms": 20.0, "tasks": 1}
        record = CommitRecord(self._number, start, self._offset(), results, info)
        self.load.note_cycle(record, reported_work(results), 0.0)

    def _offset(self) -> Offset:
        return Offset("f", {self._table: self._read}, 1, round(self.now_s * 1e6))

    def at_rate(self, rows_per_s: float, count: int, said: float = 1.0) -> float:
        """So many cycles in a row; how long the last one took. Workers say `said` times what a row takes."""
        seconds = BASE_S
        for _ in range(count):
            rows = round(rows_per_s * seconds)
            seconds = BASE_S + ROW_S * rows
            self.run(rows, seconds, [["pass", "", rows, rows // 10, round(said * rows * ROW_S * 1e9)]])
        return seconds


def cycle_s(fit: CycleFit, rows_per_s: float) -> float | None:
    """How long cycles last that follow each other without a pause; None where they can never keep up."""
    free = 1 - fit.load(rows_per_s)
    return fit.base_s / free if free > 0 else None


def test_the_fit_of_exact_cycles_is_exact() -> None:
    rows = np.array([1000.0, 2000.0, 5000.0, 9000.0] * 4)
    fit = fit_cycles(rows, BASE_S + ROW_S * rows, ROW_S)
    assert (fit.base_s, fit.row_s) == (pytest.approx(BASE_S), pytest.approx(ROW_S))
    assert cycle_s(fit, 400_000) == pytest.approx(BASE_S / 0.2) and cycle_s(fit, 510_000) is None


def test_with_the_same_rows_in_each_cycle_the_slope_is_what_workers_measured() -> None:
    rows = np.full(20, 5000.0)
    chance = np.random.default_rng(1)
    fit = fit_cycles(rows, BASE_S + ROW_S * rows + chance.normal(0, 0.01, 20), ROW_S)
    assert fit.row_s == pytest.approx(ROW_S) and fit.base_s == pytest.approx(BASE_S, abs=0.01)


def test_a_fit_never_says_that_rows_cost_less_than_nothing_or_more_than_all() -> None:
    rows = np.array([1000.0, 2000.0])
    assert fit_cycles(rows, np.array([2.0, 1.0]), 0.0) == CycleFit(1.5, 0.0)
    assert fit_cycles(np.zeros(3), np.full(3, 0.1), 0.0) == CycleFit(pytest.approx(0.1), 0.0)
    assert fit_cycles(rows, np.array([0.1, 0.1]), 1.0).base_s == pytest.approx(0.0)


def test_the_load_is_rows_per_second_times_the_cost_of_a_row_whatever_the_rate_was_before() -> None:
    cycles = Cycles()
    assert cycles.load.figures()["load"] is None
    for rate in (50_000, 200_000, 400_000):
        lasted = cycles.at_rate(rate, 60)
        found, fit = cycles.load.figures(), cycles.load.fit()
        assert found["load"] == pytest.approx(rate * ROW_S, rel=0.15)
        assert fit is not None and cycle_s(fit, rate) == pytest.approx(lasted, rel=0.05)
        assert found["delay_ms"] == pytest.approx(2000 * lasted, rel=0.1)
    assert found["row_us"] == pytest.approx(2.0) and found["base_ms"] == pytest.approx(100.0)
    assert len(cycles.load.past()) > 5


def test_cycles_of_an_earlier_rate_correct_what_workers_say_of_a_row() -> None:
    cycles = Cycles()
    cycles.at_rate(10_000, 100, said=5.0)
    fit = cycles.load.fit()
    assert fit is not None and fit.row_s > 4 * ROW_S
    cycles.at_rate(100_000, 100, said=5.0)
    fit = cycles.load.fit()
    assert fit is not None and fit.row_s == pytest.approx(ROW_S, rel=0.1)
    assert cycle_s(fit, 400_000) == pytest.approx(BASE_S / 0.2, rel=0.5)


def test_cycles_of_long_ago_no_longer_count() -> None:
    cycles = Cycles()
    cycles.at_rate(10_000, 100)
    for _ in range(1000):
        cycles.run(20_000, 0.05)
    fit = cycles.load.fit()
    assert fit is not None and fit.base_s + fit.row_s * 20_000 == pytest.approx(0.05)


def test_costs_forget_what_was_and_rates_forget_what_has_ended(pipe: Pipe) -> None:
    pipe.probes()
    pipe.db.execute(f"CREATE QUERY q AS SELECT value FROM probes WHERE value > 1 {WINDOW}")
    state = pipe.db.catalog.state
    table = state.tables["probes"].id
    users = {("pass", table, ""): [state.queries["q"].id]}
    cycles = Cycles(table=table)
    for _ in range(30):
        cycles.run(100, 0.1, [["pass", "", 100, 20, 100_000]])
    for _ in range(30):
        cycles.run(100, 0.1, [["pass", "", 100, 50, 300_000]])
    (unit,) = cycles.load.units(users, state)
    assert (unit["unit"], unit["kind"], unit["queries"]) == ("probes", "pass", "q")
    assert unit["ns_per_row"] == pytest.approx(3000, rel=0.01) and unit["selectivity"] == pytest.approx(0.5, rel=0.01)
    assert unit["rows_per_s"] == pytest.approx(1000, rel=0.5)
    assert unit["load"] == pytest.approx(unit["ns_per_row"] * unit["rows_per_s"] / 1e9)
    cycles.now_s += 60
    assert cycles.load.units(users, state)[0]["rows_per_s"] < 1
    assert cycles.load.units({}, state) == []  # of no query any more


def test_workers_report_each_unit_of_the_queries_that_run(pipe: Pipe) -> None:
    pipe.probes()
    pipe.db.execute(ODD)
    pipe.db.execute(f"CREATE QUERY some AS SELECT value FROM probes WHERE odd(value) {WINDOW}")
    pipe.db.execute(f"CREATE QUERY means AS SELECT id, AVG(value) AS m FROM probes GROUP BY id {WINDOW}")
    pipe.engine.drain()
    for _ in range(3):
        pipe.push(*(float(n) for n in range(20_000)))
        pipe.engine.drain()
    found = {row["kind"]: row for row in units(pipe)}
    assert found["call"]["unit"] == "odd on probes"
    assert (found["call"]["selectivity"], found["pass"]["selectivity"], found["read"]["selectivity"]) == (0.5, 0.5, 1.0)
    pipe.clock.advance(3_600_000_000)
    pipe.db.execute("CREATE QUERY pairs AS SELECT a.value FROM probes a, probes b WINDOW = 1 SECOND WHERE a.id < b.id")
    pipe.engine.drain()
    for value in range(8):
        pipe.push(float(value), sensor=1 + value % 2)
        pipe.engine.drain()
    by_query = {(row["kind"], row["queries"]): row for row in units(pipe)}
    expected = {("read", "some, means"), ("pass", "some"), ("call", "some"), ("slices", "means"), ("join", "pairs")}
    assert expected <= by_query.keys()
    assert all(row["ns_per_row"] > 0 and row["rows_per_s"] > 0 for row in by_query.values())
    assert "limit 0.8; by unit: penstock.units" in pipe.db.execute("EXPLAIN some").table[0].to_pylist()[-1]
    pipe.db.execute("DROP QUERY some")
    pipe.engine.drain()
    assert "some" not in {row["queries"] for row in units(pipe)}


def units(pipe: Pipe) -> list[dict[str, Any]]:
    return list(pipe.db.system.table("penstock.units").to_pylist())


def test_a_query_above_the_limit_gets_a_notice_with_both_figures_or_is_refused(pipe: Pipe) -> None:
    pipe.probes()
    pipe.db.execute(ODD)
    select = f"SELECT value FROM probes WHERE odd(value) {WINDOW}"
    pipe.db.execute(f"CREATE QUERY first AS {select}")
    plan, table = pipe.db.standing.plan_of(pipe.db.definition("first")), pipe.db.catalog_table("probes").id
    many = {("read", table, ""): [1], ("pass", table, ""): list(range(100))}
    for admission in ("notice", "refuse"):
        cycles = Cycles(replace(pipe.db.settings, admission=admission), table=table)
        cycles.at_rate(350_000, 80)
        state = pipe.db.catalog.state
        assert cycles.load.admit("light", plan, (), many, state) is None
        if admission == "notice":
            said = cycles.load.admit("heavy", plan, ("odd",), {}, state)
            assert said is not None and '"heavy" takes the load from 0.' in said and "above the limit 0.8" in said
        else:
            with pytest.raises(PenstockError) as refused:
                cycles.load.admit("heavy", plan, ("odd",), {}, state)
            assert refused.value.condition == "over_budget" and "penstock.units" in (refused.value.hint or "")


def test_sensors_that_are_not_open_count_with_the_rate_of_their_stream_type(pipe: Pipe) -> None:
    pipe.db.execute("CREATE STREAM TYPE road AS (value DOUBLE) USING simulator OPTIONS (kind 'periodic', rate '1000');")
    pipe.db.execute("CREATE TABLE loops (id INT PRIMARY KEY, reading STREAM road)")
    pipe.db.execute("INSERT INTO loops VALUES (1, NULL), (2, NULL), (3, NULL)")
    pipe.db.execute(ODD)
    (line,) = [
        line
        for line in pipe.db.execute(f"EXPLAIN SELECT value FROM loops WHERE odd(value) {WINDOW}").table[0].to_pylist()
        if "as a standing query" in line
    ]
    assert line.strip() == "as a standing query: load 0.00 + 0.01 for 3 new units, limit 0.8"


def test_a_wrong_admission_is_refused_by_name() -> None:
    with pytest.raises(PenstockError, match='"never" is not one of notice, refuse'):
        Load(Settings(admission="never"))
