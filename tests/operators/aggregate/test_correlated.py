"""Correlated aggregates from ordinary subqueries, by slices, against all rows."""

from __future__ import annotations

import math
import os
import random
from collections.abc import Callable
from typing import Any

import pytest

from penstock.clock import format_timestamp
from penstock.sql.explain.plan import explain
from penstock.sql.parse import parse_script
from penstock.sql.plan import AggregatePlan, plan_from_json
from penstock.sql.planning.planner import plan_query
from penstock.sql.statements import Select
from tests.support.pipe import Pipe

TABLE = (
    "CREATE TABLE calls (id INT PRIMARY KEY, c STREAM (duration DOUBLE, cost INT, intl BOOLEAN))"
    " WITH (time = 'valid', out_of_order = 'accept')"
)
OUTER = "COUNT(*) AS n, SUM(cost) AS s, AVG(duration) AS m, MIN(cost) AS low, MAX(duration) AS high"


def mean(values: list[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None


ASKED = {
    "near_max": (
        "intl AND duration >= 0.9 * (SELECT MAX(duration) FROM calls)",
        lambda r, i: r[3] and r[1] >= 0.9 * i,
        max,
    ),
    "near_min": ("(SELECT MIN(duration) FROM calls) * 1.5 >= duration", lambda r, i: i * 1.5 >= r[1], min),
    "above": ("duration > (SELECT AVG(duration) FROM calls)", lambda r, i: r[1] > i, lambda x: math.fsum(x) / len(x)),
    "below": (
        "duration < (SELECT AVG(duration) FROM calls) - 1",
        lambda r, i: r[1] < i - 1,
        lambda x: math.fsum(x) / len(x),
    ),
    "of_some": (
        "duration > (SELECT AVG(duration) FROM calls WHERE duration < 30)",
        lambda r, i: i is not None and r[1] > i,
        lambda x: mean([v for v in x if v < 30]),
    ),
    "around": (
        "ABS(duration - (SELECT AVG(duration) FROM calls)) <= 5",
        lambda r, i: abs(r[1] - i) <= 5,
        lambda x: math.fsum(x) / len(x),
    ),
    "banded": (
        "duration BETWEEN 0.5 * (SELECT AVG(duration) FROM calls) AND (SELECT AVG(duration) FROM calls) + 3",
        lambda r, i: 0.5 * i <= r[1] <= i + 3,
        lambda x: math.fsum(x) / len(x),
    ),
}


def close(a: Any, b: Any) -> bool:
    return a == b or (a is not None and b is not None and math.isclose(a, b, rel_tol=1e-12))


@pytest.mark.parametrize("seed", range(4 if os.environ.get("PENSTOCK_SOAK") else 1))
def test_every_answer_is_what_all_rows_say(seed: int, pipes: Callable[..., Pipe]) -> None:
    chance = random.Random(seed)
    pipe = pipes()
    pipe.db.execute(TABLE)
    pipe.db.execute("INSERT INTO calls VALUES (1, NULL), (2, NULL)")
    for name, (where, _, _) in ASKED.items():
        window = "BEGIN (NOW - 20 SECONDS) END (NOW)" if seed % 2 else "BEGIN (START - 1 DAY) END (NOW)"
        pipe.db.execute(f"CREATE QUERY {name} AS SELECT {OUTER} FROM calls WHERE {where} {window}")
        assert isinstance(plan_from_json(pipe.db.catalog.state.queries[name].plan), AggregatePlan), name
    rows: list[tuple[int, Any, Any, Any]] = []
    for _ in range(40):
        pipe.clock.advance(chance.choice([10_000, 900_000, 4_000_000]))
        sent = []
        for _ in range(chance.randint(0, 8)):
            ts = (pipe.clock.now_us() - chance.choice([0, 0, 1000, chance.randint(0, 30_000_000)])) // 1000 * 1000
            sent.append(
                (
                    ts,
                    chance.choice([None, 1.0, 2.5, float(chance.randint(1, 40))]),
                    chance.choice([None, chance.randint(0, 9)]),
                    chance.choice([True, True, False, None]),
                )
            )
        pushed = [
            {"id": chance.choice([1, 2]), "ts": format_timestamp(t), "duration": d, "cost": c, "intl": i}
            for t, d, c, i in sent
        ]
        if pushed:
            pipe.db.push("calls", pushed)
        rows += sent
        pipe.engine.drain()
        if chance.random() < 0.1:
            pipe.restart()
        if not rows:
            continue
        now = max(r[0] for r in rows)
        inside = [r for r in rows if not seed % 2 or r[0] >= now - 20_000_000]
        for name, (_, passes, inner) in ASKED.items():
            known = [r[1] for r in inside if r[1] is not None]
            chosen = [r for r in inside if r[1] is not None and passes(r, inner(known))]
            costs, durations = [r[2] for r in chosen if r[2] is not None], [r[1] for r in chosen]
            expected = {
                "n": len(chosen),
                "s": sum(costs) if costs else None,
                "m": math.fsum(durations) / len(durations) if durations else None,
                "low": min(costs, default=None),
                "high": max(durations, default=None),
            }
            (found,) = pipe.db.standing.invoke(name).table.to_pylist()
            assert all(close(found[key], value) for key, value in expected.items()), (name, found, expected)
    pipe.db.stop()


@pytest.mark.parametrize("promise", ["", " WITHIN 5 PERCENT"])
def test_both_may_be_about_some_sensors_and_the_inner_one_about_some_readings(
    promise: str, pipes: Callable[..., Pipe]
) -> None:
    pipe = pipes()
    pipe.db.execute(TABLE)
    pipe.db.execute("INSERT INTO calls VALUES (1, NULL), (2, NULL), (3, NULL)")
    where = "id < 3 AND cost > 1 AND duration > (SELECT AVG(duration) FROM calls WHERE intl AND id < 3)"
    question = f"SELECT COUNT(*) AS n FROM calls WHERE {where} BEGIN (NOW - 10 SECONDS) END (NOW){promise}"
    pipe.db.execute(f"CREATE QUERY q AS {question}")
    assert isinstance(plan_from_json(pipe.db.definition("q").plan), AggregatePlan)
    chance, rows = random.Random(2), []
    for _ in range(30):
        pipe.clock.advance(700_000)
        row = (chance.randint(1, 3), pipe.clock.now_us() // 1000 * 1000, chance.random(), chance.randint(0, 9))
        intl = chance.choice([True, False, None])
        rows.append((*row, intl))
        names = ("id", "ts", "duration", "cost", "intl")
        pipe.db.push("calls", [dict(zip(names, (row[0], format_timestamp(row[1]), *row[2:], intl), strict=True))])
        pipe.engine.drain()
        # NOW is that of the sensors that both are about.
        now = max((r[1] for r in rows if r[0] < 3), default=0)
        inside = [r for r in rows if r[0] < 3 and r[1] >= now - 10_000_000]
        inner = mean([r[2] for r in inside if r[4]])
        wanted = sum(inner is not None and r[3] > 1 and r[2] > inner for r in inside)
        assert pipe.db.standing.invoke("q").table.to_pylist() == [{"n": wanted}]
    told = "\n".join(pipe.db.execute("EXPLAIN q").table.column("plan").to_pylist())
    assert "COUNT where duration > AVG(duration) FILTER (WHERE intl) and cost > 1" in told, told


@pytest.mark.parametrize(
    ("where", "reason"),
    [
        ("duration > (SELECT SUM(duration) FROM calls)", "other than MIN, MAX or AVG"),
        ("duration > (SELECT MAX(c.duration) FROM calls c WHERE c.cost < calls.cost)", "looks at the row outside"),
        ("id = 1 AND duration > (SELECT MAX(duration) FROM calls)", "about other sensors"),
        ("id = 1 AND duration > (SELECT MAX(duration) FROM calls WHERE id = 2)", "about other sensors"),
        ("duration > 1 HAVING COUNT(*) > (SELECT COUNT(*) FROM calls GROUP BY id LIMIT 1)", "subquery"),
        ("duration > SQRT((SELECT MAX(duration) FROM calls))", "times or plus a constant"),
        (
            "duration > (SELECT MIN(duration) FROM calls) AND duration < (SELECT MAX(duration) FROM calls)",
            "two different subqueries",
        ),
        ("ABS(duration - (SELECT AVG(duration) FROM calls)) > 1", "times or plus a constant"),
    ],
)
def test_what_slices_do_not_cover_says_why(where: str, reason: str, pipes: Callable[..., Pipe]) -> None:
    pipe = pipes()
    pipe.db.execute(TABLE)
    (select,) = parse_script(f"SELECT COUNT(*) AS n FROM calls WHERE {where} BEGIN (NOW - 1 DAY) END (NOW)")
    assert isinstance(select, Select)
    state = pipe.db.catalog.state
    told = explain(plan_query(select, state, standing=True, joins=True), state)
    assert told.startswith("Spark SQL:") and reason in told, told


def test_explain_says_exact(pipes: Callable[..., Pipe]) -> None:
    pipe = pipes()
    pipe.db.execute(TABLE)
    where = "intl AND duration >= 0.9 * (SELECT MAX(duration) FROM calls)"
    pipe.db.execute(f"CREATE QUERY q AS SELECT COUNT(*) AS n FROM calls WHERE {where} BEGIN (NOW - 14 DAYS) END (NOW)")
    pipe.engine.drain()
    told = "\n".join(pipe.db.execute("EXPLAIN q").table.column("plan").to_pylist())
    assert 'slices of the stream of "calls", exact' in told
    assert "COUNT where duration >= 0.9 * MAX(duration) and intl" in told, told
    near = "ABS((SELECT AVG(duration) FROM calls) - duration) < 2.5"
    pipe.db.execute(f"CREATE QUERY near AS SELECT SUM(cost) AS s FROM calls WHERE {near} BEGIN (NOW - 1 DAY) END (NOW)")
    pipe.engine.drain()
    told = "\n".join(pipe.db.execute("EXPLAIN near").table.column("plan").to_pylist())
    assert "SUM(cost) where ABS(duration - AVG(duration)) < 2.5" in told, told
