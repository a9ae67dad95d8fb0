"""Standing approximate aggregates from SQL: asked, explained, restarted, held against all rows."""

from __future__ import annotations

import math
import os
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from penstock.clock import format_timestamp
from penstock.errors import PenstockError
from penstock.operators.aggregate.approximate import coarse_cells as coarse
from penstock.sql.plan import AggregatePlan, plan_from_json
from penstock.views.standing_queries import Intervals
from tests.support.pipe import Pipe

ASKED = (
    "SELECT APPROX_COUNT(*, 0.05) AS n, APPROX_SUM(value, 0.05) AS s, APPROX_DISTINCT(value, 0.1) AS d,"
    " APPROX_PERCENTILE(value, 0.5, 0.05) AS p, APPROX_TOP_K(value, 2) AS t, APPROX_NORM(value, 2, 0.4) AS q,"
    " APPROX_AVG(value, 0.05) AS a, APPROX_HISTOGRAM(value, 0, 100, 5, 0.1) AS h FROM probes"
)
WINDOW = "BEGIN (NOW - {} SECONDS) END (NOW)"


def rows(pipe: Pipe, name: str) -> list[dict[str, Any]]:
    answer: list[dict[str, Any]] = pipe.db.standing.invoke(name).table.to_pylist()
    return answer


def explained(pipe: Pipe, name: str) -> str:
    return "\n".join(pipe.db.execute(f"EXPLAIN {name}").table.column("plan").to_pylist())


def check(row: dict[str, Any], truth: list[float]) -> None:
    counts = Counter(truth)
    exact = {
        "n": len(truth),
        "s": math.fsum(truth),
        "d": len(counts),
        "q": math.sqrt(sum(n * n for n in counts.values())),
        "a": math.fsum(truth) / len(truth),
    }
    promised = {"n": 0.05 * len(truth), "s": 0.05 * math.fsum(truth), "d": 0.1 * len(counts) + 2, "q": 0.4 * exact["q"]}
    promised["a"] = 0.05 * math.fsum(map(abs, truth)) / len(truth)
    for bar in row["h"]:
        low, high = (
            (-math.inf if bar["low"] is None else bar["low"]),
            (math.inf if bar["high"] is None else bar["high"]),
        )
        inside = sum(low <= value < high for value in truth)
        assert abs(bar["count"] - inside) <= min(row["h_error"], 0.1 * inside), (row["h"], inside)
    for name, value in exact.items():
        assert abs(row[name] - value) <= row[f"{name}_error"] + 1e-6, (name, row, value)
        assert abs(row[name] - value) <= promised[name] + 1e-6, (name, row, value)
    ordered, slack = sorted(truth), 0.05 + 1 / len(truth)
    low, high = (
        ordered[max(0, math.floor((0.5 - slack) * len(truth)))],
        ordered[min(len(truth) - 1, math.ceil((0.5 + slack) * len(truth)))],
    )
    assert low <= row["p"] <= high, (row, low, high)
    for item in row["t"]:
        assert abs(counts[item["item"]] - item["count"]) <= row["t_error"] <= len(truth) / 16 + 1


@pytest.mark.parametrize("seed", range(3 if os.environ.get("PENSTOCK_SOAK") else 1))
def test_every_answer_is_within_its_error_with_late_rows_and_restarts(
    seed: int, pipes: Callable[..., Pipe], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(coarse, "FEW", 4)
    chance = random.Random(seed)
    pipe = pipes(intervals=Intervals(snapshot_cycles=7, trim_cycles=5))
    pipe.db.execute(
        "CREATE TABLE probes (id INT PRIMARY KEY, place TEXT, reading STREAM (value DOUBLE))"
        " WITH (time = 'valid', out_of_order = 'accept')"
    )
    pipe.db.execute("INSERT INTO probes VALUES (1, 'north', NULL), (2, 'south', NULL)")
    for seconds in (20, 150):
        pipe.db.execute(f"CREATE QUERY w{seconds} AS {ASKED} {WINDOW.format(seconds)} WITH ERROR")
    pipe.db.execute(f"CREATE QUERY since AS {ASKED} BEGIN (START) END (NOW) WITH ERROR")
    places = ASKED.replace("SELECT", "SELECT place,").replace("FROM probes", "FROM probes GROUP BY place")
    pipe.db.execute(f"CREATE QUERY places AS {places} {WINDOW.format(90)} WITH ERROR")
    logged: list[tuple[int, int, float]] = []
    for step in range(60):
        pipe.clock.advance(chance.choice([300_000, 2_000_000, 5_000_000]))
        sent = []
        for _ in range(chance.randint(1, 30)):
            late = chance.choice([0, 0, 0, 1000, chance.randint(0, 100_000_000)])
            ts = max((pipe.clock.now_us() - late) // 1000 * 1000, 0)
            sensor, value = chance.choice([1, 1, 1, 2]), float(int(chance.paretovariate(0.8)) % 300)
            sent.append({"id": sensor, "value": value, "ts": ts})
        told = [{**r, "ts": format_timestamp(r["ts"])} for r in sent]
        receipt = pipe.db.push("probes", told)
        assert not receipt.refused
        logged += [(r["ts"], r["id"], r["value"]) for r in sent]  # type: ignore[misc]
        pipe.engine.drain()
        if chance.random() < 0.1:
            pipe.restart()
        now = max(ts for ts, _, _ in logged)
        for name, back in (("w20", 20), ("w150", 150), ("since", None)):
            low = now - back * 1_000_000 if back is not None else pipe.db.catalog.state.queries[name].start_us
            truth = [v for ts, _, v in logged if low is None or ts >= low]
            (row,) = rows(pipe, name)
            if truth:
                check(row, truth)
        inside = [(s, v) for ts, s, v in logged if ts >= now - 90_000_000]
        found = {row["place"]: row for row in rows(pipe, "places")}
        assert set(found) == {"north" if s == 1 else "south" for s, _ in inside}, step
        for sensor, place in ((1, "north"), (2, "south")):
            if place in found:
                check(found[place], [v for s, v in inside if s == sensor])
    pipe.db.stop()


def test_explain_says_approximate_and_the_bound_and_memory(pipes: Callable[..., Pipe]) -> None:
    pipe = pipes()
    pipe.probes()
    pipe.db.execute(f"CREATE QUERY q AS {ASKED} {WINDOW.format(60)}")
    pipe.push(1.0)
    pipe.engine.drain()
    told = explained(pipe, "q")
    assert 'slices of the stream of "probes", approximate' in told
    assert "  error: approx_count(*, 0.05): within 5 % of the truth, for certain" in told
    assert "  error: approx_top_k(value, 2): counts within 6.25 % of the rows, for certain" in told
    assert "in 99.7 % of all cases" in told and "memory:" in told
    assert list(rows(pipe, "q")[0]) == ["n", "s", "d", "p", "t", "q", "a", "h"]


def test_an_error_is_a_column_on_request(pipes: Callable[..., Pipe]) -> None:
    pipe = pipes()
    pipe.probes()
    window = WINDOW.format(60)
    pipe.db.execute(f"CREATE QUERY one AS SELECT APPROX_COUNT(*) AS n, APPROX_ERROR(n) FROM probes {window}")
    pipe.db.execute(f"CREATE QUERY two AS SELECT APPROX_COUNT(*) FROM probes {window} WITH ERROR")
    pipe.db.execute(
        f"CREATE QUERY three AS SELECT place, APPROX_SUM(value) AS s, APPROX_ERROR(s) AS off FROM probes GROUP BY place"
        f" HAVING APPROX_COUNT(*) > 1 {window}"
    )
    pipe.push(1.0, 2.0)
    pipe.push(2.0, sensor=2)
    pipe.engine.drain()
    assert rows(pipe, "one") == [{"n": 3, "n_error": 0.0}]
    assert rows(pipe, "two") == [{"approx_count": 3, "approx_count_error": 0.0}]
    assert rows(pipe, "three") == [{"place": "north", "s": 3.0, "off": 0.0}]


def test_an_empty_window_counts_nothing_and_knows_nothing_else(pipes: Callable[..., Pipe]) -> None:
    pipe = pipes()
    pipe.probes()
    pipe.db.execute(f"CREATE QUERY q AS {ASKED} {WINDOW.format(60)} WITH ERROR")
    pipe.engine.drain()
    (row,) = rows(pipe, "q")
    assert (row["n"], row["d"], row["s"], row["p"], row["t"], row["q"]) == (0, 0, None, None, None, None)


def test_panes_and_changes(pipes: Callable[..., Pipe]) -> None:
    pipe = pipes()
    pipe.probes()
    pipe.db.execute(
        "CREATE QUERY q AS SELECT window_start, APPROX_DISTINCT(value) AS d FROM probes GROUP BY TUMBLE(1 MINUTE)"
        " BEGIN (NOW - 10 MINUTES) END (NOW)"
    )
    pipe.engine.drain()
    changes = pipe.db.subscribe("q", changes=True)
    assert changes.next(60.0) is not None
    pipe.push(1.0, 2.0, 2.0)
    pipe.engine.drain()
    event = changes.next(60.0)
    assert event is not None and [(r["op"], r["d"]) for r in event.table.to_pylist()] == [("+", 2)]


def test_over_the_newest_rows_they_are_made_when_asked_for(pipes: Callable[..., Pipe]) -> None:
    chance = random.Random(3)
    pipe = pipes()
    pipe.probes()
    pipe.db.execute(f"CREATE QUERY q AS {ASKED} BEGIN (LAST 300 ROWS) WITH ERROR")
    pipe.db.execute(
        "CREATE QUERY each AS SELECT place, APPROX_COUNT(*) AS n FROM probes GROUP BY place BEGIN (LAST 5 ROWS PER SENSOR)"
    )
    assert isinstance(plan_from_json(pipe.db.definition("q").plan), AggregatePlan)
    values: list[float] = []
    for turn in range(6):
        block = [float(int(chance.paretovariate(0.8)) % 300) for _ in range(100)]
        pipe.push(*block, sensor=1 + turn % 2)
        values += block
        pipe.engine.drain()
        check(rows(pipe, "q")[0], values[-300:])
    assert rows(pipe, "each") == [{"place": "north", "n": 5}, {"place": "south", "n": 5}]


@pytest.mark.parametrize(
    ("call", "detail"),
    [
        ("APPROX_COUNT(*, 2)", "between 0.0001 and 0.5"),
        ("APPROX_SUM(place)", "does not work on TEXT"),
        ("APPROX_SUM(*)", "takes a value"),
        ("APPROX_PERCENTILE(value)", "takes 2 to 3 arguments"),
        ("APPROX_PERCENTILE(value, 1.5)", "a fraction between 0 and 1"),
        ("APPROX_TOP_K(value, 1000)", "between 1 and 100"),
        ("APPROX_NORM(value, 3)", "p between 1 and 2"),
        ("APPROX_ERROR(value)", "takes an approximate aggregate"),
        ("APPROX_COUNT(*, value)", "and constant"),
        ("APPROX_AVG(place)", "does not work on TEXT"),
        ("APPROX_HISTOGRAM(value, 0, 1)", "takes 4 to 5 arguments"),
        ("APPROX_HISTOGRAM(value, 0, 1, 1001)", "a number of bars between 1 and 1000"),
        ("APPROX_HISTOGRAM(value, 0, 1, 2.5)", "a whole number of bars"),
        ("APPROX_HISTOGRAM(value, 1, 1, 10)", "1 is not below 1"),
        ("APPROX_HISTOGRAM(value, 1, 1.0000000000000002, 10)", "have no width"),
        ("APPROX_HISTOGRAM(value, value, 1, 10)", "and constant"),
        ("APPROX_HISTOGRAM(value, 0, 1, 10) OVER ()", "in Spark SQL"),
    ],
)
def test_what_makes_no_sense_is_refused_with_a_caret(call: str, detail: str, pipes: Callable[..., Pipe]) -> None:
    pipe = pipes()
    pipe.probes()
    with pytest.raises(PenstockError) as refused:
        pipe.db.execute(f"CREATE QUERY q AS SELECT {call} FROM probes")
    assert detail in str(refused.value) and refused.value.line == 1
