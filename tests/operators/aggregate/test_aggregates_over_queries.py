"""Aggregates over a select-project query are slices of the stream below it, one cycle later."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from penstock.clock import format_timestamp
from penstock.errors import PenstockError
from penstock.sql.explain.plan import explain
from penstock.sql.parse import parse_script
from penstock.sql.plan import AggregatePlan, plan_from_json
from penstock.sql.planning.planner import plan_query
from penstock.sql.statements import Select
from tests.support.examples import seeds
from tests.support.pipe import Pipe

VALID = "WITH (time = 'valid', out_of_order = 'accept')"
WARM = "CREATE QUERY warm AS SELECT place, value * 2 AS twice, ts FROM probes WHERE id < 3 AND value > 2"
READERS = {
    "per_place": "SELECT place, COUNT(*) AS n, SUM(twice) AS s FROM warm WHERE twice < 16 GROUP BY place"
    " BEGIN (NOW - 10 SECONDS) END (NOW)",
    "per_second": "SELECT window_start, MAX(twice) AS m FROM warm WHERE place = 'north' GROUP BY TUMBLE(1 SECOND)"
    " HAVING COUNT(*) > 1 BEGIN (NOW - 1 MINUTE) END (NOW)",
}


def explained(pipe: Pipe, name: str) -> str:
    return "\n".join(pipe.db.execute(f"EXPLAIN {name}").table.column("plan").to_pylist())


def answers(rows: list[tuple[int, str, float]], now: int) -> dict[str, list[dict[str, Any]]]:
    """Of rows (ts, place, value): what both readers say."""
    warm = [(ts, place, 2 * value) for ts, place, value in rows if place != "east" and value > 2]
    lately = [r for r in warm if r[0] >= now - 10_000_000 and r[2] < 16]
    by_place = {p: [v for _, place, v in lately if place == p] for p in ("north", "south")}
    per_place = [{"place": p, "n": len(v), "s": sum(v)} for p, v in by_place.items() if v]
    by_second: dict[int, list[float]] = {}
    for ts, place, value in sorted(warm):
        if place == "north" and ts >= now - 60_000_000:
            by_second.setdefault(ts // 1_000_000 * 1_000_000, []).append(value)
    per_second = [{"window_start": s, "m": max(v)} for s, v in by_second.items() if len(v) > 1]
    return {"per_place": per_place, "per_second": per_second}


@pytest.mark.parametrize("seed", seeds(2))
def test_readers_see_each_row_of_the_query_a_cycle_later(seed: int, pipes: Callable[..., Pipe]) -> None:
    chance = random.Random(seed)
    pipe = pipes()
    pipe.probes(VALID)
    pipe.db.execute("INSERT INTO probes VALUES (3, 'east', NULL)")
    pipe.db.execute(WARM)
    for name, question in READERS.items():
        pipe.db.execute(f"CREATE QUERY {name} AS {question}")
        assert isinstance(plan_from_json(pipe.db.catalog.state.queries[name].plan), AggregatePlan)
    pipe.engine.drain()
    rows: list[tuple[int, str, float]] = []
    for _ in range(30):
        pipe.clock.advance(chance.choice([100_000, 700_000, 3_000_000]))
        fresh = []
        for _ in range(chance.choice([0, 1, 6])):
            sensor, value = chance.choice([1, 2, 3]), float(chance.randint(0, 9))
            ts = pipe.clock.now_us() - chance.choice([0, 0, 300_000, 4_000_000])
            fresh.append({"id": sensor, "ts": format_timestamp(ts), "value": value})
            rows.append((ts, ("north", "south", "east")[sensor - 1], value))
        if fresh:
            pipe.db.push("probes", fresh)
        pipe.engine.cycle()
        if chance.random() < 0.1:
            pipe.restart()
        # NOW is that of the sensors below the query, as far as the cycle has read.
        now = max((ts for ts, place, _ in rows if place != "east"), default=0)
        record = pipe.db.standing.commits.last
        assert record is not None
        expected = answers(rows[: record.start.data.get(1, 0)], now)
        for name in READERS:
            found = pipe.db.standing.invoke(name).table.to_pylist()
            for row in found:
                if "window_start" in row:
                    row["window_start"] = int(row["window_start"].timestamp() * 1e6)
            assert found == expected[name], (seed, name)


def test_explain_names_the_query_and_it_cannot_be_dropped_below_its_reader(pipes: Callable[..., Pipe]) -> None:
    pipe = pipes()
    pipe.probes(VALID)
    pipe.db.execute(WARM)
    for name, question in READERS.items():
        pipe.db.execute(f"CREATE QUERY {name} AS {question}")
    pipe.engine.drain()
    text = explained(pipe, "per_place")
    assert 'slices of the stream of "probes", exact' in text and 'read through query "warm"' in text, text
    assert "aggregates: count(*), sum(value * 2" in text and "initial scan: id < 3" in text, text
    with pytest.raises(PenstockError) as refused:
        pipe.db.execute("DROP QUERY warm")
    assert "per_place" in str(refused.value)
    pipe.db.execute("ALTER QUERY warm SET BEGIN (NOW - 1 SECOND)")
    pipe.engine.drain()
    assert 'read through query "warm"' in explained(pipe, "per_place")


@pytest.mark.parametrize(
    ("question", "reason"),
    [
        ("SELECT FIRST(value) AS n FROM pairs", "FIRST over a join runs as Spark SQL"),
        ("SELECT COUNT(*) AS n FROM lonely", "aggregates over rows without a partner run as Spark SQL"),
        ("SELECT COUNT(*) AS n FROM counted", "reading another query runs as Spark SQL"),
    ],
)
def test_over_other_queries_it_stays_spark_sql_with_the_reason(
    question: str, reason: str, pipes: Callable[..., Pipe]
) -> None:
    pipe = pipes()
    pipe.probes(VALID)
    pipe.db.execute(WARM)
    pipe.engine.drain()
    pipe.db.execute("CREATE QUERY counted AS SELECT place, COUNT(value) AS n FROM probes GROUP BY place")
    joined = "FROM probes a, probes b WINDOW = 1 SECOND WHERE a.id = 1 AND b.id = 2"
    pipe.db.execute(f"CREATE QUERY pairs AS SELECT a.value {joined}")
    left = "FROM probes a LEFT JOIN probes b ON a.id = b.id WINDOW(a,b) = 1 SECOND"
    pipe.db.execute(f"CREATE QUERY lonely AS SELECT a.value {left}")
    (select,) = parse_script(f"{question} BEGIN (NOW - 1 MINUTE) END (NOW)")
    assert isinstance(select, Select)
    state = pipe.db.catalog.state
    text = explain(plan_query(select, state, standing=True, joins=True), state)
    assert text.startswith("Spark SQL:") and reason in text, text
