"""Hours, days and months of readings in the cycle: an average per hour of day, selections by the hour, joins and their groups."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from penstock.clock import SECOND
from penstock.sql.plan import AggregatePlan, JoinAggregatePlan, JoinPlan, SelectPlan, plan_from_json
from tests.support.pipe import BEGAN_US, Pipe

TABLE = (
    "CREATE TABLE {} (id INT PRIMARY KEY, since TIMESTAMP, r STREAM (n INT, v DOUBLE))"
    " WITH (time = 'valid', out_of_order = 'accept', max_ahead = '10000 DAYS')"
)
EVER = "BEGIN ('2020-01-01') END (NOW)"
ASKED: dict[str, tuple[str, type]] = {
    "by_hour": (f"SELECT EXTRACT(HOUR FROM ts) AS h, AVG(v) AS v FROM calls GROUP BY EXTRACT(HOUR FROM ts) {EVER}", AggregatePlan),
    "by_day": (
        f"SELECT date_trunc('day', ts) AS d, ts::DATE AS same, COUNT(*) AS n FROM calls GROUP BY date_trunc('day', ts), ts::DATE {EVER}"
        " ORDER BY d DESC LIMIT 3",
        AggregatePlan,
    ),
    "weekend": (f"SELECT n, YEAR(ts) AS y FROM calls WHERE EXTRACT(DOW FROM ts) IN (0, 6) AND HOUR(ts) < 12 {EVER}", SelectPlan),
    "since": (f"SELECT n FROM calls WHERE EXTRACT(MONTH FROM since) = 2 AND EXTRACT(EPOCH FROM ts) > 0 {EVER}", SelectPlan),
    "pairs": (
        "SELECT a.n, b.n AS m FROM calls a, rings b WINDOW(a,b) = 40 MINUTES"
        f" WHERE date_trunc('hour', a.ts) = date_trunc('hour', b.ts) {EVER}",
        JoinPlan,
    ),
    "paired": (
        "SELECT EXTRACT(HOUR FROM b.ts) AS h, COUNT(*) AS n FROM calls a, rings b WINDOW(a,b) = 40 MINUTES"
        f" WHERE date_trunc('hour', a.ts) = date_trunc('hour', b.ts) GROUP BY EXTRACT(HOUR FROM b.ts) {EVER}",
        JoinAggregatePlan,
    ),
}  # fmt: skip
Reading = tuple[datetime, int, float, int]


def expected(calls: list[Reading], rings: list[Reading], now: datetime) -> dict[str, list[tuple[Any, ...]]]:
    both = min(now, max((r[0] for r in rings), default=now))
    pairs = [
        (a, b)
        for a in calls
        for b in rings
        if abs(a[0] - b[0]) <= timedelta(minutes=40)
        and a[0].replace(minute=0, second=0, microsecond=0) == b[0].replace(minute=0, second=0, microsecond=0)
        and max(a[0], b[0]) <= both
    ]
    hours = {t.hour for t, *_ in calls}
    days = sorted({t.date() for t, *_ in calls}, reverse=True)[:3]
    midnights = {d: datetime(d.year, d.month, d.day, tzinfo=UTC) for d in days}
    return {
        "by_hour": [(h, sum(vs) / len(vs)) for h in sorted(hours) if (vs := [r[2] for r in calls if r[0].hour == h])],
        "by_day": [(midnights[d], midnights[d], sum(r[0].date() == d for r in calls)) for d in days],
        "weekend": [(n, t.year) for t, n, *_ in calls if t.isoweekday() > 5 and t.hour < 12],
        "since": [(n,) for _, n, _, sensor in calls if sensor == 2],
        "pairs": [(a[1], b[1]) for a, b in pairs],
        "paired": [(h, sum(b[0].hour == h for _, b in pairs)) for h in sorted({b[0].hour for _, b in pairs})],
    }


@pytest.mark.parametrize("seed", range(2))
def test_answers_equal_those_of_the_calendar(seed: int, pipes: Callable[..., Pipe]) -> None:
    chance = random.Random(seed)
    pipe = pipes()
    for table in ("calls", "rings"):
        pipe.db.execute(TABLE.format(table))
        pipe.db.execute(f"INSERT INTO {table} VALUES (1, '2024-01-31', NULL), (2, '2024-02-01', NULL)")
    for name, (sql, kind) in ASKED.items():
        pipe.db.execute(f"CREATE QUERY {name} AS {sql}")
        assert isinstance(plan_from_json(pipe.db.definition(name).plan), kind), name
    sent: dict[str, list[Reading]] = {"calls": [], "rings": []}
    for cycle in range(6):
        for table, known in sent.items():
            readings = []
            for _ in range(20):
                us = BEGAN_US + cycle * 50_000 * SECOND + chance.randint(0, 90_000) * SECOND
                n, v, sensor = len(known), float(chance.randint(0, 9)), chance.randint(1, 2)
                known.append((datetime.fromtimestamp(us // SECOND, UTC), n, v, sensor))
                readings.append({"id": sensor, "ts": us, "n": n, "v": v})
            assert pipe.db.push(table, readings).accepted == 20
        pipe.engine.drain()
        if cycle == 3:
            pipe.restart()
        now = max(r[0] for r in sent["calls"])
        for name, wanted in expected(sent["calls"], sent["rings"], now).items():
            table = pipe.db.standing.invoke(name).table
            found = list(zip(*(c.to_pylist() for c in table.columns), strict=True))
            found = found if name == "by_day" else sorted(found)
            assert found == (wanted if name == "by_day" else sorted(wanted)), (seed, cycle, name)
        assert len(expected(sent["calls"], sent["rings"], now)["pairs"]) > 0


def test_explain_names_parts_and_units(pipe: Pipe) -> None:
    pipe.db.execute(TABLE.format("calls"))
    asked = "SELECT date_trunc('hour', ts) AS h, n FROM calls WHERE EXTRACT(HOUR FROM ts) >= 22"
    pipe.db.execute(f"CREATE QUERY q AS {asked}")
    told = pipe.db.execute("EXPLAIN q").table.column("plan").to_pylist()
    assert "  stream predicate: EXTRACT(HOUR FROM ts) >= 22" in told, told
    assert "  output: h TIMESTAMP = date_trunc('HOUR', ts), n INT" in told, told
