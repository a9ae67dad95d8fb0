"""Rollups that keep sketches: approximate answers about readings that retention took, against all rows that ever were."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from penstock.clock import format_timestamp
from penstock.errors import PenstockError
from penstock.operators.aggregate.rollups import keeper
from tests.support.pipe import Pipe

HOUR_US = 3_600_000_000
ROLLUP = (
    "CREATE ROLLUP visits ON doors AS SELECT place, COUNT(*), COUNT(value), APPROX_SUM(value, 0.05),"
    " APPROX_DISTINCT(who, 0.1), APPROX_PERCENTILE(value, 0.5, 0.02), APPROX_TOP_K(who, 5), APPROX_NORM(who, 2, 0.4)"
    " GROUP BY place EVERY 1 MINUTE KEEP 1 HOUR, EVERY 1 HOUR"
)
ASKED = (
    "APPROX_COUNT(*, 0.01) AS n, APPROX_COUNT(value) AS known, APPROX_SUM(value, 0.2) AS s, APPROX_DISTINCT(who, 0.1) AS d,"
    " APPROX_PERCENTILE(value, 0.9, 0.05) AS p, APPROX_TOP_K(who, 3) AS t, APPROX_NORM(who, 2, 0.4) AS q"
)


def forget(pipe: Pipe) -> None:
    pipe.engine.drain()
    pipe.db.housekeeper.tend(1)
    pipe.engine.drain()


def check(row: dict[str, Any], truth: list[tuple[float | None, str]]) -> None:
    values, names = [v for v, _ in truth if v is not None], Counter(who for _, who in truth)
    assert (row["n"], row["n_error"], row["known"]) == (len(truth), 0.0, len(values))
    assert row["s"] == pytest.approx(math.fsum(values))
    norm = math.sqrt(sum(n * n for n in names.values()))
    for name, exact in (("d", len(names)), ("q", norm)):
        assert abs(row[name] - exact) <= row[f"{name}_error"] + 1e-6, (name, row, exact)
    assert abs(row["d"] - len(names)) <= 0.1 * len(names) + 2 and abs(row["q"] - norm) <= 0.4 * norm
    ranked = sorted(values)
    low, high = (ranked[min(len(ranked) - 1, max(0, round(len(ranked) * r)))] for r in (0.84, 0.96))
    assert low <= row["p"] <= high, (row["p"], low, high)
    for item in row["t"]:
        assert abs(names[item["item"]] - item["count"]) <= row["t_error"] <= len(truth) / 24 + 1


def test_sketches_outlive_the_log_and_keep_their_promises(
    pipes: Callable[..., Pipe], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeper, "CELLS_PER_BLOCK", 15)
    chance = random.Random(8)
    pipe = pipes()
    pipe.db.execute(
        "CREATE TABLE doors (id INT PRIMARY KEY, place TEXT, r STREAM (value DOUBLE, who TEXT))"
        " WITH (time = 'valid', out_of_order = 'accept', retention = '10 MINUTES')"
    )
    pipe.db.execute("INSERT INTO doors VALUES (1, 'north', NULL), (2, 'south', NULL)")
    pipe.db.execute(ROLLUP)
    window = "BEGIN (NOW - 7 DAYS) END (NOW)"
    pipe.db.execute(f"CREATE QUERY whole AS SELECT {ASKED} FROM doors {window} WITH ERROR")
    hourly = f"SELECT window_start, place, {ASKED} FROM doors GROUP BY place, TUMBLE(1 HOUR) {window} WITH ERROR"
    pipe.db.execute(f"CREATE QUERY hourly AS {hourly}")
    rows: list[tuple[int, int, float | None, str]] = []
    for turn in range(16):
        pushed = []
        for _ in range(chance.choice([60, 400])):
            pipe.clock.advance(chance.choice([0, 1_000_000, 3_000_000]))
            ts = pipe.clock.now_us() - chance.choice([0, 0, 0, 200_000_000])
            value, who = chance.choice([None, chance.gauss(10, 3)]), f"u{int(chance.paretovariate(0.6)) % 3000}"
            rows.append((ts, sensor := chance.choice([1, 2]), value, who))
            pushed.append({"id": sensor, "ts": format_timestamp(ts), "value": value, "who": who})
        assert not pipe.db.push("doors", pushed).refused
        forget(pipe)
        if turn == 9:
            pipe.restart()
    held = pipe.db.catalog.state.rolled_up(pipe.db.catalog.state.rollups["visits"].id)
    assert held is not None and held.position > len(rows) / 2 and {f.every_us for f in held.files} >= {HOUR_US}
    found = pipe.db.invoke("whole")
    assert any(notice.startswith("rolled up: ") for notice in found.notices)
    check(found.table.to_pylist()[0], [row[2:] for row in rows])
    once = pipe.db.execute(f"SELECT {ASKED} FROM doors {window} WITH ERROR")
    check(once.table.to_pylist()[0], [row[2:] for row in rows])
    panes = pipe.db.invoke("hourly").table.to_pylist()
    assert len(panes) > 4
    for row in panes:
        start = (row["window_start"].timestamp() * 1_000_000) // HOUR_US * HOUR_US
        sensor = 1 if row["place"] == "north" else 2
        check(row, [r[2:] for r in rows if start <= r[0] < start + HOUR_US and r[1] == sensor])
    told = "\n".join(pipe.db.execute("EXPLAIN visits").table.column("plan").to_pylist())
    assert "approx_distinct(who) epsilon=0.1" in told and "approx_norm(who) epsilon=0.4 p=2.0" in told, told


@pytest.mark.parametrize(
    ("call", "why"),
    [
        ("COUNT(DISTINCT who)", "and no rollup does, because that needs the values themselves; APPROX_DISTINCT can be"),
        ("MEDIAN(value)", "and no rollup does, because that needs the values themselves; APPROX_PERCENTILE can be"),
        ("APPROX_DISTINCT(who, 0.02)", "it does not keep approx_distinct(who, 0.02)"),
        ("APPROX_PERCENTILE(value, 0.5, 0.01)", "it does not keep approx_percentile(value, 0.5, 0.01)"),
        ("MAX(value)", "it does not keep max(value)"),
    ],
)
def test_what_a_rollup_cannot_say_is_explained_by_name(call: str, why: str, pipe: Pipe) -> None:
    pipe.db.execute(
        "CREATE TABLE doors (id INT PRIMARY KEY, place TEXT, r STREAM (value DOUBLE, who TEXT))"
        " WITH (retention = '10 MINUTES'); INSERT INTO doors VALUES (1, 'north', NULL)"
    )
    pipe.db.execute(ROLLUP)
    pipe.db.execute(f"CREATE QUERY q AS SELECT {call} AS x FROM doors BEGIN (NOW - 1 DAY) END (NOW)")
    pipe.engine.drain()
    told = "\n".join(pipe.db.execute("EXPLAIN q").table.column("plan").to_pylist())
    assert 'rollup "visits" is not used: ' in told and why in told, told


@pytest.mark.parametrize(
    ("call", "instead"),
    [("COUNT(DISTINCT who)", "APPROX_DISTINCT"), ("MEDIAN(value)", "APPROX_PERCENTILE"), ("TWA(value)", "no end")],
)
def test_what_it_cannot_keep_is_refused_with_what_can_take_its_place(call: str, instead: str, pipe: Pipe) -> None:
    pipe.db.execute(
        "CREATE TABLE doors (id INT PRIMARY KEY, r STREAM (value DOUBLE, who TEXT)) WITH (retention = '10 MINUTES')"
    )
    with pytest.raises(PenstockError) as refused:
        pipe.db.execute(f"CREATE ROLLUP r ON doors AS SELECT {call} EVERY 1 HOUR")
    assert refused.value.condition == "not_supported" and refused.value.line == 1
    assert instead in str(refused.value.hint)
